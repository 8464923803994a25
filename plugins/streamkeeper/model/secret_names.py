"""What must never be written down: values under the names of secrets, and texts that look like one."""

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
    r"passw|passphrase|passcode|pwd|(?:^|[_.\-])pass(?:$|[_.\-])|authorization|bearer"
    r"|(?:api|access|account|private|shared|client|signing|encryption)[_.\-]?key",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(r"(://)[^/@\s]*@")
_SECRET_PART = re.compile(
    r"(\w*(?:pass|pwd|secret|token|credential|key|sig)\w*\s*=\s*)[^&;\s]+",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"(?=.*[a-z])(?=.*[0-9])((?=.*[A-Z])[A-Za-z0-9+/=_.\-]{20,}|[a-f0-9]{32,})")
"""Letters of both cases and digits, or long hexadecimal: no name that a person gave."""
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)", re.DOTALL)
_NAMED = re.compile(
    rf"(?:{'|'.join(_WORDS)}|passw|pwd|api_?key|access_?key|private_?key)\w{{0,64}}[\"'\])]*\s*[=:,(]",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"""(["'])(?!secret://)((?:\\.|(?!\1).)+)(\1|$)""")
_UNQUOTED = re.compile(r"""^\s*(?!\s|["']?secret://).+""")
_GOES_ON = ("=", "(", "[", ",", ":", "|", "\\")
_URL_PART = re.compile(
    r"([?&;][\w.\-]{0,64}(?:pass|pwd|secret|token|credential|sig)\w{0,64}=)[^&;\s\"']+", re.IGNORECASE
)


def is_secret(key: str) -> bool:
    """Whether an option's value must never be written down."""
    return any(word in key.lower() for word in _WORDS)


def names_secret(key: str) -> bool:
    """Whether a param or a conf of this name is taken for a secret: more names than drop an option from a manifest."""
    return is_secret(key) or _OTHER_NAMES.search(key) is not None


def literal_secrets(values: Mapping[str, object]) -> Iterator[str]:
    """Values of params or confs that stand where a reference should, long enough to be told in any text.

    Of a value with another name it is the passwords that it holds, as a URL does.
    """
    for key, value in values.items():
        if not isinstance(value, str) or is_reference(value):
            continue
        if names_secret(key) and len(value) >= SHORTEST:
            yield value
        else:
            yield from secret_parts(value)


def with_literals(secrets: Mapping[str, str], *given: Mapping[str, object]) -> dict[str, str]:
    """The secrets, and those that params and confs hold themselves: all that no text may show."""
    return {**secrets, **{literal: literal for values in given for literal in literal_secrets(values)}}


def literals_of(releases: Iterable[Release]) -> dict[str, str]:
    """All secrets that stand in the params and confs of these releases where a reference should."""
    return with_literals({}, *(values for each in releases for values in (each.content.params, each.content.conf)))


def masked(text: str) -> str:
    """A value without credentials; what looks like a key or a token shows only whether it is the same."""
    shown = _SECRET_PART.sub(rf"\1{MASK}", _CREDENTIALS.sub(rf"\1{MASK}@", " ".join(text.split())))
    if _TOKEN.fullmatch(shown):
        return f"{MASK} {hashlib.sha256(shown.encode()).hexdigest()[:12]}"
    return shown


def masked_place(location: str) -> str:
    """A path is masked folder by folder: as a whole it may look like a token."""
    return "/".join(map(masked, location.split("/"))) if location.startswith("/") else masked(location)


def shown_value(key: str, value: ParamValue) -> str:
    """A param or a conf for people, as JSON: a reference as it is, and nothing under the name of a secret."""
    if not isinstance(value, str) or is_reference(value):
        return json.dumps(value)
    return MASK if names_secret(key) else json.dumps(masked_place(value), ensure_ascii=False)


def is_shown_whole(key: str, value: str) -> bool:
    """Whether a param's or a conf's value holds nothing that has to be masked."""
    return is_reference(value) or not (names_secret(key) or masked_place(value).count(MASK) > value.count(MASK))


def masked_code(text: str, *, python: bool = True) -> str:
    """Source code or a plan without what looks like a secret; every line stays a line.

    On a line that names a secret, and on the next where the value follows there, every literal behind the name goes;
    where it is not ``python``, values need no quotes, and all that is behind the name goes.
    """
    shown = _PRIVATE_KEY.sub(lambda found: f"{found[1]}{MASK}{chr(10) * found[0].count(chr(10))}{found[2]}", text)
    lines: list[str] = []
    follows = False
    for line in _URL_PART.sub(rf"\1{MASK}", shown).split("\n"):
        named = _NAMED.search(line)
        start = named.end() if named else 0 if follows else len(line)
        rest = _LITERAL.sub(rf"\1{MASK}\3", line[start:])
        follows = named is not None and rest == line[start:] and line.rstrip().endswith(_GOES_ON)
        hidden = rest if python or follows else _UNQUOTED.sub(rf" {MASK}", rest)
        lines.append(_LITERAL.sub(_without_token, line[:start]) + hidden)
    return _CREDENTIALS.sub(rf"\1{MASK}@", "\n".join(lines))


def _without_token(literal: re.Match[str]) -> str:
    return f"{literal[1]}{masked(literal[2])}{literal[3]}" if _TOKEN.fullmatch(literal[2]) else literal[0]
