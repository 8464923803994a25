"""What must never be written down: values under the names of secrets, and texts that look like one."""

from __future__ import annotations

import hashlib
import re

from streamkeeper.model.secret_references import MASK

_WORDS = ("credential", "jaas", "keystore", "password", "secret", "token", "truststore")
_CREDENTIALS = re.compile(r"(://)[^/@\s]*@")
_SECRET_PART = re.compile(
    r"(\w*(?:pass|pwd|secret|token|credential|key|sig)\w*\s*=\s*)[^&;\s]+",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"(?=.*[a-z])(?=.*[0-9])((?=.*[A-Z])[A-Za-z0-9+/=_.\-]{20,}|[a-f0-9]{32,})")
"""Letters of both cases and digits, or long hexadecimal: no name that a person gave."""


def is_secret(key: str) -> bool:
    """Whether an option's value must never be written down."""
    return any(word in key.lower() for word in _WORDS)


def masked(text: str) -> str:
    """A value without credentials; what looks like a key or a token shows only whether it is the same."""
    shown = _SECRET_PART.sub(rf"\1{MASK}", _CREDENTIALS.sub(rf"\1{MASK}@", " ".join(text.split())))
    if _TOKEN.fullmatch(shown):
        return f"{MASK} {hashlib.sha256(shown.encode()).hexdigest()[:12]}"
    return shown
