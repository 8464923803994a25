"""Stopping and starting a job through a real Airflow, with a real driver."""

from __future__ import annotations

from typing import Any

import pytest

from demo.processes import wait_until
from demo.releases import SALES_TOTALS
from demo.rest import AirflowApi
from streamkeeper.errors import InvalidInput
from streamkeeper.model.liveness import Life
from tests.integration.installation import Installation, Run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]
STOP, START = "streaming_stop", "streaming_start"


@pytest.fixture(scope="module")
def served(installation: Installation, api: AirflowApi) -> Installation:
    """The job deployed, and serving."""
    installation.sell()
    deploy = Run(api, installation.form())
    assert deploy.wait() == "success", deploy.told()
    assert wait_until(lambda: all(api.has_dag(each) for each in (STOP, START)), timeout_s=60)
    return installation


def run(api: AirflowApi, dag: str, job: str = SALES_TOTALS) -> Run:
    """A run of one of the two, over."""
    made = Run(api, {"job": job, "reason": "the warehouse moves"}, dag=dag)
    made.wait()
    return made


def life(installation: Installation) -> Life:
    """Of the driver that serves, or did last."""
    return installation.system.site.runner.observe(SALES_TOTALS, installation.state.serving_instance).life


def test_a_job_is_stopped_and_started_from_airflow(served: Installation, api: AirflowApi) -> None:
    """Nothing runs in between, and what came meanwhile is read once; again, each has nothing to do."""
    assert wait_until(served.caught_up, timeout_s=60)
    stopped = run(api, STOP)
    assert (stopped.state, stopped.states()) == ("success", {"stop": "success"}), stopped.log("stop")
    assert life(served) is Life.DEAD
    state = served.state
    assert state.stopped is not None
    assert (state.stopped.reason, state.stopped.operation) == ("the warehouse moves", stopped.operation)
    told = stopped.log("stop")
    assert "driver | " in told
    assert "the instance has ended drained" in told
    assert served.secret not in told

    again = run(api, STOP)
    assert again.states() == {"stop": "skipped"}
    assert "nothing was to be done" in again.log("stop")

    served.sell()
    started = run(api, START)
    assert (started.state, started.states()) == ("success", {"start": "success"}), started.log("start")
    assert wait_until(served.caught_up, timeout_s=60)
    assert (life(served), served.state.wanted) == (Life.ALIVE, True)
    assert served.state.serving_release == state.serving_release
    assert run(api, START).states() == {"start": "skipped"}


@pytest.mark.parametrize("dag", [STOP, START])
def test_an_unknown_job_is_one_clear_line(served: Installation, api: AirflowApi, dag: str) -> None:
    """It fails at once, without another try."""
    failed = run(api, dag, "nope")
    task = dag.removeprefix("streaming_")
    assert failed.state == "failed"
    assert "NotFound: job nope is not known" in failed.log(task)
    assert int(api.tasks(dag, failed.run_id)[task]["try_number"]) == 1


@pytest.mark.parametrize("wrong", [{"job": "../up"}, {"reason": "no"}, {"drain_s": 0}], ids=str)
def test_a_bad_param_is_a_400(served: Installation, api: AirflowApi, wrong: dict[str, Any]) -> None:
    """It never becomes a run; the answer names the field."""
    with pytest.raises(InvalidInput, match=f"400 .*{next(iter(wrong))}"):
        api.trigger(STOP, {"job": SALES_TOTALS, "reason": "the warehouse moves", **wrong})
