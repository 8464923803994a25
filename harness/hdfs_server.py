"""A real HDFS on loopback ports, a NameNode and a DataNode, of the jars that ``make connectors`` fetches."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

from harness.processes import free_ports
from streamkeeper.errors import InvalidInput, NotFound, StillWaiting

JARS = Path(sys.prefix) / "connectors" / "hdfs"
_OF_PYSPARK = (
    *("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "jackson-*.jar", "commons-lang3*.jar"),
    *("slf4j-api*.jar", "jcl-over*.jar", "log4j-*.jar"),
)
_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_START_S = 90.0
_LOG = """rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
appender.c.type=Console
appender.c.name=c
appender.c.target=SYSTEM_ERR
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1}: %m%n
"""


class HdfsServer:
    """A running HDFS at ``url``; whoever started it is its superuser, and other users have no more than they are given.

    ``http``: its WebHDFS, ``http://host:port``; ``conf``: what HADOOP_CONF_DIR is to name.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.conf = home, home / "conf"
        rpc, web, *of_datanode = free_ports(5)
        self.url, self.http = f"hdfs://127.0.0.1:{rpc}", f"http://127.0.0.1:{web}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.conf.mkdir(parents=True)
        (self.conf / "log4j2.properties").write_text(_LOG)
        # A job's plain paths are local ones all the same.
        self._write("core-site.xml", {"fs.defaultFS": self.url, "hadoop.tmp.dir": str(home / "tmp")})
        settings = {
            "dfs.namenode.name.dir": f"file://{home}/names",
            "dfs.namenode.rpc-address": self.url.removeprefix("hdfs://"),
            "dfs.namenode.http-address": self.http.removeprefix("http://"),
            "dfs.namenode.safemode.extension": "0",
            # Nothing of it is kept: a power cut may take it.
            "dfs.namenode.edits.noeditlogchannelflush": "true",
            # A file's end is asked for before its DataNode has told of it: then it is waited for, by default 0.4 s.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
            "dfs.datanode.data.dir": f"file://{home}/blocks",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.replication": "1",
        }
        names = ("dfs.datanode.address", "dfs.datanode.http.address", "dfs.datanode.ipc.address")
        settings |= {name: f"127.0.0.1:{port}" for name, port in zip(names, of_datanode, strict=True)}
        self._write("hdfs-site.xml", settings)

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs."""
        return {"HADOOP_CONF_DIR": str(self.conf)}

    def start(self) -> None:
        """Make its file system where there is none, and run both; returns once a file can be written.

        Raises InvalidInput when one of them has ended, StillWaiting when it takes too long.
        """
        if not (self.home / "names" / "current").exists():
            self._run(_NAMENODE, "-format", "-nonInteractive", "-force")
        for program in (_NAMENODE, _DATANODE):
            self._launch(program)
        deadline = time.monotonic() + _START_S
        while not self._takes_files():
            if ended := [program for program, process in self._running.items() if process.poll() is not None]:
                raise InvalidInput(f"{ended[0]} has ended: {self._last_words()}")
            if time.monotonic() > deadline:
                raise StillWaiting(f"HDFS does not take files: {self._last_words()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill both."""
        for process in self._running.values():
            process.kill()
            process.wait(10)
        self._running = {}

    def set_safe_mode(self, wanted: str) -> None:
        """``enter`` or ``leave``."""
        self._run(_ADMIN, "-safemode", wanted)

    def give(self, url: str, user: str) -> None:
        """Make a directory, and make it that user's, who may write nowhere else."""
        path = url.removeprefix(self.url)
        for wanted in ("MKDIRS", f"SETOWNER&owner={user}"):
            asked = f"{self.http}/webhdfs/v1{path}?op={wanted}&user.name={getpass.getuser()}"
            urllib.request.urlopen(urllib.request.Request(asked, method="PUT"), timeout=10).close()

    def owners(self, url: str) -> Counter[str]:
        """Whose the files below a directory are: how many of each user."""
        path, found = url.removeprefix(self.url), Counter[str]()
        asked = f"{self.http}/webhdfs/v1{path}?op=LISTSTATUS&user.name={getpass.getuser()}"
        with urllib.request.urlopen(asked, timeout=10) as answer:
            entries = json.load(answer)["FileStatuses"]["FileStatus"]
        for entry in entries:
            if entry["type"] == "DIRECTORY":
                found += self.owners(f"{url}/{entry['pathSuffix']}")
            else:
                found[entry["owner"]] += 1
        return found

    def _launch(self, program: str) -> None:
        with open(self.home / "log", "ab") as log:
            self._running[program] = subprocess.Popen(
                [*self._java(), program],
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
            )

    def _run(self, program: str, *words: str) -> None:
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

    def _takes_files(self) -> bool:
        """Whether a file can be written: a DataNode is known before it has told of its disk."""
        asked = f"{self.http}/webhdfs/v1/ready?op=CREATE&noredirect=true&overwrite=true&user.name={getpass.getuser()}"
        try:
            with urllib.request.urlopen(urllib.request.Request(asked, method="PUT"), timeout=5) as answer:
                where = json.loads(answer.read())["Location"]
            urllib.request.urlopen(urllib.request.Request(where, b"yes", method="PUT"), timeout=5).close()
        except OSError:
            return False
        return True

    def _last_words(self) -> str:
        return (self.home / "log").read_text()[-2000:]

    def _write(self, name: str, settings: dict[str, str]) -> None:
        properties = (
            f"<property><name>{key}</name><value>{escape(value)}</value></property>" for key, value in settings.items()
        )
        (self.conf / name).write_text(f"<configuration>{''.join(properties)}</configuration>")

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "HADOOP_HOME": str(self.home)}

    def _java(self) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
        spark = find_spec("pyspark")
        if java is None or spark is None or spark.origin is None:
            raise NotFound("there is no java, or no pyspark", hint="make setup")
        jars = [str(jar) for pattern in _OF_PYSPARK for jar in (Path(spark.origin).parent / "jars").glob(pattern)]
        small = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
        opened = ["--add-opens=java.base/java.lang=ALL-UNNAMED", f"-Dhadoop.home.dir={self.home}"]
        return [java, *small, *opened, "-cp", os.pathsep.join([str(self.conf), f"{JARS}/*", *jars])]


def has_jars() -> bool:
    """Whether ``make connectors`` has fetched the servers."""
    return any(JARS.glob("hadoop-client-minicluster-*.jar"))


@contextmanager
def hdfs_server(home: Path) -> Iterator[HdfsServer]:
    """A server with an empty file system in ``home``, for as long as the body runs; all of it is removed at the end."""
    if not has_jars():
        raise NotFound("HDFS's jars are not there", hint="make connectors")
    server = HdfsServer(home)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
