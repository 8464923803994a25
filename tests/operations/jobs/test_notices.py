"""Delivery of notices: their order and state for each notifier, and the cost of a notifier that fails or hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from streamkeeper.health.rules import RULES as RULES_OF_HEALTH
from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.incident import IncidentRaised
from streamkeeper.operations.jobs.notices import Message, bound_senders, runbook_link, send_notices
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.stores.store_urls import open_store

RULES = ("backup-late", "sink-down", "driver-dead", "checkpoint-missing")


@pytest.fixture
def log(tmp_path: Path) -> IncidentLog:
    """The incident log of a job without incidents."""
    return IncidentLog(open_store(str(tmp_path / "store")), "sales", writer="watch")


def raise_pages(log: IncidentLog, *rules: str) -> None:
    for rule in rules:
        symptom = Symptom(
            job="sales", query="", rule=rule, severity=Urgency.PAGE, cause="c", action="a", heading="Nothing serves"
        )
        log.append(lambda _, symptom=symptom: IncidentRaised(symptom=symptom), now=0.0)


def keeping(rules: list[str]) -> Callable[[Message], None]:
    return lambda message: rules.append(message.rule)


def down(_: Message) -> None:
    raise OSError("webhook down")


@pytest.mark.parametrize("names", [("hook", "mail"), ("mail", "hook")])
def test_a_failing_notifier_does_not_delay_the_others(log: IncidentLog, names: tuple[str, str]) -> None:
    """A failing notifier does not delay the others: they receive every page once, in order, and the failing one is
    tried once in each pass.
    """
    mails: list[str] = []
    senders = {name: {"hook": down, "mail": keeping(mails)}[name] for name in names}
    raise_pages(log, *RULES)
    for now in (0.0, 60.0, 120.0):
        assert len(send_notices(log, senders, now=now)) == 1
    assert mails == list(RULES)
    assert [notice.sent for notice in log.state().unsent] == [("mail",)] * 4


def test_a_recovered_notifier_receives_all_pages_once_in_order(log: IncidentLog) -> None:
    """A notifier that works again after a failure receives all pages once, in order. Negative control: after a failure
    in the middle it receives no later page first.
    """
    hooks: list[str] = []
    mails: list[str] = []
    broken = {"sink-down"}

    def hook(message: Message) -> None:
        if message.rule in broken:
            raise OSError("webhook down")
        hooks.append(message.rule)

    senders = {"hook": hook, "mail": keeping(mails)}
    raise_pages(log, *RULES)
    send_notices(log, senders, now=0.0)
    assert hooks == ["backup-late"]
    broken.clear()
    assert send_notices(log, senders, now=60.0) == []
    assert hooks == mails == list(RULES)
    assert log.state().unsent == ()


def anchors() -> set[str]:
    """Return the anchors of the runbook's headings, as GitHub derives them."""
    lines = Path("docs/operations/runbook.md").read_text(encoding="utf-8").splitlines()
    heads = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    kept = ["".join(each for each in head if each.isalnum() or each in "-_ ") for head in heads]
    return {head.replace(" ", "-") for head in kept}


def test_every_rule_links_to_a_heading_of_the_runbook() -> None:
    """Every rule links to an existing heading of the runbook. Negative control: an anchor with an apostrophe does not
    exist.
    """
    known = anchors()
    links = {
        rule.id: runbook_link(rule.heading).removeprefix("docs/operations/runbook.md#") for rule in RULES_OF_HEALTH
    }
    assert {rule: link for rule, link in links.items() if link not in known} == {}
    assert "a-driver's-machine-is-gone" not in known
    assert links["driver-lost"] == "a-drivers-machine-is-gone"


@pytest.fixture
def answer() -> Iterator[Event]:
    """The event that a hanging server waits for."""
    event = Event()
    yield event
    event.set()


def test_a_hanging_notifier_is_abandoned_for_the_pass_and_delays_no_other(log: IncidentLog, answer: Event) -> None:
    """A hanging notifier is given up after its time limit and not tried again in the same pass, and the other notifier
    receives every page.
    """
    mails: list[str] = []
    senders = bound_senders({"hook": lambda _: answer.wait(60) and None, "mail": keeping(mails)}, send_s=0.2)
    raise_pages(log, *RULES)
    began = time.monotonic()
    failed = send_notices(log, senders, now=0.0) + send_notices(log, senders, now=1.0)
    assert time.monotonic() - began < 5
    assert mails == list(RULES)
    assert ["no answer within 0.2 s" in failed[0], "not tried: an earlier message" in failed[1]] == [True, True]
    assert [notice.sent for notice in log.state().unsent] == [("mail",)] * 4


def test_all_notices_of_a_pass_have_one_deadline(log: IncidentLog) -> None:
    """All notices of a pass share one deadline, and a slow notifier receives the rest in the next pass. Negative
    control: with enough time all are sent at once.
    """
    hooks: list[str] = []

    def slow(message: Message) -> None:
        time.sleep(0.2)
        hooks.append(message.rule)

    raise_pages(log, *RULES)
    (failed,) = send_notices(log, bound_senders({"hook": slow}, tell_s=0.3), now=0.0)
    assert "TimeoutError" in failed
    assert len(log.state().unsent) >= 2
    assert send_notices(log, bound_senders({"hook": slow}), now=60.0) == []
    assert hooks[-1] == RULES[-1]
    assert log.state().unsent == ()


def test_after_the_deadline_of_a_pass_no_notice_is_sent(log: IncidentLog) -> None:
    """After the deadline no message is sent, because it would count as failed and be sent a second time in the next
    pass.
    """
    mails: list[str] = []
    raise_pages(log, "sink-down")
    (failed,) = send_notices(log, bound_senders({"mail": keeping(mails)}, tell_s=0.0), now=0.0)
    assert failed.endswith("TimeoutError: not tried: all notices together took longer than 0 s")
    assert mails == []
    assert [notice.sent for notice in log.state().unsent] == [()]


def test_the_time_limit_does_not_change_a_notifiers_error(log: IncidentLog) -> None:
    """The time limit does not change a notifier's error, and a KeyboardInterrupt is not treated as a failure of the
    notifier.
    """

    def ends(_: Message) -> None:
        raise KeyboardInterrupt

    raise_pages(log, "sink-down")
    assert "OSError: webhook down" in send_notices(log, bound_senders({"hook": down}), now=0.0)[0]
    with pytest.raises(KeyboardInterrupt):
        send_notices(log, bound_senders({"hook": ends}), now=60.0)
