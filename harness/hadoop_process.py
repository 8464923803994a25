"""Hadoop's own servers on loopback ports, run from the jars that ``make connectors`` fetches and those of pyspark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from xml.sax.saxutils import escape

from streamkeeper.errors import InvalidInput, NotFound, StillWaiting

JARS = Path(sys.prefix) / "connectors" / "hdfs"
_OF_PYSPARK = (
    *("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "jackson-*.jar", "commons-lang3*.jar"),
    *("slf4j-api*.jar", "jcl-over*.jar", "log4j-*.jar"),
)
_START_S = 90.0
_LOG = """rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
appender.c.type=Console
appender.c.name=c
appender.c.target=SYSTEM_ERR
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1}: %m%n
"""


def has_jars() -> bool:
    """Return whether ``make connectors`` has fetched the servers."""
    return any(JARS.glob("hadoop-client-minicluster-*.jar"))


Servers = TypeVar("Servers", bound="HadoopProcesses")


class HadoopProcesses:
    """Servers that run in ``home``, each identified by its main class; ``conf`` is the folder for HADOOP_CONF_DIR.

    ``given``: additional environment variables of the servers.
    """

    def __init__(self, home: Path, given: Mapping[str, str] | None = None) -> None:
        self.home, self.conf = home, home / "conf"
        self._given = dict(given or {})
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.conf.mkdir(parents=True)
        (self.conf / "log4j2.properties").write_text(_LOG)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that a client needs."""
        return {"HADOOP_CONF_DIR": str(self.conf)}

    def start(self) -> None:
        """Start the servers, and return once they can be used. Raises InvalidInput or StillWaiting."""
        raise NotImplementedError

    def stop(self) -> None:
        """Kill all servers."""
        for process in self._running.values():
            process.kill()
            process.wait(10)
        self._running = {}

    def process(self, program: str) -> subprocess.Popen[bytes]:
        """Return the process of the server with this main class."""
        return self._running[program]

    def launch(self, program: str) -> None:
        """Start a server; its output is appended to ``home/log``."""
        with open(self.home / "log", "ab") as log:
            self._running[program] = subprocess.Popen(
                [*self._java(), program],
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
            )

    def wait(self, what: str, works: Callable[[], bool]) -> None:
        """Wait until ``works`` returns true. Raises InvalidInput if a server exits, StillWaiting if it takes too
        long.
        """
        deadline = time.monotonic() + _START_S
        while not works():
            if ended := [program for program, process in self._running.items() if process.poll() is not None]:
                raise InvalidInput(f"{ended[0]} has ended: {self._last_words()}")
            if time.monotonic() > deadline:
                raise StillWaiting(f"{what}: {self._last_words()}")
            time.sleep(0.1)

    def run(self, program: str, *words: str) -> None:
        """Run a command until it finishes; raises InvalidInput if it fails."""
        done = subprocess.run(
            [*self._java(), program, *words],
            cwd=self.home,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=False,
        )
        if done.returncode != 0:
            raise InvalidInput(f"{program} {' '.join(words)} failed: {(done.stdout + done.stderr)[-2000:]}")

    def write(self, name: str, settings: Mapping[str, str]) -> None:
        """Write a settings file into ``conf``."""
        properties = (
            f"<property><name>{key}</name><value>{escape(value)}</value></property>" for key, value in settings.items()
        )
        (self.conf / name).write_text(f"<configuration>{''.join(properties)}</configuration>")

    def _last_words(self) -> str:
        return (self.home / "log").read_text()[-2000:]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "HADOOP_HOME": str(self.home), **self._given}

    def _java(self) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
        spark = find_spec("pyspark")
        if java is None or spark is None or spark.origin is None:
            raise NotFound("there is no java, or no pyspark", hint="make setup")
        jars = [str(jar) for pattern in _OF_PYSPARK for jar in (Path(spark.origin).parent / "jars").glob(pattern)]
        small = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
        opened = ["--add-opens=java.base/java.lang=ALL-UNNAMED", f"-Dhadoop.home.dir={self.home}"]
        opened.append(f"-Dyarn.log.dir={self.home}")
        return [java, *small, *opened, "-cp", os.pathsep.join([str(self.conf), f"{JARS}/*", *jars])]


@contextmanager
def started(server: Servers) -> Iterator[Servers]:
    """Start the servers, provide them while the body runs, and stop them and remove their home at the end."""
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.home, ignore_errors=True)
