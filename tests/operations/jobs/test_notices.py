"""Notices on their way: order and memory for each notifier, and what a notifier that fails or hangs costs."""

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
    """A job's incidents, none so far."""
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
def test_a_notifier_that_fails_keeps_nothing_from_the_others(log: IncidentLog, names: tuple[str, str]) -> None:
    """Every page reaches the other one at once, in order and once; the failing one is tried once a pass."""
    mails: list[str] = []
    senders = {name: {"hook": down, "mail": keeping(mails)}[name] for name in names}
    raise_pages(log, *RULES)
    for now in (0.0, 60.0, 120.0):
        assert len(send_notices(log, senders, now=now)) == 1
    assert mails == list(RULES)
    assert [notice.sent for notice in log.state().unsent] == [("mail",)] * 4


def test_a_notifier_that_answers_again_gets_all_in_order(log: IncidentLog) -> None:
    """Negative control: an order for each notifier; one that fails in the middle gets nothing out of order."""
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
    """Of the runbook's headings, as GitHub makes them."""
    lines = Path("docs/operations/runbook.md").read_text(encoding="utf-8").splitlines()
    heads = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    kept = ["".join(each for each in head if each.isalnum() or each in "-_ ") for head in heads]
    return {head.replace(" ", "-") for head in kept}


def test_every_rule_links_to_a_heading_of_the_runbook() -> None:
    """An apostrophe is in no anchor; negative control: with it, two rules led nowhere."""
    known = anchors()
    links = {
        rule.id: runbook_link(rule.heading).removeprefix("docs/operations/runbook.md#") for rule in RULES_OF_HEALTH
    }
    assert {rule: link for rule, link in links.items() if link not in known} == {}
    assert "a-driver's-machine-is-gone" not in known
    assert links["driver-lost"] == "a-drivers-machine-is-gone"


@pytest.fixture
def answer() -> Iterator[Event]:
    """What a hanging server waits for."""
    event = Event()
    yield event
    event.set()


def test_a_notifier_that_hangs_costs_one_wait_and_nobody_else(log: IncidentLog, answer: Event) -> None:
    """It is given up after its limit and not tried again in this pass; the mail has every page."""
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
    """A notifier that works slowly gets what is left in the next pass. Negative control: with time enough, all now."""
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


def test_after_that_deadline_nothing_is_sent(log: IncidentLog) -> None:
    """A message that went out then would count as failed, and come again with the next pass."""
    mails: list[str] = []
    raise_pages(log, "sink-down")
    (failed,) = send_notices(log, bound_senders({"mail": keeping(mails)}, tell_s=0.0), now=0.0)
    assert failed.endswith("TimeoutError: not tried: all notices together took longer than 0 s")
    assert mails == []
    assert [notice.sent for notice in log.state().unsent] == [()]


def test_what_a_notifier_raises_in_time_is_raised_as_it_is(log: IncidentLog) -> None:
    """A limit changes no error, and an end of the process is no failure of a notifier."""

    def ends(_: Message) -> None:
        raise KeyboardInterrupt

    raise_pages(log, "sink-down")
    assert "OSError: webhook down" in send_notices(log, bound_senders({"hook": down}), now=0.0)[0]
    with pytest.raises(KeyboardInterrupt):
        send_notices(log, bound_senders({"hook": ends}), now=60.0)
