"""Notices on their way: order and memory for each notifier, and what a notifier that fails or hangs costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamkeeper.model.health import Severity, Symptom
from streamkeeper.model.incident import IncidentRaised
from streamkeeper.operations.notices import Message, send_notices
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.stores.opening import open_store

RULES = ("backup-late", "sink-down", "driver-dead", "checkpoint-missing")


@pytest.fixture
def log(tmp_path: Path) -> IncidentLog:
    """A job's incidents, none so far."""
    return IncidentLog(open_store(str(tmp_path / "store")), "sales", writer="watch")


def raise_pages(log: IncidentLog, *rules: str) -> None:
    for rule in rules:
        symptom = Symptom(
            job="sales", query="", rule=rule, severity=Severity.PAGE, cause="c", action="a", heading="Nothing serves"
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
