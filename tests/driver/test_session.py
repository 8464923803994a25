from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.driver import session
from streamkeeper.driver.session import class_archive, session_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SESSION = """
import json, os, sys
from pathlib import Path
import psutil
from streamkeeper.driver.session import session_conf, start_session

scratch, opened = Path(sys.argv[1]), sys.argv[2]
conf = session_conf({"spark.ui.enabled": "true"}, scratch, "job")
session = start_session(conf | {"spark.ui.enabled": opened or conf["spark.ui.enabled"]}, {}, scratch, [])
found = session.spark.sparkContext._jsc.hadoopConfiguration()
confs = [found.get("dfs.of.a.cluster"), found.get("fs.defaultFS"), os.environ["HADOOP_CONF_DIR"]]
sockets = psutil.Process(session._process.pid).net_connections(kind="inet")
print(json.dumps([confs, [each.laddr.ip for each in sockets if each.status == psutil.CONN_LISTEN]]))
session.kill()
"""
ODD_HOME = """
import json, sys
from pathlib import Path
from streamkeeper.driver import session as module
from streamkeeper.driver.session import session_conf, start_session

home, quoted = Path(sys.argv[1]), sys.argv[2]
(home / "bundle").mkdir()
(home / "bundle" / "helper.py").write_text("def more(x):\\n    return x + 1\\n")
sys.path.insert(0, str(home / "bundle"))
if not quoted:
    module.shlex.quote = str
conf = session_conf({"spark.sql.shuffle.partitions": "1"}, home / "scratch", "job")
session = start_session(conf, {}, home / "scratch", [home / "bundle"])
import helper
from pyspark.sql import functions as F

more = F.udf(helper.more, "long")
found = []
rows = session.spark.readStream.schema("x long").json(str(home / "in")).select(more("x"))
writer = rows.writeStream.foreachBatch(lambda batch, _: found.extend(row[0] for row in batch.collect()))
writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
place = session.spark._jvm.java.lang.System.getProperty("java.io.tmpdir")
commits = [path.name for path in (home / "checkpoint" / "commits").iterdir() if not path.name.startswith(".")]
print(json.dumps([place, found, commits]))
session.kill()
"""
REFUSED = """
import json, sys
from pathlib import Path
from streamkeeper.driver.causes import judge
from streamkeeper.driver.session import session_conf, start_session

scratch, key, value = Path(sys.argv[1]), *sys.argv[2:]
try:
    start_session(session_conf({key: value}, scratch, "job"), {}, scratch, [])
except Exception as error:
    print(json.dumps([str(error), judge(error).cause.value, judge(error.__cause__).cause.value]))
"""
RETAINED = ("spark.sql.ui.retainedExecutions", "spark.ui.retainedJobs", "spark.ui.retainedStages")


def test_the_driver_limits_the_execution_history_that_spark_retains(tmp_path: Path) -> None:
    """A driver retains only 20 executions, jobs and stages, because it runs for weeks without a UI and Spark's longer
    default history would only occupy heap.
    """
    conf = session_conf({}, tmp_path, "job")
    assert [conf[key] for key in RETAINED] == ["20"] * 3


@pytest.mark.parametrize("key", ["spark.ui.enabled", "spark.UI.enabled"])
def test_spark_ui_stays_disabled_even_if_a_release_enables_it(tmp_path: Path, key: str) -> None:
    """The driver starts without Spark's UI even if a registered release has ``spark.ui.enabled`` set in its confs, in
    any spelling.
    """
    conf = session_conf({key: "true"}, tmp_path, "job")
    assert {name: value for name, value in conf.items() if name.lower() == "spark.ui.enabled"} == {
        "spark.ui.enabled": "false"
    }


@pytest.mark.spark
@pytest.mark.parametrize("quoted", [True, False], ids=["quoted", "unquoted"])
def test_a_driver_starts_in_a_home_whose_path_has_special_characters(tmp_path: Path, *, quoted: bool) -> None:
    """In a home whose path contains quotes, spaces and shell characters, the JVM starts, the Python workers import
    bundled code and the checkpoint is written. Negative control: without quoting of the paths the session fails.
    """
    home = tmp_path / 'a home\'s "own" $HOME 50%20 #1; (x) & y=z'
    (home / "in").mkdir(parents=True)
    (home / "in" / "0.json").write_text('{"x": 1}')
    command = [sys.executable, "-c", ODD_HOME, str(home), "quoted" if quoted else ""]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (run.returncode == 0) is quoted, run.stderr[-2000:]
    assert not quoted or json.loads(run.stdout) == [str(home / "scratch/tmp"), [2], ["0"]]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("spark.network.timeout", "abc", "The value 'abc' in the config \"spark.network.timeout\" is invalid"),
        ("spark.sql.session.timeZone", "Mars/Base", "Mars/Base"),
    ],
)
def test_a_conf_that_spark_refuses_is_named_and_not_tried_again(
    tmp_path: Path, key: str, value: str, told: str
) -> None:
    """A conf value that Spark or Spark SQL refuses is named in the error and judged permanent, so it is not retried.
    Negative control: Spark's own error is judged an ordinary failure.
    """
    command = [sys.executable, "-c", REFUSED, str(tmp_path / "scratch"), key, value]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    sentence, cause, before = json.loads(run.stdout)
    assert sentence.startswith("Spark refuses a conf: ")
    assert told in sentence
    assert sentence.endswith("(correct it in the job's conf, and deploy the job)")
    assert (cause, before) == ("permanent", "failure")


def test_a_releases_own_confs_win(tmp_path: Path) -> None:
    """A conf that a release sets overrides the driver's default."""
    assert session_conf({RETAINED[0]: "7"}, tmp_path, "job")[RETAINED[0]] == "7"


def test_jvm_options_include_the_shared_class_archive_if_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM options include the shared class archive if its file exists and leave it out otherwise; a release's own
    archive comes later on the command line and wins.
    """
    archive = tmp_path / "a place" / "classes.jsa"
    monkeypatch.setattr(session, "_CLASSES", archive)
    assert "SharedArchiveFile" not in session_conf({}, tmp_path, "job")[JAVA_OPTIONS]
    archive.parent.mkdir()
    archive.touch()
    own = "-XX:SharedArchiveFile=own.jsa"
    options = shlex.split(session_conf({JAVA_OPTIONS: own}, tmp_path, "job")[JAVA_OPTIONS])
    assert [each for each in options if "Archive" in each] == [f"-XX:SharedArchiveFile={archive}", own]


@pytest.mark.spark
@pytest.mark.skipif(not class_archive(), reason="no archive of Spark's classes: make setup")
def test_the_jvm_maps_the_class_archive_that_setup_built(spark: SparkSession) -> None:
    """The JVM maps the class archive that setup built; an archive from other jars or options would be ignored silently
    and would double the start time.
    """
    archive = Path(shlex.split(class_archive())[0].partition("=")[2]).resolve()
    assert str(archive) in Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("checkpoints", "read", "closed"), [("hdfs://127.0.0.1:9/cp", "its own", True), ("/cp", None, False)]
)
def test_a_session_resolves_plain_paths_as_local_and_listens_on_loopback_only(
    tmp_path: Path, checkpoints: str, read: str | None, *, closed: bool
) -> None:
    """A session reads a cluster's Hadoop configuration only if the checkpoints are on HDFS, and resolves plain paths as
    local files in both cases.

    A release that requests Spark's UI gets none. Negative control: with the UI enabled, the session listens on an
    address that other machines can reach.
    """
    properties = {"fs.defaultFS": "hdfs://127.0.0.1:9", "dfs.of.a.cluster": "its own"}
    rows = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{''.join(rows)}</configuration>")
    environ = os.environ | {"HADOOP_CONF_DIR": str(tmp_path), "STREAMKEEPER_CHECKPOINTS": checkpoints}
    command = [sys.executable, "-c", SESSION, str(tmp_path / "scratch"), "" if closed else "true"]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    confs, listens = json.loads(run.stdout)
    assert confs == [read, "file:///", str(tmp_path)]
    open_to_all = [each for each in listens if each.removeprefix("::ffff:") != "127.0.0.1"]
    assert bool(open_to_all) is not closed
