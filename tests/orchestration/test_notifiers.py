"""Notifiers: a webhook does not treat a redirect as success, and no failure message contains a notifier's arguments."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from streamkeeper.errors import TemporaryError
from streamkeeper.operations.jobs.notices import Message, send_message

pytestmark = pytest.mark.airflow
TOKEN = "T0KENsecretOne"
WEBHOOK = "streamkeeper.orchestration.webhook.WebhookNotifier"
MESSAGE = Message(
    job="sales", query="", rule="sink-down", severity="page", event="raised", subject="s", text="t", runbook="r"
)


class Strict:
    """A notifier whose error contains parts of its arguments."""

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        self.url = url

    def __call__(self, context: Any) -> None:
        raise ValueError(
            f"no answer of {self.url.partition('//')[2].partition('/')[2]} for {context['incident']['rule']}"
        )


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A server that answers ``/<status>/…`` with that status; a redirect leads to a page that answers 200."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append("POST")
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(int(self.path.split("/")[1]))
            self.send_header("Location", "/login")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            asked.append("GET")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}", asked
        found.shutdown()


def post(url: str) -> None:
    from streamkeeper.orchestration.webhook import WebhookNotifier

    context: Any = {"incident": {"rule": "sink-down"}}
    WebhookNotifier(url, headers={"X-Token": TOKEN}).notify(context)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 404, 500])
def test_a_webhook_that_answers_a_redirect_or_error_fails(server: tuple[str, list[str]], status: int) -> None:
    """A webhook that answers with a redirect or an error status fails; the redirect is not followed, and the error
    names host and status but not the address.
    """
    url, asked = server
    with pytest.raises(TemporaryError) as raised:
        post(f"{url}/{status}/{TOKEN}")
    assert str(raised.value) == f"127.0.0.1 answered {status}"
    assert asked == ["POST"]


def test_a_webhook_that_answers_200_succeeds(server: tuple[str, list[str]]) -> None:
    """Negative control: a webhook that answers 200 succeeds."""
    url, asked = server
    post(f"{url}/200/{TOKEN}")
    assert asked == ["POST"]


@pytest.mark.parametrize(
    ("notifier", "url"),
    [
        (WEBHOOK, f"hooks.example.org/services/{TOKEN}"),
        (WEBHOOK, f"http://127.0.0.1:9/services/{TOKEN}"),
        (WEBHOOK, f"http://127.0.0.1:9/services/{TOKEN} x"),
        (f"{__name__}.Strict", f"https://hooks.example.org/{TOKEN}"),
        (f"{__name__}.Strict", f"https://hooks.example.org/services/T000/{TOKEN}"),
        (f"{__name__}.Strict", f"https://hooks.example.org/post?key={TOKEN}"),
    ],
)
def test_a_notifiers_failure_message_contains_no_secret_argument(notifier: str, url: str) -> None:
    """The failure message of a notifier, which the index and the fleet's page show, does not contain its secret
    arguments.
    """
    from streamkeeper.orchestration.notifiers import make_senders

    given = [{"notifier": notifier, "kwargs": {"url": url}}]
    context: Any = {}
    (failed,) = send_message(make_senders({"STREAMKEEPER_NOTIFIERS": json.dumps(given)}, context), MESSAGE)[1]
    assert TOKEN not in failed
    assert "Error: " in failed or "InvalidInput: " in failed or "InvalidURL: " in failed


def test_without_the_mask_the_failure_message_contains_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the mask the failure message contains the secret; with it, text that is not part of an
    argument stays readable.
    """
    from streamkeeper.orchestration import notifiers

    given = {"notifier": f"{__name__}.Strict", "kwargs": {"url": f"https://hooks.example.org/services/{TOKEN}"}}
    environ, context = {"STREAMKEEPER_NOTIFIERS": json.dumps(given)}, {}
    assert "no answer of" in send_message(notifiers.make_senders(environ, context), MESSAGE)[1][0]  # type: ignore[arg-type]
    monkeypatch.setattr(notifiers, "_private", lambda _: ())
    assert TOKEN in send_message(notifiers.make_senders(environ, context), MESSAGE)[1][0]  # type: ignore[arg-type]
