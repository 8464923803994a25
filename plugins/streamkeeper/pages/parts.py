"""A part of a page that may be unavailable: the page then shows the reason in its place, and the other parts.

Also the mask for the texts of a page, which may come from any source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from streamkeeper.errors import KeyMissing, StreamkeeperError
from streamkeeper.model.markdown_text import visible
from streamkeeper.model.redaction import change_texts, redact
from streamkeeper.model.release import Release
from streamkeeper.model.secret_names import literals_of

T = TypeVar("T")
Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """What was read; or None, and in ``missing`` one sentence that says why."""

    value: T | None = None
    missing: str = ""


def mask_of(releases: Iterable[Release]) -> Mask:
    """What makes a text fit to be shown: no secret that stands where a reference should in what these releases were
    given, and nothing that would change the order of reading."""
    secrets = literals_of(releases)
    return lambda text: visible(redact(text, secrets))


def read_part(what: str, read: Callable[[], T], mask: Mask) -> Part[T]:
    """What ``read`` gives, its texts masked; or that ``what`` cannot be read, and why."""
    try:
        return Part(value=change_texts(read(), mask))
    except KeyMissing as error:
        why = f"{error.key} is missing"
    except (StreamkeeperError, OSError, ValueError) as error:
        why = str(error)
    return Part(missing=mask(f"{what} cannot be read: {why}"))
