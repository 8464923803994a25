"""The failures of a task that are worth another try: those that may pass."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

RETRIES = 5
"""Permanent errors fail at once in any case. A deferral can cost a retry: Airflow's LocalExecutor takes the end of
the task's first part for the end of its second."""
RETRY_DELAY = timedelta(seconds=5)
"""Short: after its process was killed, a task only has to continue an operation that did not stop."""


def default_args() -> dict[str, Any]:
    """Defaults of all Streamkeeper tasks."""
    return {
        "owner": "streamkeeper",
        "retries": RETRIES,
        "retry_delay": RETRY_DELAY,
        "retry_policy": retry_policy(),
    }


def retry_policy() -> ExceptionRetryPolicy:
    """Permanent errors fail at once; all others are retried, because a finished step is not repeated."""
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
