"""Questions to a person before any operation is recorded, so that they are visible outside Airflow.

``questions/<job>/<operation>.json``: written when a task starts to wait, removed after the answer. A question left by a
  killed task counts until its deadline, after which no answer means no.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streamkeeper.errors import KeyMissing, RegistryDamaged
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.health import AskedPerson
from streamkeeper.stores.contract import Store

FORMAT = 1
_ROOT = "questions/"


class PendingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question."""

    format: int = FORMAT
    """Format version of the record."""
    operation: str
    """The operation that a yes starts."""
    action: str
    """The recovery's action."""
    sentence: str
    """The losses and duplicates."""
    asked_by: str
    """The requester."""
    asked_at: float
    """Seconds since 1970."""
    until: float
    """Its deadline, seconds since 1970."""
    may: str = ""
    """Who may answer."""
    link: str = ""
    """Address for the answer; empty if unknown."""


def note_question(store: Store, job: str, question: PendingQuestion) -> None:
    """Record that a person is asked; repeating it replaces the record. Raises StoreUnavailable."""
    store.replace(_key(job, question.operation), to_json(question))


def drop_question(store: Store, job: str, operation: str) -> None:
    """Remove a question after the answer, or once no task waits for an answer. Raises StoreUnavailable."""
    store.delete(_key(job, operation))


def questions_of(store: Store, job: str, *, now: float) -> list[PendingQuestion]:
    """The questions of one job whose deadline has not passed, oldest first; an unreadable one is left out."""
    return _read(store, store.list(f"{_ROOT}{job}/"), now)


def asked_person(store: Store, job: str, *, now: float) -> AskedPerson | None:
    """The oldest question in the form of the health rules; None without any."""
    questions = questions_of(store, job, now=now)
    if not questions:
        return None
    first = questions[0]
    return AskedPerson(
        operation=first.operation,
        action=first.action,
        sentence=first.sentence,
        waited_s=max(0.0, now - first.asked_at),
        left_s=max(0.0, first.until - now),
        may=first.may,
    )


def jobs_asked(store: Store) -> frozenset[str]:
    """Jobs with a recorded question, by one listing. Raises StoreUnavailable."""
    return frozenset(key.split("/")[1] for key in store.list(_ROOT) if key.count("/") > 1)


def _read(store: Store, keys: Iterable[str], now: float) -> list[PendingQuestion]:
    found = []
    for key in keys:
        try:
            question = from_json(store.read(key), PendingQuestion, where=key, newest_format=FORMAT)
        except (KeyMissing, RegistryDamaged):
            continue
        if question.until > now:
            found.append(question)
    return sorted(found, key=lambda question: question.asked_at)


def _key(job: str, operation: str) -> str:
    return f"{_ROOT}{job}/{operation}.json"
