"""Incidents of a job: numbered, create-only records beside its journal, and what they add up to.

``incidents/<job>/0000000007.json``: of all who try a number exactly one creates it, so that two schedulers raise an
incident once. They are no part of the journal, which drivers of every age read.
"""

from __future__ import annotations

import msgspec

from streamkeeper.model.health import Symptom

FORMAT = 1
MOST_UNSENT = 20
"""Notices that are kept for a notifier that fails; older ones are given up."""


class IncidentRaised(msgspec.Struct, frozen=True, kw_only=True, tag="raised"):
    """A symptom was seen that no open incident is about."""

    symptom: Symptom


class IncidentRepeated(msgspec.Struct, frozen=True, kw_only=True, tag="repeated"):
    """It is still there; ``symptom`` as it is now."""

    symptom: Symptom


class IncidentCleared(msgspec.Struct, frozen=True, kw_only=True, tag="cleared"):
    """It was not seen any more."""

    key: str
    sentence: str


class WatchActed(msgspec.Struct, frozen=True, kw_only=True, tag="acted"):
    """What the watch did about it by itself, or could not do."""

    key: str
    act: str
    sentence: str


class NoticeSent(msgspec.Struct, frozen=True, kw_only=True, tag="sent"):
    """The notice of entry ``of`` has reached these notifiers, so far or (``done``) all that it has to."""

    of: int
    to: tuple[str, ...]
    done: bool


IncidentRecord = IncidentRaised | IncidentRepeated | IncidentCleared | WatchActed | NoticeSent


class IncidentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered record. ``at``: seconds since 1970 by the writer's clock."""

    format: int = FORMAT
    number: int
    at: float
    by: str
    record: IncidentRecord


class OpenIncident(msgspec.Struct, frozen=True, kw_only=True):
    """One that was raised and not cleared. ``told_at``: when it was raised or repeated last; ``acts``: newest last."""

    symptom: Symptom
    raised_at: float
    told_at: float
    acts: tuple[str, ...] = ()


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What people are to be told of one entry. ``event``: raised, repeated, cleared or acted."""

    number: int
    at: float
    by: str
    event: str
    symptom: Symptom
    sentence: str
    sent: tuple[str, ...] = ()


class JobIncidents(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's incident records add up to after entry ``number``; ``unsent``: oldest first."""

    job: str
    number: int = 0
    open: dict[str, OpenIncident] = {}
    unsent: tuple[Notice, ...] = ()


def fold_incident(state: JobIncidents, entry: IncidentEntry) -> JobIncidents:
    """The state after ``entry``; entries about what is not open change nothing but the number."""
    state = msgspec.structs.replace(state, number=entry.number)
    match entry.record:
        case IncidentRaised(symptom=symptom):
            raised = OpenIncident(symptom=symptom, raised_at=entry.at, told_at=entry.at)
            return _told(_put(state, symptom.key, raised), entry, "raised", symptom, symptom.cause)
        case IncidentRepeated(symptom=symptom):
            before = state.open.get(symptom.key)
            if before is None:
                return state
            repeated = msgspec.structs.replace(before, symptom=symptom, told_at=entry.at)
            return _told(_put(state, symptom.key, repeated), entry, "repeated", symptom, symptom.cause)
        case IncidentCleared(key=key, sentence=sentence):
            before = state.open.get(key)
            if before is None:
                return state
            left = {name: opened for name, opened in state.open.items() if name != key}
            return _told(msgspec.structs.replace(state, open=left), entry, "cleared", before.symptom, sentence)
        case WatchActed(key=key, sentence=sentence):
            before = state.open.get(key)
            if before is None:
                return state
            acted = msgspec.structs.replace(before, acts=(*before.acts, sentence)[-MOST_UNSENT:])
            return _told(_put(state, key, acted), entry, "acted", before.symptom, sentence)
        case NoticeSent(of=of, to=to, done=done):
            marked = (
                msgspec.structs.replace(notice, sent=tuple(sorted({*notice.sent, *to})))
                if notice.number == of
                else notice
                for notice in state.unsent
                if not (done and notice.number == of)
            )
            return msgspec.structs.replace(state, unsent=tuple(marked))


def _put(state: JobIncidents, key: str, incident: OpenIncident) -> JobIncidents:
    return msgspec.structs.replace(state, open={**state.open, key: incident})


def _told(state: JobIncidents, entry: IncidentEntry, event: str, symptom: Symptom, sentence: str) -> JobIncidents:
    notice = Notice(number=entry.number, at=entry.at, by=entry.by, event=event, symptom=symptom, sentence=sentence)
    return msgspec.structs.replace(state, unsent=(*state.unsent, notice)[-MOST_UNSENT:])


def incident_prefix(job: str) -> str:
    """The folder of a job's incident records."""
    return f"incidents/{job}/"


def incident_key(job: str, number: int) -> str:
    """``incidents/<job>/0000000007.json``: keys sort as their numbers do."""
    return f"{incident_prefix(job)}{number:010d}.json"
