"""What Airflow passes to a task, without Airflow: the form, a place for XComs and the states of other tasks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest


class Instance:
    """A task instance; ``failed`` is the number of earlier tasks that failed."""

    def __init__(self, failed: int = 0) -> None:
        self.pushed: dict[str, Any] = {}
        self.failed = failed

    def xcom_push(self, key: str, value: Any) -> None:
        """Store the value under its key."""
        self.pushed[key] = value

    def get_ti_count(self, *, states: list[str], **_: Any) -> int:
        """Return the number of failed tasks."""
        return self.failed if "failed" in states else 0


def context_of(instance: Instance, **form: Any) -> Any:
    """Return the context of a task in a run that was triggered with this form."""
    return {
        "ti": instance,
        "params": form,
        "dag": SimpleNamespace(params=form),
        "dag_run": SimpleNamespace(dag_id="a_dag", run_id="manual__1", triggering_user_name="ada", conf=form),
    }


def task_fails(match: str) -> AbstractContextManager[Any]:
    """Expect the task to fail with this sentence, in the exception that Airflow logs without a traceback."""
    from streamkeeper.orchestration.tasks import TaskFailed

    return pytest.raises(TaskFailed, match=match)
