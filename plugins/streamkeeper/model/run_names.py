"""The ids of operations, derived from the ids of their DAG runs so that a retried task finds its operation again."""

from __future__ import annotations

import hashlib
import re

_UNWANTED = re.compile(r"[^a-z0-9]+")
_KEPT = 40


def operation_id(dag_id: str, run_id: str, group_id: str = "") -> str:
    """Return the id of an operation, which is unique per run: ``[a-z0-9-]``, at most 49 characters.

    A hash in the id distinguishes runs whose readable parts are equal. ``group_id`` is the id of the operation's task
    group, for DAGs that also contain other tasks.
    """
    readable = _UNWANTED.sub("-", run_id.lower())[:_KEPT].strip("-") or "run"
    digest = hashlib.sha256("\n".join((dag_id, run_id, *([group_id] if group_id else []))).encode()).hexdigest()[:8]
    return f"{readable}-{digest}"
