"""One attack: an installation of its own that serves, the attack on it, the answers of its commands, and all damage
found afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil

from chaos.cases import JOB, CaseResult, Stage, started_without
from chaos.ledger import count_replays, read_table_accounts
from harness.bed import Bed
from harness.ledger import Account
from harness.places import ROOT
from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import InvalidInput
from streamkeeper.model.protocol.driver_messages import DriverStatus
from streamkeeper.registry.driver_control import Control

QUERIES = ("totals", "copies", "audit")
DEADLINES: dict[str, object] = {
    "drain_s": 20,
    "first_commit_s": 60,
    "catch_up_s": 90,
    "approve_s": 12,
    "probation_batches": 2,
    "probation_s": 90,
}
HASTE = [word for name, value in DEADLINES.items() for word in (f"--{name.replace('_', '-')}", str(value))]
_QUIET_S = 60.0

Answer = subprocess.CompletedProcess[str]
"""The exit code and the output of a command."""
T = TypeVar("T")


class Attack(Stage):
    """One attack on a served job; ``seed`` chooses among its ways, and the rest is random; ``off`` lists the
    protections that are switched off for a negative control; ``did``, ``told`` and ``damage`` are lines for the result.

    Every command that a user would type is run through this class, and every answer is checked: a refusal must be one
    line that names the problem and the way out.
    """

    calm_s = 60.0
    queries: Sequence[str] = QUERIES
    database = ""
    haste: Sequence[str] = HASTE

    def __init__(self, bed: Bed, seed: int, off: str = "") -> None:
        super().__init__(bed)
        self.seed = seed
        self.off = off
        self.did: list[str] = []
        self.told: list[str] = []
        self.damage: list[str] = []

    def accounts(self) -> list[Account]:
        """Return the accounts; those of the database that holds both tables when the job was given one."""
        return read_table_accounts(self.bed.input, self.database) if self.database else super().accounts()

    def conclude(self, case: str, wall_s: float) -> CaseResult:
        """Return the result that the campaign keeps; the paths of the installation and the code are left out."""
        did, told, damage = (
            [each.replace(str(self.bed.root), "…").replace(str(ROOT), "…") for each in lines]
            for lines in (self.did, self.told, self.damage)
        )
        return CaseResult(
            case=case,
            hits=did,
            outcomes=told,
            tries=len(self.told),
            replays=count_replays(self.output),
            damage=damage,
            wall_s=round(wall_s, 1),
        )

    def way(self, *ways: T) -> T:
        """Return one of several ways; each has a seed of its own."""
        return ways[self.seed % len(ways)]

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Run the attack, then check everything: what serves, and all outputs against all of the input."""
        yield
        self.damage += self.look()

    def serve(self, *options: str, **params: object) -> None:
        """Deploy the job, and wait until its outputs hold the input so far."""
        self.bed.start_producer(rows=5, every_s=0.5)
        self.must(self.ask(*options, **params))
        self.settle()

    def ask(self, *options: str, **params: object) -> Answer:
        """Run one deploy of a release that differs at least by its trigger, and return the answer; a running producer
        keeps writing input.
        """
        return self.ask_with({}, *options, **params)

    def ask_with(self, extra: dict[str, str], *options: str, **params: object) -> Answer:
        """Run one deploy with these variables in the environment of the command, and return the answer."""
        told = json.dumps({**self.params(), **params})
        return self.run("deploy", JOB, "--params", told, "--reason", "attack", *self.haste, *options, extra=extra)

    def params(self) -> dict[str, object]:
        """Return the params of a new release."""
        self._release += 1
        trigger = f"{400 + self._release} milliseconds"
        return {"input": str(self.bed.input), "output": str(self.output), "trigger": trigger}

    def run(self, *arguments: str, extra: dict[str, str] | None = None, cwd: Path | None = None) -> Answer:
        """Run the ``streamkeeper`` command as a user types it in a wide terminal."""
        by, wide = started_without(self.off), {"COLUMNS": "300", **(extra or {})}
        return self.bed.command(*arguments, extra=wide, by=by, cwd=cwd)

    def must(self, answer: Answer) -> Answer:
        """Return the answer if the command succeeded; raises InvalidInput otherwise, because then there is nothing to
        attack.
        """
        if answer.returncode:
            raise InvalidInput(f"{' '.join(answer.args[1:4])}: {answer.stderr.strip()[-600:]}")
        return answer

    def refused(self, what: str, answer: Answer, *words: str) -> None:
        """Require that the command was refused in one line with these words; anything else is damage."""
        lines = [line for line in answer.stderr.splitlines() if line.strip()]
        said = " ".join(answer.stderr.split())
        self.told.append(f"{what}: {said or answer.stdout.strip()[-200:]}"[:600])
        if answer.returncode == 0:
            self.damage.append(f"{what}: it was done: {answer.stdout.strip()[-200:]}")
        elif len(lines) != 1 or "Traceback" in said:
            self.damage.append(f"{what}: {len(lines)} lines instead of a sentence: {said[:300]}")
        self.damage += [f"{what}: {word!r} is not in: {said[:300]}" for word in words if word not in said]

    def settle(self) -> None:
        """Stop the input, and wait until the outputs hold all of it and the driver has reported the batches as
        committed.
        """
        self.bed.stop_producer()
        wait_for("outputs with all of the input", self._ledger_clean, timeout_s=_QUIET_S, poll_s=0.5)
        wait_for("committed batches", self._committed, timeout_s=_QUIET_S, poll_s=0.5)

    def more(self, seconds: float = 2.0) -> None:
        """Produce more input, and wait until the outputs hold it."""
        self.feed(seconds)
        self.settle()

    def feed(self, seconds: float = 1.5) -> None:
        """Produce more input without waiting for the outputs."""
        self.bed.start_producer(rows=5, every_s=0.5, seed=len(self.told) + 2)
        time.sleep(seconds)
        self.bed.stop_producer()

    def go_on(self, **params: object) -> None:
        """Continue with a deploy under input, which has to succeed, and wait until the outputs hold the input."""
        self.bed.start_producer(rows=5, every_s=0.5, seed=len(self.told) + 3)
        self.must(self.ask(**params))
        self.settle()

    def kill(self) -> None:
        """Kill every process of every driver, as when the machine is lost, so that none writes a final status."""
        self.bed.stop_producer()
        for process in sorted(self.bed.processes(), key=lambda each: each.pid):
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        wait_for("an empty machine", lambda: not list(self.bed.processes()), timeout_s=30)

    def checkpoint(self, query: str) -> Path:
        """Return the directory of a query's current checkpoint version."""
        state = self.state()
        current = state.current_version(query)
        assert current is not None
        return self.bed.home / "checkpoints" / JOB / query / current.version

    def word(self) -> DriverStatus:
        """Return the latest status of the serving driver."""
        status = Control(self.bed.installation.store, JOB, self.state().serving_instance).read_status()
        assert status is not None
        return status

    def take_away(self, directory: Path) -> Path:
        """Move a directory out of sight and return its new path."""
        hidden = self.bed.root / "hidden"
        os.rename(directory, hidden)
        return hidden

    def put_back(self, hidden: Path, directory: Path) -> None:
        """Move a hidden directory back, in place of whatever is there."""
        shutil.rmtree(directory, ignore_errors=True)
        os.rename(hidden, directory)

    def no_replays(self, what: str) -> None:
        """Report damage if a batch reached the user's function a second time."""
        if replays := count_replays(self.output):
            self.damage.append(f"{what}: {replays} batches came to the function a second time")

    def _committed(self) -> bool:
        """Return whether no batch is open and the driver's status contains the newest commits; replays that a crash may
        cause must not be counted for an attack.
        """
        known = self.word().commits
        for query in self.queries:
            directory = self.checkpoint(query)
            newest = last_committed(LocalTree(directory))
            if newest is None or (directory / "offsets" / str(newest + 1)).exists():
                return False
            if known.get(f"{query}/{directory.name}") != newest:
                return False
        return True
