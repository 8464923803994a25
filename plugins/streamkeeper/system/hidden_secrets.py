"""The secrets that this process masks in its errors, before it shortens a text or joins its lines.

After such a change a secret could no longer be recognised: shortening may leave half of it, and joining may remove a
blank.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamkeeper.model.redaction import redact

_hidden: dict[str, str] = {}


def hide_secrets(secrets: Mapping[str, str]) -> None:
    """Mask these secrets in every later error of this process. A process gets all its secrets at its start."""
    _hidden.update(secrets)


def mask_hidden(text: str) -> str:
    """Return the text with the secrets of this process masked."""
    return redact(text, _hidden) if _hidden else text
