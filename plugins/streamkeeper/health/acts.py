"""What the watch may do without a person: only what cannot lose or double anything, and not for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from streamkeeper.health.rule import is_gone
from streamkeeper.health.rules import PERMANENT, RULES
from streamkeeper.model.health import JobLook, Symptom

STARTS_IN_AN_HOUR = 3
BACKUP_AGAIN_S = 600.0
_ENDS = ("machine-rebooted", "driver-dead", "store-out-of-reach", "sink-down", "source-down")
_NO_START = PERMANENT | {"crash-loop", "disk-full", "out-of-memory", "driver-unknown"}


class Act(Enum):
    """Something that is safe without a person."""

    START = "start"
    """The serving release goes again from its checkpoint: what ran before is proven dead."""
    CARRY_ON = "carry-on"
    """An open operation goes on: provably nobody else carries it."""
    BACK_UP = "back-up"
    """A snapshot is taken."""


class PlannedAct(msgspec.Struct, frozen=True, kw_only=True):
    """One act, the incident it is about, and why it may be done. ``name``: by which its moments are remembered."""

    act: Act
    key: str
    reason: str
    query: str = ""

    @property
    def name(self) -> str:
        """``start``, or ``back-up/totals``."""
        return f"{self.act.value}/{self.query}" if self.query else self.act.value


def decide_acts(
    look: JobLook, symptoms: Iterable[Symptom], done: Mapping[str, tuple[float, ...]], *, now: float
) -> Iterator[PlannedAct]:
    """What to do about a job now. ``done``: act -> when it was done in the last hour, seconds since 1970."""
    found = list(symptoms)
    if look.outdated or look.unreadable or "job" in look.unlooked:
        # What is known of who serves, and of what is open, is not what was written last, or not all that was seen.
        return
    if look.operation is not None:
        if not look.operation.owned:
            yield PlannedAct(
                act=Act.CARRY_ON,
                key="operation-open/-",
                reason=f"the process or DAG run of {look.operation.operation} has ended",
            )
        return
    start = _start(look, found, done.get(Act.START.value, ()))
    if start is not None:
        yield start
    for symptom in found:
        planned = PlannedAct(act=Act.BACK_UP, key=symptom.key, query=symptom.query, reason=symptom.cause)
        if symptom.rule == "backup-late" and not any(
            now - moment < BACKUP_AGAIN_S for moment in done.get(planned.name, ())
        ):
            yield planned


def _start(look: JobLook, found: list[Symptom], started: tuple[float, ...]) -> PlannedAct | None:
    """A start, where provably nothing of the job runs and nothing is known that a start would make worse."""
    # A store that its driver has lost is no reason once the watch itself gets answers from it.
    if not is_gone(look) or len(started) >= STARTS_IN_AN_HOUR or "store" in look.unlooked:
        return None
    # All that the rules find counts here, also what another cause explains, and what the job has switched off.
    every = msgspec.structs.replace(look, thresholds={})
    if any(symptom.rule in _NO_START for rule in RULES for symptom in rule.symptoms(every)):
        return None
    about = next((symptom for rule in _ENDS for symptom in found if symptom.rule == rule), None)
    key = about.key if about is not None else "driver-dead/-"
    return PlannedAct(act=Act.START, key=key, reason=f"{look.instance} has terminated: {look.why}")
