"""How the text of each environment variable becomes a setting. A wrong text raises an error that names the variable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.locations import local_path, scheme_of, storage_location
from streamkeeper.model.names import alternatives
from streamkeeper.model.runner_kinds.known_runners import RUNNERS, clusters, runner_kind
from streamkeeper.model.settings.approvers import check_approvers

ARCHIVES = (".tar.gz", ".tgz", ".zip")
"""The endings of archives that Spark unpacks on an executor."""
_TAKES_APART = {
    ",": "Spark reads such a path as two folders",
    ":": "Python reads such a path as two folders",
}
CONNECTION = "airflow://"
"""The prefix of a master that an Airflow connection provides."""
_CONNECTION = re.compile(rf"{CONNECTION}[A-Za-z0-9_.\-]+")
_STANDALONE = re.compile(r"spark://[^/,:@\s]+:\d{1,5}(,[^/,:@\s]+:\d{1,5})*")


class Given(NamedTuple):
    """The text of one variable, which is not empty, together with the values on which its meaning depends."""

    variable: str
    """The whole name of the variable."""
    value: str
    """Its text."""
    default: Any
    """The setting's default."""
    known: Mapping[str, Any]
    """Field -> value, of the settings that precede this one in the table."""
    environ: Mapping[str, str]
    """All environment variables."""


def read_text(setting: Given) -> str:
    """Return the text as it is."""
    return setting.value


def read_home(setting: Given) -> str:
    """Return the path of the home, which must be absolute and on this machine."""
    home = setting.value
    if not home.startswith(("/", "file:")) and not scheme_of(home):
        hint = f"write the whole path, such as {Path(home).expanduser().absolute()}"
        raise InvalidInput(
            f"{setting.variable}={home} is relative, and so depends on where a command is run", hint=hint
        )
    base = str(local_path(setting.variable, home, hint="use a local directory; STREAMKEEPER_STORE may be s3://…"))
    for sign in base:
        # Spark or Python split paths there, and the path cannot be quoted.
        if sign in _TAKES_APART or not sign.isprintable():
            raise InvalidInput(
                f"{setting.variable}={base!r} contains {sign!r}: {_TAKES_APART.get(sign, 'it is not printable')}",
                hint="use a path without that character; spaces and quotes are allowed",
            )
    return base


def refuse_no_home(_: Mapping[str, Any]) -> str:
    """Raise InvalidInput, because there is no default for the home."""
    raise InvalidInput(
        "STREAMKEEPER_HOME is not set", hint="set STREAMKEEPER_HOME to a directory for Streamkeeper's files"
    )


def read_directory(setting: Given) -> str:
    """Return the path of a directory that may be used from other machines."""
    return str(
        local_path(setting.variable, setting.value, hint="use a local directory that every driver of the job can reach")
    )


def read_checkpoints(setting: Given) -> str:
    """Return the root of new checkpoints: a directory, ``s3a://bucket/prefix`` or ``hdfs://namenode:port/path``."""
    return storage_location(setting.variable, setting.value)


def read_positive(setting: Given) -> float:
    """Return a number above 0."""
    try:
        found = float(setting.value)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise InvalidInput(
            f"{setting.variable}={setting.value} is not a positive number",
            hint=f"give a positive number, or unset {setting.variable} for {setting.default:g}",
        )
    return found


def read_yes_or_no(setting: Given) -> bool:
    """Return whether the text is yes."""
    text = setting.value.strip().lower() or "no"
    if text not in ("yes", "no"):
        raise InvalidInput(
            f"{setting.variable}={text} is neither yes nor no", hint=f"write yes, or unset {setting.variable} for no"
        )
    return text == "yes"


def read_directories(setting: Given) -> str:
    """Return directories separated by ``:``, each absolute."""
    variable, value = setting.variable, setting.value
    if "://" in value or any(scheme_of(f"{part}:") for part in value.split(":")):
        raise Unsupported(
            f"{variable} {value}: a URL is not supported here", hint="name local directories, separated by :"
        )
    return ":".join(str(Path(part).absolute()) for part in value.split(":") if part)


def read_confs(setting: Given) -> tuple[str, ...]:
    """Return names and patterns of Spark confs, which are separated by commas."""
    names = tuple(part.strip() for part in setting.value.split(",") if part.strip())
    for name in names:
        if not name.startswith("spark.") or "*" in name.removesuffix(".*"):
            raise InvalidInput(
                f"{setting.variable}: {name} is not a Spark conf",
                hint="write names of confs, such as spark.hadoop.fs.s3a.*, separated by commas",
            )
    return names


def read_approvers(setting: Given) -> tuple[str, ...]:
    """Return the approvers, which are separated by commas; a text without a name is refused."""
    return check_approvers(setting.variable, [part for part in setting.value.split(",") if part.strip()])


def read_master(setting: Given) -> str:
    """Return the master of a standalone cluster, or the Airflow connection that contains it."""
    value, checkpoints = setting.value.strip(), setting.known["checkpoints"]
    if not value:
        return ""
    if not _CONNECTION.fullmatch(value):
        check_standalone(f"{setting.variable}={value}", value)
    if scheme_of(checkpoints) not in ("s3a", "hdfs"):
        raise Unsupported(
            f"{setting.variable}={value}: {checkpoints} would be a different directory on each executor's machine",
            hint="set STREAMKEEPER_CHECKPOINTS to s3a://bucket/prefix or hdfs://namenode:port/path",
        )
    return value


def read_archive(setting: Given) -> str:
    """Return the path of the archive with the executors' environment."""
    variable, value = setting.variable, setting.value
    if not value.endswith(ARCHIVES):
        raise InvalidInput(
            f"{variable}={value} is not an archive", hint=f"name a file that ends with {' or '.join(ARCHIVES)}"
        )
    if not setting.known.get("master"):
        raise InvalidInput(
            f"{variable}={value}: without STREAMKEEPER_MASTER, Spark runs tasks in the drivers, not in executors",
            hint=f"set STREAMKEEPER_MASTER, or unset {variable}",
        )
    return str(local_path(variable, value, hint="name a file on this machine"))


def read_drivers(setting: Given) -> str:
    """Return the kind of runner for new drivers."""
    variable, environ, checkpoints = setting.variable, setting.environ, setting.known["checkpoints"]
    value = setting.value.strip() or str(setting.default)
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


def check_standalone(subject: str, master: str) -> None:
    """Raise Unsupported or InvalidInput unless ``master`` is a standalone cluster's master.

    The error starts with ``subject``.
    """
    if not _STANDALONE.fullmatch(master):
        kind = Unsupported if master.startswith(("yarn", "k8s:", "mesos:")) else InvalidInput
        raise kind(
            f"{subject} is not a standalone master", hint="write spark://host:7077, or unset STREAMKEEPER_MASTER"
        )
