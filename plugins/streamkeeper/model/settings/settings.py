"""The settings of an installation, read once from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.locations import local_path, scheme_of
from streamkeeper.model.names import alternatives, nearest
from streamkeeper.model.protocol.control import LOCAL
from streamkeeper.model.runner_kinds.known_runners import RUNNERS, clusters, runner_kind
from streamkeeper.model.settings.approvers import check_approvers
from streamkeeper.model.settings.setting_variables import PREFIX, SECRET_PREFIX, VARIABLES

_KNOWN = tuple(each.name for each in VARIABLES)
"""The names of all variables of an installation, without their prefix."""
ARCHIVES = (".tar.gz", ".tgz", ".zip")
"""The endings of archives that Spark unpacks on an executor."""
_TAKES_APART = {
    ",": "Spark reads such a path as two folders",
    ":": "Python reads such a path as two folders",
}
_LIKENESS = 0.7
"""The similarity from which a name counts as a misspelt setting: KEPE and KEEP have 0.75, PORT and STORE 0.67."""
_OF_A_SERVICE = re.compile(r"_(SERVICE|PORT)(_|$)")
"""The variables that Kubernetes sets in every pod: a service ``streamkeeper-store`` gives ``…STORE_PORT_9000_TCP``."""
_BUCKET = re.compile(r"s3a?://([^/]+(?:/[^/]+)+)/*")
_DRIVERS = "STREAMKEEPER_DRIVERS"
CONNECTION = "airflow://"
"""The prefix of a master that an Airflow connection provides."""
_CONNECTION = re.compile(rf"{CONNECTION}[A-Za-z0-9_.\-]+")
_STANDALONE = re.compile(r"spark://[^/,:@\s]+:\d{1,5}(,[^/,:@\s]+:\d{1,5})*")
_NAMENODE = re.compile(r"(hdfs://[^/]+(?:/[^/]+)+)/*")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an installation, as read from the environment."""

    store: str
    """URL of the store."""
    checkpoints: str
    """An absolute local directory, ``s3a://bucket/prefix`` or ``hdfs://namenode:port/path``."""
    jobs: str
    """Absolute local directory of job files."""
    home: str
    """Absolute local directory for logs and scratch space.

    After a reboot only the archives of executors' environments in it are still needed, for returning to a release.
    """
    snapshots: str = ""
    """URL of the store for snapshots; empty if snapshots are in ``store``."""
    keep: str = ""
    """The snapshots that a prune keeps, such as ``last=3,hourly=24,daily=7``."""
    objective_s: float = 24 * 3600.0
    """Seconds that a query's newest snapshot may be older than its newest commit."""
    retired_days: float = 7.0
    """Days that a checkpoint version is kept after it was current."""
    ended_days: float = 30.0
    """Days that the records and logs of a terminated driver are kept."""
    jars: str = ""
    """Directories, separated by ``:``, whose jars every driver gets; empty for those of ``make connectors``."""
    driver_metrics: str = ""
    """Ports of which each driver takes the first free one for its metrics, such as ``9470-9569``; empty for none."""
    confs: tuple[str, ...] = ()
    """Additional Spark confs that a deploy may set, by name or as ``spark.hadoop.fs.s3a.*``."""
    approvers: tuple[str, ...] = ()
    """Who may answer questions, such as ``ada``, ``cli:ada`` or ``ada=3``; empty: everyone who may trigger."""
    four_eyes: bool = False
    """Whether people may not answer their own requests."""
    master: str = ""
    """The cluster whose executors run the tasks of drivers; empty if tasks run in the drivers' own threads.

    ``spark://host:7077``, or ``airflow://CONN_ID`` for the master of an Airflow connection.
    """
    executor_environment: str = ""
    """Archive of a Python environment for executors; empty if executors have the drivers' environment at its path."""
    drivers: str = LOCAL
    """The runner of drivers that are started from now on."""
    runner_variables: dict[str, str] = {}
    """Variable -> value, of the variables that only the runner ``drivers`` reads and that are set."""

    @property
    def bundles(self) -> Path:
        """The directory in which this machine unpacks bundles, each under its hash."""
        return Path(self.home, "bundles")

    @property
    def environments(self) -> Path:
        """The directory in which this machine keeps archives of executors' environments, each under its hash."""
        return Path(self.home, "environments")

    @property
    def scratch(self) -> Path:
        """The scratch space of drivers, drills and dry runs; no file there is needed after the process that uses it has
        ended.
        """
        return Path(self.home, "scratch")

    def log(self, job: str, instance: str) -> Path:
        """Return ``<home>/logs/<job>/<instance>.log``; the older part of the log is ``<instance>.log.1``."""
        return Path(self.home, "logs", job, f"{instance}.log")

    @property
    def store_directory(self) -> Path | None:
        """The directory of the store; None if the store is not a directory."""
        return local_path("store", self.store) if scheme_of(self.store) in ("", "file") else None

    @property
    def checkpoint_directory(self) -> Path | None:
        """The directory of the checkpoints; None if they are not in a local directory."""
        return Path(self.checkpoints) if not scheme_of(self.checkpoints) else None


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings from ``STREAMKEEPER_HOME``, ``_STORE``, ``_CHECKPOINTS``, ``_JOBS``, ``_SNAPSHOTS``, ``_KEEP``,
    ``_BACKUP_OBJECTIVE_S``, ``_RETIRED_DAYS``, ``_ENDED_DAYS``, ``_JARS``, ``_DRIVER_METRICS``, ``_CONFS``,
    ``_APPROVERS``, ``_FOUR_EYES``, ``_MASTER``, ``_EXECUTOR_ENVIRONMENT``, ``_DRIVERS`` and the variables of the kinds
    of runners.

    Only the home is required. Store and checkpoints default to folders in the home, jobs to ``jobs`` in the working
    directory. Raises InvalidInput or Unsupported, naming the variable.
    """
    _refuse_misspelt(environ)
    home = environ.get("STREAMKEEPER_HOME", "")
    if not home:
        raise InvalidInput(
            "STREAMKEEPER_HOME is not set", hint="set STREAMKEEPER_HOME to a directory for Streamkeeper's files"
        )
    if not home.startswith(("/", "file:")) and not scheme_of(home):
        hint = f"write the whole path, such as {Path(home).expanduser().absolute()}"
        raise InvalidInput(f"STREAMKEEPER_HOME={home} is relative, and so depends on where a command is run", hint=hint)
    base = local_path("STREAMKEEPER_HOME", home, hint="use a local directory; STREAMKEEPER_STORE may be s3://…")
    _refuse_taken_apart("STREAMKEEPER_HOME", str(base))
    checkpoints = _checkpoints(environ, base / "checkpoints")
    drivers = _drivers(_DRIVERS, environ, checkpoints)
    return Settings(
        store=environ.get("STREAMKEEPER_STORE") or (base / "store").as_uri(),
        checkpoints=checkpoints,
        jobs=_directory("STREAMKEEPER_JOBS", environ, Path("jobs")),
        home=str(base),
        snapshots=environ.get("STREAMKEEPER_SNAPSHOTS", ""),
        keep=environ.get("STREAMKEEPER_KEEP", ""),
        objective_s=_positive("STREAMKEEPER_BACKUP_OBJECTIVE_S", environ.get("STREAMKEEPER_BACKUP_OBJECTIVE_S"), 86400),
        retired_days=_positive("STREAMKEEPER_RETIRED_DAYS", environ.get("STREAMKEEPER_RETIRED_DAYS"), 7),
        ended_days=_positive("STREAMKEEPER_ENDED_DAYS", environ.get("STREAMKEEPER_ENDED_DAYS"), 30),
        jars=_directories("STREAMKEEPER_JARS", environ),
        driver_metrics=environ.get("STREAMKEEPER_DRIVER_METRICS", ""),
        confs=_confs("STREAMKEEPER_CONFS", environ),
        approvers=_approvers("STREAMKEEPER_APPROVERS", environ),
        four_eyes=_yes_or_no("STREAMKEEPER_FOUR_EYES", environ),
        master=_master("STREAMKEEPER_MASTER", environ, checkpoints),
        executor_environment=_archive("STREAMKEEPER_EXECUTOR_ENVIRONMENT", environ),
        drivers=drivers,
        runner_variables=_runner_variables(drivers, environ),
    )


def _refuse_taken_apart(variable: str, path: str) -> None:
    """Raise InvalidInput for a path with a character at which Spark or Python split paths, which cannot be quoted."""
    for sign in path:
        if sign in _TAKES_APART or not sign.isprintable():
            raise InvalidInput(
                f"{variable}={path!r} contains {sign!r}: {_TAKES_APART.get(sign, 'it is not printable')}",
                hint="use a path without that character; spaces and quotes are allowed",
            )


def _refuse_misspelt(environ: Mapping[str, str]) -> None:
    """Raise InvalidInput for a misspelt variable, which would otherwise be ignored in favour of the default."""
    for variable in environ:
        name = variable.removeprefix(PREFIX)
        others = not variable.startswith(PREFIX) or variable.startswith(SECRET_PREFIX)
        if others or name in _KNOWN or _OF_A_SERVICE.search(name):
            continue
        if meant := nearest(name, _KNOWN, likeness=_LIKENESS) or _begun_alike(name):
            raise InvalidInput(f"{variable} is not a setting", hint=f"rename it to {PREFIX}{meant}, or unset it")


def _begun_alike(name: str) -> str:
    """Return the setting that a longer or shorter name probably means, such as STORE for STORE_URL; empty if none."""
    alike = (
        known
        for known in _KNOWN
        if name.startswith((f"{known}_", f"{known.removesuffix('S')}_")) or f"_{name}_" in f"_{known}_"
    )
    return next(alike, "")


def _positive(variable: str, value: str | None, default: float) -> float:
    if not value:
        return default
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise InvalidInput(
            f"{variable}={value} is not a positive number",
            hint=f"give a positive number, or unset {variable} for {default:g}",
        )
    return found


def _directory(
    variable: str,
    environ: Mapping[str, str],
    default: Path,
    *,
    hint: str = "use a local directory that every driver of the job can reach",
) -> str:
    value = environ.get(variable)
    if not value:
        return str(default.absolute())
    return str(local_path(variable, value, hint=hint))


def _checkpoints(environ: Mapping[str, str], default: Path) -> str:
    variable = "STREAMKEEPER_CHECKPOINTS"
    value = environ.get(variable, "")
    match scheme_of(value):
        case "s3" | "s3a":
            if found := _BUCKET.fullmatch(value):
                return f"s3a://{found[1]}"
            raise InvalidInput(f"{variable}={value}: no bucket and prefix", hint="write s3a://bucket/prefix")
        case "hdfs":
            if found := _NAMENODE.fullmatch(value):
                return found[1]
            raise InvalidInput(f"{variable}={value}: no NameNode and path", hint="write hdfs://namenode:port/path")
        case _:
            hint = "use a local directory, s3a://bucket/prefix or hdfs://namenode:port/path"
            return _directory(variable, environ, default, hint=hint)


def _master(variable: str, environ: Mapping[str, str], checkpoints: str) -> str:
    value = environ.get(variable, "").strip()
    if not value:
        return ""
    if not _CONNECTION.fullmatch(value):
        check_standalone(f"{variable}={value}", value)
    if scheme_of(checkpoints) not in ("s3a", "hdfs"):
        raise Unsupported(
            f"{variable}={value}: {checkpoints} would be a different directory on each executor's machine",
            hint="set STREAMKEEPER_CHECKPOINTS to s3a://bucket/prefix or hdfs://namenode:port/path",
        )
    return value


def _drivers(variable: str, environ: Mapping[str, str], checkpoints: str) -> str:
    value = environ.get(variable, "").strip() or LOCAL
    if value not in RUNNERS:
        hint = f"write {alternatives([kind.name for kind in clusters()])}, or leave it out"
        raise InvalidInput(f"{variable}={value} is not a place for drivers", hint=hint)
    if not runner_kind(value).on_nodes:
        return value
    if not environ.get("STREAMKEEPER_STORE"):
        raise InvalidInput(
            f"{variable}={value}: a store in the home would be a different directory on each node",
            hint="set STREAMKEEPER_STORE to s3://bucket/prefix, or to a directory that every node has mounted",
        )
    if scheme_of(checkpoints) not in ("s3a", "hdfs"):
        raise Unsupported(
            f"{variable}={value}: {checkpoints} would be a different directory on each node",
            hint="set STREAMKEEPER_CHECKPOINTS to s3a://bucket/prefix or hdfs://namenode:port/path",
        )
    if environ.get("STREAMKEEPER_EXECUTOR_ENVIRONMENT"):
        raise Unsupported(
            f"{variable}={value}: drivers on nodes cannot use STREAMKEEPER_EXECUTOR_ENVIRONMENT",
            hint="install the environment at the same path on every node, and unset STREAMKEEPER_EXECUTOR_ENVIRONMENT",
        )
    return value


def _runner_variables(drivers: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that only this kind of runner reads; raises InvalidInput for variables of other kinds."""
    found = {}
    for kind in RUNNERS.values():
        for each in kind.variables:
            value = environ.get(each.name, "").strip()
            if value and kind.name != drivers:
                raise InvalidInput(
                    f"{each.name}={value} has an effect only with {_DRIVERS}={kind.name}",
                    hint=f"set {_DRIVERS}={kind.name}, or unset {each.name}",
                )
            if each.required and not value and kind.name == drivers:
                raise InvalidInput(f"{_DRIVERS}={drivers}: {each.name} is not set", hint=each.required)
            if value:
                found[each.name] = each.read(each.name, value)
    return found


def _archive(variable: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "")
    if not value:
        return ""
    if not value.endswith(ARCHIVES):
        raise InvalidInput(
            f"{variable}={value} is not an archive", hint=f"name a file that ends with {' or '.join(ARCHIVES)}"
        )
    if not environ.get("STREAMKEEPER_MASTER", "").strip():
        raise InvalidInput(
            f"{variable}={value}: without STREAMKEEPER_MASTER, Spark runs tasks in the drivers, not in executors",
            hint=f"set STREAMKEEPER_MASTER, or unset {variable}",
        )
    return _directory(variable, environ, Path(), hint="name a file on this machine")


def check_standalone(subject: str, master: str) -> None:
    """Raise Unsupported or InvalidInput unless ``master`` is a standalone cluster's master.

    The error starts with ``subject``.
    """
    if not _STANDALONE.fullmatch(master):
        kind = Unsupported if master.startswith(("yarn", "k8s:", "mesos:")) else InvalidInput
        raise kind(
            f"{subject} is not a standalone master", hint="write spark://host:7077, or unset STREAMKEEPER_MASTER"
        )


def _confs(variable: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    names = tuple(part.strip() for part in environ.get(variable, "").split(",") if part.strip())
    for name in names:
        if not name.startswith("spark.") or "*" in name.removesuffix(".*"):
            raise InvalidInput(
                f"{variable}: {name} is not a Spark conf",
                hint="write names of confs, such as spark.hadoop.fs.s3a.*, separated by commas",
            )
    return names


def _approvers(variable: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the approvers in a variable; raises InvalidInput if the variable is set and contains no name."""
    text = environ.get(variable, "")
    return check_approvers(variable, [part for part in text.split(",") if part.strip()]) if text else ()


def _yes_or_no(variable: str, environ: Mapping[str, str]) -> bool:
    text = environ.get(variable, "").strip().lower() or "no"
    if text not in ("yes", "no"):
        raise InvalidInput(f"{variable}={text} is neither yes nor no", hint=f"write yes, or unset {variable} for no")
    return text == "yes"


def _directories(variable: str, environ: Mapping[str, str]) -> str:
    """Return the directories in a variable, separated by ``:``; raises Unsupported for URLs."""
    value = environ.get(variable, "")
    if "://" in value or any(scheme_of(f"{part}:") for part in value.split(":")):
        raise Unsupported(
            f"{variable} {value}: a URL is not supported here", hint="name local directories, separated by :"
        )
    return ":".join(str(Path(part).absolute()) for part in value.split(":") if part)
