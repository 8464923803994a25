"""All health rules, and which findings are only effects of other findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamkeeper.errors import InvalidInput
from streamkeeper.health import backup_rules, driver_rules, fault_rules, progress_rules
from streamkeeper.health.health_rule import Rule
from streamkeeper.model.names import nearest
from streamkeeper.model.watch.health import JobLook, Symptom, Urgency

RULES: tuple[Rule, ...] = (*fault_rules.RULES, *driver_rules.RULES, *progress_rules.RULES, *backup_rules.RULES)
_BY_ID = {rule.id: rule for rule in RULES}

_BEHIND = frozenset({"stalled", "scheduling-delay", "batch-longer-than-trigger", "lag-seconds", "lag-growing"})
_ENDS = frozenset({"driver-dead", "driver-refused", "crash-loop", "restarts", "heartbeat-lost"})
_TOLD = frozenset(
    {"sink-down", "source-down", "checkpoint-damaged", "sink-ahead", "output-lost", "source-offset-lost", "input-gone"}
)

EXPLAINS: Mapping[str, frozenset[str]] = {
    "store-out-of-reach": _ENDS | _BEHIND | {"not-looked", "sink-down"},
    "journal-lost": frozenset({"not-looked"}),
    # The newest record is unknown, and so are the driver that should run and the open operation.
    "journal-unreadable": _ENDS
    | {"driver-fenced", "driver-unknown", "driver-lost", "machine-rebooted", "not-looked", "operation-open"},
    "journal-outdated": _ENDS
    | _BEHIND
    | _TOLD
    | {"driver-fenced", "driver-unknown", "checkpoint-missing", "backup-late", "operation-open"},
    "machine-rebooted": _ENDS | _BEHIND | {"frozen", "frozen-in-part"},
    "disk-full": _ENDS | _BEHIND | _TOLD | {"store-out-of-reach"},
    "out-of-memory": _ENDS | _BEHIND,
    "checkpoint-missing": _ENDS | _BEHIND | _TOLD | {"backup-late", "not-looked"},
    **dict.fromkeys(_TOLD, _ENDS | _BEHIND),
    "driver-fenced": _ENDS | _BEHIND,
    "driver-refused": frozenset({"driver-dead", "crash-loop", "restarts"}) | _BEHIND,
    "crash-loop": frozenset({"driver-dead", "restarts", "heartbeat-lost"}) | _BEHIND,
    "driver-dead": frozenset({"restarts", "heartbeat-lost"}) | _BEHIND,
    "driver-unknown": frozenset({"heartbeat-lost"}),
    "driver-lost": frozenset({"driver-unknown", "heartbeat-lost"}) | _BEHIND,
    "operation-stuck": _BEHIND | {"operation-open", "heartbeat-lost"},
    "owner-unproven": _ENDS | _BEHIND | {"machine-rebooted", "driver-fenced"},
    "frozen": frozenset({"heartbeat-lost", "frozen-in-part"}) | _BEHIND,
    "heartbeat-lost": _BEHIND,
    "stalled": _BEHIND - {"stalled"},
    "checkpoint-write-slow": frozenset({"batch-longer-than-trigger", "scheduling-delay"}),
    "batch-longer-than-trigger": frozenset({"scheduling-delay"}),
    "lag-growing": frozenset({"lag-seconds"}),
    "runway-short": frozenset({"lag-seconds", "lag-growing"}),
}
"""Cause -> its effects. If both are found, only the cause is reported."""

PERMANENT = frozenset(
    {
        *("driver-fenced", "driver-refused", "sink-ahead", "checkpoint-missing", "checkpoint-damaged"),
        *("output-lost", "source-offset-lost", "input-gone", "owner-unproven", "journal-outdated", "journal-lost"),
        "journal-unreadable",
    }
)
"""Rules whose problem a start cannot fix and could make worse, so that a person has to change something first."""


def find_symptoms(look: JobLook, *, but: frozenset[str] = frozenset()) -> tuple[Symptom, ...]:
    """Return the problems of a job, the worst first. A problem that is caused by another found problem is left out.

    ``but``: ids of rules to leave out.
    """
    found = [symptom for rule in RULES if rule.id not in but for symptom in rule.symptoms(look)]
    return tuple(sorted(_causes(found), key=lambda symptom: (list(Urgency).index(symptom.severity), symptom.key)))


def _causes(found: Iterable[Symptom]) -> list[Symptom]:
    """Return the symptoms that no other symptom of the same query, or of the whole job, explains."""
    every = list(found)
    return [symptom for symptom in every if not any(_explains(other, symptom) for other in every)]


def _explains(cause: Symptom, effect: Symptom) -> bool:
    related = not cause.query or not effect.query or cause.query == effect.query
    return related and effect.rule in EXPLAINS.get(cause.rule, frozenset())


def find_rule(name: str) -> Rule:
    """Return the rule with this id. Raises InvalidInput, which names the most similar id, if there is no such rule."""
    if name not in _BY_ID:
        meant = nearest(name, _BY_ID)
        hint = f"perhaps {meant}" if meant else f"use one of {', '.join(sorted(_BY_ID))}"
        raise InvalidInput(f"health rule {name!r} is not known", hint=hint)
    return _BY_ID[name]


def check_thresholds(job: str, thresholds: Mapping[str, object]) -> dict[str, float | None]:
    """Check the thresholds that a job sets, and return them by rule. The value is None for a rule that the job switches
    off.

    Raises InvalidInput for an unknown rule, for a threshold that is not a finite number of at least 0, and for a
    threshold of a rule that accepts none.
    """
    checked: dict[str, float | None] = {}
    for name, value in thresholds.items():
        rule = find_rule(name) if isinstance(name, str) else None
        if rule is None:
            raise InvalidInput(
                f"job {job}: {name!r} is not the name of a health rule",
                hint='write rules as in health={"lag-seconds": 600}',
            )
        if value is None:
            checked[name] = None
            continue
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else -1.0
        if not 0 <= number < float("inf"):
            raise InvalidInput(
                f"job {job}: the threshold of health rule {name} cannot be {value!r}",
                hint=f"give a number of at least 0, in {rule.unit}, or None to switch the rule off"
                if rule.unit
                else "use None to switch the rule off",
            )
        if not rule.unit:
            raise InvalidInput(
                f"job {job}: health rule {name} accepts no threshold", hint="use None to switch the rule off"
            )
        checked[name] = number
    return checked
