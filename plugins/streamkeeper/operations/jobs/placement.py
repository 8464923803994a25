"""Placement: whether this machine can observe a job's drivers and can reach its checkpoints.

A driver that is a process tree can be proven terminated only on its own machine, and a checkpoint directory is on one
disk. A task or command on another machine is refused before it records or starts anything, and can continue on the
right machine (docs/decisions/0028).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import WrongMachine
from streamkeeper.model.protocol.liveness import Liveness
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import InstanceState, JobState
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import observe_instances
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.machine import this_machine


def check_placement(installation: Installation, state: JobState) -> None:
    """Raise WrongMachine if another machine has a driver without a proven termination, or if a query's current
    checkpoint version is on another machine's disk.
    """
    must_see_drivers(installation, state)
    for query in state.versions:
        current = state.current_version(query)
        tree = installation.checkpoint(state, query, current.version) if current is not None else None
        if current is not None and tree is not None and (host := find_disk(installation, state.job, current, tree)):
            raise other_disk(state.job, current, tree, host)


def must_see_drivers(installation: Installation, state: JobState) -> None:
    """Raise WrongMachine if another machine has a driver without a proven termination."""
    running = running_instances(state)
    must_see(state.job, running, observe_instances(installation, state, [each.instance for each in running]))


def must_see(job: str, running: Iterable[InstanceState], seen: Mapping[str, Liveness | None]) -> None:
    """Raise WrongMachine if an instance can only be observed from another machine.

    ``running``: the instances; ``seen``: instance -> whether the instance is alive, and why; None for an instance that
    was not observed.
    """
    for each in running:
        liveness = seen.get(each.instance)
        if liveness is not None and liveness.elsewhere:
            raise WrongMachine(
                f"driver {each.instance} of job {job}: {liveness.why}; no change was made here",
                hint=f"run the command on {liveness.elsewhere}. If that machine is permanently lost, run `streamkeeper"
                f" state-dead {job} {each.instance} --reason …`",
            )


def running_instances(state: JobState) -> list[InstanceState]:
    """Return instances without a recorded end that own checkpoints or belong to the open operation."""
    opened = state.open_operation.operation if state.open_operation is not None else ""
    return [
        each
        for each in state.instances.values()
        if not each.ended and (each.appointed or (opened and each.operation == opened))
    ]


def find_disk(installation: Installation, job: str, version: CheckpointVersion, tree: Tree) -> str:
    """Return the host that wrote a checkpoint version to a disk that this host does not have; empty otherwise.

    The result is empty if the directory exists here, if it is in an object store or HDFS, if no driver has opened
    the version, or if the host that wrote it is not recorded.
    """
    if not isinstance(tree, LocalTree) or not version.claimed_by or not tree.absence():
        return ""
    records = Control(installation.store, job, version.claimed_by).processes()
    if not records or this_machine().shares_disk(records[-1].machine, records[-1].host):
        return ""
    return records[-1].host


def told_disk(tree: Tree, host: str) -> str:
    """Return, as a phrase, that a checkpoint is on the disk of another host and does not exist here."""
    return f"{tree.where('')} was written on {host}, and does not exist on {this_machine().host}"


def other_disk(job: str, version: CheckpointVersion, tree: Tree, host: str) -> WrongMachine:
    """Return the error of an operation that needs a checkpoint's files here, although they are on
    another host's disk.
    """
    return WrongMachine(
        f"checkpoint {version.version} of {job}/{version.query}: {told_disk(tree, host)}; no change was made here",
        hint=f"run the command on {host}. If that machine is permanently lost, run `streamkeeper recover {job}` here",
    )
