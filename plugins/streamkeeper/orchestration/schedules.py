"""The schedules of the DAGs: defaults, and the installation's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from airflow.sdk import CronTriggerTimetable
from airflow.sdk.exceptions import AirflowTimetableInvalid

from streamkeeper.errors import InvalidInput

NEVER = ("never", "none")


def read_schedule(variable: str, default: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """A cron expression or one of its presets (``@hourly``); None for "never": then only manual runs.

    Raises InvalidInput naming the variable; Airflow shows that line for a DAG file that calls this at its top level.
    """
    text = environ.get(variable, "").strip() or default
    if text.lower() in NEVER:
        return None
    try:
        CronTriggerTimetable(text, timezone="UTC").validate()
    except AirflowTimetableInvalid as error:
        hint = f"a cron expression, @hourly, @daily, or never; leave it out for {default}"
        raise InvalidInput(f"{variable}={text} is not a schedule: {error}", hint=hint) from None
    return text
