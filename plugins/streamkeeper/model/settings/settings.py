"""The settings of an installation, read once from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.locations import local_path, scheme_of
from streamkeeper.model.names import nearest
from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.runner_kinds.known_runners import RUNNERS
from streamkeeper.model.settings.setting_parsers import Given
from streamkeeper.model.settings.setting_variables import PREFIX, SECRET_PREFIX, VARIABLES, Variable

_KNOWN = tuple(each.name for each in VARIABLES)
"""The names of all variables of an installation, without their prefix."""
_LIKENESS = 0.7
"""The similarity from which a name counts as a misspelt setting: KEPE and KEEP have 0.75, PORT and STORE 0.67."""
_OF_A_SERVICE = re.compile(r"_(SERVICE|PORT)(_|$)")
"""The pattern of the variables that Kubernetes sets in every pod: a service ``streamkeeper-store`` gives
``…STORE_PORT_9000_TCP``.
"""
_DRIVERS = "STREAMKEEPER_DRIVERS"


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
        terminated.
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


_DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in msgspec.structs.fields(Settings)}


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings from the variables in the table ``VARIABLES``, in its order. An empty variable counts as unset.

    Only the home is required. Raises InvalidInput or Unsupported, naming the variable.
    """
    _refuse_misspelt(environ)
    known: dict[str, Any] = {}
    for each in VARIABLES:
        if each.read is None:
            continue
        if value := environ.get(each.variable, ""):
            known[each.field] = each.read(Given(each.variable, value, _DEFAULTS[each.field], known, environ))
        elif each.unset is not None:
            known[each.field] = each.unset(known)
    drivers = known.get("drivers", _DEFAULTS["drivers"])
    return Settings(**known, runner_variables=_runner_variables(drivers, environ))


def shown_default(variable: Variable) -> str:
    """Return the value that applies if a variable is not set, as a person would write it, or in words."""
    default = _DEFAULTS.get(variable.field)
    match default:
        case _ if variable.default:
            return variable.default
        case bool():
            return "yes" if default else "no"
        case float():
            return f"{default:g}"
        case _:
            return str(default or "none")


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
