"""The schedules of the DAGs, from their defaults and the installation's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from airflow.sdk import CronTriggerTimetable
from airflow.sdk.exceptions import AirflowTimetableInvalid

from streamkeeper.errors import InvalidInput

NEVER = ("never", "none")


def read_schedule(variable: str, default: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return a DAG's schedule: a cron expression or a preset such as ``@hourly``.

    The schedule is None, which permits only manual runs, if the setting is "never".

    ``variable``: the setting; ``default``: the schedule if it is not set. Raises InvalidInput, naming the variable.
    Airflow shows the error as an import error of the DAG file, because DAG files call this function at their top level.
    """
    text = environ.get(variable, "").strip() or default
    if text.lower() in NEVER:
        return None
    try:
        CronTriggerTimetable(text, timezone="UTC").validate()
    except AirflowTimetableInvalid as error:
        hint = f"use a cron expression, @hourly, @daily or never, or leave the variable out for {default}"
        raise InvalidInput(f"{variable}={text} is not a schedule: {error}", hint=hint) from None
    return text
