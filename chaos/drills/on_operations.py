"""Drills on the repair itself: two watches at the same time, and a restore that is killed at each of its points."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time

from chaos.cases import started_without
from chaos.drills.drill import Drill
from streamkeeper.model.watch.incident import IncidentRaised
from streamkeeper.operations.fleet.fleet_look import OWN
from streamkeeper.registry.incidents import IncidentLog


def two_schedulers(drill: Drill, chance: random.Random) -> None:
    drill.kill()
    drill.diagnose(("driver-killed",))
    began = time.monotonic()
    watch = drill.bed.program("watch", "--once", by=started_without(drill.off))
    both = [
        subprocess.Popen(watch, env=drill.bed.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for each in both:
        each.communicate(timeout=300)
    drill.passes, drill.named_s = 1, round(time.monotonic() - began, 1)
    records = [each.record for each in IncidentLog(drill.bed.installation.store, "ledgers").entries()]
    drill.named = [each.symptom.rule for each in records if isinstance(each, IncidentRaised)]
    drill.did.append("two watches at once over a dead driver")
    begun = [each for each in drill.state().operations if each.startswith(OWN)]
    if drill.named.count("driver-dead") != 1 or len(begun) != 1:
        drill.damage.append(f"two watches raised {drill.named} and began {begun}")


def recovery_killed(drill: Drill, chance: random.Random) -> None:
    """Kill a restore at each of the points in turn; after each kill the same command is run to continue it."""
    drill.kill()
    shutil.rmtree(drill.checkpoint("totals"))
    drill.diagnose(("checkpoint-lost",))
    drill.name_the_cause(("checkpoint-missing",))
    trace = drill.bed.root / "trace"
    asked = ("recover", "ledgers", "--action", "restore", "--reason", "drill", "--accept-replay", "--accept-loss")
    marker = drill.bed.root / "hit"
    points = _POINTS[drill.seed % len(_POINTS) :: max(1, len(_POINTS) // 12)]
    crash = {
        "STREAMKEEPER_CRASH": ",".join(points),
        "STREAMKEEPER_CRASH_ONCE": str(marker),
        "STREAMKEEPER_CRASH_TRACE": str(trace),
    }
    deaths = 0
    for _ in range(3 * len(points) + 3):
        answer = drill.run(*asked, extra=crash)
        if answer.returncode != -signal.SIGKILL:
            if answer.returncode:
                drill.damage.append(f"recover after {deaths} deaths: {answer.stderr.strip()[-300:]}")
            break
        deaths += 1
    drill.did.append(f"a restore that died {deaths} times")


_POINTS = (
    *("record.operation-started.before", "record.operation-started.after"),
    *("record.step-begun.before", "record.step-done.after"),
    *("restore.record.before", "restore.record.after", "restore.serve.before"),
    *("launch.spec.before", "launch.spec.after", "launch.process.before", "launch.process.after"),
    *("record.instance-planned.before", "record.instance-appointed.before", "record.instance-appointed.after"),
    *("record.release-promoted.before", "record.operation-finished.before"),
)
