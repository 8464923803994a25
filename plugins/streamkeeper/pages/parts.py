"""A part of a page that may be unavailable. The page then shows the reason in place of that part, and still shows the
other parts.

This module also masks the texts of a page, because they may come from any source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from streamkeeper.errors import KeyMissing, StreamkeeperError
from streamkeeper.model.manifests.release import Release
from streamkeeper.model.markdown_text import visible
from streamkeeper.model.redaction import change_texts, redact
from streamkeeper.model.secret_names import literals_of

T = TypeVar("T")
Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """The value of a part of a page. If the part could not be read, ``value`` is None and ``missing`` states the
    reason.
    """

    value: T | None = None
    missing: str = ""


def mask_of(releases: Iterable[Release]) -> Mask:
    """Return a function that masks a text for display.

    The function masks the secrets that the params and confs of these releases contain literally, and spells out
    characters that would change the order in which a text is displayed.
    """
    secrets = literals_of(releases)
    return lambda text: visible(redact(text, secrets))


def read_part(what: str, read: Callable[[], T], mask: Mask) -> Part[T]:
    """Return the result of ``read`` with its texts masked, or the reason why ``what`` cannot be read."""
    try:
        return Part(value=change_texts(read(), mask))
    except KeyMissing as error:
        why = f"{error.key} is missing"
    except (StreamkeeperError, OSError, ValueError) as error:
        why = str(error)
    return Part(missing=mask(f"{what} cannot be read: {why}"))
