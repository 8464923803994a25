"""The masking of secrets in texts and stored values, and the exceptions that keep these readable.

A secret is masked in its plain form, and in the forms that URLs, JSON, SQL, CSV, HTML, shells and base64 give it. The
passwords inside a URL, a connection string or a key file are masked in the same way.

A stored value is masked string by string: keys, numbers, enums and every ``Structure`` stay unchanged, whatever the
secret is. In a text, a secret of fewer than ``SHORTEST`` characters is masked only as a separate word. Inside another
word, a mask would make the text unreadable and reveal the secret.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from streamkeeper.model.secret_references import MASK

T = TypeVar("T")

SHORTEST = 4
"""The length in characters from which a secret is masked inside words too."""
_STRUCTURE, _TEXT = "structure", "text"
Structure = Annotated[str, _STRUCTURE]
"""A string that contains no value of a job: a name, a kind, a digest, a version. It is never masked."""
Text = Annotated[str, _TEXT]
"""The mark of dict keys that are masked because they are texts, such as expressions."""
_PASSWORD = re.compile(r"://[^/?#\s:@]*:([^/?#\s]+)@")
_UNQUOTED_PASSWORD = re.compile(r"://[^/?#\s:@]*:([^\s@]*[/?#][^\s@]*)@")
"""A password in a URL with an unencoded slash, question mark or hash, which database clients accept."""
_NAMED_PART = re.compile(
    r"(?:[\w.\-]{0,64}(?:pass|pwd|secret|token|credential"
    r"|(?:api|access|account|private|shared|client|signing|encryption)[_-]?key)[\w.\-]{0,64}"
    r"|\bsig(?:nature)?)"
    r"""["']?\s*[:=]\s*(?:"((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)'|([^&;,\s"'}]+))""",
    re.IGNORECASE,
)
"""``password=x`` in a URL's query or a connection string, ``"private_key": "x"`` in a key file."""
_PARTS = (_PASSWORD, _UNQUOTED_PASSWORD, _NAMED_PART)
_BETWEEN_PARTS = re.compile(r"[:/@?&=;,\s\"'{}]+")
_A_URL = re.compile(r"[a-z][a-z0-9+.\-]*://", re.IGNORECASE)
_SHELL_SPECIAL = re.compile(r"([^\w@%+=:,./\-])")
_IN_DOUBLE_QUOTES = re.compile(r'([\\"$`!])')
_IN_PROPERTIES = re.compile(r"([\\:=#! ])")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_SHORTEST_CORE = 6
"""Minimum number of base64 characters that identify a secret inside a longer encoded text."""
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\-]")
_LINE_BREAK = re.compile(r"(?<=[A-Za-z0-9+/_\-])[ \t]*(?:\r?\n|\\r\\n|\\n)[ \t]*(?=[A-Za-z0-9+/=_\-])")
"""A line break within base64, either unescaped or escaped as in JSON."""
_ESCAPED = ("\\n", "\\r", "\\t")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """Return ``text`` with every secret's value masked, in all forms that ``secret_forms`` returns and in base64."""
    return _masked(text, tuple(secrets.values()))


def redact_value(value: T, secrets: Mapping[str, str]) -> T:
    """Return ``value`` with every secret masked in the texts that ``change_texts`` changes.

    The other parts of the result encode to the same JSON as before.
    """
    values = tuple(secrets.values())
    return change_texts(value, lambda text: _masked(text, values)) if values else value


def change_texts(value: T, change: Callable[[str], str]) -> T:
    """Return ``value`` with ``change`` applied to all texts in it, except texts of the type ``Structure``.

    ``value``: a struct, or a dict or tuple of structs.
    """
    changed: T = _walked(value, type(value), change)
    return changed


def redact_everywhere(text: str, secrets: Mapping[str, str]) -> str:
    """Return ``text`` masked as earlier versions of Streamkeeper masked it, also in a manifest's structure.

    A manifest that those versions stored with masks in its structure can only be compared with a text in this form.
    """
    for form in _early_forms(tuple(secrets.values())):
        text = text.replace(form, MASK)
    return text


def secret_forms(secrets: Mapping[str, str]) -> list[str]:
    """Return the forms in which a log could show these secrets, longest first."""
    return list(_forms(tuple(secrets.values())))


def secret_parts(value: str) -> Iterator[str]:
    """Yield passwords, tokens and keys inside a URL, a connection string or a key file, as written and decoded.

    A part that also occurs elsewhere in the same text, such as a user's or a database's name, is left out: masking it
    would hide that name everywhere.
    """
    for match in (match for form in _PARTS for match in form.finditer(value)):
        assert match.lastindex is not None
        part, (start, end) = match[match.lastindex], match.span(match.lastindex)
        others = _BETWEEN_PARTS.split(f"{value[:start]} {value[end:]}")
        if len(part) < SHORTEST or part in others or _A_URL.match(part):
            continue
        yield from dict.fromkeys(
            form
            for form in (part, _unquoted(part), _unquoted(part.replace("+", " ")), _unescaped(part))
            if len(form) >= SHORTEST and form not in others
        )


def _unquoted(text: str) -> str:
    """Decode a URL's percent-encoding."""
    return _PERCENT.sub(lambda found: bytes([int(found[1], 16)]), _bytes(text)).decode(errors="surrogateescape")


def _unescaped(text: str) -> str:
    """Decode a JSON string without its quotes; return other text unchanged."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


@lru_cache(maxsize=16)
def _forms(values: tuple[str, ...]) -> tuple[str, ...]:
    forms: set[str] = set()
    for part in _lines(values):
        raw = _bytes(part)
        in_url = _quote(raw)
        urls = {in_url, in_url.replace("%2F", "/"), in_url.replace("%20", "+")}
        forms |= {part, part.strip(), *urls, *(_ESCAPE.sub(lambda found: found[0].lower(), url) for url in urls)}
        forms |= {json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1], repr(part)[1:-1]}
        forms |= {raw.decode(errors="replace"), *_quoted(part), *_json_forms(part), _quote(in_url.encode())}
        if len(raw) >= SHORTEST:
            encoded = b64encode(raw).decode()
            forms |= {raw.hex(), raw.hex().upper(), encoded, encoded.translate(_URL_SAFE)}
    return _longest_first(forms)


def _lines(values: tuple[str, ...]) -> Iterator[str]:
    """Yield each secret and each part of a secret, as a whole and line by line."""
    for value in values:
        for part in (value, *secret_parts(value)):
            lines = [line for line in part.splitlines() if len(line) >= SHORTEST or any(map(str.isalnum, line))]
            yield from filter(str.strip, {part, *lines})


def _json_forms(text: str) -> Iterator[str]:
    """Yield the JSON forms of all encoders: some escape the special characters of HTML (Go, Gson), some the slash
    (PHP).
    """
    for plain in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        for signs, case in (("", "04x"), ("&<>", "04x"), ("&<>='", "04x"), ("&<>", "04X"), ("&<>='", "04X")):
            escaped = plain.translate({ord(sign): f"\\u{ord(sign):{case}}" for sign in signs})
            yield from (escaped, escaped.replace("/", "\\/"))


def _quoted(text: str) -> Iterator[str]:
    """Yield the forms of SQL, CSV, shells, HTML and Java's properties, with and without quotes."""
    yield from (text.replace("'", "''"), text.replace('"', '""'))
    backslashed = text.replace("\\", "\\\\")
    yield from (backslashed, backslashed.replace("'", "\\'"), backslashed.replace('"', '\\"'))
    yield from (text.replace("'", "'\"'\"'"), text.replace("'", "'\\''"))
    for special in (_SHELL_SPECIAL, _IN_DOUBLE_QUOTES, _IN_PROPERTIES):
        yield special.sub(r"\\\1", text)
    escaped = html.escape(text)
    yield from (escaped, html.escape(text, quote=False), html.escape(escaped), escaped.replace("&amp;", "&#38;"))
    for apostrophe in ("&#39;", "&apos;"):
        yield from (escaped.replace("&#x27;", apostrophe),)
        yield escaped.replace("&#x27;", apostrophe).replace("&quot;", "&#34;")


_URL_SAFE = str.maketrans("+/", "-_")


@lru_cache(maxsize=16)
def _cores(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the base64 characters of a secret that do not depend on the surrounding bytes, for each of its three
    alignments.
    """
    cores: set[str] = set()
    for part in _lines(values):
        raw = _bytes(part)
        for offset in range(3):
            whole = b64encode(bytes(offset) + raw).decode()
            core = whole[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
            if len(core) >= _SHORTEST_CORE:
                cores |= {core, core.translate(_URL_SAFE)}
    return _longest_first(cores)


def _longest_first(forms: set[str]) -> tuple[str, ...]:
    return tuple(sorted(filter(str.strip, forms), key=lambda form: (-len(form), form)))


@lru_cache(maxsize=16)
def _early_forms(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return exactly the forms that earlier versions masked, because their masked texts are compared with new ones."""
    forms: set[str] = set()
    for value in values:
        lines = [line for line in value.splitlines() if len(line) >= SHORTEST or any(map(str.isalnum, line))]
        for part in filter(str.strip, {value, *lines}):
            raw = _bytes(part)
            in_url = _quote(raw)
            forms |= {part, part.strip(), in_url, in_url.replace("%2F", "/"), in_url.replace("%20", "+")}
            forms |= {json.dumps(part)[1:-1], repr(part)[1:-1], raw.decode(errors="replace")}
    return _longest_first(forms)


def _bytes(text: str) -> bytes:
    """Return the bytes of a text, also of an environment variable that is not UTF-8 (read with lone surrogates)."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def _quote(raw: bytes) -> str:
    """Percent-encode for a URL."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)


def _masked(text: str, values: tuple[str, ...]) -> str:
    """Mask all secrets that the original text contains, so that overlapping secrets leave no remainder."""
    found = [span for form in _forms(values) if form in text for span in _places(form, text)]
    found += [_run(text, *span) for core in _cores(values) if core in text for span in _places(core, text)]
    found += _wrapped(text, _cores(values))
    found.sort()
    if not found:
        return text
    pieces, done, start, end = [], 0, *found[0]
    for first, last in [*found[1:], (len(text) + 1, 0)]:
        if first > end:
            pieces += [text[done:start], MASK]
            done, start = end, first
        end = max(end, last)
    return "".join([*pieces, text[done:]])


def _wrapped(text: str, cores: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield the places of base64 that is wrapped over several lines, as mail, PEM and the command ``base64`` do."""
    breaks = [match.span() for match in _LINE_BREAK.finditer(text)] if cores else []
    if not breaks:
        return
    lines = [text[start:end] for (_, start), (end, _) in pairwise([(0, 0), *breaks, (len(text), 0)])]
    begins, starts = list(accumulate(map(len, lines), initial=0)), [0, *(end for _, end in breaks)]

    def place(offset: int) -> int:
        line = bisect_right(begins, offset, hi=len(lines)) - 1
        return starts[line] + offset - begins[line]

    joined = "".join(lines)
    for core in cores:
        if core in joined:
            yield from (_run(text, place(start), place(end - 1) + 1) for start, end in _places(core, joined))


def _run(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the whole run of base64 around a place, because the characters at its ends reveal bits of the secret."""
    while start and _BASE64.match(text[start - 1]) and text[start - 2 : start] not in _ESCAPED:
        start -= 1
    while end < len(text) and _BASE64.match(text[end]):
        end += 1
    return start, end


def _places(form: str, text: str) -> Iterator[tuple[int, int]]:
    if len(form) < SHORTEST:
        yield from (match.span() for match in _word(form).finditer(text))
        return
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + 1)


@lru_cache(maxsize=256)
def _word(form: str) -> re.Pattern[str]:
    """Return the pattern of a form as a separate word; dates, decimals, versions and dotted names are one word each."""
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
    """Return the type that a value actually has, out of the several types that its annotation allows."""
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
    """Return name -> type of a struct's own fields, with the marks ``Structure`` and ``Text``."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}
