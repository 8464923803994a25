"""The evidence that an instance has terminated: a record, a proof by its runner, or a person's statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.errors import (
    CheckpointChanged,
    CheckpointDamaged,
    InvalidInput,
    NotFound,
    OperationRefused,
    StreamkeeperError,
)
from streamkeeper.lifecycle.right_to_answer import right_to_answer
from streamkeeper.model.names import check_instance
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.job_state import InstanceState, JobState
from streamkeeper.model.records.journal_records import InstanceEnded, Record
from streamkeeper.model.records.stated_deaths import STATED, unproven_owner
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import DriverObservation, read_job
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.barred_instances import NEVER_STARTED, bar, is_barred
from streamkeeper.runners.machine import this_machine
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

_KILLED_WITHIN_S, _LOOK_S = 10.0, 0.5
"""Seconds to wait for the termination of a killed instance before its end is recorded, and seconds between two
observations.
"""


def state_death(
    installation: Installation, job: str, instance: str, *, by: str, reason: str, accept: bool
) -> list[str]:
    """Record a person's statement that an unobservable driver has terminated. Return the risks, one line each.

    ``installation``: the installation; ``job`` and ``instance``: the driver; ``by`` and ``reason``: who states it, and
    why; ``accept``: False to return the risks without writing a record. Raises InvalidInput without a reason, and
    NotFound for an instance that the journal does not contain. Raises OperationRefused if the instance is running, can
    be proven terminated or is recorded as ended, or if the person is unknown or may not approve.
    """
    if not reason.strip():
        raise InvalidInput(
            "a stated termination needs a reason",
            hint="state how you know that the driver has ended, such as: the node was off",
        )
    state = read_job(installation, job)
    found = state.instances.get(check_instance(instance))
    if found is None:
        raise NotFound(f"job {job} has no instance {instance}", hint=f"run `streamkeeper status {job}`")
    if found.ended:
        raise OperationRefused(f"the termination of {instance} is already recorded: {found.proof}")
    # The requester makes the statement. The four-eyes rule would refuse every person, and the job could not run again.
    right = msgspec.structs.replace(right_to_answer(installation.settings, state, by), four_eyes=False)
    if objection := right.objection(by):
        raise OperationRefused(f"the termination of {instance} cannot be stated: {objection}")
    driver = DriverObservation.of(installation, state, instance)
    seen = driver.liveness
    if seen.life is Life.ALIVE:
        raise OperationRefused(f"{instance} is running: {seen.why}", hint=f"run `streamkeeper stop {job} --reason …`")
    if seen.life is not Life.UNKNOWN:
        raise OperationRefused(
            f"the termination of {instance} needs no statement, because it can be proven here: {seen.why}",
            hint=f"run `streamkeeper recover {job}`",
        )
    risks = list(_risks(installation, state, found, driver))
    if accept:
        crash_point("state-death.before")
        _record(installation, job, found, _statement(by, reason), by)
    return risks


def is_stated(installation: Installation, job: str, instance: str, *, by: str, reason: str) -> bool:
    """Whether exactly this statement is recorded.

    If it is, a task that is retried after it was killed has nothing left to do.

    ``installation``: the installation; ``job`` and ``instance``: the driver; ``by`` and ``reason``: who stated it, and
    why.
    """
    found = read_job(installation, job).instances.get(check_instance(instance))
    return found is not None and found.proof == _statement(by, reason)


def snapshot_fork(installation: Installation, job: str) -> list[str]:
    """Take a snapshot of every current checkpoint that may still be written by a driver with a stated termination.

    Return one line per query: the snapshot, or why none could be taken. A restore of that snapshot continues without a
    replay. Raises OperationRefused if the job has no such checkpoint.
    """
    state = read_job(installation, job)
    queries = [query for query in sorted(state.versions) if unproven_owner(state, query)]
    if not queries:
        raise OperationRefused(
            f"no checkpoint of {job} belongs to a driver whose termination a person has stated",
            hint=f"run `streamkeeper recover {job}`",
        )
    lines = []
    for query in queries:
        try:
            lines.append(back_up(installation.snapshots, query_target(installation, job, query)).sentence)
        except (CheckpointDamaged, CheckpointChanged, NotFound) as error:
            lines.append(
                f"{job}/{query}: a restore uses the newest existing snapshot, because none could be taken now"
                f" ({error.message})"
            )
    return lines


def _statement(by: str, reason: str) -> str:
    return f"{STATED}{by}, not proven: {reason.strip()}"


def must_not_be_shared(installation: Installation, state: JobState, versions: Mapping[str, str] | None = None) -> None:
    """Raise OperationRefused if a driver whose termination is not proven may still write a checkpoint version.

    ``versions``: query -> version to check; by default the current versions. A version without a committed batch
    passes: the remedy would be to continue in a copy, and such a version cannot be copied.

    Reason: two drivers cannot both create the same file of a Spark checkpoint, but each deletes state files that the
    other has written.
    """
    for query, version in (versions or dict.fromkeys(state.versions, "")).items():
        current = state.current_version(query)
        name = version or (current.version if current is not None else "")
        if not name or not (owner := unproven_owner(state, query, name)):
            continue
        if last_committed(installation.checkpoint(state, query, name).fresh()) is not None:
            raise OperationRefused(
                f"{owner} may still write to checkpoint {name} of {state.job}/{query}: a person stated the termination"
                " of this driver, but nothing proves it",
                hint=f"to continue in a copy, run `streamkeeper snapshot take {state.job}`, then run `streamkeeper"
                f" recover {state.job} --action restore`. To rebuild instead, run `streamkeeper deploy {state.job}"
                " --strategy rebuild`",
            )


def give_up(installation: Installation, job: str, instance: str, reason: str) -> str:
    """Kill all processes of an instance that owns nothing. Return how the instance ended, for its record.

    If its termination is not observed soon, the instance still cannot write, and terminates once it reads the record of
    its end.
    """
    installation.runner.kill(job, instance)
    until = clock.monotonic() + _KILLED_WITHIN_S
    while (seen := DriverObservation(installation, job, instance).liveness).life in (Life.ALIVE, Life.UNKNOWN):
        if clock.monotonic() > until:
            return f"given up: {reason}; it was killed, and its end was not seen: {seen.why}"
        clock.sleep(_LOOK_S)
    started = seen.life is Life.DEAD and seen.why != NEVER_STARTED
    return f"given up: {reason}; {seen.why}" if started else f"never started: {reason}"


def make_unclaimable(installation: Installation, job: str, instance: str) -> bool:
    """Prevent every process from claiming an instance that no process has claimed yet. Return False if a process
    already has: another caller of the same operation has started the instance since it was observed.
    """
    return is_barred(bar(Control(installation.store, job, instance), instance, this_machine(), installation.id))


def release_resources(installation: Installation, job: str, instance: str) -> None:
    """Free the resources that were kept to prove the end of an instance, now that its end is recorded.

    If these resources cannot be freed now, a prune frees them together with the instance's records.
    """
    crash_point("bury.before")
    with suppress(StreamkeeperError):
        installation.runner.release_resources(job, instance)


def _record(installation: Installation, job: str, instance: InstanceState, proof: str, by: str) -> None:
    def still_unproven(state: JobState) -> Record | None:
        if state.instances[instance.instance].ended:
            return None
        return InstanceEnded(
            operation=instance.operation,
            instance=instance.instance,
            proof=proof,
            exit="without a word",
            stated_by=by or "somebody",
        )

    installation.journal(job, "state-death").append(still_unproven)


def _risks(
    installation: Installation, state: JobState, instance: InstanceState, driver: DriverObservation
) -> Iterator[str]:
    """Yield the effects on each output and checkpoint if the driver is running after all."""
    yield f"{instance.instance} cannot be observed: {driver.liveness.why}"
    status = driver.readable_status
    reported_at = (status.at or "an unknown time") if status is not None else ""
    yield f"the driver's last report is from {reported_at}" if reported_at else "the driver has left no readable report"
    if not instance.appointed:
        yield "the driver owns no checkpoint, so it writes no data even if it is still running"
        return
    yield (
        "if the driver is still running, it may write its checkpoints until its next batch, before which it reads the"
        " journal. If it cannot reach the store, it may write them until its lease expires. Other drivers may continue"
        f" only in a copy of these checkpoints: run `streamkeeper snapshot take {state.job}`, then run `streamkeeper"
        f" recover {state.job} --action restore`"
    )
    for query, manifest in stored_manifests(installation, state, instance.release).items():
        if capabilities_of(manifest.sink.kind).fences:
            yield f"query {query}: {manifest.sink.output} refuses the driver's writes once its successor has taken over"
        else:
            output = manifest.sink.output or "its output"
            yield f"query {query}: {output} cannot refuse the driver's writes, so both it and its successor may write"
