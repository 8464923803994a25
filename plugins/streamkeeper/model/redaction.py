"""How the values of secrets are kept out of texts and out of stored values, and what must stay readable.

A stored value is masked string by string: keys, numbers, enums and every ``Structure`` survive whatever a secret is.
In a text a secret of fewer than ``SHORTEST`` characters is masked where it stands as a word of its own: anywhere else
it is part of something else, and a mask there would make the text unreadable and tell what the secret is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from streamkeeper.model.secret_references import MASK

T = TypeVar("T")

SHORTEST = 4
"""Characters of a secret from which on it is masked inside of words too."""
_STRUCTURE, _TEXT = "structure", "text"
Structure = Annotated[str, _STRUCTURE]
"""A string that holds no value of a job's: a name, a kind, a digest, a version. It is never masked."""
Text = Annotated[str, _TEXT]
"""Marks the keys of a dict that are texts, such as expressions: they are masked."""
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """``text`` with every secret's value masked, also as part of a URL, of JSON, or line by line."""
    return _masked(text, tuple(secrets.values()))


def redact_value(value: T, secrets: Mapping[str, str]) -> T:
    """A struct, or dicts and tuples of them, with its texts masked; it encodes to the same JSON but for these."""
    values = tuple(secrets.values())
    return change_texts(value, lambda text: _masked(text, values)) if values else value


def change_texts(value: T, change: Callable[[str], str]) -> T:
    """A struct, or dicts and tuples of them, with its texts changed: every string that is no ``Structure``."""
    changed: T = _walked(value, type(value), change)
    return changed


def redact_everywhere(text: str, secrets: Mapping[str, str]) -> str:
    """As JSON of manifests was masked before its structure was spared, for those that are stored like that."""
    for form in secret_forms(secrets):
        text = text.replace(form, MASK)
    return text


def secret_forms(secrets: Mapping[str, str]) -> list[str]:
    """The texts a log could show of these secrets, longest first."""
    return list(_forms(tuple(secrets.values())))


@lru_cache(maxsize=16)
def _forms(values: tuple[str, ...]) -> tuple[str, ...]:
    forms: set[str] = set()
    for value in values:
        lines = [line for line in value.splitlines() if len(line) >= SHORTEST or any(map(str.isalnum, line))]
        for part in filter(str.strip, {value, *lines}):
            raw = _bytes(part)
            in_url = _quote(raw)
            forms |= {part, part.strip(), in_url, in_url.replace("%2F", "/"), in_url.replace("%20", "+")}
            forms |= {json.dumps(part)[1:-1], repr(part)[1:-1], raw.decode(errors="replace")}
    return tuple(sorted(filter(str.strip, forms), key=lambda form: (-len(form), form)))


def _bytes(text: str) -> bytes:
    """A variable of the environment need not be UTF-8: what is not is kept as lone surrogates."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def _quote(raw: bytes) -> str:
    """Percent-encoded, as in a URL."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)


def _masked(text: str, values: tuple[str, ...]) -> str:
    """Found all in the text as it came: secrets that overlap leave no tail, and no mask is masked again."""
    found = sorted(span for form in _forms(values) if form in text for span in _places(form, text))
    if not found:
        return text
    pieces, done, start, end = [], 0, *found[0]
    for first, last in [*found[1:], (len(text) + 1, 0)]:
        if first > end:
            pieces += [text[done:start], MASK]
            done, start = end, first
        end = max(end, last)
    return "".join([*pieces, text[done:]])


def _places(form: str, text: str) -> Iterator[tuple[int, int]]:
    if len(form) < SHORTEST:
        yield from (match.span() for match in _word(form).finditer(text))
        return
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + 1)


@lru_cache(maxsize=256)
def _word(form: str) -> re.Pattern[str]:
    """A date, a decimal, a version and a dotted name are one word each."""
    return re.compile(rf"(?<![\w\-])(?<!\w\.){re.escape(form)}(?![\w\-]|\.\w)")


def _walked(value: Any, kind: Any, mask: Callable[[str], str]) -> Any:
    kind = _kind_of(value, kind)
    match value:
        case Enum():
            return value
        case str():
            return value if _mark_of(kind) == _STRUCTURE else mask(value)
        case msgspec.Struct():
            hints = _hints(type(value))
            return msgspec.structs.replace(
                value, **{name: _walked(getattr(value, name), hint, mask) for name, hint in hints.items()}
            )
        case dict():
            keys, values = get_args(kind) or (str, object)
            shown: Callable[[Any], Any] = mask if _mark_of(keys) == _TEXT else lambda key: key
            return {shown(key): _walked(inner, values, mask) for key, inner in value.items()}
        case list() | tuple():
            items = get_args(kind) or (object, ...)
            each_has = items if len(items) == len(value) and items[-1] is not ... else items[:1] * len(value)
            return type(value)(_walked(inner, its, mask) for inner, its in zip(value, each_has, strict=True))
        case _:
            return value


def _kind_of(value: Any, kind: Any) -> Any:
    """Of several that a value may be, the one that it is."""
    choices = get_args(kind) if _mark_of(kind) is None else ()
    if get_origin(kind) in (dict, list, tuple) or not choices:
        return kind
    plain = {choice: get_args(choice)[0] if _mark_of(choice) else get_origin(choice) or choice for choice in choices}
    return next(
        (choice for choice in choices if isinstance(plain[choice], type) and isinstance(value, plain[choice])), object
    )


def _mark_of(kind: Any) -> str | None:
    return next((marker for marker in getattr(kind, "__metadata__", ()) if marker in (_STRUCTURE, _TEXT)), None)


@cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Of a struct's own fields, with their marks."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}
