"""Negative controls: with a protection switched off, the same look at the outputs must find damage; with it on, none.

``gate``: three plain deploys of a job whose batches are slow; without it, batches are interrupted and come twice.
``fence``: the serving driver is frozen with a planned batch at its gate and wakes up beside its successor; what else
stands before the fence (the proof of death, the lease, a gate that closes) is out of the way in both of its runs.
``death-proof``: it is frozen inside a sink that has no fence of its own, and wakes up after its successor has gone on;
the lease, which may end it first, is out of the way.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from bench.bed import ROOT, Bed, fresh_bed, wait_for
from bench.campaign.cases import JOB
from bench.campaign.ledger import count_replays, find_second_writers, read_accounts

UNPROTECTED = ROOT / "bench/campaign/unprotected.py"
FROZEN_AT = 24
"""So late that every query has completed a trigger: a deploy waits for that."""


class Control:
    """A bed with the ``ledgers`` job, deployed with protections switched off."""

    def __init__(self, bed: Bed, off: str) -> None:
        self.bed, self.off = bed, off
        self.output = bed.root / "output"
        self.output.mkdir()
        self._release = 0

    def deploy(self, *, slow_s: float = 0.0, extra: dict[str, str] | None = None) -> None:
        """One deploy that has to succeed."""
        self._release += 1
        params = {
            "input": str(self.bed.input),
            "output": str(self.output),
            "trigger": f"{300 + self._release} milliseconds",
            "slow_s": slow_s,
        }
        arguments = [JOB, "--params", json.dumps(params), "--reason", "control"]
        if self.off:
            command = [sys.executable, str(UNPROTECTED), self.off, "deploy", *arguments]
            environment = {**self.bed.environment, **(extra or {})}
            run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        else:
            run = self.bed.command("deploy", *arguments, extra=extra)
        if run.returncode:
            raise RuntimeError(run.stderr)

    def interrupt_slow_batches(self) -> str:
        """Three handovers in the middle of slow batches: how many of them came twice."""
        self.bed.start_producer(rows=3, every_s=0.2)
        for _ in range(4):
            self.deploy(slow_s=0.6)
        self.bed.stop_producer()
        self._catch_up()
        replays = count_replays(self.output)
        return f"{replays} batches were written twice" if replays else ""

    def wake_a_zombie(self, point: str) -> str:
        """Freeze the serving driver at a point, hand over, wake it up: what it wrote beside its successor."""
        marker = self.bed.root / "frozen"
        freeze = {
            "STREAMKEEPER_CRASH": f"{point}:{FROZEN_AT}",
            "STREAMKEEPER_CRASH_SIGNAL": "SIGSTOP",
            "STREAMKEEPER_CRASH_ONCE": str(marker),
        }
        self.bed.start_producer(rows=3, every_s=0.2)
        self.deploy(extra=freeze)
        frozen = marker.with_name(f"frozen-{point}")
        wait_for(f"a driver frozen at {point}", frozen.exists, timeout_s=120)
        old = list(self.bed.processes())
        self.deploy()
        wait_for("a successor that goes on", lambda: self._newest_epoch() >= 2, timeout_s=120)
        self.bed.stop_producer()
        self._catch_up()
        for process in old:
            with suppress(psutil.NoSuchProcess):  # one of Spark's workers may have ended by itself
                process.resume()
        wait_for("an end of the zombie", lambda: not any(each.is_running() for each in old), timeout_s=120)
        wrong = [f"{each.name}: lost {each.lost}, doubled {each.duplicated}" for each in self._accounts()]
        clean = all(each.clean for each in self._accounts())
        return "; ".join(find_second_writers(self.output) + ([] if clean else wrong))

    def _accounts(self):
        return read_accounts(self.bed.input, self.output)

    def _catch_up(self) -> None:
        wait_for(
            "outputs with all of the input", lambda: all(each.lost == 0 for each in self._accounts()), timeout_s=90
        )

    def _newest_epoch(self) -> int:
        state = self.bed.site.journal(JOB, "control").state()
        return max((each.epoch for each in state.epochs.values()), default=0)


CONTROLS = {
    "gate": ("gate", lambda control: control.interrupt_slow_batches()),
    "fence": ("death-proof+lease+closing+fence", lambda control: control.wake_a_zombie("audit.batch.offered")),
    "death-proof": ("death-proof+lease", lambda control: control.wake_a_zombie("audit.append.before")),
}
PROTECTED = {
    "gate": ("", lambda control: control.interrupt_slow_batches()),
    "fence": ("death-proof+lease+closing", lambda control: control.wake_a_zombie("audit.batch.offered")),
}
"""The same with the protection on: must find nothing. A frozen driver cannot wake up where the death proof is on."""


def run_control(name: str, root: Path, *, protected: bool = False) -> str:
    """The damage found; empty when there was none."""
    off, scenario = (PROTECTED if protected else CONTROLS)[name]
    with fresh_bed(root, [ROOT / "bench/campaign/jobs/ledgers.py"]) as bed:
        return scenario(Control(bed, off))
