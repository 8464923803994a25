"""Tests of every way to get a verdict, each with its own processes: a check, a dry run, a warm and a cold deploy, and a
rollback.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.doors import ask_every_door
from conformance.matrix.cases import CASES
from harness.bed import fresh_bed
from streamkeeper.operations.deploys import deploy

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.timeout(1800)]

CHANGES = (
    "agg_same",
    "agg_key_expr",
    "agg_sum_other_column",
    "dedup_key_dropped",
    "proj_udf_added",
    "src_schema_narrowed",
)


def test_check_dry_run_deploy_and_rollback_report_the_same_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check, a dry run, a cold and a warm deploy and a rollback report the same findings for one candidate that makes
    a different change in each query, and leave no process behind.
    """
    monkeypatch.setattr(deploy, "POLL_S", 0.5)  # each look goes through all processes of the machine
    with fresh_bed(tmp_path / "bed", []) as bed:
        doors = ask_every_door(bed, {f"q{number}": CASES[each] for number, each in enumerate(CHANGES)})
        left = list(bed.processes())
    assert doors.failed == {}
    assert set(doors.found) == {"check", "dry-run", "cold", "warm", "rollback"}
    assert {CHANGES[number]: doors.differing(f"q{number}") for number in range(len(CHANGES))} == {
        each: {} for each in CHANGES
    }
    assert any(doors.found["check"].values())
    assert doors.found["check"]["q0"] == frozenset(), "the same job"
    assert left == []
