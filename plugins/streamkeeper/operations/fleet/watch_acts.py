"""Actions that the watch carries out by itself: starts, abandoned operations, late backups."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable

import msgspec

from streamkeeper.errors import StreamkeeperError, WrongMachine
from streamkeeper.health.acts import Act, PlannedAct
from streamkeeper.model.records.step import Step
from streamkeeper.model.watch.watched_facts import JobFacts
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.deploys.deploy import Deploy, ProgressKind
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.fleet.fleet_look import OWN
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.system import clock

AT_ONCE = max(2, os.cpu_count() or 2)
"""Largest number of operations that are continued at once, because each starts a JVM."""
REQUESTED_BY = "the watch"
_PAUSE_S = 0.25


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that the watch continues."""

    job: str
    """The operation's job."""
    operation: str
    """The operation's id."""
    on: str = ""
    """The event that the operation waits for; empty if it does not wait."""
    since: float = 0.0
    """When that wait started, seconds since 1970."""
    sentence: str = ""
    """The operation's progress in words."""
    over: bool = False
    """Whether the operation needs no further advance."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of starting an action.

    ``operation``: the operation that the watch must then advance; empty if the action has none."""

    sentence: str
    operation: str = ""


def begin(installation: Installation, job: str, facts: JobFacts, planned: PlannedAct) -> Begun:
    """Start an action without waiting, and return its first result. Raises StreamkeeperError."""
    match planned.act:
        case Act.START:
            operation = start_again(installation, job, facts, reason=planned.reason)
            sentence = (
                f"restarts {facts.serving_release} as {operation}" if operation else "found the job already running"
            )
            return Begun(sentence=sentence, operation=operation)
        case Act.BACK_UP:
            return Begun(
                sentence=back_up(installation.snapshots, query_target(installation, job, planned.query)).sentence
            )
        case Act.CARRY_ON:
            open_one = facts.operation.operation if facts.operation is not None else ""
            return Begun(sentence=f"continues {open_one}", operation=open_one)


def start_again(installation: Installation, job: str, facts: JobFacts, *, reason: str) -> str:
    """Restart the job: start its current release from its checkpoint. Return the operation's id, empty if the job is
    already running.

    Idempotent. Raises OperationOpen, and OperationRefused for a job that was stopped after ``facts`` were read.
    """
    # One id for each termination: two schedulers start the same operation.
    seed = f"{job}\n{facts.serving_instance}\n{facts.operations}"
    operation = f"{OWN}{hashlib.sha256(seed.encode()).hexdigest()[:16]}"
    begun = open_start(
        installation, job, requested_by=REQUESTED_BY, reason=reason, operation=operation, unless_stopped=True
    )
    return "" if begun is None else begun.operation


def carry_on(
    installation: Installation, operations: Iterable[Carried], *, now: Callable[[], float], until: float
) -> tuple[list[Carried], list[str]]:
    """Advance operations concurrently until each is done, or until the clock ``now`` reaches ``until``.

    Return the advanced operations, and one sentence per failure. An operation that still waits is continued by the next
    pass; its deadline stays the same.
    """
    left = list(operations)[:AT_ONCE]
    rest = list(operations)[AT_ONCE:]
    over: list[Carried] = []
    failed: list[str] = []
    while left:
        waiting: list[Carried] = []
        for carried in left:
            try:
                after = _advance(installation, carried, now=now)
            except WrongMachine:
                # The watch of the right machine continues this operation.
                over.append(carried)
                continue
            except StreamkeeperError as error:
                failed.append(f"{carried.job}: {carried.operation} cannot continue: {error}")
                over.append(carried)
                continue
            (over if after.over else waiting).append(after)
        while rest and len(waiting) < AT_ONCE:
            waiting.append(rest.pop(0))
        left = waiting
        if now() >= until:
            break
        if left:
            clock.sleep(_PAUSE_S)
    return over + left, failed


def _advance(installation: Installation, carried: Carried, *, now: Callable[[], float]) -> Carried:
    waited_s = max(0.0, now() - carried.since) if carried.on else 0.0
    progress = Deploy.load(installation, carried.job, carried.operation, on=carried.on, waited_s=waited_s).advance(
        Step.FALL_BACK
    )
    return msgspec.structs.replace(
        carried,
        on=progress.on,
        since=now() - progress.waited_s,
        sentence=progress.sentence,
        over=progress.kind is not ProgressKind.WAITING,
    )
