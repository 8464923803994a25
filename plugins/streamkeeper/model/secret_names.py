"""Values that must never be written down: those under the names of secrets, and texts that look like one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping

from streamkeeper.model.redaction import SHORTEST, secret_parts
from streamkeeper.model.release import ParamValue, Release
from streamkeeper.model.secret_references import MASK, is_reference

_WORDS = ("credential", "jaas", "keystore", "password", "secret", "token", "truststore")
_OTHER_NAMES = re.compile(
    r"passw|passphrase|passcode|pgpass|pwd|(?:^|[_.\-])pass(?:$|[_.\-])|authorization|bearer"
    r"|(?:api|access|account|private|shared|client|signing|encryption)[_.\-]?key",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(r"(://)[^/@\s]*@")
_SECRET_PART = re.compile(
    r"(\w*(?:pass|pwd|secret|token|credential|key|sig)\w*\s*=\s*)[^&;\s]+",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"(?=.*[a-z])(?=.*[0-9])((?=.*[A-Z])[A-Za-z0-9+/=_.\-]{20,}|[a-f0-9]{32,})")
"""Letters of both cases and digits, or long hexadecimal: not a name that a person chose."""
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)", re.DOTALL)
_NAMED = re.compile(
    rf"(?:(?:{'|'.join(_WORDS)}|passw|passphrase|passcode|pgpass|pwd|authorization|bearer"
    r"|(?:api|access|account|private|shared|client|signing|encryption)[_.\-]?key)\w{0,64}"
    r"""|\bpw|\bauth(?=\s*=\s*\())["'\])]*\s*[=:,(]""",
    re.IGNORECASE,
)
"""A name of a secret with the text before its value; ``auth`` if it is a pair of user and password."""
_SCHEME = re.compile(r"\b(Bearer|Basic)(\s+)(?!secret://)[A-Za-z0-9+/=_.~\-]{8,}", re.IGNORECASE)
"""The content of an Authorization header."""
_LITERAL = re.compile(r"""(["'])((?:\\.|(?!\1).)+)(\1|$)""")
_PIECE = re.compile(r"""("{3}|\'{3})|(["'])((?:\\.|(?!\2).)*)(\2|$)|([(\[{])|([)\]}])""")
"""The start of a text of several lines; a literal; a bracket."""
_UNQUOTED = re.compile(r"""^\s*(?!\s|["']?secret://).+""")
_GOES_ON = ("=", "(", "[", ",", ":", "|", "\\", "+")
_MOST_LINES = 100
"""Lines of one value; a longer one is not a secret but an unclosed bracket."""
_URL_PART = re.compile(
    r"([?&;][\w.\-]{0,64}(?:pass|pwd|secret|token|credential|sig)\w{0,64}=)[^&;\s\"']+", re.IGNORECASE
)


def is_secret(key: str) -> bool:
    """Whether an option's value must never be written down."""
    return any(word in key.lower() for word in _WORDS)


def names_secret(key: str) -> bool:
    """Whether a param or conf of this name counts as a secret: more names than drop an option from a manifest."""
    return is_secret(key) or _OTHER_NAMES.search(key) is not None


def literal_secrets(values: Mapping[str, object]) -> Iterator[str]:
    """Values of params or confs where a reference should be, long enough to be recognised in any text.

    For a value under another name: the passwords in it, as in a URL.
    """
    for key, value in values.items():
        if not isinstance(value, str) or is_reference(value):
            continue
        if names_secret(key) and len(value) >= SHORTEST:
            yield value
        else:
            yield from secret_parts(value)


def with_literals(secrets: Mapping[str, str], *given: Mapping[str, object]) -> dict[str, str]:
    """The secrets, and those contained in params and confs: all that no text may show."""
    return {**secrets, **{literal: literal for values in given for literal in literal_secrets(values)}}


def literals_of(releases: Iterable[Release]) -> dict[str, str]:
    """All secrets in these releases' params and confs where a reference should be."""
    return with_literals({}, *(values for each in releases for values in (each.content.params, each.content.conf)))


def masked(text: str) -> str:
    """A value without credentials; a value that looks like a key or a token shows only whether it is the same."""
    shown = _SECRET_PART.sub(rf"\1{MASK}", _CREDENTIALS.sub(rf"\1{MASK}@", " ".join(text.split())))
    if _TOKEN.fullmatch(shown):
        return f"{MASK} {hashlib.sha256(shown.encode()).hexdigest()[:12]}"
    return shown


def masked_place(location: str) -> str:
    """Mask a path folder by folder: as a whole it may look like a token."""
    return "/".join(map(masked, location.split("/"))) if location.startswith("/") else masked(location)


def shown_value(key: str, value: ParamValue) -> str:
    """A param or a conf for people, as JSON: a reference unchanged, and no value under the name of a secret."""
    if not isinstance(value, str) or is_reference(value):
        return json.dumps(value)
    return MASK if names_secret(key) else json.dumps(_without_parts(value), ensure_ascii=False)


def is_shown_whole(key: str, value: str) -> bool:
    """Whether a param's or a conf's value contains no text to mask."""
    return is_reference(value) or not (names_secret(key) or _without_parts(value).count(MASK) > value.count(MASK))


def _without_parts(value: str) -> str:
    """A place, a connection string or JSON without its passwords and tokens."""
    for part in sorted(secret_parts(value), key=len, reverse=True):
        value = value.replace(part, MASK)
    return _SCHEME.sub(rf"\1\2{MASK}", masked_place(value))


def masked_code(text: str, *, python: bool = True) -> str:
    """Source code or a plan without text that looks like a secret; every line stays a line.

    After the name of a secret every literal is masked: up to the end of the line and of each bracket and text that is
    open there, or on the next line if the value follows there. If it is not ``python``, values need no quotes, and all
    text after the name is masked.
    """
    shown = _PRIVATE_KEY.sub(lambda found: f"{found[1]}{MASK}{chr(10) * found[0].count(chr(10))}{found[2]}", text)
    shown = _SCHEME.sub(rf"\1\2{MASK}", _URL_PART.sub(rf"\1{MASK}", shown))
    lines: list[str] = []
    value = _Value()
    for line in shown.split("\n"):
        line = line if value.goes_on else _LITERAL.sub(_without_token, line)
        named = None if value.goes_on else _NAMED.search(line)
        start = 0 if value.goes_on else named.end() if named else len(line)
        before, rest = line[:start], line[start:]
        if named is not None:
            value = _Value(goes_on=True)
        is_value = value.goes_on
        hidden = value.hide(rest) if is_value else rest
        if is_value and not python and not value.goes_on:
            hidden = _UNQUOTED.sub(rf" {MASK}", hidden)
        lines.append(before + hidden)
    return _CREDENTIALS.sub(rf"\1{MASK}@", "\n".join(lines))


class _Value:
    """The value after the name of a secret, line by line. ``goes_on``: whether the next line belongs to it."""

    def __init__(self, *, goes_on: bool = False) -> None:
        self.goes_on = goes_on
        self._quote, self._depth, self._lines, self._found = "", 0, 0, False

    def hide(self, text: str) -> str:
        """The rest of a line without its literals."""
        pieces: list[str] = []
        at = 0
        while at < len(text):
            if self._quote:
                end = text.find(self._quote, at)
                pieces.append(self._masked(text[at : end if end >= 0 else len(text)]))
                if end < 0:
                    break
                pieces.append(self._quote)
                at, self._quote = end + len(self._quote), ""
                continue
            piece = _PIECE.search(text, at)
            pieces.append(text[at : piece.start() if piece else len(text)])
            if piece is None:
                break
            at = piece.end()
            self._quote = piece[1] or ""
            self._depth += bool(piece[5]) - bool(piece[6])
            literal = piece[2] is not None
            pieces.append(f"{piece[2]}{self._masked(piece[3])}{piece[4]}" if literal else piece[0])
        self._lines += 1
        follows = not self._found and (not text.strip() or text.rstrip().endswith(_GOES_ON))
        self.goes_on = self._lines < _MOST_LINES and (bool(self._quote) or self._depth > 0 or follows)
        return "".join(pieces)

    def _masked(self, literal: str) -> str:
        if not literal.strip() or is_reference(literal):
            return literal
        self._found = True
        return MASK


def _without_token(literal: re.Match[str]) -> str:
    if is_reference(literal[2]):
        return literal[0]
    shown = masked(literal[2]) if _TOKEN.fullmatch(literal[2]) else literal[2]
    for part in secret_parts(shown):
        shown = shown.replace(part, MASK)
    return f"{literal[1]}{shown}{literal[3]}"
