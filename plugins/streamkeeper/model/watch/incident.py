"""The incidents of a job: numbered, create-only records beside its journal, and the fold of these records.

``incidents/<job>/0000000007.json``: exactly one writer can create a number, so that two schedulers raise an incident
  only once. Incidents are not in the journal, because drivers of every version read the journal.
"""

from __future__ import annotations

import msgspec

from streamkeeper.model.watch.health import Symptom

FORMAT = 1
MOST_UNSENT = 20
"""The most notices that are kept for a failing notifier; older notices are dropped."""


class IncidentRaised(msgspec.Struct, frozen=True, kw_only=True, tag="raised"):
    """A symptom was observed, and no incident about it was open."""

    symptom: Symptom


class IncidentRepeated(msgspec.Struct, frozen=True, kw_only=True, tag="repeated"):
    """The symptom is still observed; ``symptom`` is its present form."""

    symptom: Symptom


class IncidentCleared(msgspec.Struct, frozen=True, kw_only=True, tag="cleared"):
    """The symptom is no longer observed."""

    key: str
    sentence: str


class WatchActed(msgspec.Struct, frozen=True, kw_only=True, tag="acted"):
    """The watch took an action by itself, or tried to and failed."""

    key: str
    act: str
    sentence: str


class NoticeSent(msgspec.Struct, frozen=True, kw_only=True, tag="sent"):
    """Records that a notice was delivered.

    ``of``: the entry that the notice is about. ``to``: the notifiers that received it. ``done``: whether the notice
    needs no further delivery.
    """

    of: int
    to: tuple[str, ...]
    done: bool


IncidentRecord = IncidentRaised | IncidentRepeated | IncidentCleared | WatchActed | NoticeSent


class IncidentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered record of a job's incidents."""

    format: int = FORMAT
    """Format version of the record."""
    number: int
    """The entry's number."""
    at: float
    """Seconds since 1970 by the writer's clock."""
    by: str
    """The writer."""
    record: IncidentRecord
    """The content."""


class OpenIncident(msgspec.Struct, frozen=True, kw_only=True):
    """An incident that was raised and not cleared."""

    symptom: Symptom
    """The symptom of the incident."""
    raised_at: float
    """When the incident was raised, seconds since 1970."""
    told_at: float
    """When the incident was last raised or repeated, seconds since 1970."""
    acts: tuple[str, ...] = ()
    """The watch's actions, newest last."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The notice about one incident record."""

    number: int
    """The entry's number."""
    at: float
    """The entry's time, seconds since 1970."""
    by: str
    """The entry's writer."""
    event: str
    """raised, repeated, cleared or acted."""
    symptom: Symptom
    """The symptom."""
    sentence: str
    """The message."""
    sent: tuple[str, ...] = ()
    """The notifiers that have received the notice."""


class JobIncidents(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job's incidents, computed from its incident records up to entry ``number``."""

    job: str
    """The job."""
    number: int = 0
    """The last entry."""
    open: dict[str, OpenIncident] = {}
    """Key -> open incident."""
    unsent: tuple[Notice, ...] = ()
    """Notices to send, oldest first."""


def fold_incident(state: JobIncidents, entry: IncidentEntry) -> JobIncidents:
    """Return the state after ``entry``.

    If an entry repeats an incident, clears it or acts on it, but the incident is not open, only the number changes.
    """
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
    """Return the prefix of the keys of a job's incident records."""
    return f"incidents/{job}/"


def incident_key(job: str, number: int) -> str:
    """Return the key ``incidents/<job>/0000000007.json``; the keys sort like the numbers."""
    return f"{incident_prefix(job)}{number:010d}.json"
