"""Decide which failed tasks are retried: those whose error may disappear without a change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

RETRIES = 5
"""Number of retries of a task; a permanent error fails the task without a retry.

A deferral can cost a retry, because Airflow's LocalExecutor may mistake the end of the part before the deferral for the
end of the part after it.
"""
RETRY_DELAY = timedelta(seconds=5)
"""Pause before a retry. It is short, because a killed task only has to continue an operation that did not stop."""


def default_args() -> dict[str, Any]:
    """Return the default arguments of all Streamkeeper tasks."""
    return {
        "owner": "streamkeeper",
        "retries": RETRIES,
        "retry_delay": RETRY_DELAY,
        "retry_policy": retry_policy(),
    }


def retry_policy() -> ExceptionRetryPolicy:
    """Return the policy: a permanent error fails the task at once, all other errors are retried. A retry repeats no
    finished step.
    """
    return ExceptionRetryPolicy(
        rules=[
            RetryRule(
                exception=["streamkeeper.errors.PermanentError", "streamkeeper.orchestration.tasks.TaskFailed"],
                action=RetryAction.FAIL,
                reason="trying again cannot help",
            ),
            RetryRule(
                exception="streamkeeper.errors.TemporaryError",
                action=RetryAction.RETRY,
                retry_delay=RETRY_DELAY,
                reason="may pass by itself",
            ),
        ]
    )
