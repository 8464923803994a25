"""A supervisor's additional duties in a YARN container: it reports to YARN and finds the container's directories."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread

from streamkeeper.errors import NotFound, StreamkeeperError
from streamkeeper.system.java import find_java

MARK = "STREAMKEEPER_CONTAINER"
"""The variable that marks processes in a driver's container."""
_SOURCE = Path(__file__).with_name("ApplicationMaster.java")
_CLASS = "streamkeeper.runners.ApplicationMaster"
_SMALL = ("-Xmx48m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


def is_in_container(environ: Mapping[str, str]) -> bool:
    """Whether this process runs in a driver's YARN container."""
    return bool(environ.get(MARK))


def container_log(environ: Mapping[str, str]) -> Path:
    """Return the path of the log that YARN shows, and that it collects once the container has ended."""
    return Path(environ["LOG_DIRS"].partition(",")[0], "driver.log")


def why_gone(environ: Mapping[str, str]) -> str:
    """Return why no driver can be started in this container any more; empty if a driver can be started.

    When a NodeManager restarts, it removes the directories of containers that it does not know, but does not stop these
    containers.
    """
    if not is_in_container(environ) or Path(environ["PWD"]).is_dir():
        return ""
    return "its container's directory was removed, because YARN's NodeManager has restarted"


@contextmanager
def application_master(environ: Mapping[str, str], log: Callable[[str], None]) -> Iterator[None]:
    """Report to the ResourceManager that the application lives, while the body of the ``with`` statement runs.

    A separate process outside any driver's tree sends the reports, and always ends with this process. If the reporting
    process ends, for example because the ResourceManager has dropped the application, this process gets SIGTERM, and
    shuts its driver down cleanly if there is time. Raises StreamkeeperError if the reporting process cannot be started.
    """
    telling = subprocess.Popen(
        _command(environ),
        env={key: value for key, value in environ.items() if not key.startswith("STREAMKEEPER_")},
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    done = Event()

    def watch() -> None:
        code = telling.wait()
        if not done.is_set():
            log(f"YARN's ResourceManager has dropped this application, or its reports have stopped (code {code})")
            os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="application-master", daemon=True).start()
    try:
        yield
    finally:
        done.set()
        telling.kill()


def _command(environ: Mapping[str, str]) -> list[str]:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise NotFound(
            "there is no pyspark in the node's environment", hint="install the drivers' environment on this node"
        )
    jars = Path(spark.origin).parent / "jars" / "*"
    conf = environ.get("HADOOP_CONF_DIR", "")
    if not conf:
        raise StreamkeeperError(
            "HADOOP_CONF_DIR is not set in the container", hint="add HADOOP_CONF_DIR to yarn.nodemanager.env-whitelist"
        )
    compiler = "org.codehaus.janino.SimpleCompiler"
    return [find_java(environ), *_SMALL, "-cp", f"{conf}:{jars}", compiler, str(_SOURCE), _CLASS]
