"""The table of settings: the environment variables of an installation, each with field, parser, default and meaning.

``read_settings`` reads the variables in this order, and refuses a variable whose name is similar to one of these names.
docs/reference/settings.md is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from streamkeeper.model.names import alternatives
from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.runner_kinds.known_runners import RUNNERS, clusters
from streamkeeper.model.settings.setting_parsers import (
    Given,
    read_approvers,
    read_archive,
    read_checkpoints,
    read_confs,
    read_directories,
    read_directory,
    read_drivers,
    read_home,
    read_master,
    read_positive,
    read_text,
    read_yes_or_no,
    refuse_no_home,
)

PREFIX = "STREAMKEEPER_"
SECRET_PREFIX = "STREAMKEEPER_SECRET_"
"""The prefix of the variables that ``secret://env/…`` may name."""


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One environment variable of an installation."""

    name: str
    """Name without the prefix ``STREAMKEEPER_``."""
    topic: str
    """The section of the reference page that lists the variable."""
    description: str
    """What the variable sets and which values it accepts, in Markdown."""
    field: str = ""
    """The field of ``Settings``; empty for a variable that only Airflow's tasks and DAG files read."""
    read: Callable[[Given], Any] | None = None
    """Returns the value of the field from a text that is not empty; None if the variable is read elsewhere."""
    unset: Callable[[Mapping[str, Any]], Any] | None = None
    """Returns the value if the variable is unset or empty, from the fields that precede it; None for the field's own
    default.
    """
    default: str = ""
    """In words, which value applies if the variable is unset or empty; empty for the field's own default."""

    @property
    def airflow_only(self) -> bool:
        """Whether only Airflow's tasks and DAG files read the variable, and commands do not."""
        return not self.field

    @property
    def variable(self) -> str:
        """The whole name of the environment variable."""
        return f"{PREFIX}{self.name}"


_PLACES, _DRIVERS = "Places", "Drivers and executors"
_CLUSTERS = [f"`{kind.name}`" for kind in clusters()]
_BACKUPS, _WATCH, _PEOPLE = "Backups and cleanup", "Watch, alerts and metrics", "People"

VARIABLES: tuple[Variable, ...] = (
    Variable(
        name="HOME",
        topic=_PLACES,
        field="home",
        read=read_home,
        unset=refuse_no_home,
        default="required",
        description="Absolute path of a local directory that survives reboots:"
        " logs, unpacked code and scratch space, and"
        " the store and the checkpoints unless they are set below.",
    ),
    Variable(
        name="STORE",
        topic=_PLACES,
        field="store",
        read=read_text,
        unset=lambda known: Path(known["home"], "store").as_uri(),
        default="`store` in the home",
        description="Where journals, releases and driver records are kept: a directory or `s3://bucket/prefix`. Every"
        " machine that runs tasks, commands or drivers must be able to read and write it.",
    ),
    Variable(
        name="CHECKPOINTS",
        topic=_PLACES,
        field="checkpoints",
        read=read_checkpoints,
        unset=lambda known: str(Path(known["home"], "checkpoints")),
        default="`checkpoints` in the home",
        description="Where new checkpoint versions are created: a local directory, `s3a://bucket/prefix` or"
        " `hdfs://namenode:port/path`. Existing versions stay where they were created.",
    ),
    Variable(
        name="JOBS",
        topic=_PLACES,
        field="jobs",
        read=read_directory,
        unset=lambda _: str(Path("jobs").absolute()),
        default="`jobs` in the working directory",
        description="Directory of the job files.",
    ),
    Variable(
        name="SNAPSHOTS",
        topic=_PLACES,
        field="snapshots",
        read=read_text,
        default="the store",
        description="Where snapshots are kept: a directory or `s3://bucket/prefix`.",
    ),
    Variable(
        name="KEEP",
        topic=_BACKUPS,
        field="keep",
        read=read_text,
        default="last=3,hourly=24,daily=7,weekly=4,monthly=6",
        description="Which snapshots a prune keeps. A rule that is left out keeps its default; `last` is at least 1.",
    ),
    Variable(
        name="BACKUP_OBJECTIVE_S",
        topic=_BACKUPS,
        field="objective_s",
        read=read_positive,
        description="How old a query's oldest batch that is in no snapshot may be, in seconds. If it is older, the run"
        " of `streaming_backup` fails and the rule `backup-late` reports the query.",
    ),
    Variable(
        name="RETIRED_DAYS",
        topic=_BACKUPS,
        field="retired_days",
        read=read_positive,
        description="How long a prune keeps a checkpoint version that is no longer current, in days.",
    ),
    Variable(
        name="JARS",
        topic=_DRIVERS,
        field="jars",
        read=read_directories,
        default="the directories that `make connectors` fills",
        description="Directories, separated by `:`, whose jars every driver gets.",
    ),
    Variable(
        name="BACKUP_SCHEDULE",
        topic=_BACKUPS,
        default="@hourly",
        description="When `streaming_backup` runs: a cron expression in UTC, a preset such as `@daily`, or `never`.",
    ),
    Variable(
        name="DRILL_SCHEDULE",
        topic=_BACKUPS,
        default="20 2 * * *",
        description="When `streaming_drill` runs: a cron expression in UTC, a preset such as `@daily`, or `never`.",
    ),
    Variable(
        name="PRUNE_SCHEDULE",
        topic=_BACKUPS,
        default="40 4 * * *",
        description="When `streaming_prune` runs: a cron expression in UTC, a preset such as `@daily`, or `never`.",
    ),
    Variable(
        name="WATCH_SCHEDULE",
        topic=_WATCH,
        default="* * * * *",
        description="When `streaming_watch` runs: a cron expression in UTC, a preset such as `@hourly`, or `never`.",
    ),
    Variable(
        name="WATCH_ACTS",
        topic=_WATCH,
        default="yes",
        description="With `no`, Airflow's watch only reports; run `streamkeeper watch` elsewhere to restart drivers.",
    ),
    Variable(
        name="NOTIFIERS",
        topic=_WATCH,
        default="none",
        description="Who is notified of incidents and questions: a JSON list of"
        " Airflow notifiers, each a dotted path or"
        ' `{"notifier": path, "kwargs": {…}}`.',
    ),
    Variable(
        name="DRIVER_METRICS",
        topic=_WATCH,
        field="driver_metrics",
        read=read_text,
        description="Ports on which drivers serve their own metrics, such as `9470-9569` or `0.0.0.0:9470-9569`; each"
        " driver takes the first free port. Without an address only this machine can read the metrics. There is no"
        " password.",
    ),
    Variable(
        name="CONFS",
        topic=_DRIVERS,
        field="confs",
        read=read_confs,
        description="Spark confs that a release may set in addition to those that are always allowed: full names, or"
        " patterns such as `spark.hadoop.fs.s3a.*`, separated by commas.",
    ),
    Variable(
        name="ENDED_DAYS",
        topic=_BACKUPS,
        field="ended_days",
        read=read_positive,
        description="How long a prune keeps the records and logs of a terminated driver, in days.",
    ),
    Variable(
        name="APPROVERS",
        topic=_PEOPLE,
        field="approvers",
        read=read_approvers,
        default="every user who may trigger the operation",
        description="Who may answer an operation's questions, separated by commas: `ada` or `ada=3` (a user of Airflow,"
        " with the user's id), `cli:bob` (a user of the operating system).",
    ),
    Variable(
        name="FOUR_EYES",
        topic=_PEOPLE,
        field="four_eyes",
        read=read_yes_or_no,
        description="With `yes`, people cannot approve their own requests.",
    ),
    Variable(
        name="MASTER",
        topic=_DRIVERS,
        field="master",
        read=read_master,
        default="tasks run in the driver",
        description="The standalone cluster whose executors run the drivers' tasks: `spark://host:7077`, or"
        " `airflow://CONN_ID` for the master of an Airflow connection. Checkpoints must be on S3 or HDFS.",
    ),
    Variable(
        name="EXECUTOR_ENVIRONMENT",
        topic=_DRIVERS,
        field="executor_environment",
        read=read_archive,
        default="executors have the drivers' environment at the same path",
        description="Archive of a Python environment for executors (`.tar.gz`, `.tgz` or `.zip`). Only with"
        f" `STREAMKEEPER_MASTER`, and not with drivers on {alternatives([kind.title for kind in clusters()])}.",
    ),
    Variable(
        name="DRIVERS",
        topic=_DRIVERS,
        field="drivers",
        read=read_drivers,
        description=f"Where new drivers run: {alternatives([f'`{LOCAL}` ({RUNNERS[LOCAL].title})', *_CLUSTERS])}."
        f" With {alternatives(_CLUSTERS)}, `STREAMKEEPER_STORE` must be set, and checkpoints must be on S3 or HDFS.",
    ),
    *(
        Variable(
            name=each.name.removeprefix(PREFIX),
            topic=_DRIVERS,
            field="runner_variables",
            default=each.default,
            description=f"{each.description} Only with `STREAMKEEPER_DRIVERS={kind.name}`.",
        )
        for kind in RUNNERS.values()
        for each in kind.variables
    ),
)
