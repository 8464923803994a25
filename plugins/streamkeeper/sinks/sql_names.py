"""Names in statements of Spark SQL."""

from __future__ import annotations


def in_backticks(name: str) -> str:
    """Return a name of a column or a path as a statement must contain it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
