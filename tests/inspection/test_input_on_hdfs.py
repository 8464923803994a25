"""Tests how Spark treats missing input files in HDFS, and what is reported before a start, by a rehearsal and by a
drill.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.checkpoints.cloning import clone
from streamkeeper.checkpoints.input_files import FileLook
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver.preflight import look_at_sources
from streamkeeper.inspection import input_look
from streamkeeper.inspection.diverted import run_planned
from streamkeeper.inspection.rehearsal import rehearse
from streamkeeper.inspection.resume_proof import drill
from tests.inspection.queries import query, read, run_to_end, totals, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.hdfs]


def test_missing_hdfs_input_is_reported_by_starts_rehearsals_and_drills(
    spark: SparkSession, tmp_path: Path, hdfs_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing HDFS input files of an open batch are reported before a start, by a rehearsal and by a drill. Negative
    control: without the check Spark commits the batch with 0 of its 20 rows and nothing is reported.
    """
    write_files(tmp_path / "made", 2)
    folder = tree_at(f"{hdfs_url}/in")
    for name in ("f0000.json", "f0001.json"):
        folder.create(name, [(tmp_path / "made" / name).read_bytes()])
    checkpoint = LocalTree(tmp_path / "live")

    def asked() -> Any:
        return query(totals(read(spark, f"{hdfs_url}/in")))  # type: ignore[arg-type]

    run_to_end(asked().df, checkpoint.root)
    newest = last_committed(checkpoint)
    assert newest is not None
    (checkpoint.root / "commits" / str(newest)).unlink()
    (checkpoint.root / "commits" / f".{newest}.crc").unlink()
    assert "input-of-open-batch-gone" not in rules(asked(), checkpoint)
    gone = next(name for name in ("f0001.json", "f0000.json") if name in read_of(checkpoint, newest))
    assert not folder.delete([gone])
    assert "input-of-open-batch-gone" in rules(asked(), checkpoint)
    with monkeypatch.context() as patched:
        patched.setenv("HADOOP_CONF_DIR", str(tmp_path / "none"))
        assert "input-not-checked" in rules(asked(), checkpoint)
    clone(checkpoint, LocalTree(tmp_path / "restored"), newest - 1, pending=True)
    drilled = drill(spark, asked(), LocalTree(tmp_path / "restored"), newest - 1, timeout_s=60)
    missed = (
        f"1 of 1 source files of batch {newest} are missing, such as {hdfs_url}/in/{gone}: Spark runs it without them"
    )
    assert (drilled.rows, drilled.message.endswith(missed)) == (0, True)
    with monkeypatch.context() as patched:
        patched.setattr(input_look, "look_at_batch", lambda *_, **__: FileLook(total=0))
        ran = run_planned(asked(), checkpoint, timeout_s=60)
        assert (ran.fault, ran.rows) == (None, {newest: 0})
        silent = rehearse(spark, asked(), checkpoint, str(tmp_path / "silent"), timeout_s=60)
        assert (silent.ok, silent.batch, silent.message) == (True, newest, "")
    found = rehearse(spark, asked(), checkpoint, str(tmp_path / "scratch"), timeout_s=60)
    assert (found.ok, found.batch, found.message) == (True, newest, missed)


def rules(asked: Any, checkpoint: LocalTree) -> list[str]:
    """Return the rules that a check before a start finds."""
    return [each.rule for each in look_at_sources(asked, checkpoint, served=False)]


def read_of(checkpoint: LocalTree, batch: int) -> str:
    return (checkpoint.root / "sources" / "0" / str(batch)).read_text()
