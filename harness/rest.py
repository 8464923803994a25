"""A client for the small part of Airflow's REST interface that the demo, the benchmarks and the integration tests
need.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import tenacity

from streamkeeper.errors import InvalidInput, StillWaiting, TemporaryError

_LONGEST_NOTE = 1000
_ENDED = frozenset({"success", "failed"})


class AirflowApi:
    """A client that logs in by itself and retries a request when Airflow, on SQLite, answers 500 under load."""

    def __init__(self, url: str, *, timeout_s: float = 30.0) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._token = ""

    def health(self) -> dict[str, str]:
        """Return the state of each component: healthy, unhealthy or None; raises TemporaryError while Airflow does not
        answer.
        """
        answer = self._once("GET", "/api/v2/monitor/health", None)
        return {name: part.get("status") for name, part in answer.items() if part}

    def has_dag(self, dag_id: str) -> bool:
        """Return whether the DAG has been parsed and is not paused, so that it can be triggered."""
        try:
            return not self._call("GET", f"/api/v2/dags/{dag_id}")["is_paused"]
        except InvalidInput:
            return False

    def import_errors(self) -> list[dict[str, Any]]:
        """Return the import errors of DAG files."""
        return list(self._call("GET", "/api/v2/importErrors")["import_errors"])

    def trigger(self, dag_id: str, conf: dict[str, Any], *, run_id: str | None = None) -> str:
        """Start a run and return its id; two calls with the same ``run_id`` start it once. Raises InvalidInput for
        invalid params.

        The run's note names the job and the reason, because a list of runs shows only ids otherwise.
        """
        note = ": ".join(str(conf[name]) for name in ("job", "reason") if conf.get(name))
        body: dict[str, Any] = {"logical_date": None, "conf": conf, "note": note[:_LONGEST_NOTE] or None}
        if run_id is not None:
            body["dag_run_id"] = run_id
        try:
            return str(self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])
        except Conflict:
            if run_id is None:
                raise
            return run_id

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Delete a run from Airflow, so that its id can be reused."""
        self._call("DELETE", _run(dag_id, run_id))

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run: queued, running, success or failed."""
        return str(self._call("GET", f"{_run(dag_id, run_id)}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Return the task instances of a run by their task ids, as Airflow describes them."""
        answer = self._call("GET", f"{_run(dag_id, run_id)}/taskInstances")
        return {each["task_id"]: each for each in answer["task_instances"]}

    def runs(self, dag_id: str) -> dict[str, str]:
        """Return how each of the newest 20 runs was started (manual, scheduled), by run id, the newest first."""
        answer = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=-run_after&limit=20")
        return {each["dag_run_id"]: each["run_type"] for each in answer["dag_runs"]}

    def set_paused(self, dag_id: str, paused: bool) -> None:
        """Pause or resume the DAG's schedule; raises InvalidInput for a DAG that has not been parsed yet."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}?update_mask=is_paused", {"is_paused": paused})

    def mapped(self, dag_id: str, run_id: str, task_id: str) -> list[dict[str, Any]]:
        """Return the instances of a mapped task, by map index, as Airflow describes them."""
        answer = self._call("GET", f"{_run(dag_id, run_id)}/taskInstances/{task_id}/listMapped")
        return list(answer["task_instances"])

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, *, map_index: int = -1) -> str:
        """Return the log of a task, one event per line."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/logs/{try_number}"
        answer = self._call("GET", f"{path}?full_content=true&map_index={map_index}")
        return "\n".join(_line(each) for each in answer["content"])

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", *, map_index: int = -1) -> Any:
        """Return a value that a task has pushed; raises InvalidInput if it does not exist."""
        path = (
            f"{_run(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/{key}?deserialize=true&map_index={map_index}"
        )
        return self._call("GET", path)["value"]

    def note(self, dag_id: str, run_id: str) -> str:
        """Return the note of a run, which Airflow's list of runs shows."""
        return str(self._call("GET", _run(dag_id, run_id))["note"])

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str]:
        """Return the addresses of the buttons on a task's page, by their names."""
        page = self._call("GET", f"{_run(dag_id, run_id)}/taskInstances/{task_id}/links")
        return {name: str(address) for name, address in page["extra_links"].items()}

    def asset_events(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the extra data of the asset events that a run's tasks have emitted."""
        asked = urllib.parse.urlencode({"source_dag_id": dag_id, "source_run_id": run_id})
        return [each["extra"] for each in self._call("GET", f"/api/v2/assets/events?{asked}")["asset_events"]]

    def add_connection(self, connection_id: str, conn_type: str, **fields: Any) -> None:
        """Create a connection, like the page Connections under Admin."""
        self._call("POST", "/api/v2/connections", {"connection_id": connection_id, "conn_type": conn_type, **fields})

    def question(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the question that a task asks a person: the subject in the first line, then the page; empty if it asks
        none.
        """
        try:
            asked = self._call("GET", _hitl(dag_id, run_id, task_id))
        except InvalidInput:
            return ""
        return f"{asked['subject']}\n\n{asked['body']}"

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str, **said: Any) -> None:
        """Answer a task's question with one of its options and the values of its form; raises Conflict if it was
        answered before.
        """
        body = {"chosen_options": [option], "params_input": said}
        self._call("PATCH", _hitl(dag_id, run_id, task_id), body)

    def clear(self, dag_id: str, run_id: str, task_ids: list[str]) -> None:
        """Clear tasks of a run and all tasks after them, so that Airflow reruns them."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": task_ids,
            "include_downstream": True,
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self._call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def wait_for_run(self, dag_id: str, run_id: str, *, timeout_s: float, poll_s: float = 1.0) -> str:
        """Wait for the final state of a run and return it; raises StillWaiting after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while (state := self.run_state(dag_id, run_id)) not in _ENDED:
            if time.monotonic() > deadline:
                raise StillWaiting(f"run {run_id} of {dag_id} is still {state} after {timeout_s:.0f} s")
            time.sleep(poll_s)
        return state

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(TemporaryError),
        stop=tenacity.stop_after_attempt(8),
        wait=tenacity.wait_exponential(multiplier=0.3, max=4),
        reraise=True,
    )
    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        if not self._token:
            self._token = str(self._once("GET", "/auth/token", None)["access_token"])
        return self._once(method, path, body)

    def _once(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise self._refused(method, path, error) from error
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            raise TemporaryError(f"Airflow at {self.url} does not answer: {error}") from error

    def _refused(self, method: str, path: str, error: urllib.error.HTTPError) -> Exception:
        text = error.read().decode(errors="replace")
        line = f"{method} {path}: {error.code} {_detail(text)}"
        if error.code == 401:
            self._token = ""
            return TemporaryError(line)
        if error.code == 409:
            return Conflict(line)
        return TemporaryError(line) if error.code >= 500 or error.code == 429 else InvalidInput(line)


class Conflict(InvalidInput):
    """The request conflicts with an existing object or an earlier answer (HTTP status 409)."""


def _run(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}"


def _hitl(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_run(dag_id, run_id)}/taskInstances/{task_id}/-1/hitlDetails"


def _detail(text: str) -> str:
    try:
        return str(json.loads(text).get("detail", text))
    except (ValueError, AttributeError):
        return text[:500]


def _line(event: Any) -> str:
    if isinstance(event, str):
        return event
    return " ".join(str(event[key]) for key in ("timestamp", "level", "event") if event.get(key))
