"""One case of a switch, a backup or a rollback: a process dies during the operation, the operation is continued, and
all results are verified.
"""

from __future__ import annotations

import json
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from chaos.cases import JOB, CaseResult, Stage, signal_somebody
from chaos.ledger import count_replays
from chaos.scenarios import FALL_BACKS, SCENARIOS, Ask, Scenario, of_a_driver
from chaos.striking import Striker, names_of
from chaos.watching import Watch, find_steps_back, sum_in_file
from harness.bed import Bed
from harness.ledger import Account
from harness.waiting import wait_for
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import About, FallBackDecided
from streamkeeper.model.records.operation import OperationState
from streamkeeper.operations.deploys.approval import asked_about

HASTE = ("--drain-s", "20", "--first-commit-s", "120", "--probation-batches", "2", "--probation-s", "120")
PATIENCE = ("--catch-up-s", "120", "--approve-s", "120")
"""Options of a deploy that a rollback does not have."""
UNHURRIED = ("--drain-s", "30", "--first-commit-s", "240", "--probation-batches", "2", "--probation-s", "240")
"""Options for checkpoints that are remote or hard to reach."""
LONG_BREAK = ("--probation-batches", "8")
"""Options that give a release that breaks in probation the time to break."""
LONG_FREEZE_S = (62.0, 75.0)
"""Range of freezes in seconds, each longer than a driver's lease."""
_CAME_TWICE = re.compile(r"batch \d+ came with \d+ contents")
_VERSION = re.compile(r"v\d{4,}")


class SwitchStage(Stage):
    """An installation running ``ledgers`` whose job is switched, approved and rolled back."""

    # Slow, for what serves takes from what is tried.
    trigger_ms = 4000
    scenarios = SCENARIOS | FALL_BACKS
    drawn = tuple(SCENARIOS)
    """The scenarios from which a seed without a scenario's name draws."""
    haste: tuple[str, ...] = HASTE
    patience: tuple[str, ...] = PATIENCE

    def __init__(self, bed: Bed) -> None:
        super().__init__(bed)
        self._extra: dict[str, str] = {}
        self._seen: list[str] = []
        self._slowest = 0.0
        self._accepted = False

    def discover_in(self, scenario: str) -> list[str]:
        """Return the points that are reached by the scenario's operation, by its drivers and by the driver that it
        replaces.
        """
        trace = self.bed.root / f"trace-{scenario}"
        chosen = self.scenarios[scenario]
        with self._with({"STREAMKEEPER_CRASH_TRACE": str(trace)}), self._approving():
            self.start()
            # The serving driver is one that writes to this trace; what came before the operation itself is left out.
            self._go(chosen.before or Ask())
            trace.unlink(missing_ok=True)
            self._prepare(chosen.ask)
            self._go(chosen.ask)
            # What follows a release that broke and could not go back may have to be approved.
            self._revive_here()
        self._calm()
        return list(dict.fromkeys(trace.read_text().split()))

    def start(self, extra: dict[str, str] | None = None) -> None:
        """Start the producer and, on the first call, deploy the first release."""
        if self._started:
            self.bed.start_producer(rows=5, every_s=1.5, seed=self._release)
            return
        self._started = True
        self.bed.start_producer(rows=5, every_s=1.5)
        outcomes = self._go(Ask())
        if outcomes[-1] != "succeeded":
            raise RuntimeError(f"the first deploy: {outcomes}")

    def play(self, case: str) -> CaseResult:
        """Run ``SCENARIO/points:A+B…``, ``frozen/WHO@STEP+…``, ``seed:N`` or ``SCENARIO/seed:N``, and return the result
        with all damage found.
        """
        self.start()
        began, before = time.monotonic(), len(self.state().operations)
        self._seen, self._slowest = [], float("inf")
        hits: list[str] = []
        outcomes: list[str] = []
        with self._approving():
            try:
                hits, outcomes = self._act(case)
                outcomes += self._revive_here()
            except TimeoutError as error:  # outputs that never hold all of the input are what is looked for
                self._seen.append(str(error))
        checkpoints = tree_at(f"{self.bed.installation.settings.checkpoints}/{JOB}")
        operations = list(self.state().operations.values())[before:]
        damage = [*self._seen, *self._wrong(), *find_unrecorded(checkpoints, self.state()), *find_differing(operations)]
        return CaseResult(
            case=case,
            hits=hits,
            outcomes=outcomes,
            tries=len(outcomes),
            replays=count_replays(self.output),
            damage=damage,
            wall_s=round(time.monotonic() - began, 1),
            looks_per_s=self._slowest if self._slowest != float("inf") else 0.0,
        )

    def accounts(self) -> list[Account]:
        """Return one account per query; batches that the function receives twice do not count as damage where that was
        accepted, batches that it misses do.
        """
        return self._without_accepted(super().accounts())

    def _without_accepted(self, found: list[Account]) -> list[Account]:
        if not self._accepted:
            return found
        return [msgspec.structs.replace(each, duplicated=0) if each.name == "audit" else each for each in found]

    def _wrong(self) -> list[str]:
        """Return everything that is wrong now, except for accepted duplicates."""
        return [each for each in self.look() if not (self._accepted and _CAME_TWICE.fullmatch(each))]

    def _act(self, case: str) -> tuple[list[str], list[str]]:
        """Play the case; return what was hit and the outcomes of the operations."""
        how, _, named = case.partition(":")
        if how.endswith("seed"):
            return self._at_random_in(int(named), how.removesuffix("seed").removesuffix("/"))
        if how.startswith("frozen/"):
            return self._at_steps(names_of(case), self._freeze)
        return self._at_points_in(self.scenarios[how.partition("/")[0]], named.split("+"))

    def _watch(self) -> Watch:
        """Return a reader of the serving table for one operation."""
        return Watch(partial(sum_in_file, self.output / "warehouse.db"))

    def _at_points_in(self, scenario: Scenario, names: list[str]) -> tuple[list[str], list[str]]:
        """Run one operation that dies at each of the points in turn, then repeat it for points of the driver that it
        replaces.
        """
        marker = self.bed.root / f"hit-{self._release}"
        crash = {"STREAMKEEPER_CRASH": ",".join(names), "STREAMKEEPER_CRASH_ONCE": str(marker)}
        outcomes: list[str] = []
        hits: list[str] = []
        # Where no driver begins, only the one that served before can die at its points.
        for turn in range(int(scenario.ask.stops and all(map(of_a_driver, names))), 2):
            if turn or scenario.before is not None:
                with self._with(crash if turn else {}):
                    outcomes += self._go(scenario.before or Ask())
            self._prepare(scenario.ask)
            with self._with(crash):
                outcomes += self._go(scenario.ask)
            hits = [name for name in names if marker.with_name(f"{marker.name}-{name}").exists()]
            if len(hits) == len(names):
                break
            outcomes += self._revive_here()
            self._calm()
            self.start()
        return hits, outcomes

    def _at_steps(self, wanted: list[str], strike: Callable[[str], bool]) -> tuple[list[str], list[str]]:
        """Run one switch that is struck at each of these steps, and a second one for the steps that were not hit."""
        hits: list[str] = []
        outcomes: list[str] = []
        for _ in range(2):
            with Striker(self.state, [each for each in wanted if each not in hits], strike) as striker:
                outcomes += self._go(Ask(reshape=True))
            hits += striker.hits
            if len(hits) == len(wanted):
                break
            outcomes += self._revive_here()
        return hits, outcomes

    def _freeze(self, name: str) -> bool:
        """Stop the process of a case such as ``frozen/serving-jvm@drain`` for longer than its lease, if there is such a
        process.
        """
        who = name.removeprefix("frozen/").partition("@")[0].replace("-", " ")
        chance = random.Random(name)
        hits: list[str] = []
        victims = [each for each in self._victims() if each[0] == who]
        signal_somebody(chance, victims, signal.SIGSTOP, chance.uniform(*LONG_FREEZE_S), hits)
        return bool(hits)

    def _at_random_in(self, seed: int, named: str) -> tuple[list[str], list[str]]:
        chance = random.Random(seed)
        scenario = self.scenarios[named or chance.choice(self.drawn)]
        outcomes = self._go(scenario.before) if scenario.before is not None else []
        self._prepare(scenario.ask)
        hits: list[str] = []
        over = threading.Event()
        # A stop has no steps, and is over in two seconds.
        most, within_s = (1, 2.0) if scenario.ask.stops else (10, 8.0)
        killer = threading.Thread(target=self._kill_around_in, args=(chance, hits, over, most, within_s))
        killer.start()
        try:
            outcomes += self._go(scenario.ask)
        finally:
            over.set()
            killer.join()
        return hits, outcomes

    def _prepare(self, ask: Ask) -> None:
        """Change the installation before the operation, outside of it; does nothing by default."""

    def _kill_around_in(
        self, chance: random.Random, hits: list[str], over: threading.Event, most: int, within_s: float
    ) -> None:
        """Strike up to three times, each a moment after a drawn number of finished steps: strikes at random times alone
        would mostly hit the longest step.
        """
        before = len(self.state().operations)
        long = chance.random() < 0.1
        for steps in sorted(chance.choices(range(most), k=chance.randint(1, 3))):
            moment_s = chance.uniform(0.0, within_s)
            while self._steps_done(before) < steps:
                if over.wait(0.3):
                    return
            if over.wait(moment_s):
                return
            how = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
            freeze_s = chance.uniform(*LONG_FREEZE_S) if long else chance.uniform(1.0, 8.0)
            if long:
                how, long = signal.SIGSTOP, False
            signal_somebody(chance, self._victims(), how, freeze_s, hits)

    def _steps_done(self, before: int) -> int:
        """Return how many steps the first operation after the first ``before`` ones has finished."""
        started = list(self.state().operations.values())[before:]
        return len(started[0].done) if started else 0

    def _go(self, ask: Ask) -> list[str]:
        """Run one operation, rerun it as often as it is killed, and return the outcome of each run."""
        self._release += 1
        params, before = self._params_of(ask), len(self.state().operations)
        outcomes: list[str] = []
        began = time.monotonic()
        with self._watch() as watch:
            while not outcomes or (outcomes[-1] == "killed" and len(outcomes) < 50):
                now = self.state()
                if len(now.operations) > before and now.open_operation is None:
                    outcomes.append(outcome_of(now))
                    break
                outcomes.append(self._run(ask, params, carry_on=now.open_operation is not None))
            if self.state().open_operation is not None:
                outcomes += self._settle()
        if not ask.goes_back:
            self._seen += find_steps_back(watch.sights, until=self._went_back_at(before))
            self._slowest = min(self._slowest, watch.looks_per_s)
        print(f"    {ask.sentence}: {', '.join(outcomes)}, {time.monotonic() - began:.0f} s", flush=True)
        return outcomes

    def _run(self, ask: Ask, params: dict[str, object], *, carry_on: bool) -> str:
        """Run the command once; return ``killed``, the outcome, or its error."""
        haste = [*self.haste, *(LONG_BREAK if ask.breaks == "probation" else ())]
        if ask.accepts:
            haste.append("--accept-risk")
            self._accepted = True
        if ask.rollback:
            arguments = ["rollback", JOB, "--reason", "campaign", *haste]
        else:
            told = json.dumps(params)
            arguments = ["deploy", JOB, "--params", told, "--reason", "campaign", *haste, *self.patience]
        arguments += ["--on-open", "continue"] if carry_on else []
        run = self.bed.command(*arguments, extra=self._extra)
        if run.returncode == -signal.SIGKILL:
            return "killed"
        now = self.state()
        if now.open_operation is not None or not now.operations:
            return f"exit {run.returncode}: {run.stderr.strip()[-300:]}"
        return outcome_of(now)

    def _params_of(self, ask: Ask) -> dict[str, object]:
        """Return the params of the serving release, changed as requested, with a new trigger."""
        now = self.state()
        serving = now.releases[now.serving_release].content.params if now.serving_release else {}
        return {
            "input": str(self.bed.input),
            "output": str(self.output),
            "trigger": self.next_trigger(),
            "shape": int(serving.get("shape", 0) or 0) + ask.reshape,
            "code": int(serving.get("code", 1) or 0) + ask.recode,
            "breaks": ask.breaks,
        }

    def _settle(self) -> list[str]:
        outcomes: list[str] = []
        while self.state().open_operation is not None:
            if len(outcomes) > 5:
                return [*outcomes, "still open"]
            outcomes.append(self._run(Ask(), self._params_of(Ask()), carry_on=True))
        return outcomes

    def _revive_here(self) -> list[str]:
        if self._serving_lives():
            return []
        return ["nothing served", *self._go(Ask())]

    def _calm(self) -> None:
        """Stop the input and wait until the outputs hold all of it; raises TimeoutError."""
        self.bed.stop_producer()
        wait_for("outputs with all of the input", self._ledger_clean, timeout_s=self.calm_s, poll_s=1.0)

    @contextmanager
    def _with(self, extra: dict[str, str]) -> Iterator[None]:
        """Add variables to the environment of every command inside the context."""
        before, self._extra = self._extra, {**self._extra, **extra}
        try:
            yield
        finally:
            self._extra = before

    @contextmanager
    def _approving(self) -> Iterator[None]:
        """Run a thread that approves every request, like a person would, until the context is left."""
        over = threading.Event()

        def approve() -> None:
            while not over.wait(0.5):
                operation = self.state().open_operation
                if operation is not None and _asks(operation):
                    self._approve(operation)

        person = threading.Thread(target=approve, name="approver", daemon=True)
        person.start()
        try:
            yield
        finally:
            over.set()
            person.join()

    def _approve(self, operation: OperationState) -> None:
        self.bed.command("approve", JOB, operation.operation, "--reason", "campaign", extra=self._extra)

    def _went_back_at(self, operations: int) -> float:
        """Return when the first of the later operations decided to fall back from a release that had already served;
        infinity if none did.
        """
        now = self.state()
        went = {each.operation for each in now.instances.values() if each.appointed and each.role.value == "candidate"}
        mine = set(list(now.operations)[operations:]) & went
        for entry in self.bed.installation.journal(JOB, "campaign").entries():
            if (
                isinstance(entry.record, FallBackDecided)
                and entry.record.operation in mine
                and entry.moment is not None
            ):
                return entry.moment
        return float("inf")


def find_unrecorded(checkpoints: Tree, state: JobState) -> list[str]:
    """Return checkpoint versions, or remains of them, that are missing in the journal."""
    return [
        f"{query}/{name} is not recorded"
        for query in checkpoints.folders("")
        for name in checkpoints.folders(query)
        if _VERSION.fullmatch(name) and state.version(query, name) is None
    ]


def find_differing(operations: Iterable[OperationState]) -> list[str]:
    """Return rebuilt outputs that differ from the serving ones: every release of the campaign's job writes the same
    rows.
    """
    return [
        f"{each.operation}: query {query}: {found.sentence}"
        for each in operations
        for query, found in each.compared.items()
        if found.comparable and found.exceeds(0.0, 0.0)
    ]


def _asks(operation: OperationState) -> bool:
    """Return whether the operation waits for a person's answer."""
    match asked_about(operation):
        case About.STATE:
            return operation.approval is None and not operation.request.accept_risk
        case About.OUTPUT:
            return operation.review is None
        case _:
            return False


def outcome_of(state: JobState) -> str:
    """Return the outcome of the newest operation, or ``open``."""
    last = list(state.operations.values())[-1].outcome
    return last.value if last is not None else "open"
