"""Negative controls: with a protection switched off, the same check of the outputs must find damage; with it on, none.

``gate``: three plain deploys of a job with slow batches; without the gate, batches are interrupted and written twice.
``fence``: the serving driver is frozen with a planned batch at its gate and wakes up beside its successor; the other
protections that act before the fence (the proof of death, the lease, a gate that closes) are off in both of its runs.
``death-proof``: the driver is frozen inside a sink that has no fence of its own, and wakes up after its successor has
continued; the lease, which could end it first, is off.

For switches: ``swap-fence``: the driver is frozen between its gate and its table, wakes up once a rebuilt table has
replaced that table, and checks only with its table whether it may write. ``handoff-death-proof``: like ``death-proof``,
at a handoff. ``sink-log``: a handed-over file output whose log does not begin with batch 0. ``one-directory``: a
handoff that continues in the same directory, numbered from 0.

For stops: ``desired-state``: the watch checks a stopped job while its input continues.

For checkpoints on S3: ``create-only``: two drivers write the same files of one checkpoint with Spark's own manager of
checkpoint files. ``marks``: answers are lost, and a file does not record who wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from chaos.cases import JOB, started_without
from chaos.ledger import count_replays, find_second_writers, read_accounts
from chaos.racing import run_race, serve_through_faults
from chaos.recovering import find_stirring
from harness.bed import Bed, fresh_bed
from harness.ledger import Account
from harness.places import ROOT
from harness.waiting import wait_for
from streamkeeper.sinks.sink_log import newest_batch

FROZEN_AT = 24
"""The pass of the point at which a driver is frozen: late enough for every query to have completed its triggers, which
a deploy waits for.
"""
COMPACTED_AT = 9
"""The batch at which Spark first compacts the log of a file output; it compacts every tenth batch and reads the whole
log for that.
"""
ACCOUNTS = ("totals", "copies", "audit")


class Control:
    """A bed with the ``ledgers`` job, deployed with protections switched off."""

    def __init__(self, bed: Bed, off: str) -> None:
        self.bed, self.off = bed, off
        self.output = bed.root / "output"
        self.output.mkdir()
        self._release = 0

    def deploy(
        self, *, slow_s: float = 0.0, shape: int = 0, ask: Sequence[str] = (), extra: dict[str, str] | None = None
    ) -> None:
        """Run one deploy that has to succeed; ``ask`` contains more arguments for the command."""
        self._release += 1
        params = {
            "input": str(self.bed.input),
            "output": str(self.output),
            "trigger": f"{300 + self._release} milliseconds",
            "slow_s": slow_s,
            "shape": shape,
        }
        arguments = [JOB, "--params", json.dumps(params), "--reason", "control", *ask]
        run = self.bed.command("deploy", *arguments, extra=extra, by=started_without(self.off))
        if run.returncode:
            raise RuntimeError(run.stderr)

    def interrupt_slow_batches(self) -> str:
        """Run three handovers in the middle of slow batches, and report how many batches were written twice."""
        self.bed.start_producer(rows=3, every_s=0.2)
        for _ in range(4):
            self.deploy(slow_s=0.6)
        self.bed.stop_producer()
        self._catch_up()
        replays = count_replays(self.output)
        return f"{replays} batches were written twice" if replays else ""

    def wake_a_zombie(
        self, point: str, *, shape: int = 0, ask: Sequence[str] = (), accounts: Sequence[str] = ACCOUNTS
    ) -> str:
        """Freeze the serving driver at a point, hand over, wake it up, and report what it wrote beside its successor.

        ``shape`` and ``ask`` belong to the release that takes over; ``accounts`` names the outputs that are compared
        with the input.
        """
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
        self.deploy(shape=shape, ask=ask)
        wait_for("a successor that goes on", lambda: self._newest_epoch() >= 2, timeout_s=120)
        self.bed.stop_producer()
        self._catch_up(accounts)
        for process in old:
            with suppress(psutil.NoSuchProcess):  # ended already, by itself or by the deploy
                process.resume()
        wait_for("an end of the zombie", lambda: not any(each.is_running() for each in old), timeout_s=120)
        return "; ".join(find_second_writers(self.output) + self._wrong(accounts))

    def hand_over(self) -> str:
        """Hand the file output over, continue past the first compaction of its new log, and report which rows are
        missing.
        """
        self.bed.start_producer(rows=3, every_s=0.4)
        self.deploy()
        self.deploy(shape=1)
        new = self.output / "copies" / "v0002"
        with suppress(TimeoutError):  # a log that ends, and rows that never come, are the damage
            wait_for("a compacted log", lambda: (newest_batch(str(new)) or 0) > COMPACTED_AT, timeout_s=60)
        self.bed.stop_producer()
        with suppress(TimeoutError):
            self._catch_up(("copies",))
        return "; ".join(self._wrong(("copies",)))

    def stop_and_watch(self) -> str:
        """Stop the job, let the watch make a pass, and report what runs afterwards."""
        self.bed.start_producer(rows=3, every_s=0.4)
        self.deploy()
        stopped = self.bed.command("stop", JOB, "--reason", "control", by=started_without(self.off))
        assert stopped.returncode == 0, stopped.stderr
        return "; ".join(find_stirring(self.bed, self.output, off=self.off))

    def _accounts(self, names: Sequence[str] = ACCOUNTS) -> list[Account]:
        return [each for each in read_accounts(self.bed.input, self.output) if each.name in names]

    def _wrong(self, names: Sequence[str]) -> list[str]:
        wrong = [each for each in self._accounts(names) if not each.clean]
        return [f"{each.name}: lost {each.lost}, doubled {each.duplicated}" for each in wrong]

    def _catch_up(self, names: Sequence[str] = ACCOUNTS) -> None:
        wait_for(
            "outputs with all of the input", lambda: all(each.lost == 0 for each in self._accounts(names)), timeout_s=90
        )

    def _newest_epoch(self) -> int:
        state = self.bed.installation.journal(JOB, "control").state()
        return max((each.epoch for each in state.epochs.values()), default=0)


def wake_at_a_swap(control: Control) -> str:
    """Wake up a frozen driver that has a batch for a table that no longer serves."""
    return control.wake_a_zombie("totals.write.before", shape=1, ask=("--drain-s", "20", "--no-compare"))


def wake_at_a_handoff(control: Control) -> str:
    """Wake up a frozen driver after a handoff of every query; ``totals`` then counts from zero and is not checked."""
    ask = ("--drain-s", "20", "--strategy", "handoff", "--accept-state-loss")
    return control.wake_a_zombie("audit.append.before", ask=ask, accounts=("copies", "audit"))


CONTROLS: dict[str, tuple[str, Callable[[Control], str]]] = {
    "gate": ("gate", lambda control: control.interrupt_slow_batches()),
    "fence": ("death-proof+lease+closing+fence", lambda control: control.wake_a_zombie("audit.batch.offered")),
    "death-proof": ("death-proof+lease", lambda control: control.wake_a_zombie("audit.append.before")),
    "swap-fence": ("death-proof+lease+owner+stops+table-fence", wake_at_a_swap),
    "handoff-death-proof": ("death-proof+lease", wake_at_a_handoff),
    "sink-log": ("sink-log", lambda control: control.hand_over()),
    "one-directory": ("one-directory", lambda control: control.hand_over()),
    "desired-state": ("desired-state", lambda control: control.stop_and_watch()),
}
PROTECTED: dict[str, tuple[str, Callable[[Control], str]]] = {
    "gate": ("", lambda control: control.interrupt_slow_batches()),
    "fence": ("death-proof+lease+closing", lambda control: control.wake_a_zombie("audit.batch.offered")),
    "swap-fence": ("death-proof+lease+owner+stops", wake_at_a_swap),
    "handoff-death-proof": ("lease", wake_at_a_handoff),
    "sink-log": ("", lambda control: control.hand_over()),
    "one-directory": ("", lambda control: control.hand_over()),
    "desired-state": ("", lambda control: control.stop_and_watch()),
}
"""The same controls with the protection on, which must find nothing. ``death-proof`` is missing: with the proof of
death on, a frozen driver is killed and never wakes up, so it would show no more than ``handoff-death-proof``.
"""


ON_S3: dict[str, Callable[[Path, str], str]] = {
    "create-only": lambda root, off: run_race(root, off).damage,
    "marks": lambda root, off: serve_through_faults(root, off, refused=0.05, lost=0.2).damage,
}


def run_control(name: str, root: Path, *, protected: bool = False) -> str:
    """Run a control and return the damage that was found; empty when there was none."""
    if name in ON_S3:
        return ON_S3[name](root, "" if protected else name)
    off, scenario = (PROTECTED if protected else CONTROLS)[name]
    with fresh_bed(root, [ROOT / "chaos/jobs/ledgers.py"]) as bed:
        return scenario(Control(bed, off))
