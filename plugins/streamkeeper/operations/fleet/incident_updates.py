"""Update a job's incidents from the findings of a pass: raise them once, repeat them while they last, clear them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamkeeper.health.rules import EXPLAINS
from streamkeeper.model.watch.health import JobLook, Symptom, Urgency
from streamkeeper.model.watch.incident import (
    IncidentCleared,
    IncidentRaised,
    IncidentRecord,
    IncidentRepeated,
    JobIncidents,
)
from streamkeeper.registry.incidents import IncidentLog

REPEAT_S = 1800.0
_ENDS_WITH_OPERATIONS = EXPLAINS["machine-rebooted"] | set(EXPLAINS)


def reconcile(
    log: IncidentLog, look: JobLook, symptoms: Iterable[Symptom], *, now: float, dry_run: bool = False
) -> list[str]:
    """Record raised, repeated and cleared incidents; return one line per record. ``now``: seconds since 1970.

    ``log``: the job's incidents; ``look``: the observation of the job; ``symptoms``: found by the health rules;
    ``dry_run``: return the lines and record nothing. Symptoms with the severity INFO are ignored.

    Raises StoreUnavailable and RegistryDamaged.
    """
    found = {symptom.key: symptom for symptom in symptoms if symptom.severity is not Urgency.INFO}
    lines: list[str] = []
    for key, symptom in found.items():
        add(log, _raise_or_repeat(key, symptom, now), lines, now=now, dry_run=dry_run)
    for key in list(log.state().open):
        if key not in found and _is_over(look, key):
            add(log, _clear(key, found), lines, now=now, dry_run=dry_run)
    return lines


def add(
    log: IncidentLog,
    decide: Callable[[JobIncidents], IncidentRecord | None],
    lines: list[str],
    *,
    now: float,
    dry_run: bool,
) -> None:
    """Append the record that ``decide`` returns, and add a line about it to ``lines``.

    ``log``: the job's incidents; ``decide``: returns the record for the state of the incidents, or None to append no
    record; ``now``: seconds since 1970; ``dry_run``: add the line, but append no record.
    """
    record = decide(log.state()) if dry_run else None
    added: list[IncidentRecord] = [] if record is None else [record]

    def deciding(state: JobIncidents) -> IncidentRecord | None:
        added[:] = [decided for decided in [decide(state)] if decided is not None]
        return added[0] if added else None

    if not dry_run:
        log.append(deciding, now=now)
    lines += [f"{'would be ' if dry_run else ''}{_render(decided)}" for decided in added]


def _raise_or_repeat(key: str, symptom: Symptom, now: float) -> Callable[[JobIncidents], IncidentRecord | None]:
    def decide(state: JobIncidents) -> IncidentRecord | None:
        before = state.open.get(key)
        if before is None:
            return IncidentRaised(symptom=symptom)
        return IncidentRepeated(symptom=symptom) if now - before.told_at >= REPEAT_S else None

    return decide


def _clear(key: str, found: dict[str, Symptom]) -> Callable[[JobIncidents], IncidentRecord | None]:
    causes = ", ".join(sorted(symptom.rule for symptom in found.values()))
    sentence = f"no longer detected; detected now: {causes}" if causes else "no longer detected"
    return lambda state: IncidentCleared(key=key, sentence=sentence) if key in state.open else None


def _is_over(look: JobLook, key: str) -> bool:
    """Whether an incident whose finding is missing is cleared.

    It is not cleared if a part that the rule needs was not read, or while an operation is open, for the rules in
    ``_ENDS_WITH_OPERATIONS``.
    """
    rule = key.partition("/")[0]
    if any(_hides(part, rule) for part in look.unlooked):
        return False
    return look.facts.operation is None or rule not in _ENDS_WITH_OPERATIONS


def _hides(part: str, rule: str) -> bool:
    """Whether a rule may have missed findings because ``part`` was not read."""
    if part.startswith("snapshots"):
        return rule in ("backup-late", "none-verified")
    if part.startswith("claims"):
        return rule == "journal-outdated"
    if part.startswith("checkpoint"):
        return rule in ("backup-late", "none-verified", "checkpoint-missing")
    return True


def _render(record: IncidentRecord) -> str:
    match record:
        case IncidentRaised(symptom=symptom) | IncidentRepeated(symptom=symptom):
            verb = "raised" if isinstance(record, IncidentRaised) else "repeated"
            about = f"{symptom.job}/{symptom.query}" if symptom.query else symptom.job
            return f"{verb} {symptom.severity.value} {symptom.rule} of {about}: {symptom.cause}"
        case IncidentCleared(key=key, sentence=sentence):
            return f"cleared {key}: {sentence}"
        case _:
            return str(record)
