"""An operation's id follows from its DAG run's: a task that runs again finds the operation it began."""

from __future__ import annotations

import hashlib
import re

_UNWANTED = re.compile(r"[^a-z0-9]+")
_KEPT = 40


def operation_id(dag_id: str, run_id: str, group_id: str = "") -> str:
    """Of ``[a-z0-9-]``, at most 49 characters, one for each run: the hash keeps apart what the readable part merges.

    ``group_id``: of the task group that is the operation, in a DAG that is more than one.
    """
    readable = _UNWANTED.sub("-", run_id.lower())[:_KEPT].strip("-") or "run"
    digest = hashlib.sha256("\n".join((dag_id, run_id, *([group_id] if group_id else []))).encode()).hexdigest()[:8]
    return f"{readable}-{digest}"
