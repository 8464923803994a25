"""The driver's Spark session: its confs, its start with one clear line when Java is wrong, and its quick end."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from streamkeeper.definition import check_conf
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.raised import links_of
from streamkeeper.driver.wakeups import Wakeup, Wakeups
from streamkeeper.errors import JobUnusable, PermanentError, TemporaryError
from streamkeeper.hidden_secrets import mask_hidden
from streamkeeper.java import check_java, find_java
from streamkeeper.jvm.create_only import create_only, s3a_conf
from streamkeeper.jvm.local_files import write_without_processes
from streamkeeper.locations import scheme_of
from streamkeeper.memory_kills import RecentKills
from streamkeeper.model.faults import Fault
from streamkeeper.model.release_conf import FIXED, UI, own_threads
from streamkeeper.private_files import FOLDER, make_folders, write_file
from streamkeeper.registry.environments import installed_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_JARS = "spark.jars"
_ARCHIVES = "spark.archives"
_UNPACKED = "environment"
"""The folder, below an executor's own, that holds the environment it was sent."""
_HADOOP_CONF = "HADOOP_CONF_DIR"
_FOR_THE_UI = {
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
}
"""What Spark keeps of the past for its UI, which it does without one as well: 30 MiB of heap within half an hour."""
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_ELSEWHERE = {"spark.cores.max": "2"}
"""Without a limit an application takes all the cores that there are, and a standby beside it gets none."""
_IDLE_TOLD = "1s"
"""How soon Spark tells of a trigger that finds no data, by itself after 10 s: a deploy of an idle job waits for it."""
_DYING_S = 1.0
_REFUSED_CONF = ("INVALID_CONF_VALUE", "INVALID_EXECUTOR_MEMORY", "INVALID_DRIVER_MEMORY")
"""Spark's conditions for a value that it does not take."""
_NO_CLASS = frozenset({"ClassNotFoundException", "NoClassDefFoundError"})
_REFUSED = _NO_CLASS | {"IllegalArgumentException", "SparkIllegalArgumentException", "NumberFormatException"}
_BROKEN = ("requirement failed", "Error while instantiating")
"""Of errors that follow from another one."""
_CLASSES = Path(sys.prefix, "spark-classes.jsa")
"""Spark's classes ready-made, where `make setup` has kept them."""
_OUT_OF_MEMORY = frozenset({3, 52})
"""Exit codes of a JVM: of -XX:+ExitOnOutOfMemoryError, and of Spark after an OutOfMemoryError in a task."""


def session_conf(
    given: Mapping[str, str], scratch: Path, name: str, *, master: str = "", archive: str = ""
) -> dict[str, str]:
    """The session's confs: the release's own, defaults where it says nothing, and the installation's jars with its own.

    Spark's UI stays closed, whatever an older release says: it listens on every interface and asks nobody for a login.
    ``master``: whose executors run its tasks; empty for its own threads. ``archive``: path of the environment that
    these executors unpack, if they get one. Raises Unsupported.
    """
    check_conf(given)
    conf = {
        "spark.master": master or own_threads(given),
        "spark.app.name": name,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (scratch / "warehouse").absolute().as_uri(),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.noDataProgressEventInterval": _IDLE_TOLD,
        "spark.local.dir": str(scratch / "local"),
        **FIXED,
        **_FOR_THE_UI,
    }
    conf |= _ELSEWHERE if master else _HERE
    conf |= given
    conf = {key: value for key, value in conf.items() if key.lower() != UI} | {UI: "false"}
    checkpoints = os.environ.get("STREAMKEEPER_CHECKPOINTS", "")
    jars = (given.get(_JARS, ""), *installed_jars(os.environ.get("STREAMKEEPER_JARS", ""), checkpoints))
    if any(jars):
        conf[_JARS] = ",".join(filter(None, jars))
    if archive:
        conf[_ARCHIVES] = ",".join(filter(None, (given.get(_ARCHIVES, ""), f"{archive}#{_UNPACKED}")))
    if scheme_of(checkpoints) == "s3a":
        conf = {**s3a_conf(os.environ), **conf}
    # A killed JVM leaves its temporary files (RocksDB's library alone is 15 MB): they go with the scratch directory.
    # Without its native library Hadoop forks a chmod for each file that a sink writes: vfork makes that half as dear.
    # Spark's classes fill 100 MB of metaspace: without a size the JVM collects the whole heap on the way there.
    ours = (
        f"-Djava.io.tmpdir={shlex.quote(str(scratch / 'tmp'))} -XX:-UsePerfData -XX:MetaspaceSize=256m "
        f"-Djdk.lang.Process.launchMechanism=VFORK {class_archive()}"
    )
    conf[_JAVA_OPTIONS] = f"{ours} {given.get(_JAVA_OPTIONS, '')}".strip()
    return conf


def class_archive() -> str:
    """Java options for Spark's classes ready-made; empty where there are none.

    A JVM that is not Spark's, or a changed one, passes over them, and would say so.
    """
    if not _CLASSES.exists():
        return ""
    return f"-XX:SharedArchiveFile={shlex.quote(str(_CLASSES))} -Xlog:cds=off -Xlog:cds+dynamic=off"


class Session:
    """A started session and its JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        gateway: Any = spark.sparkContext._gateway
        self._process: subprocess.Popen[bytes] = gateway.proc
        self.kills = RecentKills()
        """Of the driver's control group, which its JVM and the Python workers share."""

    def ring_when_dead(self, wakeups: Wakeups) -> None:
        """Ring when the JVM ends by itself."""

        def wait() -> None:
            self._process.wait()
            wakeups.ring(Wakeup.JVM_DIED)

        threading.Thread(target=wait, name="jvm", daemon=True).start()

    @property
    def dead(self) -> bool:
        """Whether the JVM is gone; asked at every turn of the driver."""
        dead = self._process.poll() is not None
        if not dead:
            self.kills.look()
        return dead

    def answers(self) -> bool:
        """Whether the JVM can be called: one that dies hangs up before it has ended."""
        jvm: Any = self.spark._jvm
        try:
            jvm.java.lang.System.nanoTime()
        except Exception:
            return False
        return True

    @property
    def last_word(self) -> str:
        """How a JVM that is gone, or has hung up, has ended: its code is all that it leaves."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_DYING_S)
        code = self._process.poll()
        if self.kills.explain(code):
            return "Linux killed the JVM: its container or control group ran out of memory"
        return describe_end(code)

    @property
    def fault(self) -> Fault:
        """What a JVM that is gone has ended by: as its code says, or the kernel's count of kills."""
        code = self._process.poll()
        full = code in _OUT_OF_MEMORY or self.kills.explain(code)
        return Fault.OUT_OF_MEMORY if full else Fault.UNCLASSIFIED

    def kill(self) -> None:
        """SIGKILL the JVM and its Python workers; nothing more is to be written."""
        children: list[psutil.Process] = []
        with suppress(psutil.Error):
            children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for child in children:
            with suppress(psutil.Error):
                child.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)


def describe_end(code: int | None) -> str:
    """The end of a JVM that nobody asked to end, by its exit code."""
    if code in _OUT_OF_MEMORY:
        return f"the JVM exited on its own: java.lang.OutOfMemoryError (exit code {code})"
    if code is None:
        return "the JVM exited on its own"
    return f"the JVM exited on its own ({f'signal {-code}' if code < 0 else f'exit code {code}'})"


def start_session(
    conf: Mapping[str, str],
    secret_conf: Mapping[str, str],
    scratch: Path,
    python_path: list[Path],
    *,
    unpacked: bool = False,
) -> Session:
    """Start the JVM and its session; raises PermanentError when Java is missing or of the wrong version.

    ``secret_conf`` travels in a file that only this user may read and that is gone once the JVM is up: other users can
    read command lines. ``python_path``: what Spark's Python workers import from. ``unpacked``: they are of the archive
    that executors get, not of this interpreter.
    """
    find_java(os.environ)
    for folder in ("tmp", "local"):
        make_folders(scratch / folder)
    here = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*(str(entry) for entry in python_path), *(entry for entry in here if entry)]
    )
    os.environ["PYSPARK_PYTHON"] = _stand_in(scratch) if unpacked else sys.executable
    secret_file = _write_secrets(secret_conf, scratch)
    checkpoints = scheme_of(os.environ.get("STREAMKEEPER_CHECKPOINTS", ""))
    # Whatever else somebody's Hadoop needs, such as Kerberos, is not asked of drivers that need no Hadoop.
    hadoop = os.environ.pop(_HADOOP_CONF, None) if checkpoints != "hdfs" else None
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in conf.items():
        if key not in secret_conf:
            builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
        session: Any = spark
        session._jsparkSession.sessionState()  # reads the confs of Spark SQL, which the first query would do otherwise
    except Exception as error:
        raise _explain(error, conf["spark.master"]) from error
    finally:
        if secret_file is not None:
            secret_file.unlink()
        if hadoop is not None:
            os.environ[_HADOOP_CONF] = hadoop
    spark.sparkContext.setLogLevel("WARN")
    write_without_processes(spark)
    if checkpoints == "s3a":
        create_only(spark)
    if checkpoints == "hdfs":
        _take_plain_paths_for_local(spark)
    return Session(spark)


def _stand_in(scratch: Path) -> str:
    """The interpreter of unpacked environments, as a path that begins wherever a JVM runs.

    Where the driver's runs it is this one: a table function that tells its own columns is asked there.
    """
    python = Path(_UNPACKED, "bin", "python")
    make_folders(scratch / python.parent)
    write_file(scratch / python, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'.encode())
    os.chmod(scratch / python, FOLDER)
    os.chdir(scratch)
    return f"./{python}"


def _take_plain_paths_for_local(spark: SparkSession) -> None:
    """As without HDFS, and as all that looks at them does; Hadoop's configuration may say that they are in HDFS.

    Set beside what a job can set: its confs are part of its description.
    """
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set("fs.defaultFS", "file:///")


def _write_secrets(secret_conf: Mapping[str, str], scratch: Path) -> Path | None:
    if not secret_conf:
        return None
    file = scratch / "secret.properties"
    handle = os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.writelines(f"{key}={_property(value)}\n" for key, value in secret_conf.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(str(file))} pyspark-shell"
    return file


def _property(value: str) -> str:
    """A value as java.util.Properties reads it."""
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "#": "\\#", "!": "\\!", " ": "\\ "}
    return "".join(
        special.get(character, character if ord(character) < 128 else f"\\u{ord(character):04x}") for character in value
    )


def _refused_conf(error: Exception, master: str) -> str:
    """What Spark says of a conf whose value it does not take: another start with it would end in the same way.

    A cluster that goes away meanwhile also leads to an IllegalArgumentException, with no condition of Spark's.
    """
    for link in reversed(links_of(error)):
        named = link.condition.startswith(_REFUSED_CONF)
        here = master.startswith("local") and link.short in _REFUSED and not link.message.startswith(_BROKEN)
        if link.java and (named or here):
            return mask_hidden(f"class {link.message} is not found" if link.short in _NO_CLASS else link.message)
    return ""


def _explain(error: Exception, master: str) -> Exception:
    """In a clear line, where Java's version, a conf or the cluster may be to blame; else the error itself."""
    if refused := _refused_conf(error, master):
        return JobUnusable(f"Spark refuses a conf: {refused}", hint="correct it in the job's conf, and deploy the job")
    if "JAVA_GATEWAY_EXITED" in str(error):
        try:
            check_java(os.environ)
        except PermanentError as found:
            return found
    if not master.startswith("local"):
        return TemporaryError(
            f"no session on {master}: {describe_fault(error)}",
            hint="if its executors exit at start, see the logs of its workers",
        )
    return error
