"""Tests of the scripts in the example of ``docker-compose.yml``: one deploys the job once, the other feeds the events
that the job reads.
"""

from __future__ import annotations

import json
import random
import re
import runpy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

DOCKER = Path(__file__).resolve().parents[2] / "docker"
DAG = "/api/v2/dags/streaming_deploy"
RUN = f"{DAG}/dagRuns/example"
PASSWORD = "open sesame"


class FakeAirflow:
    """A fake Airflow server. ``answers``: the responses to each path in order, of which the last one is repeated;
    ``posted``: the requests that it received.
    """

    def __init__(self, answers: dict[str, list[tuple[int, dict[str, Any]]]]) -> None:
        self.answers = answers
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.url = ""

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        found = self.answers[path]
        return found.pop(0) if len(found) > 1 else found[0]


@contextmanager
def serving(fake: FakeAirflow) -> Iterator[FakeAirflow]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Authorization"] == "Bearer t"
            self._send(*fake.answer(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/auth/token":
                right = body == {"username": "admin", "password": PASSWORD}
                self._send(*((201, {"access_token": "t"}) if right else (401, {"detail": "Invalid credentials"})))
                return
            fake.posted.append((self.path, body))
            self._send(200, {"dag_run_id": body["dag_run_id"]})

        def _send(self, code: int, body: dict[str, Any]) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        fake.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield fake
        server.shutdown()
        thread.join()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The script ``deploy_example.py`` without its pauses."""
    monkeypatch.setenv("STREAMKEEPER_ADMIN_PASSWORD", PASSWORD)
    found = runpy.run_path(str(DOCKER / "deploy_example.py"))
    found["_wait"].__globals__["_POLL_S"] = 0.0
    return found


def test_the_script_triggers_one_run_and_waits_until_it_succeeds(script, capsys) -> None:
    """The script triggers one run with the form's conf and a fixed id once the DAG exists, retries while the server is
    busy, and waits until the run has succeeded.
    """
    runs = [(404, {}), (200, {"state": "queued"}), (200, {"state": "running"}), (200, {"state": "success"})]
    with serving(FakeAirflow({DAG: [(404, {}), (503, {}), (200, {})], RUN: runs})) as airflow:
        assert script["main"]([airflow.url, "kafka:9092", "events"]) == 0
    ((path, body),) = airflow.posted
    assert path == RUN.removesuffix("/example")
    assert body["dag_run_id"] == "example"
    assert body["conf"] == script["make_form"]("kafka:9092", "events")
    assert capsys.readouterr().out == "event_counts serves\n"


def test_a_second_compose_up_triggers_no_other_run(script) -> None:
    """A second ``docker compose up`` does not trigger another deploy if the run exists."""
    with serving(FakeAirflow({DAG: [(200, {})], RUN: [(200, {"state": "success"})]})) as airflow:
        assert script["main"]([airflow.url, "kafka:9092", "events"]) == 0
    assert airflow.posted == []


def test_a_failed_run_exits_with_an_error_that_names_the_remedy(script) -> None:
    """A failed run makes the script exit with an error that states how to continue, and is not triggered anew."""
    airflow = FakeAirflow({DAG: [(200, {})], RUN: [(200, {"state": "failed"})]})
    with serving(airflow), pytest.raises(SystemExit, match=r"the run example .* failed.*clear that task"):
        script["main"]([airflow.url, "kafka:9092", "events"])
    assert airflow.posted == []


def test_a_wrong_password_is_reported_with_airflows_message(script, monkeypatch) -> None:
    """A wrong password is reported with Airflow's own message, for example after the one in ``.env`` was changed."""
    monkeypatch.setenv("STREAMKEEPER_ADMIN_PASSWORD", "another")
    with serving(FakeAirflow({})) as airflow, pytest.raises(OSError, match="401.*Invalid credentials"):
        script["main"]([airflow.url, "kafka:9092", "events"])


def test_events_are_what_the_job_reads() -> None:
    """The generated events have the columns of the job and a UTC timestamp that a watermark can use."""
    feed = runpy.run_path(str(DOCKER / "feed_events.py"))
    now = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
    event = feed["make_event"](random.Random(3), now)
    job = (DOCKER.parent / "jobs" / "event_counts.py").read_text()
    (columns,) = re.findall(r'^EVENT = "(.+)"$', job, re.MULTILINE)
    assert list(event) == [column.split()[0] for column in columns.split(", ")]
    assert event["at"] == "2026-03-01T12:30:05Z"
    assert isinstance(event["amount"], int)
