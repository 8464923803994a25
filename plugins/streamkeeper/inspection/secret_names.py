"""Names under which a value must never be written down."""

from __future__ import annotations

MASKED = "***"
_WORDS = ("credential", "jaas", "keystore", "password", "secret", "token", "truststore")


def is_secret(key: str) -> bool:
    """Whether an option's value must never be written down."""
    return any(word in key.lower() for word in _WORDS)
