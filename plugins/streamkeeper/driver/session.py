"""The driver's Spark session: its confs, its start with a clear message if the Java version does not fit, and its
immediate termination.
"""

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

from streamkeeper.authoring.definition import check_conf
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.raised import links_of
from streamkeeper.driver.wakeups import Wakeup, Wakeups
from streamkeeper.errors import JobUnusable, PermanentError, TemporaryError
from streamkeeper.jvm.create_only import create_only, s3a_conf
from streamkeeper.jvm.delta_commits import commit_create_only
from streamkeeper.jvm.local_files import write_without_processes
from streamkeeper.locations import scheme_of
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.settings.release_conf import FIXED, UI, own_threads
from streamkeeper.registry.environments import installed_jars
from streamkeeper.system.hidden_secrets import mask_hidden
from streamkeeper.system.java import check_java, find_java
from streamkeeper.system.memory_kills import RecentKills
from streamkeeper.system.private_files import FOLDER, make_folders, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_JARS = "spark.jars"
_ARCHIVES = "spark.archives"
_UNPACKED = "environment"
"""The folder below an executor's own folder that contains the environment sent to it."""
_HADOOP_CONF = "HADOOP_CONF_DIR"
_FOR_THE_UI = {
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
}
"""Limits of the history that Spark keeps for its UI, even if the UI is disabled. Without them the history takes 30 MiB
of heap within half an hour.
"""
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_ELSEWHERE = {"spark.cores.max": "2"}
"""The limit on a cluster. Without a limit an application takes all available cores, and a standby that runs at the same
time gets none.
"""
_IDLE_TOLD = "1s"
"""How soon Spark reports a trigger without data. Spark's default is 10 s, and the deploy of an idle job would wait for
that long.
"""
_DYING_S = 1.0
_REFUSED_CONF = ("INVALID_CONF_VALUE", "INVALID_EXECUTOR_MEMORY", "INVALID_DRIVER_MEMORY")
"""Spark's error conditions for an invalid conf value."""
_NO_CLASS = frozenset({"ClassNotFoundException", "NoClassDefFoundError"})
_REFUSED = _NO_CLASS | {"IllegalArgumentException", "SparkIllegalArgumentException", "NumberFormatException"}
_BROKEN = ("requirement failed", "Error while instantiating")
"""How the message of an error starts that is only the consequence of another error."""
_CLASSES = Path(sys.prefix, "spark-classes.jsa")
"""A precomputed archive of Spark's classes, if `make setup` created it."""
_OUT_OF_MEMORY = frozenset({3, 52})
"""Exit codes of a JVM: from -XX:+ExitOnOutOfMemoryError, and from Spark after an OutOfMemoryError in a task."""


def session_conf(
    release_conf: Mapping[str, str], scratch: Path, name: str, *, master: str = "", archive: str = ""
) -> dict[str, str]:
    """Return the session's confs. They consist of the release's confs and of defaults for confs that the release does
    not set. The installation's jars are added to the release's jars.

    ``release_conf``: the release's confs.
    ``scratch``: the driver's scratch directory.
    ``name``: the application's name.
    ``master``: the master whose executors run the tasks; empty if threads of the driver run them.
    ``archive``: the path of the archive with the Python environment of the executors; empty if they unpack no archive.

    Spark's UI stays disabled even if an older release enables it, because the UI listens on every interface and has no
    login. Raises Unsupported, and the errors that ``check_conf`` raises.
    """
    check_conf(release_conf)
    conf = {
        "spark.master": master or own_threads(release_conf),
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
    conf |= release_conf
    conf = {key: value for key, value in conf.items() if key.lower() != UI} | {UI: "false"}
    checkpoints = os.environ.get("STREAMKEEPER_CHECKPOINTS", "")
    jars = (release_conf.get(_JARS, ""), *installed_jars(os.environ.get("STREAMKEEPER_JARS", ""), checkpoints))
    if any(jars):
        conf[_JARS] = ",".join(filter(None, jars))
    if archive:
        conf[_ARCHIVES] = ",".join(filter(None, (release_conf.get(_ARCHIVES, ""), f"{archive}#{_UNPACKED}")))
    if scheme_of(checkpoints) == "s3a":
        conf = {**s3a_conf(os.environ), **conf}
    # A killed JVM leaves its temporary files (RocksDB's library alone is 15 MB), which are removed with the scratch
    # directory. Without its native library Hadoop forks a chmod for each file that a sink writes; vfork halves the
    # cost. Spark's classes fill 100 MB of metaspace; without an initial size the JVM collects the whole heap several
    # times.
    ours = (
        f"-Djava.io.tmpdir={shlex.quote(str(scratch / 'tmp'))} -XX:-UsePerfData -XX:MetaspaceSize=256m "
        f"-Djdk.lang.Process.launchMechanism=VFORK {class_archive()}"
    )
    conf[_JAVA_OPTIONS] = f"{ours} {release_conf.get(_JAVA_OPTIONS, '')}".strip()
    return conf


def class_archive() -> str:
    """Return the Java options that load Spark's classes from a class-data-sharing archive; empty if there is no
    archive.

    A JVM ignores an archive that does not fit its classes. The options suppress the log line about that.
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
        """The count of kills in the driver's control group, which the driver's JVM and Python workers share."""

    def ring_when_dead(self, wakeups: Wakeups) -> None:
        """Start a thread that wakes the driver's main thread when the JVM exits."""

        def wait() -> None:
            self._process.wait()
            wakeups.ring(Wakeup.JVM_DIED)

        threading.Thread(target=wait, name="jvm", daemon=True).start()

    @property
    def dead(self) -> bool:
        """Whether the JVM has exited; the driver checks this in each iteration of its main loop."""
        dead = self._process.poll() is not None
        if not dead:
            self.kills.look()
        return dead

    def answers(self) -> bool:
        """Whether the JVM can be called. A JVM that is shutting down closes its connections first, and exits later."""
        jvm: Any = self.spark._jvm
        try:
            jvm.java.lang.System.nanoTime()
        except Exception:
            return False
        return True

    @property
    def last_word(self) -> str:
        """A clause that describes why the JVM exited, derived from its exit code and the kernel's count of
        out-of-memory kills. Call this only once the JVM has exited or closed its connection.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_DYING_S)
        code = self._process.poll()
        if self.kills.explain(code):
            return "Linux killed the JVM: its container or control group ran out of memory"
        return describe_end(code)

    @property
    def fault(self) -> Fault:
        """The kind of fault of a JVM that has exited, derived from its exit code and the kernel's count of
        out-of-memory kills.
        """
        code = self._process.poll()
        full = code in _OUT_OF_MEMORY or self.kills.explain(code)
        return Fault.OUT_OF_MEMORY if full else Fault.UNCLASSIFIED

    def kill(self) -> None:
        """Kill the JVM and its Python workers with SIGKILL, so that they write nothing more."""
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
    """Return a description of the exit code of a JVM that exited unexpectedly."""
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

    ``conf``: the session's confs.
    ``secret_conf``: the confs with secrets. They are passed in a file, not on the command line, which other users can
    read. Only this user can read the file, and it is deleted once the JVM is up.
    ``scratch``: the driver's scratch directory.
    ``python_path``: the import path of Spark's Python workers.
    ``unpacked``: whether the workers use the archive that executors get, instead of this interpreter.
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
    # Drivers that need no Hadoop do not get Hadoop's other settings, such as Kerberos.
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
    commit_create_only(spark, checkpoints)
    if checkpoints == "s3a":
        create_only(spark)
    if checkpoints == "hdfs":
        _take_plain_paths_for_local(spark)
    return Session(spark)


def _stand_in(scratch: Path) -> str:
    """Return the path of the Python interpreter inside an unpacked environment. The path is relative, so that it is
    valid wherever a JVM runs.

    In the driver's directory, the path leads to this process's interpreter, because a table function that computes its
    own columns runs there.
    """
    python = Path(_UNPACKED, "bin", "python")
    make_folders(scratch / python.parent)
    write_file(scratch / python, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'.encode())
    os.chmod(scratch / python, FOLDER)
    os.chdir(scratch)
    return f"./{python}"


def _take_plain_paths_for_local(spark: SparkSession) -> None:
    """Resolve paths without a scheme on the local disk, even if Hadoop's configuration names HDFS as the default. All
    checks resolve them in the same way.

    The setting is not one of the job's confs, because these are part of the job's description.
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
    """Escape a value for java.util.Properties."""
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "#": "\\#", "!": "\\!", " ": "\\ "}
    return "".join(
        special.get(character, character if ord(character) < 128 else f"\\u{ord(character):04x}") for character in value
    )


def _refused_conf(error: Exception, master: str) -> str:
    """Return Spark's message about an invalid conf value, with which a restart would fail as well; empty for any other
    error.

    A cluster that disappears during the start also causes an IllegalArgumentException, but one without a Spark
    condition.
    """
    for link in reversed(links_of(error)):
        named = link.condition.startswith(_REFUSED_CONF)
        here = master.startswith("local") and link.short in _REFUSED and not link.message.startswith(_BROKEN)
        if link.java and (named or here):
            return mask_hidden(f"class {link.message} is not found" if link.short in _NO_CLASS else link.message)
    return ""


def _explain(error: Exception, master: str) -> Exception:
    """Return a clear error if Java's version, a conf or the cluster may be the cause; otherwise return the
    given error.
    """
    if refused := _refused_conf(error, master):
        return JobUnusable(f"Spark refuses a conf: {refused}", hint="correct it in the job's conf, and deploy the job")
    if "JAVA_GATEWAY_EXITED" in str(error):
        try:
            check_java(os.environ)
        except PermanentError as found:
            return found
    if not master.startswith("local"):
        return TemporaryError(
            f"no Spark session could be started on {master}: {describe_fault(error)}",
            hint="check that the master runs. If the executors exit at their start, read the logs of the workers",
        )
    return error
