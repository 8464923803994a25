"""Notices of incidents: their text and their delivery to notifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import copy_context
from threading import Thread

import msgspec

from streamkeeper.model.markdown_text import anchor
from streamkeeper.model.watch.health import Urgency
from streamkeeper.model.watch.incident import JobIncidents, Notice, NoticeSent
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.system import clock

GRACE_S = 45.0
"""Seconds for which only the process that wrote a notice may send it. After that any pass may send it."""
TOO_OLD_S = 24 * 3600.0
SEND_S = 30.0
"""Time limit in seconds of one notifier for one message. Airflow's SmtpNotifier would otherwise try for
three minutes.
"""
TELL_S = 60.0
"""Time limit in seconds for all notices of a pass."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the notifiers."""

    job: str
    """The job."""
    query: str
    """The query; empty if the message is about the whole job."""
    rule: str
    """The rule of the incident."""
    severity: str
    """The severity of the incident."""
    event: str
    """The event: ``raised``, ``repeated``, ``cleared``, ``acted``, or ``asked`` for a question."""
    subject: str
    """The message in one line."""
    text: str
    """The whole message."""
    runbook: str
    """The path of the runbook's section."""
    page: str = ""
    """The address of the job's page; empty if unknown."""


class SendFailed(Exception):
    """Reports that a notifier has failed. The text is the class and message of the notifier's error, without
    secrets.
    """


Sender = Callable[[Message], None]
"""Delivers a message; may raise any exception."""


def compose_message(notice: Notice) -> Message:
    """Return the message of a notice: the subject, such as ``[page] sales/totals: sink-down raised``, and the text."""
    symptom = notice.symptom
    about = f"{symptom.job}/{symptom.query}" if symptom.query else symptom.job
    advice = "" if notice.event == "cleared" else f"\n\nHow to fix: {symptom.action}."
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
    """Return the path and anchor of a heading of the runbook."""
    return f"docs/operations/runbook.md#{anchor(heading)}"


def send_notices(log: IncidentLog, senders: Mapping[str, Sender], *, now: float) -> list[str]:
    """Send the unsent notices of a job, oldest first, and record each delivery. Return failures, one sentence each.

    A notice that is older than a day or has the severity INFO is not sent. Every other notice reaches each notifier at
    least once; if a process dies between sending and recording, the notice is sent again. After a failure, a notifier
    receives nothing more in this call. The next call sends it the failed notice and the later ones, in order. The other
    notifiers are not delayed. ``now``: seconds since 1970.
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
    return now - notice.at > TOO_OLD_S or notice.symptom.severity is Urgency.INFO


def send_message(senders: Mapping[str, Sender], message: Message) -> tuple[tuple[str, ...], list[str]]:
    """Send a message with every notifier; return the names of those that accepted it, and one sentence per failure."""
    reached: list[str] = []
    failed: list[str] = []
    for name, send in senders.items():
        try:
            send(message)
        except Exception as error:  # A notifier is third-party code: its exceptions must not stop the pass.
            why = str(error) if isinstance(error, SendFailed) else f"{type(error).__name__}: {error}"
            failed.append(f"notifier {name} failed for {message.subject!r}: {why}")
        else:
            reached.append(name)
    return tuple(reached), failed


def bound_senders(
    senders: Mapping[str, Sender], *, send_s: float = SEND_S, tell_s: float = TELL_S
) -> dict[str, Sender]:
    """Return the senders with time limits in seconds.

    ``send_s``: limit of each message; ``tell_s``: limit of all messages of all senders together, counted from this
    call.

    A sender that exceeds a limit fails with TimeoutError. After that it fails at once for every message.
    """
    until = clock.monotonic() + tell_s
    return {name: _bound(send, send_s, tell_s, until) for name, send in senders.items()}


def _bound(send: Sender, send_s: float, tell_s: float, until: float) -> Sender:
    hung = False

    def send_in_time(message: Message) -> None:
        nonlocal hung
        if hung:
            raise TimeoutError("not tried: an earlier message got no answer in time")
        left = min(send_s, until - clock.monotonic())
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
    except BaseException as error:  # The caller of the sender raises it.
        raised.append(error)


def _mark(number: int, reached: tuple[str, ...], *, done: bool) -> Callable[[JobIncidents], NoticeSent | None]:
    def decide(state: JobIncidents) -> NoticeSent | None:
        still = any(notice.number == number for notice in state.unsent)
        return NoticeSent(of=number, to=reached, done=done) if still else None

    return decide
