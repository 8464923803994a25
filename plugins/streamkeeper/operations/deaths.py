"""Knowledge of an instance's termination: recorded, proven by its runner, or stated by a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.crash_points import crash_point
from streamkeeper.errors import (
    CheckpointChanged,
    CheckpointDamaged,
    InvalidInput,
    NotFound,
    OperationRefused,
    StreamkeeperError,
)
from streamkeeper.lifecycle.right_to_answer import right_to_answer
from streamkeeper.model.job_state import InstanceState, JobState
from streamkeeper.model.journal import InstanceEnded, Record
from streamkeeper.model.liveness import Life, Liveness
from streamkeeper.model.names import check_instance
from streamkeeper.model.sink_capabilities import capabilities_of
from streamkeeper.model.stated_deaths import STATED, unproven_owner
from streamkeeper.operations.backup import back_up
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.overview import read_job
from streamkeeper.operations.registered import stored_manifests
from streamkeeper.operations.targets import query_target
from streamkeeper.registry.control import Control


def state_death(site: Installation, job: str, instance: str, *, by: str, reason: str, accept: bool) -> list[str]:
    """Record a person's statement that a driver which cannot be observed has terminated; returns its risks, in lines.

    ``site``, ``job`` and ``instance``: whose termination it is; ``by`` and ``reason``: of the person; ``accept``:
    without it no record is written. Raises InvalidInput without a reason, NotFound for an instance that the journal
    does not contain, OperationRefused for an instance that is running, that can be proven terminated or whose end is
    recorded, and for a person who may not answer questions.
    """
    if not reason.strip():
        raise InvalidInput("a stated termination needs a reason", hint="how you know it: the node was switched off, …")
    state = read_job(site, job)
    found = state.instances.get(check_instance(instance))
    if found is None:
        raise NotFound(f"job {job} has no instance {instance}", hint=f"see: streamkeeper status {job}")
    if found.ended:
        raise OperationRefused(f"the termination of {instance} is already recorded: {found.proof}")
    # The same person requests and states: four eyes would refuse everyone, and the job could never run again.
    right = msgspec.structs.replace(right_to_answer(site.settings, state, by), four_eyes=False)
    if objection := right.objection(by):
        raise OperationRefused(f"the termination of {instance} cannot be stated: {objection}")
    seen = site.runner.observe(job, instance)
    if seen.life is Life.ALIVE:
        raise OperationRefused(f"{instance} is running: {seen.why}", hint=f"streamkeeper stop {job} --reason …")
    if seen.life is not Life.UNKNOWN:
        raise OperationRefused(
            f"the termination of {instance} needs no statement, because it can be proven here: {seen.why}",
            hint=f"streamkeeper recover {job}",
        )
    risks = list(_risks(site, state, found, seen))
    if accept:
        crash_point("state-death.before")
        _record(site, job, found, _statement(by, reason), by)
    return risks


def is_stated(site: Installation, job: str, instance: str, *, by: str, reason: str) -> bool:
    """Whether this very statement is recorded: a task that was killed after recording it is then done.

    ``site``, ``job`` and ``instance``: whose termination it is; ``by`` and ``reason``: of the statement.
    """
    found = read_job(site, job).instances.get(check_instance(instance))
    return found is not None and found.proof == _statement(by, reason)


def snapshot_fork(site: Installation, job: str) -> list[str]:
    """Take a snapshot of every checkpoint that a driver with a stated termination may still write; a line each.

    A restore continues in that copy without a replay. For a missing checkpoint the line reports that there is none.
    Raises OperationRefused if no checkpoint of the job is in that state.
    """
    state = read_job(site, job)
    queries = [query for query in sorted(state.versions) if unproven_owner(state, query)]
    if not queries:
        raise OperationRefused(
            f"no checkpoint of {job} belongs to a driver whose termination was stated",
            hint=f"streamkeeper recover {job}",
        )
    lines = []
    for query in queries:
        try:
            lines.append(back_up(site.snapshots, query_target(site, job, query)).sentence)
        except (CheckpointDamaged, CheckpointChanged, NotFound) as error:
            lines.append(
                f"{job}/{query}: no snapshot could be taken; a restore uses the newest existing one: {error.message}"
            )
    return lines


def _statement(by: str, reason: str) -> str:
    return f"{STATED}{by}, not proven: {reason.strip()}"


def must_not_be_shared(site: Installation, state: JobState, versions: Mapping[str, str] | None = None) -> None:
    """Raise OperationRefused for a checkpoint version that a driver with an unproven termination may still write.

    ``versions``: query -> version to check, by default the current ones. A version without a committed batch is
    allowed, because no copy of it can be made.

    Of two drivers only one creates each of Spark's files, but each deletes state files that it did not write.
    """
    for query, version in (versions or dict.fromkeys(state.versions, "")).items():
        current = state.current_version(query)
        name = version or (current.version if current is not None else "")
        if not name or not (owner := unproven_owner(state, query, name)):
            continue
        if last_committed(site.checkpoint(state, query, name).fresh()) is not None:
            raise OperationRefused(
                f"checkpoint {name} of {state.job}/{query} may still be written by {owner}, whose termination was"
                " stated, not proven",
                hint=f"streamkeeper snapshot take {state.job}, then streamkeeper recover {state.job} --action restore "
                f"continues in a copy; or streamkeeper deploy {state.job} --strategy rebuild",
            )


def bury(site: Installation, job: str, instance: str) -> None:
    """Release the resources that were kept to prove an end that is now recorded.

    A prune releases resources that cannot be released now, together with the instance's records.
    """
    crash_point("bury.before")
    with suppress(StreamkeeperError):
        site.runner.bury(job, instance)


def _record(site: Installation, job: str, instance: InstanceState, proof: str, by: str) -> None:
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

    site.journal(job, "state-death").append(still_unproven)


def _risks(site: Installation, state: JobState, instance: InstanceState, seen: Liveness) -> Iterator[str]:
    """The effect on each output and checkpoint if the driver is running after all."""
    yield f"{instance.instance} cannot be observed: {seen.why}"
    status = Control(site.store, state.job, instance.instance).find_status()
    at = (status.at or "an unknown time") if status is not None else ""
    yield f"its last report is from {at}" if at else "it has left no readable report"
    if not instance.appointed:
        yield "it owns no checkpoint: if it is still running, it writes no data"
        return
    yield (
        "if it is still running, it continues in its checkpoints until its next batch, before which it reads the "
        "journal, or until its lease expires where it cannot reach the store; no other driver continues in these "
        "checkpoints, only in a copy: "
        f"streamkeeper snapshot take {state.job}, then streamkeeper recover {state.job} --action restore"
    )
    for query, manifest in stored_manifests(site, state, instance.release).items():
        if capabilities_of(manifest.sink.kind).fences:
            yield f"query {query}: {manifest.sink.output} refuses its writes once its successor has taken over"
        else:
            output = manifest.sink.output or "its output"
            yield f"query {query}: {output} cannot refuse its writes, so it may write at the same time as its successor"
