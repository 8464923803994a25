"""The DAG files: they load, stay light, serialise and keep the conventions. Each look is a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.airflow
ROOT = Path(__file__).resolve().parents[2]

LOOK = """
import json, sys, time
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
before = set(sys.modules)
began = time.monotonic()
bag = DagBag(sys.argv[1])
seconds = time.monotonic() - began
loaded = sorted({name.partition(".")[0] for name in set(sys.modules) - before})
dags = {}
for dag in bag.dags.values():
    stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    again = DagSerialization.from_dict(stored)
    dags[dag.dag_id] = {
        "tags": sorted(dag.tags), "catchup": dag.catchup, "doc": bool(dag.doc_md), "again": sorted(again.task_ids),
        "tasks": {task.task_id: {
            "upstream": sorted(task.upstream_task_ids), "rule": task.trigger_rule, "retries": task.retries,
            "policy": task.retry_policy is not None, "timeout": task.execution_timeout is not None,
        } for task in dag.tasks},
    }
print("LOOK" + json.dumps({"errors": bag.import_errors, "seconds": seconds, "loaded": loaded, "dags": dags}))
"""


def look_at(dags: Path, home: Path) -> dict[str, Any]:
    """What Airflow makes of a folder of DAG files."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "plugins"),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "STREAMKEEPER_JOBS": str(ROOT / "jobs"),
    }
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(dags)], env=environ, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = next(line for line in done.stdout.splitlines() if line.startswith("LOOK"))
    result: dict[str, Any] = json.loads(told.removeprefix("LOOK"))
    return result


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return look_at(ROOT / "dags", tmp_path_factory.mktemp("airflow"))


def test_every_dag_file_loads(seen: dict[str, Any]) -> None:
    """No DAG file raises when it is parsed."""
    assert seen["errors"] == {}
    assert set(seen["dags"]) == {"streaming_deploy"}


def test_parsing_loads_nothing_heavy(seen: dict[str, Any]) -> None:
    """A parse loads neither Spark nor an S3 client nor pandas nor a database, and is quick."""
    assert {"pyspark", "py4j", "boto3", "botocore", "pandas", "pyarrow"}.isdisjoint(seen["loaded"])
    assert seen["seconds"] < 5


def test_a_heavy_import_would_be_seen(tmp_path: Path) -> None:
    """Negative control: a DAG file that imports pandas at its top is caught by the same look."""
    (tmp_path / "dags").mkdir()
    text = "import pandas\nfrom airflow.sdk import dag\n@dag(schedule=None)\ndef heavy(): ...\nheavy()\n"
    (tmp_path / "dags" / "heavy.py").write_text(text)
    assert "pandas" in look_at(tmp_path / "dags", tmp_path / "home")["loaded"]


def test_a_dag_survives_serialisation(seen: dict[str, Any]) -> None:
    """What the scheduler works with, read back from JSON, has the same tasks."""
    for dag in seen["dags"].values():
        assert dag["again"] == sorted(dag["tasks"])


def test_conventions_hold(seen: dict[str, Any]) -> None:
    """Tagged, documented, never catching up; every task retries by the policy that knows what is temporary."""
    for dag in seen["dags"].values():
        assert dag["tags"]
        assert dag["doc"]
        assert not dag["catchup"]
        for task in dag["tasks"].values():
            assert task["retries"] == 2
            assert task["policy"]


def test_the_deploy_reads_like_the_runbook(seen: dict[str, Any]) -> None:
    """The order of a deploy, the branch, the way out, and one end that decides the run's state."""
    tasks = seen["dags"]["streaming_deploy"]["tasks"]
    after = {name: task["upstream"] for name, task in tasks.items()}
    assert after == {
        "bundle": [],
        "standby": ["bundle"],
        "assess": ["standby"],
        "choose": ["assess"],
        "resume.handover": ["choose"],
        "resume.first_commit": ["resume.handover"],
        "resume.promote": ["resume.snapshot"],
        "resume.snapshot": ["resume.first_commit"],
        "fall_back": ["resume.promote"],
        "finish": ["choose", "fall_back"],
    }
    assert tasks["fall_back"]["rule"] == "one_failed"
    assert tasks["finish"]["rule"] == "all_done"
