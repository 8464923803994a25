"""A part of a page that may not be had: then the page says why in its place, and the rest stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from streamkeeper.errors import KeyMissing, StreamkeeperError
from streamkeeper.model.markdown_text import visible
from streamkeeper.model.redaction import change_texts, redact

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """What was read; or None, and in ``missing`` one sentence that says why."""

    value: T | None = None
    missing: str = ""


def read_part(what: str, read: Callable[[], T], secrets: Mapping[str, str]) -> Part[T]:
    """What ``read`` gives; or that ``what`` cannot be read, and why.

    Of its texts no secret is left, and nothing that would change the order of reading.
    """

    def shown(text: str) -> str:
        return visible(redact(text, secrets))

    try:
        return Part(value=change_texts(read(), shown))
    except KeyMissing as error:
        why = f"{error.key} is missing"
    except (StreamkeeperError, OSError, ValueError) as error:
        why = str(error)
    return Part(missing=shown(f"{what} cannot be read: {why}"))
