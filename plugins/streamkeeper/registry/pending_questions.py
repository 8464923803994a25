"""Questions that a person is asked before an operation is recorded. They are stored so that they are visible outside
Airflow.

``questions/<job>/<operation>.json`` is written when a task starts to wait, and removed after the answer. The question
of a killed task counts until its deadline. After the deadline, a missing answer counts as no.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streamkeeper.errors import KeyMissing, RegistryDamaged
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.watch.health import AskedPerson
from streamkeeper.stores.contract import Store

FORMAT = 1
_ROOT = "questions/"


class PendingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person."""

    format: int = FORMAT
    """Format version of the record."""
    operation: str
    """The operation that starts if the answer is yes."""
    action: str
    """The recovery's action."""
    sentence: str
    """The losses and duplicates to accept, in words."""
    asked_by: str
    """The person who requests the recovery."""
    asked_at: float
    """When the question was asked, seconds since 1970."""
    until: float
    """The deadline of the answer, seconds since 1970."""
    may: str = ""
    """Who may answer."""
    link: str = ""
    """Address for the answer; empty if unknown."""


def note_question(store: Store, job: str, question: PendingQuestion) -> None:
    """Record an operation's question to a person; a second call replaces the record. Raises StoreUnavailable."""
    store.replace(_key(job, question.operation), to_json(question))


def drop_question(store: Store, job: str, operation: str) -> None:
    """Remove an operation's question after the answer, or when no task waits for the answer any longer.

    Raises StoreUnavailable.
    """
    store.delete(_key(job, operation))


def questions_of(store: Store, job: str, *, now: float) -> list[PendingQuestion]:
    """Return the questions of one job whose deadline has not passed, oldest first; unreadable ones are skipped."""
    return _read(store, store.list(f"{_ROOT}{job}/"), now)


def asked_person(store: Store, job: str, *, now: float) -> AskedPerson | None:
    """Return the oldest of the job's questions whose deadline has not passed, in the form that the health rules use.

    Return None if there is no such question.
    """
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
    """Return the jobs with a recorded question, at the cost of one listing. Raises StoreUnavailable."""
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
