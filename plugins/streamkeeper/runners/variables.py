"""The command and the environment of drivers. The command starts a supervisor; the environment contains the
installation's settings and a few of the caller's variables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import streamkeeper
from streamkeeper.errors import InvalidInput
from streamkeeper.model.settings.setting_parsers import CONNECTION
from streamkeeper.model.settings.settings import Settings

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
"""Variables that a driver on another machine gets from the caller; none of them contains credentials."""


def named_master(settings: Settings, resolve_master: Callable[[str], str] | None) -> str:
    """Return the Spark master that the settings name, directly or by an Airflow connection; empty if they name no
    master.

    ``resolve_master``: returns the master of a connection. If it is None, a named connection raises InvalidInput.
    """
    master = settings.master
    name = master.removeprefix(CONNECTION)
    if name == master:
        return master
    if resolve_master is None:
        raise InvalidInput(
            f"STREAMKEEPER_MASTER={master} names an Airflow connection, which only Airflow's tasks can read",
            hint="trigger the DAG, or set STREAMKEEPER_MASTER=spark://host:port for this command",
        )
    return resolve_master(name)


def driver_variables(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the environment of every driver of an installation: the installation's settings, and a few of the caller's
    variables.
    """
    passed = {key: value for key, value in environ.items() if key in _PASSED_ON or key.startswith(_PASSED_ON_PREFIXES)}
    return {**passed, **_locale(environ), **settings_variables(settings), "STREAMKEEPER_HOME": settings.home}


def _locale(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's locale variables, with UTF-8 for file names. With another encoding, a JVM does not see files
    whose names it cannot represent.
    """
    variables = {key: environ[key] for key in ("LANG", "LC_CTYPE", "LC_ALL") if environ.get(key)}
    encoding = (variables.get("LC_ALL") or variables.get("LC_CTYPE") or variables.get("LANG") or "").lower()
    if encoding.endswith(("utf-8", "utf8")):
        return variables
    language = variables.get("LC_ALL") or variables.get("LANG")
    return ({"LANG": language} if language else {}) | {"LC_CTYPE": _UTF_8}


def settings_variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables that pass an installation's settings to a driver, wherever it runs.

    The installation's home is not among them.
    """
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
    """Return the variables that a driver on another machine gets from the caller's environment.

    The result also sets ``LC_CTYPE`` to UTF-8, for file names.
    """
    return {"LC_CTYPE": _UTF_8} | {
        key: value
        for key, value in environ.items()
        if (key in _PASSED_TO_CONTAINERS and value) or key.startswith("STREAMKEEPER_CRASH")
    }


def choose_driver(driver: Sequence[str], python: str) -> tuple[str, ...]:
    """Return the driver's command, run by the release's interpreter ``python``.

    If ``python`` is empty, or ``driver`` is not the usual command ``DRIVER``, return ``driver`` unchanged.
    """
    return (python, *DRIVER[1:]) if python and tuple(driver) == DRIVER else tuple(driver)


def supervisor_command(job: str, instance: str, driver: Sequence[str]) -> list[str]:
    """Return the command that starts an instance's supervisor; it is the same on every machine.

    ``driver``: the command that the supervisor starts.
    """
    return [sys.executable, "-m", "streamkeeper.runners.supervisor", job, instance, *driver]
