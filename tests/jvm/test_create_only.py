"""One winner for each file of a checkpoint on S3, told so although answers get lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.places import ROOT
from streamkeeper.errors import JobUnusable
from streamkeeper.jvm.create_only import MANAGER, create_only, must_be_create_only, s3a_conf
from tests.servers import skip_without_s3a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.s3]


def test_of_two_writers_one_wins_and_both_know(tmp_path: Path) -> None:
    """Also when answers are lost and requests refused. Controls: Spark's manager lets both win; of a conditional PUT
    alone, a winner whose answer was lost is told that it has lost."""
    _run("bench.checkpoint_races", "--rounds", "60", "--lost", "0.2", "--controls", "12", "--out", str(tmp_path))
    told = json.loads((tmp_path / "checkpoint-races.json").read_text())
    assert told["ours"]["faults"]["lost"] > 0
    assert (told["ours"]["two_won"], told["ours"]["told_wrong"]) == (0, 0)
    assert told["sparks"]["two_won"] > 0
    assert told["hadoops"]["told_wrong"] > 0


def test_nothing_is_asked_that_the_answer_tells_anyway(tmp_path: Path) -> None:
    """A create is one PUT, a removal one DELETE, and a log does not ask for its next entry; what another has made there
    its create is told of. A folder goes with all that is in it. A standby's touch writes, reads, lists
    and deletes, and is never an error."""
    told = json.loads(_run("tests.jvm.manager_calls", str(tmp_path)).splitlines()[-1])
    assert {
        call: (found["answer"], "".join(f"{kind} " for kind in found["requests"])) for call, found in told.items()
    } == {
        "first exists": (False, "HEAD GET "),
        "first create": ("written", "PUT "),
        "its exists": (True, "HEAD "),
        "next exists": (False, ""),
        "create of another": ("written", "PUT "),
        "next exists after it": (False, ""),
        "create after it": ("taken", "PUT HEAD "),
        "exists of another's next": (False, "HEAD GET "),
        "state": ("written", "PUT "),
        "state again": ("written", "PUT "),
        "delete": (None, "DELETE "),
        "delete of state": (None, "DELETE "),
        "delete of nothing": (None, "DELETE "),
        "exists after delete": (False, "HEAD GET "),
        "delete of a folder": (None, "HEAD GET GET DELETE GET "),
        "touch": (None, "PUT HEAD GET HEAD GET GET DELETE "),
        "exists after a touch": (False, "HEAD GET "),
        "touch of no place": (None, ""),
        "exists in the folder": (False, "HEAD GET "),
    }


def _run(module: str, *words: str) -> str:
    """What a module prints in a process of its own; skips, with the reason, where its server or jars are missing."""
    skip_without_s3a()
    environ = os.environ | {"PYTHONPATH": f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"}
    run = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


def test_a_session_that_lets_two_writers_win_gets_no_checkpoint_on_s3(spark: SparkSession) -> None:
    """As after a setting was changed under a version that lies there; once the manager is ours it gets it."""
    checkpoint = "s3a://bucket/checkpoints/sales/totals/v0001"
    must_be_create_only(spark, "/checkpoints/sales/totals/v0001")
    with pytest.raises(JobUnusable, match="two drivers could write to this checkpoint at the same time"):
        must_be_create_only(spark, checkpoint)
    context: Any = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    try:
        create_only(spark)
        must_be_create_only(spark, checkpoint)
    finally:
        configuration.unset(MANAGER)


def test_s3a_finds_the_server_that_boto3_finds() -> None:
    """And nothing is said where nothing is set: then both find Amazon's."""
    assert s3a_conf({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_DEFAULT_REGION": "eu-central-1"}) == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
    }
    assert s3a_conf({"AWS_ENDPOINT_URL": "http://one", "AWS_ENDPOINT_URL_S3": "https://other"}) == {
        "spark.hadoop.fs.s3a.endpoint": "https://other",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert s3a_conf({}) == {}
