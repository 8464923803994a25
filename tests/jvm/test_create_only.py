"""Tests that each checkpoint file on S3 has exactly one creator, which learns the right result even when responses are
lost.
"""

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


def test_exactly_one_of_two_writers_creates_a_file_and_both_learn_it(tmp_path: Path) -> None:
    """Of two writers exactly one creates each file, and both learn the right result even when responses are lost and
    requests are refused. Negative controls: with Spark's manager both succeed; with only a conditional PUT, a winner
    whose response was lost is reported as the loser.
    """
    _run("bench.checkpoint_races", "--rounds", "60", "--lost", "0.2", "--controls", "12", "--out", str(tmp_path))
    told = json.loads((tmp_path / "checkpoint-races.json").read_text())
    assert told["ours"]["faults"]["lost"] > 0
    assert (told["ours"]["two_won"], told["ours"]["told_wrong"]) == (0, 0)
    assert told["sparks"]["two_won"] > 0
    assert told["hadoops"]["told_wrong"] > 0


def test_the_file_manager_sends_no_redundant_requests(tmp_path: Path) -> None:
    """The manager sends no redundant requests: a create is one PUT, deleting a file one DELETE, and the next log entry
    is not looked up. Deleting a folder removes its contents, and a standby's touch writes, reads, lists and deletes,
    and never raises.
    """
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
    """Run a module in a process of its own and return its output; skip the test with the reason if the server or the
    jars are missing.
    """
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


def test_a_file_manager_that_allows_two_writers_is_refused_on_s3(spark: SparkSession) -> None:
    """A session whose file manager allows two writers is refused a checkpoint on S3, and gets one after Streamkeeper's
    manager is configured; a checkpoint in a directory needs no such manager.
    """
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
    """The s3a settings follow boto3's environment variables for endpoint and region; without these variables no setting
    is made.
    """
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
