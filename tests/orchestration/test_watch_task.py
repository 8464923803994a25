"""Tests the watch's task: its pass, its notifiers over real sockets, the asset that it updates, and its queries to
Airflow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.carriers import Carrier, note_carrier
from streamkeeper.registry.fleet import read_index
from tests.orchestration.installed import JOB, Registered, install
from tests.orchestration.running import Instance, context_of
from tests.orchestration.smtp_server import smtp_server
from tests.orchestration.web_server import Hook, web_server

pytestmark = pytest.mark.airflow
SMTP = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
WEBHOOK = "streamkeeper.orchestration.webhook.WebhookNotifier"


class Airflow(Instance):
    """A task instance that reports which DAG runs have finished."""

    over: tuple[str, ...] = ()

    def get_dr_count(self, *, dag_id: str, run_ids: list[str], states: list[str]) -> int:
        """Return how many of the runs have finished."""
        assert states == ["failed", "success"]
        return len([each for each in run_ids if f"{dag_id}/{each}" in self.over])


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job that should be running, but for which no process was ever started on this machine."""
    return install(tmp_path, monkeypatch)


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A web server to which a notifier posts."""
    with web_server() as found:
        yield found


def watch(airflow: Airflow | None = None, **form: Any) -> tuple[str, dict[str, Any]]:
    """Run the task once and return its result and the content of the asset's event."""
    from airflow.sdk import DAG

    from streamkeeper.orchestration.watch_task import HEALTH, WatchOperator

    class Event:
        extra: dict[str, Any] = {}

    context = context_of(airflow or Airflow(), **{"dry_run": False, **form})
    context["dag"] = DAG("a_dag", schedule=None, params=context["params"])
    context["outlet_events"] = {HEALTH: Event()}
    sentence = WatchOperator(task_id="watch").work(context)
    return sentence, context["outlet_events"][HEALTH].extra


def test_a_pass_reports_the_same_symptoms_in_its_index_and_asset_event(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass of the watch reports the same jobs and symptoms in its sentence, in the index and in the asset's event."""
    monkeypatch.setenv("STREAMKEEPER_WATCH_ACTS", "no")
    sentence, extra = watch()
    index = read_index(job.installation.store, _installation(job))
    assert index is not None
    assert "1 jobs in" in sentence
    assert (extra["number"], extra["jobs"]) == (index.number, 1)
    assert "driver-dead" in extra["wrong"][JOB]
    assert extra["severities"] == {"page": 1}


def _installation(job: Registered) -> str:
    from streamkeeper.registry.installations import read_installation

    found = read_installation(job.installation.store)
    return found.id if found is not None else ""


def test_incidents_reach_a_mail_server_and_a_webhook_once(
    job: Registered, monkeypatch: pytest.MonkeyPatch, hook: Hook
) -> None:
    """Airflow's own notifier classes deliver an incident by mail and webhook over real sockets, and a second pass does
    not send it a second time.
    """
    url, posted, _ = hook
    monkeypatch.setenv("STREAMKEEPER_WATCH_ACTS", "no")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example")
    with smtp_server() as (port, mails):
        extra = {"disable_ssl": True, "disable_tls": True, "retry_limit": 1}
        connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        notifiers = [
            {"notifier": SMTP, "kwargs": {"to": "oncall@example.org", "from_email": "watch@example.org"}},
            {"notifier": WEBHOOK, "kwargs": {"url": url, "headers": {"X-Job": "{{ incident.job }}"}}},
        ]
        monkeypatch.setenv("STREAMKEEPER_NOTIFIERS", json.dumps(notifiers))
        watch()
        watch()
    dead = [each for each in posted if each["rule"] == "driver-dead"]
    assert [each["event"] for each in dead] == ["raised"]
    assert dead[0]["runbook"] == "docs/operations/runbook.md#nothing-serves"
    page = f"http://airflow.example/plugin/streamkeeper/streamkeeper/jobs/{JOB}"
    assert dead[0]["page"] == page
    assert dead[0]["text"].endswith(f"\nPage: {page}")
    assert page in _html(mails[0])
    subjects = [str(each["Subject"]) for each in mails]
    assert subjects.count(f"[page] {JOB}: driver-dead raised") == 1
    assert len(subjects) == len(posted)
    assert "How to fix: the watch restarts it" in _html(mails[0])


def test_a_notification_has_no_link_without_a_base_url(
    job: Registered, monkeypatch: pytest.MonkeyPatch, hook: Hook
) -> None:
    """Without a base URL of Airflow, a notification contains no link to the job's page."""
    url, posted, _ = hook
    monkeypatch.setenv("STREAMKEEPER_WATCH_ACTS", "no")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "")
    monkeypatch.setenv("STREAMKEEPER_NOTIFIERS", json.dumps([{"notifier": WEBHOOK, "kwargs": {"url": url}}]))
    watch()
    assert posted
    assert all(each["page"] == "" and "Page:" not in each["text"] for each in posted)


def _html(mail: EmailMessage) -> str:
    return str(next(part for part in mail.walk() if part.get_content_type() == "text/html").get_content())


def test_a_notifier_that_fails_is_logged_and_tried_again(
    job: Registered, monkeypatch: pytest.MonkeyPatch, hook: Hook
) -> None:
    """The watch completes its pass despite a webhook that returns 500, a notifier class that cannot be loaded and a
    setting that is not JSON; a failed notification is retried, and a faulty setting is recorded in the index.
    """
    url, posted, answers = hook
    monkeypatch.setenv("STREAMKEEPER_WATCH_ACTS", "no")
    answers.append(500)
    monkeypatch.setenv("STREAMKEEPER_NOTIFIERS", json.dumps([{"notifier": WEBHOOK, "kwargs": {"url": url}}]))
    _, extra = watch()
    assert "driver-dead" in extra["wrong"][JOB]
    assert posted == []
    answers.append(200)
    monkeypatch.setattr("streamkeeper.operations.jobs.notices.GRACE_S", 0.0)
    watch()
    assert posted[0]["rule"] == "driver-dead"
    for wrong, told in (("no.such.Notifier", "cannot be loaded"), ("{", "STREAMKEEPER_NOTIFIERS cannot be read")):
        job.installation.store.delete("fleet/index.json")
        for key in list(job.installation.store.list("incidents/")):
            job.installation.store.delete(key)
        monkeypatch.setenv("STREAMKEEPER_NOTIFIERS", wrong)
        watch()
        index = read_index(job.installation.store, _installation(job))
        assert index is not None
        assert any(told in line for line in index.failed), index.failed


def test_an_operation_is_continued_only_after_its_dag_run_has_finished(job: Registered) -> None:
    """The watch continues an open operation only after Airflow reports that the DAG run that carries it has
    finished.
    """
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0009"))
    note_carrier(job.installation.store, JOB, "op2", Carrier(dag="streaming_deploy", run="manual__2"))

    def outcome() -> object:
        return job.installation.journal(JOB, "test").state().operations["op2"].outcome

    watch(Airflow())
    assert outcome() is None
    airflow = Airflow()
    airflow.over = ("streaming_deploy/manual__2",)
    watch(airflow)
    assert outcome() is not None


def test_a_dry_run_writes_nothing(job: Registered) -> None:
    """A dry run of the watch reports which incidents it would raise and what it would start, but writes no incident and
    does not update the asset.
    """
    airflow = Airflow()
    _, extra = watch(airflow, dry_run=True)
    assert f"would be raised page driver-dead of {JOB}" in airflow.pushed["report"]
    assert f"would start {JOB}" in airflow.pushed["report"]
    assert extra == {}
    assert list(job.installation.store.list("incidents/")) == []


def test_an_invalid_watch_acts_setting_is_refused_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """``STREAMKEEPER_WATCH_ACTS`` accepts only yes or no, and any other value is refused with one line."""
    from streamkeeper.orchestration.watch_task import read_acts

    assert read_acts({})
    with pytest.raises(InvalidInput, match="STREAMKEEPER_WATCH_ACTS=perhaps is neither yes nor no"):
        read_acts({"STREAMKEEPER_WATCH_ACTS": "perhaps"})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("a.B", ["a.B#1"]),
        ('["a.B", {"notifier": "c.D", "kwargs": {"x": 1}}]', ["a.B#1", "c.D#2"]),
        ('{"notifier": "c.D"}', ["c.D#1"]),
    ],
)
def test_notifiers_have_stable_names_across_passes(text: str, names: list[str]) -> None:
    """Every notifier gets a stable name from its class path and position, so that each pass can tell which notifiers
    have already sent an incident.
    """
    from streamkeeper.orchestration.notifiers import read_notifiers

    assert list(read_notifiers({"STREAMKEEPER_NOTIFIERS": text})) == names


def test_an_unknown_key_of_a_notifier_is_refused() -> None:
    """A misspelt key in a notifier's setting is refused, because ignoring it would lose the recipient's address."""
    from streamkeeper.orchestration.notifiers import read_notifiers

    with pytest.raises(InvalidInput, match="STREAMKEEPER_NOTIFIERS cannot be read: .*kwarg"):
        read_notifiers({"STREAMKEEPER_NOTIFIERS": '{"notifier": "c.D", "kwarg": {}}'})
