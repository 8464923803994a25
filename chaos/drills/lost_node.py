"""A node that is lost with its driver: nobody can look at it, and a person states its termination."""

from __future__ import annotations

import json
import random
from pathlib import Path

from chaos.cases import JOB
from chaos.drills.drill import Drill

_ALLOWED_S = 20
_ANOTHER_BOOT = "00000000-0000-4000-8000-000000000000"


def allow_little_silence(drill: Drill) -> None:
    """Let the job say that a lost driver may be silent for a few seconds; ten minutes are usual."""
    file = drill.bed.jobs / "ledgers.py"
    name = '    name="ledgers",\n'
    text = file.read_text()
    assert name in text
    file.write_text(text.replace(name, f'{name}    health={{"driver-lost": {_ALLOWED_S}}},\n', 1))


def node_lost(drill: Drill, chance: random.Random) -> None:
    """Every process is gone, and by the records they ran on a machine of which nobody here knows anything.

    Mended as the page says it: the termination is stated, a copy is taken, and the copy is restored.
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
