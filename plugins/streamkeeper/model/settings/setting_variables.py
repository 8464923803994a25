"""The environment variables that configure an installation, each with name, default and meaning.

``read_settings`` refuses a variable whose name is similar to one of these names. docs/reference/settings.md is
generated from this list, and tests compare the defaults with the code that reads the variables.
"""

from __future__ import annotations

import msgspec

from streamkeeper.model.names import alternatives
from streamkeeper.model.protocol.control import LOCAL
from streamkeeper.model.runner_kinds.known_runners import RUNNERS, clusters

PREFIX = "STREAMKEEPER_"
SECRET_PREFIX = "STREAMKEEPER_SECRET_"
"""The prefix of the variables that ``secret://env/…`` may name."""


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One environment variable of an installation."""

    name: str
    """Name without the prefix ``STREAMKEEPER_``."""
    topic: str
    """The section of the reference page that lists the variable."""
    default: str
    """The value that applies if the variable is unset or empty, in words or as in the code."""
    description: str
    """What the variable sets and which values it accepts, in Markdown."""
    airflow_only: bool = False
    """Whether only Airflow's tasks and DAG files read the variable, and commands do not."""

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
        default="required",
        description="Absolute path of a local directory that survives reboots:"
        " logs, unpacked code and scratch space, and"
        " the store and the checkpoints unless they are set below.",
    ),
    Variable(
        name="STORE",
        topic=_PLACES,
        default="`store` in the home",
        description="Where journals, releases and driver records are kept: a directory or `s3://bucket/prefix`. Every"
        " machine that runs tasks, commands or drivers must be able to read and write it.",
    ),
    Variable(
        name="CHECKPOINTS",
        topic=_PLACES,
        default="`checkpoints` in the home",
        description="Where new checkpoint versions are created: a local directory, `s3a://bucket/prefix` or"
        " `hdfs://namenode:port/path`. Existing versions stay where they were created.",
    ),
    Variable(
        name="JOBS",
        topic=_PLACES,
        default="`jobs` in the working directory",
        description="Directory of the job files.",
    ),
    Variable(
        name="SNAPSHOTS",
        topic=_PLACES,
        default="the store",
        description="Where snapshots are kept: a directory or `s3://bucket/prefix`.",
    ),
    Variable(
        name="KEEP",
        topic=_BACKUPS,
        default="last=3,hourly=24,daily=7,weekly=4,monthly=6",
        description="Which snapshots a prune keeps. A rule that is left out keeps its default; `last` is at least 1.",
    ),
    Variable(
        name="BACKUP_OBJECTIVE_S",
        topic=_BACKUPS,
        default="86400",
        description="How much older than a query's newest commit the query's newest"
        " snapshot may be, in seconds. If it is"
        " older, the run of `streaming_backup` fails and the rule `backup-late` reports the query.",
    ),
    Variable(
        name="RETIRED_DAYS",
        topic=_BACKUPS,
        default="7",
        description="How long a prune keeps a checkpoint version that is no longer current, in days.",
    ),
    Variable(
        name="JARS",
        topic=_DRIVERS,
        default="the directories that `make connectors` fills",
        description="Directories, separated by `:`, whose jars every driver gets.",
    ),
    Variable(
        name="BACKUP_SCHEDULE",
        topic=_BACKUPS,
        default="@hourly",
        description="When `streaming_backup` runs: a cron expression in UTC, a preset such as `@daily`, or `never`.",
        airflow_only=True,
    ),
    Variable(
        name="DRILL_SCHEDULE",
        topic=_BACKUPS,
        default="20 2 * * *",
        description="When `streaming_drill` runs: a cron expression in UTC, a preset such as `@daily`, or `never`.",
        airflow_only=True,
    ),
    Variable(
        name="PRUNE_SCHEDULE",
        topic=_BACKUPS,
        default="40 4 * * *",
        description="When `streaming_prune` runs: a cron expression in UTC, a preset such as `@daily`, or `never`.",
        airflow_only=True,
    ),
    Variable(
        name="WATCH_SCHEDULE",
        topic=_WATCH,
        default="* * * * *",
        description="When `streaming_watch` runs: a cron expression in UTC, a preset such as `@hourly`, or `never`.",
        airflow_only=True,
    ),
    Variable(
        name="WATCH_ACTS",
        topic=_WATCH,
        default="yes",
        description="With `no`, Airflow's watch only reports; run `streamkeeper watch` elsewhere to restart drivers.",
        airflow_only=True,
    ),
    Variable(
        name="NOTIFIERS",
        topic=_WATCH,
        default="none",
        description="Who is notified of incidents and questions: a JSON list of"
        " Airflow notifiers, each a dotted path or"
        ' `{"notifier": path, "kwargs": {…}}`.',
        airflow_only=True,
    ),
    Variable(
        name="DRIVER_METRICS",
        topic=_WATCH,
        default="none",
        description="Ports on which drivers serve their own metrics, such as `9470-9569` or `0.0.0.0:9470-9569`; each"
        " driver takes the first free port. Without an address only this machine can read the metrics. There is no"
        " password.",
    ),
    Variable(
        name="CONFS",
        topic=_DRIVERS,
        default="none",
        description="Spark confs that a release may set in addition to those that are always allowed: full names, or"
        " patterns such as `spark.hadoop.fs.s3a.*`, separated by commas.",
    ),
    Variable(
        name="ENDED_DAYS",
        topic=_BACKUPS,
        default="30",
        description="How long a prune keeps the records and logs of a terminated driver, in days.",
    ),
    Variable(
        name="APPROVERS",
        topic=_PEOPLE,
        default="every user who may trigger the operation",
        description="Who may answer an operation's questions, separated by commas: `ada` or `ada=3` (a user of Airflow,"
        " with the user's id), `cli:bob` (a user of the operating system).",
    ),
    Variable(
        name="FOUR_EYES",
        topic=_PEOPLE,
        default="no",
        description="With `yes`, people cannot approve their own requests.",
    ),
    Variable(
        name="MASTER",
        topic=_DRIVERS,
        default="tasks run in the driver",
        description="The standalone cluster whose executors run the drivers' tasks: `spark://host:7077`, or"
        " `airflow://CONN_ID` for the master of an Airflow connection. Checkpoints must be on S3 or HDFS.",
    ),
    Variable(
        name="EXECUTOR_ENVIRONMENT",
        topic=_DRIVERS,
        default="executors have the drivers' environment at the same path",
        description="Archive of a Python environment for executors (`.tar.gz`, `.tgz` or `.zip`). Only with"
        f" `STREAMKEEPER_MASTER`, and not with drivers on {alternatives([kind.title for kind in clusters()])}.",
    ),
    Variable(
        name="DRIVERS",
        topic=_DRIVERS,
        default=LOCAL,
        description=f"Where new drivers run: {alternatives([f'`{LOCAL}` ({RUNNERS[LOCAL].title})', *_CLUSTERS])}."
        f" With {alternatives(_CLUSTERS)}, `STREAMKEEPER_STORE` must be set, and checkpoints must be on S3 or HDFS.",
    ),
    *(
        Variable(
            name=each.name.removeprefix(PREFIX),
            topic=_DRIVERS,
            default=each.default,
            description=f"{each.description} Only with `STREAMKEEPER_DRIVERS={kind.name}`.",
        )
        for kind in RUNNERS.values()
        for each in kind.variables
    ),
)
