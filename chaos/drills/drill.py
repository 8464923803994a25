"""One drill: a serving installation is broken, watched, diagnosed and mended; then its outputs must hold its input."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

from chaos.attacks.attack import Attack
from chaos.cases import JOB, CaseResult
from chaos.ledger import count_replays
from chaos.unprotected import RULE
from harness.bed import Bed
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.health.told_errors import find_fault
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.registry.driver_control import Control

PASSES = 2
"""The number of passes within which the cause has to be named."""
BETWEEN_S = 15.0
"""Seconds from one pass to the next; on the watch's own schedule it is a minute."""
_SERVES_WITHIN_S = 150.0
MISSED = "the watch missed"


class DrillResult(CaseResult, frozen=True, kw_only=True):
    """The result of a drill; ``named``: the rules that the watch raised; ``passes``: after how many passes;
    ``named_s``: after how many seconds.

    ``cause``: the cause in the diagnosis; ``advised``: its first action; ``mended``: how the fault was mended;
    ``mended_s``: seconds until the outputs held all of the input; ``announced``: what was announced as written twice or
    lost.
    """

    named: list[str]
    passes: int
    named_s: float
    cause: str
    advised: str
    mended: str
    mended_s: float
    announced: list[str]


class Drill(Attack):
    """One drill; ``undo`` repairs what was broken from outside and is set by whatever breaks it; ``after`` are
    functions that clean up.
    """

    calm_s = 90.0

    def __init__(self, bed: Bed, seed: int, off: str = "") -> None:
        super().__init__(bed, seed, off)
        self.undo: Callable[[], None] | None = None
        self.after: list[Callable[[], object]] = []
        self.named: list[str] = []
        self.passes = 0
        self.named_s = 0.0
        self.cause = self.advised = self.mended = ""
        self.mended_s = 0.0
        self.announced: list[str] = []

    def watch(self) -> list[str]:
        """Make one pass of the watch and return the rules of the open incidents; without a store the pass itself fails
        and reports the store as out of reach.
        """
        answer = self.run("watch", "--once")
        if answer.returncode:
            self.told.append(f"watch: {answer.stderr.strip()[-300:]}")
            if find_fault(answer.stderr) is Fault.STORE_LOST:
                return ["store-out-of-reach"] if RULE + "store-out-of-reach" not in self.off else []
        return self.open_rules()

    def open_rules(self, severity: str = "") -> list[str]:
        """Return the rules of the job's open incidents, limited to one severity if it is given."""
        found = self.run("incidents", "--json")
        jobs: list[dict[str, Any]] = json.loads(found.stdout) if found.returncode == 0 else []
        symptoms = [each["symptom"] for job in jobs for each in job["open"].values()]
        return sorted({each["rule"] for each in symptoms if severity in ("", each["severity"])})

    def name_the_cause(self, rules: tuple[str, ...], *, between_s: float = BETWEEN_S) -> None:
        """Make passes of the watch until an incident of one of the rules is open."""
        began = time.monotonic()
        seen: set[str] = set()
        for number in range(1, PASSES + 1):
            self.passes = number
            found = self.watch()
            seen |= set(found)
            if set(found) & set(rules):
                break
            if number < PASSES:
                time.sleep(between_s)
        self.named, self.named_s = sorted(seen), round(time.monotonic() - began, 1)
        if not seen & set(rules):
            self.damage.append(f"{MISSED} {' or '.join(rules)}, it named {self.named or 'nothing'}")

    def diagnose(self, causes: tuple[str, ...]) -> None:
        """Run ``recover`` and report damage unless its diagnosis is one of the causes."""
        answer = self.run("recover", JOB, "--json")
        try:
            found: dict[str, Any] = json.loads(answer.stdout)
        except ValueError:
            self.damage.append(f"no diagnosis: {answer.stderr.strip()[-300:]}")
            return
        self.cause = found["cause"]
        self.advised = next((each["action"] for each in found.get("options", ()) if not each.get("why_not")), "")
        self.told.append(f"{found['sentence']} {found.get('advice', '')}"[:600])
        if self.cause not in causes:
            self.damage.append(f"the diagnosis says {self.cause}, and not {' or '.join(causes)}")

    def recover(self, action: str) -> None:
        """Carry out an action of ``recover``, accepting what it announces."""
        asked = ("recover", JOB, "--action", action, "--reason", "drill", "--accept-replay", "--accept-loss")
        looked = self.run(*asked, "--json", "--dry-run")
        with suppress(ValueError, StopIteration):
            option = next(each for each in json.loads(looked.stdout)["options"] if each["action"] == action)
            for price in option.get("prices", ()):
                written, lost = price.get("written", ""), price.get("lost", "")
                self.announced += [f"{price['query']}: {written or 'nothing'} again, {lost or 'nothing'} lost"]
        self.must(self.run(*asked))

    def mend(self, how: str) -> None:
        """Mend the fault: ``watch`` by passes alone; ``undo`` by repairing what was broken, then passes; ``itself``
        without any help; otherwise by an action of ``recover``.

        ``undo+restart`` repairs what was broken, and then a user has to confirm that by requesting the restart.
        """
        began = time.monotonic()
        self.mended = how
        first, _, action = how.rpartition("+")
        if self.undo is not None and "undo" in (first, action):
            self.undo()
        if action not in ("undo", "watch", "itself"):
            self.recover(action)
        deadline = time.monotonic() + _SERVES_WITHIN_S
        while how != "itself" and not self.serves() and time.monotonic() < deadline:
            self.watch()
            time.sleep(3.0)
        self.feed()
        self.settle()
        self.mended_s = round(time.monotonic() - began, 1)

    def clears(self, rules: tuple[str, ...]) -> None:
        """Require that incidents of severity ``page`` are cleared once the fault is mended; a ticket may stay open,
        such as that of restarts for an hour.
        """
        for _ in range(PASSES + 1):
            self.watch()
            if not set(self.open_rules("page")) & set(rules):
                return
            time.sleep(BETWEEN_S)
        self.damage.append(f"still open: {self.open_rules('page')}")

    def serves(self) -> bool:
        """Return whether the latest status of the driver is serving, no operation is open, and the driver's processes
        are running.
        """
        state = self.state()
        if state.open_operation is not None:
            return False
        control = Control(self.bed.installation.store, JOB, state.serving_instance)
        status = control.read_status()
        if status is None or status.state is not DriverState.SERVING or control.read_exit() is not None:
            return False
        return any(each.is_running() for each in self.bed.processes())

    def processes_of(self, kind: str) -> list[psutil.Process]:
        """Return the ``supervisor``, ``python`` or ``jvm`` processes of the existing drivers."""
        return [each for each in self.bed.processes() if _kind(each) == kind]

    def send(self, kind: str, number: signal.Signals) -> None:
        """Send a signal to each process of a kind."""
        for each in self.processes_of(kind):
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)
        self.did.append(f"{number.name} to the {kind}")

    def snapshot(self) -> None:
        """Take a snapshot of all queries, then produce more input and wait until the outputs hold it."""
        self.must(self.run("snapshot", "take", JOB))
        self.more(1.5)

    def newest(self, query: str, folder: str) -> Path:
        """Return the newest file of a checkpoint's log, once nothing is written any more."""
        directory = self.checkpoint(query)
        last = last_committed(LocalTree(directory))
        return directory / folder / str(last)

    def state_files(self, query: str) -> Iterator[Path]:
        """Yield the files that hold state, newest last."""
        state = self.checkpoint(query) / "state"
        files = (each for each in state.rglob("*") if each.suffix in (".delta", ".snapshot", ".zip", ".changelog"))
        yield from sorted(files, key=lambda each: each.stat().st_mtime)

    def conclude(self, case: str, wall_s: float) -> DrillResult:
        """Return the result that the campaign keeps."""
        usual = super().conclude(case, wall_s)
        return DrillResult(
            **msgspec.structs.asdict(usual),
            named=self.named,
            passes=self.passes,
            named_s=self.named_s,
            cause=self.cause,
            advised=self.advised,
            mended=self.mended,
            mended_s=self.mended_s,
            announced=[each.replace(str(self.bed.root), "…") for each in self.announced],
        )

    def replays(self) -> int:
        """Return the number of batches that reached the user's function a second time."""
        return count_replays(self.output)


def _kind(process: psutil.Process) -> str:
    try:
        line = process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""
    if any("streamkeeper.runners.supervisor" in each for each in line):
        return "supervisor"
    if line and os.path.basename(line[0]) == "java":
        return "jvm"
    return "python" if any("streamkeeper.driver" in each for each in line) else "worker"
