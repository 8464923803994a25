"""One case: deploy a new release, kill something on the way, carry on, and check everything."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Sequence

import msgspec
import psutil

from chaos.ledger import count_replays, find_changed_batches, find_second_writers, read_accounts
from harness.bed import COMMAND, Bed
from harness.ledger import Account
from harness.places import ROOT
from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.job_state import JobState
from streamkeeper.registry.driver_control import Control

JOB = "ledgers"
HASTE = ("--drain-s", "20", "--first-commit-s", "60")


def started_without(off: str) -> tuple[str, ...]:
    """Return the words that start the command with these protections switched off; with an empty ``off`` all
    protections stay on.
    """
    return (str(ROOT / "chaos/unprotected.py"), off) if off else COMMAND


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a case; ``hits`` are the points or victims that were really hit, and ``damage`` is empty when all
    is well.

    ``looks_per_s`` is how often a reader read the serving table during the case, if one did.
    """

    case: str
    hits: list[str]
    outcomes: list[str]
    tries: int
    replays: int
    damage: list[str]
    wall_s: float
    looks_per_s: float = 0.0

    @property
    def clean(self) -> bool:
        return not self.damage

    @property
    def sentence(self) -> str:
        state = "clean" if self.clean else "DAMAGED: " + "; ".join(self.damage)
        return f"{self.case}: {len(self.hits)} hits, {len(self.outcomes)} runs, {self.wall_s:.0f} s: {state}"


class Stage:
    """An installation that serves ``ledgers`` and gets one release after another.

    ``calm_s`` is how long the outputs may take to hold all of the input once nothing is killed any more. ``trigger_ms``
    is the trigger of each query; it grows by one with each release, which alone makes the release new.
    """

    calm_s = 90.0
    haste: Sequence[str] = HASTE
    trigger_ms = 400

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.output = bed.root / "output"
        self.output.mkdir(exist_ok=True)
        self._release = 0
        self._started = False

    def discover(self) -> list[str]:
        """Return the names of all points that a plain deploy and a deploy that falls back reach, in the order in which
        they are first reached.
        """
        trace = self.bed.root / "trace"
        self.start(extra={"STREAMKEEPER_CRASH_TRACE": str(trace)})
        self.deploy(extra={"STREAMKEEPER_CRASH_TRACE": str(trace)})
        self.deploy(extra={"STREAMKEEPER_CRASH_TRACE": str(trace)}, broken=True)
        return list(dict.fromkeys(trace.read_text().split()))

    def start(self, extra: dict[str, str] | None = None) -> None:
        """Serve the first release, with input arriving."""
        if self._started:
            return
        self._started = True
        self.bed.start_producer(rows=5, every_s=0.2)
        first = self.deploy(extra=extra)
        if first != "succeeded":
            raise RuntimeError(f"the first deploy {first}")

    def play(self, case: str) -> CaseResult:
        """Run one case and return its result, which contains any damage."""
        began = time.monotonic()
        if case.startswith("first:"):
            return self._conclude(case, began, *self._at_the_first_deploy(case.removeprefix("first:").split("+")))
        self.start()
        began = time.monotonic()
        self.bed.start_producer(rows=5, every_s=0.2, seed=self._release)
        kind, _, name = case.partition(":")
        hits, outcomes, tries = self._at_points(name.split("+")) if kind == "points" else self._at_random(int(name))
        return self._conclude(case, began, hits, outcomes, tries)

    def _conclude(self, case: str, began: float, hits: list[str], outcomes: list[str], tries: int) -> CaseResult:
        outcomes += self._revive()
        damage = self.look()
        return CaseResult(
            case=case,
            hits=hits,
            outcomes=outcomes,
            tries=tries,
            replays=count_replays(self.output),
            damage=damage,
            wall_s=time.monotonic() - began,
        )

    def _at_the_first_deploy(self, names: list[str]) -> tuple[list[str], list[str], int]:
        """Run a job's very first deploy, which is killed at each of the points in turn."""
        self._started = True
        self.bed.start_producer(rows=5, every_s=0.2)
        return self._at_points(names)

    def deploy(self, *, extra: dict[str, str] | None = None, broken: bool = False, carry_on: bool = False) -> str:
        """Deploy once through the command line, and return the outcome or ``killed``."""
        if not carry_on:
            self._release += 1
        params = {
            "input": str(self.bed.input),
            "output": str(self.output),
            "trigger": self.next_trigger(),
            "broken": broken,
        }
        arguments = ["deploy", JOB, "--params", json.dumps(params), "--reason", "campaign", *self.haste]
        arguments += ["--on-open", "continue"] if carry_on else []
        run = self.bed.command(*arguments, extra=extra)
        if run.returncode == -signal.SIGKILL:
            return "killed"
        done = [each for each in self.state().operations.values() if each.outcome is not None]
        if not done or (run.returncode and "open operation" in run.stderr):
            return f"exit {run.returncode}: {run.stderr.strip()[-300:]}"
        return done[-1].outcome.value if done[-1].outcome else "open"

    def next_trigger(self) -> str:
        """Return the trigger of the next release."""
        return f"{self.trigger_ms + self._release} milliseconds"

    def state(self) -> JobState:
        """Return the recorded state of the job."""
        return self.bed.installation.journal(JOB, "campaign").state()

    def _at_points(self, names: list[str]) -> tuple[list[str], list[str], int]:
        """Run one deploy that is killed at each of the points in turn, and one more for those that it did not reach."""
        marker = self.bed.root / f"hit-{self._release}"
        crash = {"STREAMKEEPER_CRASH": ",".join(names), "STREAMKEEPER_CRASH_ONCE": str(marker)}
        broken = any(is_of_a_broken_release(name) for name in names)
        outcomes: list[str] = []
        hits: list[str] = []
        for _ in range(2):
            outcomes.append(self.deploy(extra=crash, broken=broken))
            while outcomes[-1] == "killed" and len(outcomes) < 3 * len(names) + 3:
                outcomes.append(self.deploy(extra=crash, carry_on=True))
            hits = [name for name in names if marker.with_name(f"{marker.name}-{name}").exists()]
            if len(hits) == len(names):
                break
        outcomes += self._settle()
        return hits, outcomes, len(outcomes)

    def _settle(self) -> list[str]:
        """Carry on the open operation until none is open."""
        outcomes: list[str] = []
        while self.state().open_operation is not None:
            if len(outcomes) > 5:
                return [*outcomes, "still open"]
            outcomes.append(self.deploy(carry_on=True))
        return outcomes

    def _revive(self) -> list[str]:
        """Deploy once more if no driver serves: a killed supervisor ends its instance for good, and the deploy must
        restore the job.
        """
        return [] if self._serving_lives() else ["nothing served", self.deploy()]

    def _serving_lives(self) -> bool:
        serving = self.state().serving_instance
        return bool(serving) and self.bed.installation.runner.observe(JOB, serving).life is Life.ALIVE

    def _at_random(self, seed: int) -> tuple[list[str], list[str], int]:
        chance = random.Random(seed)
        hits: list[str] = []
        over = threading.Event()
        killer = threading.Thread(target=self._kill_around, args=(chance, hits, over))
        killer.start()
        try:
            outcomes = [self.deploy(broken=chance.random() < 0.15)]
        finally:
            over.set()
            killer.join()
        outcomes += self._settle()
        return hits, outcomes, len(outcomes)

    def _kill_around(self, chance: random.Random, hits: list[str], over: threading.Event) -> None:
        for _ in range(chance.randint(1, 3)):
            if over.wait(chance.uniform(0.5, 14.0)):
                return
            how = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
            signal_somebody(chance, self._victims(), how, chance.uniform(1.0, 8.0), hits)

    def _victims(self) -> list[tuple[str, psutil.Process]]:
        serving = self.state().appointed
        found = []
        for process in self.bed.processes():
            try:
                line, environment = process.cmdline(), process.environ()
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            who = "serving" if environment["STREAMKEEPER_INSTANCE"].endswith(serving) else "candidate"
            found.append((f"{who} {_kind(line)}", process))
        return found + [("operation", each) for each in _operations()]

    def look(self) -> list[str]:
        """Return everything that is wrong once the outputs have had time to catch up."""
        self.bed.stop_producer()
        damage: list[str] = []
        try:
            wait_for("clean ledger", self._ledger_clean, timeout_s=self.calm_s, poll_s=1.0)
        except TimeoutError:
            wrong = [each for each in self.accounts() if not each.clean]
            damage += [f"{each.name}: lost {each.lost}, doubled {each.duplicated} {each.examples}" for each in wrong]
        damage += find_second_writers(self.output) + find_changed_batches(self.output)
        return damage + self._find_idle_drivers()

    def accounts(self) -> list[Account]:
        """Return one account per query, over all of the input."""
        return read_accounts(self.bed.input, self.output)

    def _ledger_clean(self) -> bool:
        return all(each.clean for each in self.accounts())

    def _find_idle_drivers(self) -> list[str]:
        state = self.state()
        try:
            alone = {f"{JOB}/{state.serving_instance}"}
            wait_for("one driver", lambda: self._driver_instances() == alone, timeout_s=60)
        except TimeoutError:
            return [f"drivers {sorted(self._driver_instances())}, serving {state.serving_instance}"]
        status = Control(self.bed.installation.store, JOB, state.serving_instance).read_status()
        serves = status is not None and status.state is DriverState.SERVING
        return [] if serves else [f"{state.serving_instance} does not serve"]

    def _driver_instances(self) -> set[str]:
        return {each.environ()["STREAMKEEPER_INSTANCE"] for each in self.bed.processes() if each.is_running()}


def signal_somebody(
    chance: random.Random,
    victims: list[tuple[str, psutil.Process]],
    how: signal.Signals,
    freeze_s: float,
    hits: list[str],
) -> None:
    """Kill a random victim, or freeze it for ``freeze_s`` seconds, and add its name to ``hits``."""
    if not victims:
        return
    name, process = chance.choice(victims)
    try:
        process.send_signal(how)
    except psutil.NoSuchProcess:
        return
    hits.append(f"{how.name} {name}")
    if how is signal.SIGSTOP:
        time.sleep(freeze_s)
        _wake(process)


def is_of_a_broken_release(point: str) -> bool:
    """Return whether only a release that cannot serve reaches the point."""
    return "fall-back" in point or point.startswith(("act.assess.fallback", "command.stop"))


def is_of_a_first_deploy(point: str) -> bool:
    """Return whether only a job's first deploy reaches the point."""
    # The first deploy has no batches to snapshot; a later one takes snapshots of the previous release's batches.
    return point.startswith(
        ("record.checkpoint-version-created", "record.start-offsets-known", "act.snapshot.markdone")
    )


def _kind(line: list[str]) -> str:
    if any("supervisor" in each for each in line):
        return "supervisor"
    return "jvm" if line and "java" in line[0] else "python"


def _operations() -> list[psutil.Process]:
    children = psutil.Process(os.getpid()).children()
    return [each for each in children if "streamkeeper.cli.main" in each.cmdline()]


def _wake(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGCONT)
    except psutil.NoSuchProcess:
        return
