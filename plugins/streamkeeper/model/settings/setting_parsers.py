"""How the text of each environment variable becomes a setting. A wrong text raises an error that names the variable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.locations import local_path, scheme_of
from streamkeeper.model.names import alternatives
from streamkeeper.model.runner_kinds.known_runners import RUNNERS, clusters, runner_kind
from streamkeeper.model.settings.approvers import check_approvers

ARCHIVES = (".tar.gz", ".tgz", ".zip")
"""The endings of archives that Spark unpacks on an executor."""
_TAKES_APART = {
    ",": "Spark reads such a path as two folders",
    ":": "Python reads such a path as two folders",
}
_BUCKET = re.compile(r"s3a?://([^/]+(?:/[^/]+)+)/*")
CONNECTION = "airflow://"
"""The prefix of a master that an Airflow connection provides."""
_CONNECTION = re.compile(rf"{CONNECTION}[A-Za-z0-9_.\-]+")
_STANDALONE = re.compile(r"spark://[^/,:@\s]+:\d{1,5}(,[^/,:@\s]+:\d{1,5})*")
_NAMENODE = re.compile(r"(hdfs://[^/]+(?:/[^/]+)+)/*")


class Given(NamedTuple):
    """The text of one variable, which is not empty, and what its meaning depends on."""

    variable: str
    """The whole name of the variable."""
    value: str
    """Its text."""
    default: Any
    """The setting's default."""
    known: Mapping[str, Any]
    """Field -> value, of the settings above it in the table."""
    environ: Mapping[str, str]
    """All environment variables."""


def read_text(given: Given) -> str:
    """Return the text as it is."""
    return given.value


def read_home(given: Given) -> str:
    """Return the path of the home, which must be absolute and on this machine."""
    home = given.value
    if not home.startswith(("/", "file:")) and not scheme_of(home):
        hint = f"write the whole path, such as {Path(home).expanduser().absolute()}"
        raise InvalidInput(f"{given.variable}={home} is relative, and so depends on where a command is run", hint=hint)
    base = str(local_path(given.variable, home, hint="use a local directory; STREAMKEEPER_STORE may be s3://…"))
    for sign in base:
        # Spark or Python split paths there, and the path cannot be quoted.
        if sign in _TAKES_APART or not sign.isprintable():
            raise InvalidInput(
                f"{given.variable}={base!r} contains {sign!r}: {_TAKES_APART.get(sign, 'it is not printable')}",
                hint="use a path without that character; spaces and quotes are allowed",
            )
    return base


def refuse_no_home(_: Mapping[str, Any]) -> str:
    """Raise InvalidInput, because there is no default for the home."""
    raise InvalidInput(
        "STREAMKEEPER_HOME is not set", hint="set STREAMKEEPER_HOME to a directory for Streamkeeper's files"
    )


def read_directory(given: Given) -> str:
    """Return the path of a directory that may be used from other machines."""
    return str(
        local_path(given.variable, given.value, hint="use a local directory that every driver of the job can reach")
    )


def read_checkpoints(given: Given) -> str:
    """Return the root of new checkpoints: a directory, ``s3a://bucket/prefix`` or ``hdfs://namenode:port/path``."""
    variable, value = given.variable, given.value
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
            return str(local_path(variable, value, hint=hint))


def read_positive(given: Given) -> float:
    """Return a number above 0."""
    try:
        found = float(given.value)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise InvalidInput(
            f"{given.variable}={given.value} is not a positive number",
            hint=f"give a positive number, or unset {given.variable} for {given.default:g}",
        )
    return found


def read_yes_or_no(given: Given) -> bool:
    """Return whether the text is yes."""
    text = given.value.strip().lower() or "no"
    if text not in ("yes", "no"):
        raise InvalidInput(
            f"{given.variable}={text} is neither yes nor no", hint=f"write yes, or unset {given.variable} for no"
        )
    return text == "yes"


def read_directories(given: Given) -> str:
    """Return directories separated by ``:``, each absolute."""
    variable, value = given.variable, given.value
    if "://" in value or any(scheme_of(f"{part}:") for part in value.split(":")):
        raise Unsupported(
            f"{variable} {value}: a URL is not supported here", hint="name local directories, separated by :"
        )
    return ":".join(str(Path(part).absolute()) for part in value.split(":") if part)


def read_confs(given: Given) -> tuple[str, ...]:
    """Return names and patterns of Spark confs, which are separated by commas."""
    names = tuple(part.strip() for part in given.value.split(",") if part.strip())
    for name in names:
        if not name.startswith("spark.") or "*" in name.removesuffix(".*"):
            raise InvalidInput(
                f"{given.variable}: {name} is not a Spark conf",
                hint="write names of confs, such as spark.hadoop.fs.s3a.*, separated by commas",
            )
    return names


def read_approvers(given: Given) -> tuple[str, ...]:
    """Return the approvers, which are separated by commas; a text without a name is refused."""
    return check_approvers(given.variable, [part for part in given.value.split(",") if part.strip()])


def read_master(given: Given) -> str:
    """Return the master of a standalone cluster, or the Airflow connection that has it."""
    value, checkpoints = given.value.strip(), given.known["checkpoints"]
    if not value:
        return ""
    if not _CONNECTION.fullmatch(value):
        check_standalone(f"{given.variable}={value}", value)
    if scheme_of(checkpoints) not in ("s3a", "hdfs"):
        raise Unsupported(
            f"{given.variable}={value}: {checkpoints} would be a different directory on each executor's machine",
            hint="set STREAMKEEPER_CHECKPOINTS to s3a://bucket/prefix or hdfs://namenode:port/path",
        )
    return value


def read_archive(given: Given) -> str:
    """Return the path of the archive with the executors' environment."""
    variable, value = given.variable, given.value
    if not value.endswith(ARCHIVES):
        raise InvalidInput(
            f"{variable}={value} is not an archive", hint=f"name a file that ends with {' or '.join(ARCHIVES)}"
        )
    if not given.known.get("master"):
        raise InvalidInput(
            f"{variable}={value}: without STREAMKEEPER_MASTER, Spark runs tasks in the drivers, not in executors",
            hint=f"set STREAMKEEPER_MASTER, or unset {variable}",
        )
    return str(local_path(variable, value, hint="name a file on this machine"))


def read_drivers(given: Given) -> str:
    """Return the kind of runner for new drivers."""
    variable, environ, checkpoints = given.variable, given.environ, given.known["checkpoints"]
    value = given.value.strip() or str(given.default)
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
