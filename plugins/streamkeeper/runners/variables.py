"""What drivers are started with: a supervisor, their installation's settings, and little of whoever starts them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import streamkeeper
from streamkeeper.errors import InvalidInput
from streamkeeper.model.settings import CONNECTION, Settings

DRIVER = (sys.executable, "-m", "streamkeeper.driver")
PACKAGES = Path(streamkeeper.__file__).parents[1]
_PASSED_ON = frozenset(
    {
        *("HOME", "LOGNAME", "PATH", "TMPDIR", "USER"),
        "TZ",
        *("HADOOP_CONF_DIR", "HADOOP_USER_NAME", "JAVA_HOME", "JDK_JAVA_OPTIONS"),
        *("SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP"),
    }
)
_UTF_8 = "C.UTF-8"
_PASSED_ON_PREFIXES = ("AWS_", "STREAMKEEPER_CRASH")
_PASSED_TO_CONTAINERS = frozenset(
    {
        *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
        *("HADOOP_USER_NAME", "JDK_JAVA_OPTIONS"),
    }
)
"""What says where things are; nobody's credentials."""


def named_master(settings: Settings, resolve_master: Callable[[str], str] | None) -> str:
    """The master that the settings name, by a connection of Airflow's too; empty without executors elsewhere."""
    told = settings.master
    name = told.removeprefix(CONNECTION)
    if name == told:
        return told
    if resolve_master is None:
        raise InvalidInput(
            f"only Airflow's tasks can read STREAMKEEPER_MASTER={told}",
            hint="use the DAG, or set spark://host:port for this command",
        )
    return resolve_master(name)


def driver_variables(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The environment of every driver of an installation: its settings, and little of whoever starts it."""
    passed = {key: value for key, value in environ.items() if key in _PASSED_ON or key.startswith(_PASSED_ON_PREFIXES)}
    return {**passed, **_locale(environ), **settings_variables(settings), "STREAMKEEPER_HOME": settings.home}


def _locale(environ: Mapping[str, str]) -> dict[str, str]:
    """The given one, with names of files in UTF-8: in another encoding a JVM does not see files that it cannot name."""
    given = {key: environ[key] for key in ("LANG", "LC_CTYPE", "LC_ALL") if environ.get(key)}
    encoding = (given.get("LC_ALL") or given.get("LC_CTYPE") or given.get("LANG") or "").lower()
    if encoding.endswith(("utf-8", "utf8")):
        return given
    language = given.get("LC_ALL") or given.get("LANG")
    return ({"LANG": language} if language else {}) | {"LC_CTYPE": _UTF_8}


def settings_variables(settings: Settings) -> dict[str, str]:
    """What a driver has of its installation wherever it runs; its home is its machine's."""
    return {
        "PYTHONPATH": str(PACKAGES),
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "STREAMKEEPER_STORE": settings.store,
        "STREAMKEEPER_CHECKPOINTS": settings.checkpoints,
        "STREAMKEEPER_JOBS": settings.jobs,
        "STREAMKEEPER_JARS": settings.jars,
        "STREAMKEEPER_DRIVER_METRICS": settings.driver_metrics,
        "STREAMKEEPER_MASTER": settings.master,
    }


def passed_to_containers(environ: Mapping[str, str]) -> dict[str, str]:
    """What a driver on another machine has of whoever starts it, and names of files in UTF-8 there."""
    return {"LC_CTYPE": _UTF_8} | {
        key: value
        for key, value in environ.items()
        if (key in _PASSED_TO_CONTAINERS and value) or key.startswith("STREAMKEEPER_CRASH")
    }


def choose_driver(driver: Sequence[str], python: str) -> tuple[str, ...]:
    """The usual driver's command by the interpreter of its release, where that is told; another one as it is."""
    return (python, *DRIVER[1:]) if python and tuple(driver) == DRIVER else tuple(driver)


def supervisor_command(job: str, instance: str, driver: Sequence[str]) -> list[str]:
    """What runs the supervisor of an instance, wherever; ``driver``: what it is to start."""
    return [sys.executable, "-m", "streamkeeper.runners.supervisor", job, instance, *driver]
