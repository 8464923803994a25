"""The old name of ``secret_references``; it goes when nothing imports it (it is a standard library's name)."""

from __future__ import annotations

from streamkeeper.model.secret_references import find_references, redact, resolve, substitute

__all__ = ["find_references", "redact", "resolve", "substitute"]
