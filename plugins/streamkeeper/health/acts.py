"""Actions that the watch takes without a person. They cannot lose or duplicate data, and are limited in number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from streamkeeper.health.health_rule import is_gone
from streamkeeper.health.rules import PERMANENT, RULES
from streamkeeper.model.watch.health import JobLook, Symptom

STARTS_IN_AN_HOUR = 3
BACKUP_AGAIN_S = 600.0
_ENDS = ("machine-rebooted", "driver-dead", "store-out-of-reach", "sink-down", "source-down")
_NO_START = PERMANENT | {"crash-loop", "disk-full", "out-of-memory", "driver-unknown"}


class Act(Enum):
    """An action that the watch takes without a person's decision, because it is safe."""

    START = "start"
    """Start the current release from its checkpoint, because the previous driver has provably terminated."""
    CARRY_ON = "carry-on"
    """Continue an open operation, because the process or DAG run that executed it has provably terminated."""
    BACK_UP = "back-up"
    """Take a snapshot."""


class PlannedAct(msgspec.Struct, frozen=True, kw_only=True):
    """One action of the watch."""

    act: Act
    """The kind of action."""
    key: str
    """The incident that the action belongs to, as ``rule/query``."""
    reason: str
    """Why the action is taken, as a clause."""
    query: str = ""
    """The query of a backup; empty for an action on the whole job."""

    @property
    def name(self) -> str:
        """The key under which the times of the action are stored, such as ``start`` or ``back-up/totals``."""
        return f"{self.act.value}/{self.query}" if self.query else self.act.value


def decide_acts(
    look: JobLook, symptoms: Iterable[Symptom], done: Mapping[str, tuple[float, ...]], *, now: float
) -> Iterator[PlannedAct]:
    """Yield the actions to take for a job now. Times are in seconds since 1970.

    ``look``: the facts that this pass of the watch has collected about the job.
    ``symptoms``: the problems that the rules found in these facts.
    ``done``: ``PlannedAct.name`` of an action -> the times at which the action was taken in the last hour.
    ``now``: the current time.
    """
    found = list(symptoms)
    if look.outdated or look.unreadable or "job" in look.unlooked:
        # A newer driver or a newer operation may exist than the known ones.
        return
    if look.facts.operation is not None:
        if not look.owned:
            yield PlannedAct(
                act=Act.CARRY_ON,
                key="operation-open/-",
                reason=f"the process or DAG run of {look.facts.operation.operation} has ended",
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
    """Return a start if all drivers of the job have provably terminated and no known problem forbids it, else None."""
    # A store that only the driver could not reach does not forbid a start, because the store answers the watch.
    if not is_gone(look) or len(started) >= STARTS_IN_AN_HOUR or "store" in look.unlooked:
        return None
    # Every finding counts here, including effects of another cause and findings of rules that the job has switched off.
    every = msgspec.structs.replace(look, facts=msgspec.structs.replace(look.facts, thresholds={}))
    if any(symptom.rule in _NO_START for rule in RULES for symptom in rule.symptoms(every)):
        return None
    about = next((symptom for rule in _ENDS for symptom in found if symptom.rule == rule), None)
    key = about.key if about is not None else "driver-dead/-"
    return PlannedAct(act=Act.START, key=key, reason=f"{look.instance} has terminated: {look.driver.why}")
