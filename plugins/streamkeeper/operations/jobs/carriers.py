"""The carrier of an operation: the process or DAG run that executes it. It is recorded so that the watch detects its
termination.

The record ``carriers/<job>/<operation>.json`` is replaced when another process or run takes the operation over. The
record can prove that a carrier has terminated (a process of this machine that has terminated, a DAG run that has
finished), but not that a carrier is alive. A carrier without such a proof is assumed to be alive.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from streamkeeper.errors import KeyMissing
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.records.journal_records import About
from streamkeeper.runners.machine import Sight, this_machine
from streamkeeper.runners.process_tree import read_process
from streamkeeper.stores.contract import Store


class Carrier(msgspec.Struct, frozen=True, kw_only=True):
    """The process on a machine, or the run of a DAG, that carries out an operation."""

    format: int = 1
    """Version of the stored format."""
    machine: str = ""
    """Identity of the process's machine; empty for a DAG run."""
    host: str = ""
    """The machine's host name; empty for a DAG run."""
    pid: int = 0
    """The process id on that machine; 0 for a DAG run."""
    started: int = 0
    """When the process started, in clock ticks since boot."""
    dag: str = ""
    """The DAG's id; empty for a process."""
    run: str = ""
    """The run's id."""
    group: str = ""
    """The task group of the operation, in a DAG with more than one."""
    asking: dict[str, str] = {}
    """Subject of a question -> id of the run's task that asked the question; empty in older records."""


RunIsOver = Callable[[str, str], bool]
"""Whether a run of a DAG has finished; False if that is unknown."""


def nobody_knows(dag: str, run: str) -> bool:
    """Return False, because the state of DAG runs is unknown outside Airflow."""
    return False


def this_process() -> Carrier:
    """Return the current process as a carrier."""
    here, mine = this_machine(), read_process(os.getpid())
    return Carrier(machine=here.text, host=here.host, pid=os.getpid(), started=mine.started if mine else 0)


def note_carrier(store: Store, job: str, operation: str, carrier: Carrier) -> None:
    """Record the carrier of an operation; raises StoreUnavailable."""
    store.replace(_key(job, operation), to_json(carrier))


def read_carrier(store: Store, job: str, operation: str) -> Carrier | None:
    """Return the newest carrier of an operation; None if none was recorded. Raises StoreUnavailable."""
    key = _key(job, operation)
    try:
        return from_json(store.read(key), Carrier, where=key, newest_format=1)
    except KeyMissing:
        return None


def note_asking(store: Store, job: str, operation: str, about: About, *, dag: str, run: str, task: str) -> None:
    """Record which task of a DAG run asks a question; record nothing if another process or run executes the
    operation.
    """
    carrier = read_carrier(store, job, operation)
    if carrier is not None and (carrier.dag, carrier.run) == (dag, run):
        tasks = {**carrier.asking, about.value: task}
        note_carrier(store, job, operation, msgspec.structs.replace(carrier, asking=tasks))


def job_of(store: Store, operation: str) -> str:
    """Return the job of an operation with a recorded carrier, at the cost of one listing; empty if no carrier is
    recorded.
    """
    keys = (key.split("/") for key in store.list("carriers/"))
    return next((job for _, job, name in (key for key in keys if len(key) == 3) if name == f"{operation}.json"), "")


def is_abandoned(store: Store, job: str, operation: str, run_is_over: RunIsOver = nobody_knows) -> bool:
    """Whether the operation's carrier has provably terminated; False without a recorded carrier."""
    carrier = read_carrier(store, job, operation)
    if carrier is None:
        return False
    if carrier.dag:
        return run_is_over(carrier.dag, carrier.run)
    sight, _ = this_machine().look_at(carrier.machine, carrier.host)
    if sight is Sight.HERE:
        now = read_process(carrier.pid)
        return now is None or now.started != carrier.started
    return sight is Sight.OVER


def _key(job: str, operation: str) -> str:
    return f"carriers/{job}/{operation}.json"
