"""A notice of an incident in words, and its way to whoever is told."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from threading import Thread

import msgspec

from streamkeeper.model.health import Severity
from streamkeeper.model.incident import JobIncidents, Notice, NoticeSent
from streamkeeper.registry.incidents import IncidentLog

GRACE_S = 45.0
"""Until then a notice is its writer's to send: less than a pass later another one makes up for it."""
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
"""GitHub leaves these out of a heading's anchor."""
TOO_OLD_S = 24 * 3600.0
SEND_S = 30.0
"""How long one notifier may take for one message: Airflow's SmtpNotifier alone would try for three minutes."""
TELL_S = 60.0
"""How long all notices of a pass may take."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a notifier is given: one line, and all of it. ``page``: the address of the job's, where that is known."""

    job: str
    query: str
    rule: str
    severity: str
    event: str
    subject: str
    text: str
    runbook: str
    page: str = ""


class SendFailed(Exception):
    """A notifier has failed; its text is the error's class and message, without secrets."""


Sender = Callable[[Message], None]
"""Tells somebody; raises whatever it likes when that fails."""


def compose_message(notice: Notice) -> Message:
    """``[page] sales/totals: sink-down raised``, and under it cause, advice and the runbook's heading."""
    symptom = notice.symptom
    about = f"{symptom.job}/{symptom.query}" if symptom.query else symptom.job
    advice = "" if notice.event == "cleared" else f"\n\nWhat to do: {symptom.action}."
    return Message(
        job=symptom.job,
        query=symptom.query,
        rule=symptom.rule,
        severity=symptom.severity.value,
        event=notice.event,
        subject=f"[{symptom.severity.value}] {about}: {symptom.rule} {notice.event}",
        text=f"{notice.sentence}.{advice}\nRunbook: {symptom.heading}",
        runbook=runbook_link(symptom.heading),
    )


def runbook_link(heading: str) -> str:
    """Where a heading of the runbook is."""
    return f"docs/operations/runbook.md#{_NOT_IN_ANCHORS.sub('', heading.lower()).replace(' ', '-')}"


def send_notices(log: IncidentLog, senders: Mapping[str, Sender], *, now: float) -> list[str]:
    """Send what was not sent yet, a job's oldest first, and record that; what failed, a sentence each.

    Each notice reaches each notifier at least once: who dies between the two sends it again. A notifier that fails
    gets this notice and those behind it, in order, from the next pass on; the others get theirs now.
    """
    failed: list[str] = []
    if not senders:
        return failed
    left = dict(senders)
    for notice in log.state().unsent:
        if notice.by != log.writer and now - notice.at < GRACE_S:
            continue
        if _needs_nobody(notice, now):
            log.append(_mark(notice.number, (), done=True), now=now)
            continue
        wanted = {name: send for name, send in left.items() if name not in notice.sent}
        reached, missed = send_message(wanted, compose_message(notice))
        failed += missed
        done = {*senders} <= {*notice.sent, *reached}
        if reached or done:
            log.append(_mark(notice.number, reached, done=done), now=now)
        left = {name: send for name, send in left.items() if name not in wanted or name in reached}
    return failed


def _needs_nobody(notice: Notice, now: float) -> bool:
    return now - notice.at > TOO_OLD_S or notice.symptom.severity is Severity.INFO


def send_message(senders: Mapping[str, Sender], message: Message) -> tuple[tuple[str, ...], list[str]]:
    """Whom it has reached, and what failed, a sentence each."""
    reached: list[str] = []
    failed: list[str] = []
    for name, send in senders.items():
        try:
            send(message)
        except Exception as error:  # A notifier is anybody's code: whatever it raises must stop nothing.
            why = str(error) if isinstance(error, SendFailed) else f"{type(error).__name__}: {error}"
            failed.append(f"notifier {name} failed for {message.subject!r}: {why}")
        else:
            reached.append(name)
    return tuple(reached), failed


def bound_senders(
    senders: Mapping[str, Sender], *, send_s: float = SEND_S, tell_s: float = TELL_S
) -> dict[str, Sender]:
    """The senders of one pass, of which none hangs for longer than ``send_s`` and all together not beyond ``tell_s``.

    One that did not answer in time fails with TimeoutError, and for later messages at once.
    """
    until = time.monotonic() + tell_s
    return {name: _bound(send, send_s, tell_s, until) for name, send in senders.items()}


def _bound(send: Sender, send_s: float, tell_s: float, until: float) -> Sender:
    hung = False

    def send_in_time(message: Message) -> None:
        nonlocal hung
        if hung:
            raise TimeoutError("not retried: it did not answer before")
        left = min(send_s, until - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"not tried: all notices together took longer than {tell_s:g} s")
        raised: list[BaseException] = []
        thread = Thread(target=copy_context().run, args=(_keep_error, send, message, raised), daemon=True)
        thread.start()
        thread.join(left)
        hung = thread.is_alive()
        if hung:
            raise TimeoutError(f"no answer within {left:.3g} s")
        if raised:
            raise raised[0]

    return send_in_time


def _keep_error(send: Sender, message: Message, raised: list[BaseException]) -> None:
    try:
        send(message)
    except BaseException as error:  # Raised again where the sender was called.
        raised.append(error)


def _mark(number: int, reached: tuple[str, ...], *, done: bool) -> Callable[[JobIncidents], NoticeSent | None]:
    def decide(state: JobIncidents) -> NoticeSent | None:
        still = any(notice.number == number for notice in state.unsent)
        return NoticeSent(of=number, to=reached, done=done) if still else None

    return decide
