"""Which failures of a task are worth another try: those that may pass by themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

RETRIES = 5
"""What cannot be helped fails at once all the same. A wait that wakes up as it falls asleep can cost one: Airflow's
LocalExecutor takes the end of its first part for the end of its second."""
RETRY_DELAY = timedelta(seconds=5)
"""Short: a task whose process was killed only has to continue an operation that did not stop meanwhile."""


def default_args() -> dict[str, Any]:
    """Of every task of Streamkeeper's."""
    return {
        "owner": "streamkeeper",
        "retries": RETRIES,
        "retry_delay": RETRY_DELAY,
        "retry_policy": retry_policy(),
    }


def retry_policy() -> ExceptionRetryPolicy:
    """Permanent errors fail at once; everything else is tried again, for a step that is done is not done again."""
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
