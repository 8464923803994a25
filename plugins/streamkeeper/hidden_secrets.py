"""The secrets that no error of this process may show: masked before a text is cut or put on one line.

Afterwards a secret cannot be recognised: a cut leaves half of it, and one line reduces two blanks to one.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamkeeper.model.redaction import redact

_hidden: dict[str, str] = {}


def hide_secrets(secrets: Mapping[str, str]) -> None:
    """Mask them from now on; a process receives its secrets once, at its start."""
    _hidden.update(secrets)


def mask_hidden(text: str) -> str:
    """The text without the secrets of this process."""
    return redact(text, _hidden) if _hidden else text
