"""A branch immediately skips every task on the paths that it does not take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.orchestration.test_ways import BACKUP, DUAL_RUN, TAKEOVER

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def dag() -> Any:
    """A recovery inside a task group, with a foreign task behind one of its tasks."""
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, TaskGroup

    from streamkeeper.orchestration.deploy_graph import recovery_graph

    with DAG("own", schedule=None) as dag:
        with TaskGroup("mend"):
            recovery_graph()
        own = EmptyOperator(task_id="own", trigger_rule="all_done")
        dag.get_task("mend.takeover.promote") >> own
    return dag


def skipped(dag: Any, branch: str, taken: str) -> set[str]:
    """Return the tasks that a branch skips if it takes the path that begins with this task."""
    from airflow.sdk.exceptions import DownstreamTasksSkipped

    task = dag.get_task(f"mend.{branch}")
    ti: Any = SimpleNamespace(task=task, map_index=-1, xcom_push=lambda **_: None)
    with pytest.raises(DownstreamTasksSkipped) as told:
        task.skip_all_except(ti, [f"mend.{taken}"])
    return {name.removeprefix("mend.") for name in told.value.tasks}


@pytest.mark.parametrize(
    ("branch", "taken", "left_out"),
    [
        ("choose", "takeover.handover", {*BACKUP, *DUAL_RUN, "choose_again"}),
        ("choose", "dual_run.shadow", {*BACKUP, "choose_again"}),
        ("choose", "finish", {*BACKUP, *DUAL_RUN, *TAKEOVER, "choose_again", "fall_back"}),
        ("choose_again", "takeover.handover", {*DUAL_RUN}),
        ("decide", "bundle", {"accept"}),
        (
            "decide",
            "finish",
            {
                *("accept", "bundle", "standby", "assess", "choose", "choose_again", "fall_back"),
                *(*BACKUP, *DUAL_RUN, *TAKEOVER),
            },
        ),
    ],
)
def test_a_branch_skips_every_path_that_it_does_not_follow(
    dag: Any, branch: str, taken: str, left_out: set[str]
) -> None:
    """A branch skips the other paths to their end, except for tasks that the taken path leads to and tasks outside the
    graph.
    """
    assert skipped(dag, branch, taken) == left_out
