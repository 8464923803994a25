"""Tests that each DAG run has exactly one operation name."""

from __future__ import annotations

from streamkeeper.model.names import check_instance
from streamkeeper.model.run_names import operation_id

RUN = "manual__2026-11-21T01:27:26.405315+00:00_Zx9kLmQp"


def test_the_operation_id_of_a_run_is_always_the_same() -> None:
    """The operation id of a run is always the same, so that a cleared task finds its run's operation."""
    assert operation_id("streaming_deploy", RUN) == operation_id("streaming_deploy", RUN)


def test_runs_with_equal_sanitized_names_have_different_ids() -> None:
    """Runs whose sanitized names would be equal have different operation ids because of the hash."""
    runs = [("a", "Run:1"), ("a", "run-1"), ("a", "run_1"), ("b", "run_1"), ("a", "x" * 300), ("a", "x" * 301)]
    assert len({operation_id(*each) for each in runs}) == len(runs)


def test_every_dag_has_operations_of_its_own() -> None:
    """Two DAGs with the same run id have different operations."""
    names = {operation_id(dag, RUN) for dag in ("streaming_deploy", "streaming_rollback")}
    assert len(names) == 2


def test_any_run_id_gives_an_allowed_name() -> None:
    """Any run id results in a valid name for an operation and, with a role appended, for an instance."""
    for run in (RUN, "", "///", "ümlaut käse", "-- --", "../../etc/passwd", "A" * 500):
        check_instance(operation_id("streaming_deploy", run) + "-candidate")
