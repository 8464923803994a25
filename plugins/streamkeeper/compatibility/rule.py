"""What a rule is: a pure function from the deployed and the candidate manifest of one query to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streamkeeper.model.finding import Finding
from streamkeeper.model.manifest import Manifest

Rule = Callable[[Manifest, Manifest], Iterator[Finding]]

SPARK_GUIDE = "Spark's guide, 'Recovery Semantics after Changes in a Streaming Query'"
NEW_CHECKPOINT = "switch this query to a new checkpoint version, or take the change back"


def change(before: object, after: object) -> str:
    """Evidence as ``before -> after``; what is empty reads as ``nothing``."""
    return f"{_shown(before)} -> {_shown(after)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        value = ", ".join(str(each) for each in value)
    return str(value) if value not in ("", None) else "nothing"


def is_stateful(*manifests: Manifest) -> bool:
    """Whether any of them keeps state."""
    return any(each.operators for each in manifests)
