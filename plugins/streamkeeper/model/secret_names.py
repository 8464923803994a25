"""The values that must never be stored or shown: those under names of secrets, and texts that look like a secret."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping

from streamkeeper.model.manifests.release import ParamValue, Release
from streamkeeper.model.redaction import SHORTEST, secret_parts
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
"""A token: letters of both cases with digits, or long hexadecimal, unlike a name that a person chose."""
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)", re.DOTALL)
_NAMED = re.compile(
    rf"(?:(?:{'|'.join(_WORDS)}|passw|passphrase|passcode|pgpass|pwd|authorization|bearer"
    r"|(?:api|access|account|private|shared|client|signing|encryption)[_.\-]?key)\w{0,64}"
    r"""|\bpw|\bauth(?=\s*=\s*\())["'\])]*\s*[=:,(]""",
    re.IGNORECASE,
)
"""A name of a secret, with the text up to its value; ``auth`` only if its value is a pair of user and password."""
_SCHEME = re.compile(r"\b(Bearer|Basic)(\s+)(?!secret://)[A-Za-z0-9+/=_.~\-]{8,}", re.IGNORECASE)
"""The content of an Authorization header."""
_LITERAL = re.compile(r"""(["'])((?:\\.|(?!\1).)+)(\1|$)""")
_PIECE = re.compile(r"""("{3}|\'{3})|(["'])((?:\\.|(?!\2).)*)(\2|$)|([(\[{])|([)\]}])""")
"""The start of a triple-quoted text, a whole literal, or a bracket."""
_UNQUOTED = re.compile(r"""^\s*(?!\s|["']?secret://).+""")
_GOES_ON = ("=", "(", "[", ",", ":", "|", "\\", "+")
_MOST_LINES = 100
"""The maximum number of lines of one value. A longer text is not a secret's value: its bracket was not closed."""
_URL_PART = re.compile(
    r"([?&;][\w.\-]{0,64}(?:pass|pwd|secret|token|credential|sig)\w{0,64}=)[^&;\s\"']+", re.IGNORECASE
)


def is_secret(key: str) -> bool:
    """Whether an option of this name is a secret, so that a manifest omits it."""
    return any(word in key.lower() for word in _WORDS)


def names_secret(key: str) -> bool:
    """Whether a param or conf of this name counts as a secret, which includes more names than ``is_secret``."""
    return is_secret(key) or _OTHER_NAMES.search(key) is not None


def literal_secrets(values: Mapping[str, object]) -> Iterator[str]:
    """Yield the secrets that params or confs contain as plain values, where a reference should be.

    A value under the name of a secret is yielded whole, if it is long enough to be recognised in any text. Of a value
    under another name, only the passwords inside the value are yielded, such as the password in a URL.
    """
    for key, value in values.items():
        if not isinstance(value, str) or is_reference(value):
            continue
        if names_secret(key) and len(value) >= SHORTEST:
            yield value
        else:
            yield from secret_parts(value)


def with_literals(secrets: Mapping[str, str], *mappings: Mapping[str, object]) -> dict[str, str]:
    """Return the secrets together with those that params and confs contain as plain values: all that must be masked."""
    return {**secrets, **{literal: literal for values in mappings for literal in literal_secrets(values)}}


def literals_of(releases: Iterable[Release]) -> dict[str, str]:
    """Return all secrets that params and confs of these releases contain as plain values."""
    return with_literals({}, *(values for each in releases for values in (each.content.params, each.content.conf)))


def masked(text: str) -> str:
    """Return a value without credentials; for a value that looks like a key or a token, the mask and a hash."""
    shown = _SECRET_PART.sub(rf"\1{MASK}", _CREDENTIALS.sub(rf"\1{MASK}@", " ".join(text.split())))
    if _TOKEN.fullmatch(shown):
        return f"{MASK} {hashlib.sha256(shown.encode()).hexdigest()[:12]}"
    return shown


def masked_place(location: str) -> str:
    """Return a location masked by ``masked``.

    The folders of an absolute path are masked one by one, because a whole path could look like a token.
    """
    return "/".join(map(masked, location.split("/"))) if location.startswith("/") else masked(location)


def shown_value(key: str, value: ParamValue) -> str:
    """Return a param's or a conf's value for people, as JSON: references unchanged, values of secrets masked."""
    if not isinstance(value, str) or is_reference(value):
        return json.dumps(value)
    return MASK if names_secret(key) else json.dumps(_without_parts(value), ensure_ascii=False)


def is_shown_whole(key: str, value: str) -> bool:
    """Whether ``shown_value`` shows a param's or a conf's value without a mask."""
    return is_reference(value) or not (names_secret(key) or _without_parts(value).count(MASK) > value.count(MASK))


def _without_parts(value: str) -> str:
    """Return a location, a connection string or JSON with masked passwords and tokens."""
    for part in sorted(secret_parts(value), key=len, reverse=True):
        value = value.replace(part, MASK)
    return _SCHEME.sub(rf"\1\2{MASK}", masked_place(value))


def masked_code(text: str, *, python: bool = True) -> str:
    """Return source code or a plan without text that looks like a secret; the number of lines stays the same.

    After the name of a secret, every literal on the same line is masked. If a bracket or a string is still open at the
    end of the line, the literals up to the end of that bracket or string are masked too. If the line ends before
    the value begins, the value on the next line is masked. Secret references stay unmasked. Without ``python``, values
    need no quotes, so all text after the name is masked.
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
    """The value after the name of a secret, read line by line. ``goes_on``: whether the value continues on the next
    line.
    """

    def __init__(self, *, goes_on: bool = False) -> None:
        self.goes_on = goes_on
        self._quote, self._depth, self._lines, self._found = "", 0, 0, False

    def hide(self, text: str) -> str:
        """Return the rest of a line with its literals masked."""
        pieces: list[str] = []
        position = 0
        while position < len(text):
            if self._quote:
                end = text.find(self._quote, position)
                pieces.append(self._masked(text[position : end if end >= 0 else len(text)]))
                if end < 0:
                    break
                pieces.append(self._quote)
                position, self._quote = end + len(self._quote), ""
                continue
            piece = _PIECE.search(text, position)
            pieces.append(text[position : piece.start() if piece else len(text)])
            if piece is None:
                break
            position = piece.end()
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
