"""A DAG of your own around a deploy: what has to be there before it, and what may only happen after it.

It needs `STREAMKEEPER_JOBS` to be the `jobs` folder of Streamkeeper's checkout; put it into your DAGs folder.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import Asset, Param, dag, task

from streamkeeper.airflow_tasks import deploy_streaming_job

COPIES = Asset("event_copies")


@dag(
    schedule=None,
    catchup=False,
    params={"folder": Param(type="string", description="What arrives is in its `in`, the copies are in its `out`")},
)
def release_event_copy():
    @task
    def prepare(params: dict[str, str]) -> dict[str, str]:
        """Make the folders; what a task returns may be a job's params."""
        places = {"input": f"{params['folder']}/in", "output": f"{params['folder']}/out"}
        for place in places.values():
            Path(place).mkdir(parents=True, exist_ok=True)
        return places

    @task
    def announce(outcome: str) -> str:
        """Runs only where the deploy succeeded; what became of it is what its last task returns."""
        return f"event_copy is released: {outcome}"

    deployed = deploy_streaming_job(
        "event_copy",
        reason="release {{ run_id }}",
        params=prepare(),
        probation_batches=1,
        outlets=[COPIES],
    )
    deployed >> announce("{{ ti.xcom_pull(task_ids='deploy_event_copy.finish') }}")


release_event_copy()
