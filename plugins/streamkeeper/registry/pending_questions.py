"""Questions to a person that come before any operation is on record, so that they are seen outside Airflow.

``questions/<job>/<operation>.json``: written when a task begins to wait, removed once it has an answer. One that was
left by a task that was killed counts until its deadline, by which no answer is a no.
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
    """``operation``: the one that a yes begins; ``action``: of a recovery; ``sentence``: what is lost or doubled.

    ``asked_at`` and ``until``: seconds since 1970; ``may``: who may answer; ``link``: where, empty where unknown.
    """

    format: int = FORMAT
    operation: str
    action: str
    sentence: str
    asked_by: str
    asked_at: float
    until: float
    may: str = ""
    link: str = ""


def note_question(store: Store, job: str, question: PendingQuestion) -> None:
    """Say that a person is asked; again replaces it. Raises StoreUnavailable."""
    store.replace(_key(job, question.operation), to_json(question))


def drop_question(store: Store, job: str, operation: str) -> None:
    """It is answered, or nobody waits for an answer any more. Raises StoreUnavailable."""
    store.delete(_key(job, operation))


def questions_of(store: Store, job: str, *, now: float) -> list[PendingQuestion]:
    """Those of one job that are not past their deadline, the oldest first; one that cannot be read is left out."""
    return _read(store, store.list(f"{_ROOT}{job}/"), now)


def asked_person(store: Store, job: str, *, now: float) -> AskedPerson | None:
    """What the rules of health are told of the oldest one; None without any."""
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
    """Jobs of which a question was left, by one listing. Raises StoreUnavailable."""
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
