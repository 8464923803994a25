"""Tests the REST client's retries against a real HTTP server with scripted answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from harness.rest import AirflowApi, Conflict
from streamkeeper.errors import InvalidInput, TemporaryError


class Server:
    """An HTTP server that answers the token request, then returns what ``answers`` holds in order and repeats the last
    one.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.seen: list[tuple[str, str]] = []
        self.bodies: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def do_PATCH(self) -> None:
                self._answer()

            def _answer(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                outer.seen.append((self.command, self.path))
                code, body = (200, {"access_token": "t"}) if self.path == "/auth/token" else outer.next_answer()
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def next_answer(self) -> tuple[int, Any]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


def test_a_request_is_retried_after_a_500(server: Server) -> None:
    """The client retries after a 500, which Airflow on SQLite returns under load, and the run is triggered with one
    login.
    """
    server.answers = [(500, {"detail": "database is locked"}), (200, {"dag_run_id": "r1"})]
    assert AirflowApi(server.url).trigger("streaming_deploy", {}) == "r1"
    assert [path for _, path in server.seen].count("/auth/token") == 1


def test_a_trigger_with_an_existing_run_id_returns_that_run(server: Server) -> None:
    """A trigger with a run id that already exists returns that run, so a trigger whose answer was lost can be repeated;
    without a run id it is a conflict.
    """
    server.answers = [(409, {"detail": "exists"})]
    assert AirflowApi(server.url).trigger("streaming_deploy", {}, run_id="mine") == "mine"
    with pytest.raises(Conflict):
        AirflowApi(server.url).trigger("streaming_deploy", {})


def test_a_400_is_raised_with_its_message_and_not_retried(server: Server) -> None:
    """A 400 is raised with the schema's message after a single request, because bad params are the caller's error."""
    server.answers = [(400, {"detail": "'job' is a required property"})]
    with pytest.raises(InvalidInput, match="'job' is a required property"):
        AirflowApi(server.url).trigger("streaming_deploy", {})
    assert len(server.seen) == 2


def test_an_expired_token_is_renewed(server: Server) -> None:
    """After a 401 the client logs in once more and the request succeeds."""
    server.answers = [(401, {"detail": "expired"}), (200, {"state": "running"})]
    assert AirflowApi(server.url).run_state("streaming_deploy", "r1") == "running"
    assert [path for _, path in server.seen].count("/auth/token") == 2


def test_a_refused_connection_is_a_temporary_error(server: Server) -> None:
    """A refused connection is a temporary error, not invalid input, because Airflow may not be up yet."""
    server.answers = [(200, {})]
    with pytest.raises(TemporaryError, match="does not answer"):
        AirflowApi("http://127.0.0.1:9").health()


def test_an_approval_question_is_read_and_answered_only_once(server: Server) -> None:
    """A task without a question yields an empty text, an answer sends the chosen option and the form's input, and a
    second answer is a conflict.
    """
    api, task = AirflowApi(server.url), ("streaming_deploy", "r1", "backup.approve")
    server.answers = [(404, {"detail": "no such thing"}), (200, {"subject": "Let r2 take over?", "body": "why"})]
    assert api.question(*task) == ""
    assert api.question(*task) == "Let r2 take over?\n\nwhy"
    server.answers = [(200, {}), (409, {"detail": "answered already"})]
    api.answer(*task, "Approve", reason="read")
    where = "/api/v2/dags/streaming_deploy/dagRuns/r1/taskInstances/backup.approve/-1/hitlDetails"
    assert server.seen[-1] == ("PATCH", where)
    assert json.loads(server.bodies[-1]) == {"chosen_options": ["Approve"], "params_input": {"reason": "read"}}
    with pytest.raises(Conflict):
        api.answer(*task, "Approve")
