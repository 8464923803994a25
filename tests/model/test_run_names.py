"""One DAG run, one operation."""

from __future__ import annotations

from streamkeeper.model.names import check_instance
from streamkeeper.model.run_names import operation_id

RUN = "manual__2026-11-21T01:27:26.405315+00:00_Zx9kLmQp"


def test_the_id_is_the_same_every_time() -> None:
    """A cleared task, in another process, on another day, finds the operation of its run."""
    assert operation_id("streaming_deploy", RUN) == operation_id("streaming_deploy", RUN)


def test_runs_that_read_alike_are_kept_apart() -> None:
    """What sanitising merges, the hash tells apart: other characters, another case, another DAG, a longer name."""
    runs = [("a", "Run:1"), ("a", "run-1"), ("a", "run_1"), ("b", "run_1"), ("a", "x" * 300), ("a", "x" * 301)]
    assert len({operation_id(*each) for each in runs}) == len(runs)


def test_every_dag_has_operations_of_its_own() -> None:
    """A rollback and a deploy with the same run id, as the scheduler may give it, are two operations."""
    names = {operation_id(dag, RUN) for dag in ("streaming_deploy", "streaming_rollback")}
    assert len(names) == 2


def test_any_run_id_gives_an_allowed_name() -> None:
    """Whatever somebody types as a run id may name an operation and, with a role behind it, an instance."""
    for run in (RUN, "", "///", "ümlaut käse", "-- --", "../../etc/passwd", "A" * 500):
        check_instance(operation_id("streaming_deploy", run) + "-candidate")
