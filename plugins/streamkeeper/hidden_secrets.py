"""The secrets that no error of this process may show: masked before a text is cut or put on one line.

After that a secret is no longer known: half of one is left at the cut, and one with two blanks has only one.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamkeeper.model.redaction import redact

_hidden: dict[str, str] = {}


def hide_secrets(secrets: Mapping[str, str]) -> None:
    """Have them masked from now on; a process is given its secrets once, when it begins."""
    _hidden.update(secrets)


def mask_hidden(text: str) -> str:
    """The text without the secrets of this process."""
    return redact(text, _hidden) if _hidden else text
