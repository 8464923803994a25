"""Tests the results that steps leave for later steps, and their text in journals."""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import (
    Bundled,
    CutoverSnapshots,
    FirstBacklog,
    LastBatches,
    OutputsCompared,
    StateKept,
    StepResult,
    VersionsRestored,
    step_done,
)
from streamkeeper.model.requests.request import DeployRequest

BEFORE = OperationState(operation="op", request=DeployRequest(job="j"), steps=(), started=1)
SNAPSHOTS = CutoverSnapshots(taken={"a": "s0001"}, failed={"b": "the store is full"})
LEFT: list[tuple[Step, StepResult, dict[str, str], str, Any]] = [
    (Step.BUNDLE, Bundled("r0002"), {"release": "r0002"}, "release", "r0002"),
    (Step.KEEP_STATE, StateKept({"q": "s0003"}), {"q": "s0003"}, "kept_state", {"q": "s0003"}),
    (Step.PROVE_DEAD, LastBatches({"q": 41}), {"q": "41"}, "last_batches", {"q": 41}),
    (Step.FIRST_COMMIT, FirstBacklog({"q": 1000}), {"q": "1000"}, "first_backlog", {"q": 1000}),
    (Step.SNAPSHOT, SNAPSHOTS, {"a": "s0001", "b": "failed: the store is full"}, "cutover_snapshots", SNAPSHOTS),
    (Step.FALL_BACK, VersionsRestored({"q": "v0003"}), {"q": "v0003"}, "versions_back", {"q": "v0003"}),
]


@pytest.mark.parametrize(("step", "left", "stored", "name", "read"), LEFT, ids=lambda value: str(value)[:12])
def test_a_step_result_keeps_its_stored_form_and_is_returned_typed(
    step: Step, left: StepResult, stored: dict[str, str], name: str, read: Any
) -> None:
    """A step's result is recorded in the same text form as in the first version's journals, and the operation returns
    it as a typed value.
    """
    record = step_done("op", step, left)
    assert (record.step, record.result, record.compared) == (step.tag, stored, {})
    operation = OperationState(
        operation="op", request=BEFORE.request, steps=(), started=1, done={record.step: record.result}
    )
    assert getattr(operation, name) == read
    assert getattr(BEFORE, name) in ("", {}, CutoverSnapshots({}, {}))


def test_a_comparison_is_recorded_as_a_sentence_and_whole() -> None:
    """A comparison is recorded both as a readable sentence and as the complete value."""
    found = {"q": OutputComparison(old_rows=3, new_rows=3)}
    record = step_done("op", Step.COMPARE, OutputsCompared(found))
    assert (record.result, record.compared) == ({"q": "3 rows and 3: the same"}, found)


def test_a_step_without_a_result_records_only_its_completion() -> None:
    """A step without a result records only its completion."""
    record = step_done("op", Step.GO)
    assert (record.step, record.result, record.compared) == ("go", {}, {})
