"""Rules about what keeps a job safe and its changes moving: backups, drills, prunes, operations and releases."""

from __future__ import annotations

from streamkeeper.health.rule import Found, Rule, tell_span
from streamkeeper.model.health import JobLook, Severity
from streamkeeper.model.step import label_of


def _late(look: JobLook, longest_s: float) -> Found:
    allowed = longest_s or look.objective_s
    for query, backup in sorted(look.backups.items()):
        if backup.lacks_s is not None and backup.lacks_s >= allowed:
            what = (
                "there is no snapshot"
                if backup.age_s is None
                else f"the newest snapshot is {tell_span(backup.age_s)} old"
            )
            lacks = f"what it lacks was committed {tell_span(backup.lacks_s)} ago"
            yield query, f"{what}, {lacks}, and {tell_span(allowed)} are allowed"


def _unverified(look: JobLook, longest_s: float) -> Found:
    for query, backup in sorted(look.backups.items()):
        if backup.verified_age_s is None:
            if backup.oldest_age_s is not None and backup.oldest_age_s >= longest_s:
                yield query, f"no snapshot was ever drilled, and the oldest is {tell_span(backup.oldest_age_s)} old"
        elif backup.verified_age_s >= longest_s:
            yield query, f"the newest snapshot that a drill has resumed is {tell_span(backup.verified_age_s)} old"


def _unpruned(look: JobLook, longest_s: float) -> Found:
    if look.prune_failed:
        yield "", f"the last prune left it: {look.prune_failed}"
    elif look.prune_age_s is not None and look.prune_age_s >= longest_s:
        yield "", f"nothing was pruned for {tell_span(look.prune_age_s)}"


def _open(look: JobLook, longest_s: float) -> Found:
    at = look.operation
    if at is None or at.waits_for_person:
        return
    if not at.owned:
        yield "", f"{at.kind} {at.operation} stands at {label_of(at.step)}, and nobody carries it on"
    elif at.open_s >= longest_s:
        yield "", f"{at.kind} {at.operation} has been open for {tell_span(at.open_s)}, at {label_of(at.step)}"


def _approval(look: JobLook, longest_s: float) -> Found:
    at = look.operation
    if at is not None and at.waits_for_person and at.open_s >= longest_s:
        yield "", f"{at.kind} {at.operation} waits at {label_of(at.step)} for a person, since {tell_span(at.open_s)}"


def _recovery_waits(look: JobLook, longest_s: float) -> Found:
    asked = look.asked
    if asked is not None and asked.waited_s >= longest_s:
        who = f" (may answer: {asked.may})" if asked.may else ""
        told = f"{asked.action} waits for a person's answer since {tell_span(asked.waited_s)}{who}"
        yield "", f"{told}; in {tell_span(asked.left_s)} it counts as declined: {asked.sentence}"


def _differs(look: JobLook, _: float) -> Found:
    if look.operation is not None or not look.serving_release:
        return
    running = look.status.release if look.status is not None else ""
    if look.desired_release and look.desired_release != look.serving_release:
        why = f": {look.last_failure}" if look.last_failure else ""
        yield "", f"{look.desired_release} was asked for, and {look.serving_release} serves{why}"
    elif look.wanted and running and running != look.serving_release:
        yield "", f"{look.serving_release} is on record as serving, and {running} runs"


RULES: tuple[Rule, ...] = (
    Rule(
        "backup-late",
        Severity.TICKET,
        None,
        "seconds (STREAMKEEPER_BACKUP_OBJECTIVE_S)",
        "the watch takes one; by hand: streamkeeper snapshot take {series}",
        "A backup is late, or a drill failed",
        _late,
    ),
    Rule(
        "none-verified",
        Severity.TICKET,
        7 * 86_400.0,
        "seconds",
        "streamkeeper snapshot drill {series}, and see that streaming_drill runs",
        "A backup is late, or a drill failed",
        _unverified,
    ),
    Rule(
        "prune-stopped",
        Severity.TICKET,
        3 * 86_400.0,
        "seconds",
        "streamkeeper prune --dry-run says what stops it",
        "A prune stops",
        _unpruned,
    ),
    Rule(
        "operation-open",
        Severity.TICKET,
        3600,
        "seconds",
        "deploy {job} with --on-open continue, or --on-open abort",
        "An operation is open",
        _open,
    ),
    Rule(
        "approval-waiting",
        Severity.TICKET,
        300,
        "seconds",
        "answer it: streamkeeper approve or decline {job}; silence is a no",
        "A deploy waits for an approval",
        _approval,
    ),
    Rule(
        "recovery-waiting",
        Severity.TICKET,
        60,
        "seconds",
        "accept or decline it in the run of streaming_recover, or streamkeeper recover {job} with --accept-loss or"
        " --accept-replay; no answer is a no",
        "Put a job right",
        _recovery_waits,
    ),
    Rule(
        "release-differs",
        Severity.TICKET,
        None,
        "",
        "mend what the sentence names and deploy {job} again, or deploy what serves to let it be",
        "A deploy failed",
        _differs,
    ),
)
