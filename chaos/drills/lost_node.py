"""A node that is lost with its driver: its processes cannot be checked, and a user states that it was terminated."""

from __future__ import annotations

import json
import random
from pathlib import Path

from chaos.cases import JOB
from chaos.drills.drill import Drill

_ALLOWED_S = 20
_ANOTHER_BOOT = "00000000-0000-4000-8000-000000000000"


def allow_little_silence(drill: Drill) -> None:
    """Let the job declare that a lost driver may be silent for 20 seconds; the default is ten minutes."""
    file = drill.bed.jobs / "ledgers.py"
    name = '    name="ledgers",\n'
    text = file.read_text()
    assert name in text
    file.write_text(text.replace(name, f'{name}    health={{"driver-lost": {_ALLOWED_S}}},\n', 1))


def node_lost(drill: Drill, chance: random.Random) -> None:
    """Kill every process, and change the records so that they ran on a machine that cannot be checked.

    Mended as the documentation describes: the termination is stated, a snapshot is taken and restored.
    """
    instance = drill.state().serving_instance
    drill.kill()
    for record in (drill.bed.home / "store" / "control").rglob("process-*.json"):
        _move_elsewhere(record)
    drill.did.append("every process is gone, on a machine that nobody can look at")

    def state() -> None:
        reason = ("--reason", "its node was scrapped")
        drill.must(drill.run("state-dead", JOB, instance, *reason, "--accept"))
        before = len(drill.state().operations)
        named = drill.watch()
        if "owner-unproven" not in named:
            drill.damage.append(f"after the statement the watch names {named}, and not owner-unproven")
        if len(drill.state().operations) != before:
            drill.damage.append("the watch began a start that has to be refused")
        drill.must(drill.run("snapshot", "take", JOB))

    drill.undo = state


def _move_elsewhere(record: Path) -> None:
    found = json.loads(record.read_text())
    hardware, _, *rest = found["machine"].split(":")
    found["machine"] = ":".join([hardware, _ANOTHER_BOOT, *rest])
    found["host"] = ""
    record.write_text(json.dumps(found))
