"""Who carries an operation on: left where it is begun, so that the watch can know when nobody does any more.

``carriers/<job>/<operation>.json``, replaced by whoever takes the operation over. It proves an end, never a life: a
process of this machine that is gone, a run of a DAG that has ended. Where nothing is proven somebody is assumed.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from streamkeeper.errors import KeyMissing
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.runners.machine import Sight, this_machine
from streamkeeper.runners.process_tree import read_process
from streamkeeper.stores.contract import Store


class Carrier(msgspec.Struct, frozen=True, kw_only=True):
    """A process of a machine, or a run of a DAG (``dag`` and ``run``). ``started``: clock ticks since boot."""

    format: int = 1
    machine: str = ""
    host: str = ""
    pid: int = 0
    started: int = 0
    dag: str = ""
    run: str = ""


RunIsOver = Callable[[str, str], bool]
"""Whether a run of a DAG has ended; False where that is not known."""


def nobody_knows(dag: str, run: str) -> bool:
    """Outside Airflow no run is known to have ended."""
    return False


def this_process() -> Carrier:
    """The process that asks."""
    here, mine = this_machine(), read_process(os.getpid())
    return Carrier(machine=here.text, host=here.host, pid=os.getpid(), started=mine.started if mine else 0)


def note_carrier(store: Store, job: str, operation: str, carrier: Carrier) -> None:
    """Say who carries the operation on; raises StoreUnavailable."""
    store.replace(_key(job, operation), to_json(carrier))


def read_carrier(store: Store, job: str, operation: str) -> Carrier | None:
    """Who carries the operation on, or did last; None where nobody has said so. Raises StoreUnavailable."""
    key = _key(job, operation)
    try:
        return from_json(store.read(key), Carrier, where=key, newest_format=1)
    except KeyMissing:
        return None


def is_abandoned(store: Store, job: str, operation: str, run_is_over: RunIsOver = nobody_knows) -> bool:
    """Whether provably nobody carries the operation on; False where nobody has said who does."""
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
