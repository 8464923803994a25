"""Rules about backups, drills, prunes, operations and releases."""

from __future__ import annotations

from streamkeeper.health.health_rule import Found, Rule, tell_span
from streamkeeper.model.records.step import label_of
from streamkeeper.model.watch.health import JobLook, Urgency


def _late(look: JobLook, longest_s: float) -> Found:
    allowed = longest_s or look.objective_s
    for query, backup in sorted(look.backups.items()):
        if backup.lacks_s is not None and backup.lacks_s >= allowed:
            newest = (
                "there is no snapshot"
                if backup.age_s is None
                else f"the newest snapshot is {tell_span(backup.age_s)} old"
            )
            oldest = f"the oldest batch without a snapshot was committed {tell_span(backup.lacks_s)} ago"
            yield query, f"{newest}; {oldest} (limit: {tell_span(allowed)})"


def _unverified(look: JobLook, longest_s: float) -> Found:
    for query, backup in sorted(look.backups.items()):
        if backup.verified_age_s is None:
            if backup.oldest_age_s is not None and backup.oldest_age_s >= longest_s:
                yield query, f"no snapshot has passed a drill, and the oldest is {tell_span(backup.oldest_age_s)} old"
        elif backup.verified_age_s >= longest_s:
            yield query, f"the newest snapshot that has passed a drill is {tell_span(backup.verified_age_s)} old"


def _unpruned(look: JobLook, longest_s: float) -> Found:
    if look.prune_failed:
        yield "", f"the last prune could not prune all of this job: {look.prune_failed}"
    elif look.prune_age_s is not None and look.prune_age_s >= longest_s:
        yield "", f"no full prune has run for {tell_span(look.prune_age_s)}"


def _open(look: JobLook, longest_s: float) -> Found:
    operation = look.facts.operation
    if operation is None or operation.waits_for_person:
        return
    if not look.owned:
        yield (
            "",
            f"{operation.kind} {operation.operation} is at step {label_of(operation.step)},"
            " and its process or DAG run has ended",
        )
    elif look.open_s >= longest_s:
        yield (
            "",
            f"{operation.kind} {operation.operation} has been open for {tell_span(look.open_s)},"
            f" at step {label_of(operation.step)}",
        )


def _approval(look: JobLook, longest_s: float) -> Found:
    operation = look.facts.operation
    if operation is not None and operation.waits_for_person and look.open_s >= longest_s:
        waits = f"waits at step {label_of(operation.step)} for a person's answer"
        yield "", f"{operation.kind} {operation.operation} {waits}; it has been open for {tell_span(look.open_s)}"


def _recovery_waits(look: JobLook, longest_s: float) -> Found:
    asked = look.asked
    if asked is not None and asked.waited_s >= longest_s:
        who = f" (may answer: {asked.may})" if asked.may else ""
        waits = f"{asked.action} has waited for a person's answer for {tell_span(asked.waited_s)}{who}"
        yield "", f"{waits}; without an answer it counts as declined in {tell_span(asked.left_s)}: {asked.sentence}"


def _differs(look: JobLook, _: float) -> Found:
    facts = look.facts
    if facts.operation is not None or not facts.serving_release:
        return
    running = look.driver.status.release if look.driver.status is not None else ""
    if facts.desired_release and facts.desired_release != facts.serving_release:
        why = f": {facts.last_failure}" if facts.last_failure else ""
        yield "", f"{facts.desired_release} was requested, but {facts.serving_release} is the current release{why}"
    elif facts.wanted and running and running != facts.serving_release:
        yield "", f"{facts.serving_release} is recorded as the current release, but {running} is running"


RULES: tuple[Rule, ...] = (
    Rule(
        "backup-late",
        Urgency.TICKET,
        None,
        "seconds (STREAMKEEPER_BACKUP_OBJECTIVE_S)",
        "wait for the snapshot that the watch takes, or run `streamkeeper snapshot take {series}`",
        "A backup is late, or a drill failed",
        _late,
    ),
    Rule(
        "none-verified",
        Urgency.TICKET,
        7 * 86_400.0,
        "seconds",
        "run `streamkeeper snapshot drill {series}`, and check that the DAG streaming_drill runs",
        "A backup is late, or a drill failed",
        _unverified,
    ),
    Rule(
        "prune-stopped",
        Urgency.TICKET,
        3 * 86_400.0,
        "seconds",
        "run `streamkeeper prune --dry-run` to see the cause, and fix it",
        "A prune stops",
        _unpruned,
    ),
    Rule(
        "operation-open",
        Urgency.TICKET,
        3600,
        "seconds",
        "run `streamkeeper deploy {job} --on-open continue` to continue the operation, or `streamkeeper deploy {job}"
        " --on-open abort` to end it and deploy the current code",
        "An operation is open",
        _open,
    ),
    Rule(
        "approval-waiting",
        Urgency.TICKET,
        300,
        "seconds",
        "answer the question with `streamkeeper approve {job} OPERATION` or `streamkeeper decline {job} OPERATION`."
        " No answer counts as declined",
        "A deploy waits for an approval",
        _approval,
    ),
    Rule(
        "recovery-waiting",
        Urgency.TICKET,
        60,
        "seconds",
        "accept or decline the recovery in the run of streaming_recover, or run `streamkeeper recover {job}` with"
        " --accept-loss or --accept-replay. No answer counts as declined",
        "Put a job right",
        _recovery_waits,
    ),
    Rule(
        "release-differs",
        Urgency.TICKET,
        None,
        "",
        "fix the reported cause and deploy {job} again, or deploy the current release to keep it",
        "A deploy failed",
        _differs,
    ),
)
