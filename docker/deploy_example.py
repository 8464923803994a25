"""Has Airflow deploy jobs/event_counts.py, once, and waits until it serves.

The run has a fixed id: asked again, Airflow says that there is one, and nothing is deployed a second time.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

DAG, RUN = "streaming_deploy", "example"
_KNOWN_S, _SERVES_S, _POLL_S = 300.0, 1200.0, 3.0


def make_form(servers: str, topic: str) -> dict[str, Any]:
    """What a person would fill in: two small executors, and a driver that is as small."""
    return {
        "job": "event_counts",
        "reason": "the example of docker-compose",
        "params": {
            "servers": servers,
            "topic": topic,
            "warehouse": "secret://env/WAREHOUSE",
            "trigger": "5 seconds",
        },
        "conf": {"spark.driver.memory": "512m", "spark.executor.memory": "512m"},
    }


class Airflow:
    """The little of its REST interface that this needs."""

    def __init__(self, url: str, password: str) -> None:
        self._url = url.rstrip("/")
        self._session = requests.Session()
        # What asks only may be asked again: a server that is restarted, or busy.
        again = Retry(total=8, backoff_factor=0.5, status_forcelist=(500, 502, 503, 504), allowed_methods=("GET",))
        self._session.mount("http://", HTTPAdapter(max_retries=again))
        token = self.post("/auth/token", {"username": "admin", "password": password})["access_token"]
        self._session.headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> dict[str, Any] | None:
        """The answer; None where there is no such thing."""
        answer = self._session.get(f"{self._url}{path}", timeout=30)
        if answer.status_code == requests.codes.not_found:
            return None
        answer.raise_for_status()
        return dict(answer.json())

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer; raises requests.HTTPError with what the server says."""
        answer = self._session.post(f"{self._url}{path}", json=body, timeout=30)
        if not answer.ok:
            raise requests.HTTPError(f"{path}: {answer.status_code} {answer.text[:1000]}", response=answer)
        return dict(answer.json())


def deploy(airflow: Airflow, form: dict[str, Any]) -> str:
    """How the run ended: success or failed; raises SystemExit when something takes too long."""
    _wait(lambda: airflow.get(f"/api/v2/dags/{DAG}"), _KNOWN_S, f"Airflow does not know the DAG {DAG}")
    run = f"/api/v2/dags/{DAG}/dagRuns/{RUN}"
    if airflow.get(run) is None:
        note = f"{form['job']}: {form['reason']}"
        body = {"dag_run_id": RUN, "logical_date": None, "note": note, "conf": form}
        airflow.post(f"/api/v2/dags/{DAG}/dagRuns", body)

    def ended() -> str | None:
        state = (airflow.get(run) or {}).get("state")
        return str(state) if state in ("success", "failed") else None

    return str(_wait(ended, _SERVES_S, f"the run {RUN} of {DAG} has not ended"))


def _wait(look: Any, at_most_s: float, otherwise: str) -> Any:
    deadline = time.monotonic() + at_most_s
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise SystemExit(f"{otherwise} after {at_most_s:.0f} s: look at it in Airflow, then start this again")
        time.sleep(_POLL_S)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """0 once the job serves."""
    parser = argparse.ArgumentParser(prog="deploy_example", description="Have Airflow deploy the example, once.")
    parser.add_argument("airflow", help="its address")
    parser.add_argument("servers", help="Kafka's bootstrap servers, as drivers and executors reach them")
    parser.add_argument("topic")
    chosen = parser.parse_args(arguments)
    airflow = Airflow(chosen.airflow, os.environ["STREAMKEEPER_ADMIN_PASSWORD"])
    state = deploy(airflow, make_form(chosen.servers, chosen.topic))
    if state != "success":
        raise SystemExit(f"the run {RUN} of {DAG} failed: its task says why; clear that task in Airflow to go on")
    print("event_counts serves", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
