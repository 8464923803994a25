"""An operation's id derives from its DAG run's id: a repeated task finds the operation that it started."""

from __future__ import annotations

import hashlib
import re

_UNWANTED = re.compile(r"[^a-z0-9]+")
_KEPT = 40


def operation_id(dag_id: str, run_id: str, group_id: str = "") -> str:
    """The id: ``[a-z0-9-]``, at most 49 characters, unique per run; the hash separates runs with equal readable parts.

    ``group_id``: of the task group that is the operation, in a DAG that contains more.
    """
    readable = _UNWANTED.sub("-", run_id.lower())[:_KEPT].strip("-") or "run"
    digest = hashlib.sha256("\n".join((dag_id, run_id, *([group_id] if group_id else []))).encode()).hexdigest()[:8]
    return f"{readable}-{digest}"
