"""Prevents an unclaimed instance from ever being claimed."""

from __future__ import annotations

from collections.abc import Sequence

from streamkeeper.errors import KeyExists
from streamkeeper.model.protocol.driver_messages import ProcessRecord
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.machine import Machine

FORMER = "its records belong to the installation from which this one was copied"
NEVER_STARTED = "the instance was stopped before it started, and no process can claim it any more"


def bar(control: Control, instance: str, here: Machine, installation: str) -> list[ProcessRecord]:
    """Store a claim that names no process for an instance's first generation, so that no supervisor can claim the
    instance.

    Returns the stored claim. If the first generation is already claimed, stores nothing and returns all claims of the
    instance.
    """
    nobody = ProcessRecord(
        instance=instance,
        generation=1,
        machine=here.text,
        host=here.host,
        pid=0,
        started=0,
        installation=installation,
    )
    try:
        control.write_process(nobody)
    except KeyExists:
        return control.processes()
    return [nobody]


def is_barred(recorded: Sequence[ProcessRecord]) -> bool:
    """Whether the instance has claims, and none of them names a process."""
    return bool(recorded) and all(record.pid == 0 for record in recorded)
