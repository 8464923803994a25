"""Tests of drills and state exports with real processes and real jobs, including invalid requests that get an answer
and do no harm.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from pyarrow import parquet

from streamkeeper.checkpoints.cloning import clone
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver.drill import Driller
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.protocol.check_messages import JobFile
from streamkeeper.model.protocol.drill_messages import DrillAnswer, DrillRequest, ExportAnswer, ExportRequest
from streamkeeper.model.protocol.driver_messages import SECRETS
from tests.inspection.queries import read, totals, write_files
from tests.inspection.stateful import contents, rows_of, run, session_with, sums_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JOB = """
from pyspark.sql import functions as F
from streamkeeper import ForeachBatch, Param, Query, streaming_job

SCHEMA = "k string, k2 string, x long, y long, ts timestamp"

def write(batch, context):
    raise AssertionError("a drill never writes")

@streaming_job(name="totals", params={"input": Param(str), "password": Param(str)})
def totals(spark, params):
    if params["input"] == "nowhere":
        raise ValueError("cannot log in with " + params["password"])
    print("a job may print")
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(params["input"])
    sums = rows.groupBy("k").agg(F.sum("x").alias("s"))
    yield Query("totals", sums, sink=ForeachBatch(write), output_mode="update", trigger="availableNow")
"""

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


class House:
    """A job with its input of four files and a checkpoint in HDFS-backed state format, which is not the session's
    default.
    """

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.input = root / "in"
        self.checkpoint = root / "checkpoint"
        (root / "jobs").mkdir()
        (root / "jobs/job.py").write_text(JOB)
        write_files(self.input, 4)
        run(totals(read(session_with(spark, "hdfs"), self.input)), self.checkpoint, "update")

    def request(
        self, checkpoint: Path, batch: int, *, query: str = "totals", source: Path | str = "", password: str = ""
    ) -> DrillRequest:
        """Return the request for a drill of a restored directory."""
        params = {"input": str(source or self.input), "password": password}
        job = JobFile(root=str(self.root / "jobs"), entry="job.py", name="totals", params=params)
        return DrillRequest(job=job, query=query, checkpoint=str(checkpoint), batch=batch, timeout_s=120)


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("drills"), spark)


@pytest.fixture
def ask(spark: SparkSession, tmp_path: Path) -> Callable[[DrillRequest], DrillAnswer]:
    driller = Driller(spark, tmp_path, {})
    return lambda request: driller.answer(to_json(request))


@pytest.fixture
def restored(house: House, tmp_path: Path) -> Path:
    """The complete set of files of the newest batch."""
    clone(LocalTree(house.checkpoint), LocalTree(tmp_path / "restored"), 3)
    return tmp_path / "restored"


def answers(driver: str, lines: list[bytes], kind: type[T], secrets: dict[str, str]) -> list[T]:
    """Return the answers of a driver process, which must exit with 0 and print nothing else to stdout."""
    done = subprocess.run(
        [sys.executable, "-m", f"streamkeeper.driver.{driver}", "{}"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins"), SECRETS: json.dumps(secrets)},
        input=b"\n".join(lines),
        capture_output=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return [from_json(line, kind, where="answer") for line in done.stdout.splitlines()]


def test_one_process_answers_drill_requests_in_order(house: House, tmp_path: Path) -> None:
    """One process answers drill requests in order; an unreadable request or a failing job gets an error answer and does
    not affect later ones, and secrets are masked.
    """
    for batch in (1, 3):
        clone(LocalTree(house.checkpoint), LocalTree(tmp_path / str(batch)), batch)
    requests = [
        house.request(tmp_path / "1", 1),
        house.request(tmp_path / "3", 3, source="nowhere", password="secret://env/PASSWORD"),
        house.request(tmp_path / "3", 3),
    ]
    lines = [b"{", *(to_json(each) for each in requests)]
    garbage, good, failed, idle = answers("drill", lines, DrillAnswer, {"secret://env/PASSWORD": "hunter22"})
    assert (garbage.ok, garbage.error_class) == (False, "RegistryDamaged")
    assert (good.ok, good.batch, good.rows, good.stores, good.state_rows) == (True, 2, 20, 1, 5)
    assert good.message == "batch 2 ran (20 rows); 1 state store holds 5 rows"
    assert not failed.ok
    assert "cannot log in with" in failed.message
    assert "hunter22" not in failed.message
    assert (idle.ok, idle.message) == (True, "no new input; 1 state store holds 5 rows")


def test_one_process_exports_the_state_of_a_checkpoint(house: House, tmp_path: Path) -> None:
    """One process exports the state of a checkpoint: the rows equal those computed in Python, the checkpoint stays
    unchanged, and an existing target is refused.
    """
    before = contents(house.checkpoint)
    target = tmp_path / "state"
    asked = [
        ExportRequest(checkpoint=str(house.checkpoint), batch=2, target=str(target)),
        ExportRequest(checkpoint=str(house.checkpoint), target=str(target)),
    ]
    first, second = answers("export", [to_json(each) for each in asked], ExportAnswer, {})
    (store,) = first.stores
    assert (first.batch, first.error, store.rows) == (2, "", 5)
    found = parquet.read_table(target / store.path).to_pylist()
    assert {row["key"]["k"]: row["value"]["sum"] for row in found} == sums_of(rows_of(house.input, last=2))
    assert (second.batch, second.stores) == (None, ())
    assert "already exists" in second.error
    assert contents(house.checkpoint) == before


def test_a_drill_without_new_input_fails_if_all_state_was_deleted(
    house: House, ask: Callable[[DrillRequest], DrillAnswer], restored: Path
) -> None:
    """A drill without new input fails if the whole state was deleted, because the query's plan shows that it keeps
    state.
    """
    shutil.rmtree(restored / "state")
    found = ask(house.request(restored, 3))
    assert (found.ok, found.error_class) == (False, "CheckpointDamaged")
    assert found.message.startswith("checkpoint-state-missing: ")


def test_the_jobs_own_settings_win_over_the_checkpoints_layout(
    house: House, ask: Callable[[DrillRequest], DrillAnswer], restored: Path
) -> None:
    """The job's own settings take precedence over the checkpoint's format in a drill, as when the job is served, so
    that Spark's refusal of a wrong format is reported.
    """
    request = json.loads(to_json(house.request(restored, 3)))
    request["job"]["conf"] = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
    write_files(house.input, 1, first=4)
    try:
        found = ask(from_json(json.dumps(request).encode(), DrillRequest, where="request"))
    finally:
        (house.input / "f0004.json").unlink()
    assert not found.ok
    assert found.message.startswith("Spark refused: ")


def test_an_unknown_query_is_answered_with_the_existing_names(
    house: House, ask: Callable[[DrillRequest], DrillAnswer], restored: Path
) -> None:
    """A drill of an unknown query is answered with the names of the existing ones, and leaves the checkpoint
    unchanged.
    """
    before = contents(restored)
    found = ask(house.request(restored, 3, query="sums"))
    assert (found.ok, found.error_class) == (False, "NotFound")
    assert found.message == "there is no query sums (name one of the job's queries: totals)"
    assert contents(restored) == before


def test_missing_source_files_are_reported_but_do_not_fail_a_drill(
    spark: SparkSession, house: House, ask: Callable[[DrillRequest], DrillAnswer], tmp_path: Path
) -> None:
    """Missing source files are reported but do not fail a drill, because the checkpoint itself is intact."""
    source = tmp_path / "in"
    write_files(source, 2)
    run(totals(read(session_with(spark, "hdfs"), source)), tmp_path / "live", "update")
    clone(LocalTree(tmp_path / "live"), LocalTree(tmp_path / "restored"), 0, pending=True)
    (source / "f0001.json").unlink()
    found = ask(house.request(tmp_path / "restored", 0, source=source))
    assert (found.ok, found.batch, found.error_class) == (True, 1, "")
    assert f"1 of 1 source files of batch 1 are missing, such as {source}/f0001.json: Spark runs it" in found.message
