"""Cases in which a real Airflow runs the operation while its own processes are killed; afterwards everything is
checked.

``airflow/KIND@STEP`` kills a KIND during a rebuild once STEP has begun or is done; ``+KIND@STEP`` kills another later
in the same rebuild, because each rebuild takes minutes; ``seed:N`` kills at random. KIND:

- ``task``: the process that runs a task; ``worker``: that process and the one that supervises it and reports for it
- ``scheduler``: only the scheduler, so that its workers and their tasks continue without it
- ``triggerer``: the triggerer and the process in which its triggers run
- ``airflow``: every process of Airflow
- ``driver``: by seeds only, the Python process or the JVM of any driver

A killed scheduler, triggerer or whole Airflow is restarted after a few seconds, as a service supervisor would;
``harness.standalone`` itself restarts none of its parts.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

import psutil

from chaos.cases import JOB
from chaos.playing import play
from chaos.results import Results
from chaos.scenarios import Ask
from chaos.switching import SwitchStage, outcome_of
from harness.airflow_process import Airflow, airflow_environment, choose_ports, without_airflow
from harness.bed import Bed, fresh_bed
from harness.forms import CONF, DAG, ROLLBACK_DAG
from harness.places import ROOT, Places
from harness.processes import StartedProcesses, session_of
from harness.rest import AirflowApi
from harness.system import System
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput, TemporaryError
from streamkeeper.model.records.journal_records import About
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step, label_of
from streamkeeper.model.requests.request import Rollback
from streamkeeper.operations.deploys.approval import asked_about

RUN_S = 1200.0
"""The most seconds that a DAG run may take, whatever is killed, on a machine with other work."""
DEADLINES = {"standby_s": 600, "drain_s": 20, "first_commit_s": 300, "probation_batches": 4, "probation_s": 300}
PATIENCE = {"catch_up_s": 240, "approve_s": 240}
"""Deadlines that a rollback does not have."""
ASKS = {About.STATE: "backup.approve", About.OUTPUT: "dual_run.review"}

NAMED = (
    "airflow/triggerer@shadow+airflow@drain",
    "airflow/scheduler@shadow+worker@drain",
    "airflow/airflow@shadow+task@drain",
    "airflow/task@shadow+scheduler@drain",
)
PARTS = ("scheduler", "triggerer")
KINDS = ("task", "task", "worker", *PARTS, "airflow", "airflow", "driver")
"""The kinds from which a seed chooses."""
OPERATIONS = (
    (None, Ask(reshape=True)),
    (None, Ask(recode=True)),
    (Ask(reshape=True), Ask(rollback=True)),
    (Ask(recode=True), Ask(rollback=True)),
    (None, Ask()),
)
"""Pairs of an operation that runs undisturbed first, if any, and the operation during which processes are killed."""
_JOBS = [ROOT / "chaos/jobs/ledgers.py"]
_WORKER, _WATCHING = "airflow worker -- ", "LocalExecutor"
_SETTLED = frozenset({"success", "failed", "skipped", "upstream_failed"})

T = TypeVar("T")


def run_airflow(root: Path, results: Results, *, named: list[str], seeds: range) -> int:
    """Run the cases that are not in the results yet: the named ones, then the seeds; return 1 when a case found damage
    or a named one hit nothing.
    """
    wanted = [name for case in named for name in _strikes(case)]
    play(root, results, named, _open)
    # What one death kept another from being reached is tried again alone.
    play(root, results, [f"airflow/{name}" for name in wanted if name not in results.hit], _open)
    play(root, results, [f"seed:{seed}" for seed in seeds], _open)
    return results.conclude(wanted)


@contextmanager
def _open(root: Path) -> Iterator[AirflowStage]:
    with fresh_bed(root, _JOBS) as bed:
        stage = AirflowStage(bed)
        try:
            yield stage
        finally:
            stage.close()


class MortalAirflow:
    """The Airflow of one installation, each part of which can be killed and restarted."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._processes = StartedProcesses(system.places.processes)
        self._airflow: Airflow | None = None
        self._api: AirflowApi | None = None

    @property
    def api(self) -> AirflowApi:
        """A client of the Airflow that was started last."""
        if self._api is None:
            raise InvalidInput("Airflow was not started")
        return self._api

    def start(self) -> None:
        """Start all of Airflow, and return once it is healthy."""
        self._airflow = self._system.start_airflow()
        self._api = self._airflow.api
        self._system.wait_for_airflow(self._airflow)
        self._system.wait_for_dag(self._airflow, ROLLBACK_DAG)

    def kill(self, kind: str) -> bool:
        """Send SIGKILL to the processes of that kind; return whether there were any."""
        found = self._find(kind)
        hit = bool(found)
        while found:
            for each in found:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            # What was being forked meanwhile belongs to all of Airflow too.
            time.sleep(0.2)
            found = self._find(kind) if kind == "airflow" else []
        return hit

    def revive(self, kind: str) -> None:
        """Restart what was killed, unless Airflow restarts it by itself."""
        if kind == "airflow":
            self.start()
        elif kind in PARTS:
            self._start_part(kind)

    def _start_part(self, part: str) -> None:
        _, *log_ports = choose_ports(0)
        assert self._airflow is not None
        home = self._system.places.airflow
        settings = airflow_environment(
            root=ROOT, home=home, url=self._airflow.url, log_ports=(log_ports[0], log_ports[1])
        )
        self._processes.start(
            f"airflow-{part}",
            [sys.executable, "-m", "airflow", part, "--skip-serve-logs"],
            environ={**without_airflow(self._system.environment), **settings},
            log=home / f"{part}.log",
            cwd=ROOT,
        )

    def _find(self, kind: str) -> list[psutil.Process]:
        lines = {each: _line(each) for started in self._processes.read() for each in session_of(started)}
        if kind == "airflow":
            return list(lines)
        if kind in PARTS:
            named = {
                each.pid: each
                for each, line in lines.items()
                if line.removesuffix(" --skip-serve-logs").split()[-1:] == [kind]
            }
            first = [each for each in named.values() if _parent(each) not in named]
            return first if kind == "scheduler" else [each for one in first for each in (one, *_below(one))]
        tasks = [each for each, line in lines.items() if line.startswith(_WORKER) and _WATCHING not in line]
        if kind == "task":
            return tasks[:1]
        watching = {_parent(each) for each in tasks[:1]}
        return [*(each for each in lines if each.pid in watching), *tasks[:1]]


class AirflowStage(SwitchStage):
    """An installation whose operations are runs of Airflow's DAGs."""

    def __init__(self, bed: Bed) -> None:
        super().__init__(bed)
        self._system = System(Places(bed.root), lambda line: None)
        for each in ("BACKUP", "DRILL", "PRUNE", "WATCH"):
            self._system.environment[f"STREAMKEEPER_{each}_SCHEDULE"] = "never"
        self._airflow = MortalAirflow(self._system)
        self._runs = 0
        self._asked = (DAG, "")

    def start(self, extra: dict[str, str] | None = None) -> None:
        """Start Airflow first, then serve the first release; input and triggers are slow enough for a small machine."""
        if not self._started:
            self._airflow.start()
        self.bed.start_producer(rows=5, every_s=1.5, seed=self._release + 1)
        super().start(extra)

    def close(self) -> None:
        """Stop every part of Airflow and the drivers."""
        self._system.stop()

    def _act(self, case: str) -> tuple[list[str], list[str]]:
        how, _, seed = case.partition(":")
        if how == "seed":
            chance = random.Random(int(seed))
            before, ask = chance.choice(OPERATIONS)
            outcomes = self._go(before) if before is not None else []
            hits, ended = self._go_under(ask, lambda hits, over: self._strike_around(chance, hits, over))
            return hits, outcomes + ended

        def strike(hits: list[str], over: threading.Event) -> None:
            for name in _strikes(case):
                self._strike_at(name, hits, over)

        return self._go_under(Ask(reshape=True), strike)

    def _go_under(self, ask: Ask, strike: Callable[[list[str], threading.Event], None]) -> tuple[list[str], list[str]]:
        """Run the operation while ``strike`` kills processes; wait at the end until ``strike`` has restarted what it
        killed.
        """
        hits: list[str] = []
        over = threading.Event()
        with ThreadPoolExecutor(1, "killer") as pool:
            striking = pool.submit(strike, hits, over)
            try:
                outcomes = self._go(ask)
            finally:
                over.set()
        striking.result()
        if self.state().open_operation is not None:
            self._seen.append("an operation stays open")
        return hits, outcomes

    def _strike_at(self, name: str, hits: list[str], over: threading.Event) -> None:
        kind, _, step = name.partition("@")
        while not over.wait(0.2):
            operation = self.state().open_operation
            if operation is not None and step in map(label_of, (*operation.done, *operation.begun)):
                return self._strike(kind, random.Random(0), hits, over, where=step)

    def _strike_around(self, chance: random.Random, hits: list[str], over: threading.Event) -> None:
        for _ in range(chance.randint(1, 3)):
            wait_s, kind = chance.uniform(0.5, 40.0), chance.choice(KINDS)
            if over.wait(wait_s):
                return
            self._strike(kind, chance, hits, over)

    def _strike(
        self, kind: str, chance: random.Random, hits: list[str], over: threading.Event, *, where: str = ""
    ) -> None:
        """Kill a process of that kind as soon as one exists, waiting at most half a minute, and restart it
        afterwards.
        """
        break_s = chance.uniform(1.0, 5.0)
        before = len(hits)

        def struck() -> bool:
            at = where or self._reached()
            if what := self._kill(kind, chance):
                hits.append(f"{what}@{at}")
            return len(hits) > before or over.is_set()

        wait_until(struck, timeout_s=30, poll_s=0.1)
        if len(hits) > before:
            time.sleep(break_s)
            self._airflow.revive(kind)

    def _kill(self, kind: str, chance: random.Random) -> str:
        """Kill one and return what was killed; return an empty string when there is none of that kind."""
        if kind != "driver":
            return kind if self._airflow.kill(kind) else ""
        drivers = [(each, line) for each in self.bed.processes() if "supervisor" not in (line := _line(each))]
        if not drivers:
            return ""
        process, line = chance.choice(drivers)
        with suppress(psutil.NoSuchProcess):
            process.kill()
        return "driver jvm" if "java" in line.partition(" ")[0] else "driver python"

    def _reached(self) -> str:
        """Return the label of the step that the open operation has reached."""
        operation = self.state().open_operation
        tags = (*operation.done, *operation.begun) if operation is not None else ()
        reached = max((step for step in Step if step.tag in tags), default=None)
        return reached.label if reached is not None else "start"

    def _run(self, ask: Ask, params: dict[str, object], *, carry_on: bool) -> str:
        """Run the DAG once; return ``killed`` when it opened no operation, the outcome, or that the operation is still
        open.
        """
        now, until = self.state(), time.monotonic() + RUN_S
        self._runs += 1
        dag, run_id = self._dag_of(ask, now.open_operation), f"campaign-{self._runs}"
        form: dict[str, Any] = {
            "job": JOB,
            "reason": "campaign",
            **DEADLINES,
            "on_open": "continue" if carry_on else "refuse",
        }
        if dag == DAG:
            form |= {"params": params, "conf": dict(CONF), **PATIENCE}
        self._asked = (dag, run_id)
        self._told(lambda api: api.trigger(dag, form, run_id=run_id), until)
        ended = self._told(lambda api: _ended(api.run_state(dag, run_id)), until)
        if not ended:
            tasks = self._told(lambda api: api.tasks(dag, run_id), time.monotonic() + 60) or {}
            waiting = {name: each["state"] for name, each in tasks.items() if each["state"] not in _SETTLED}
            self._seen.append(f"{dag} {run_id} is not over after {RUN_S:g} s: {waiting}")
            return "late"
        after = self.state()
        if after.open_operation is not None:
            return f"open, run {ended}"
        if len(after.operations) == len(now.operations) and not carry_on:
            return "killed"
        outcome = outcome_of(after)
        return outcome if (outcome == "succeeded") is (ended == "success") else f"{outcome}, run {ended}"

    @staticmethod
    def _dag_of(ask: Ask, opened: OperationState | None) -> str:
        rollback = ask.rollback if opened is None else isinstance(opened.request.kind, Rollback)
        return ROLLBACK_DAG if rollback else DAG

    def _told(self, ask: Callable[[AirflowApi], T | None], until: float) -> T | None:
        """Return the first answer of whichever Airflow is running, or None when there is none until ``until`` on the
        monotonic clock.
        """
        while time.monotonic() < until:
            with suppress(TemporaryError, HTTPException):
                answer = ask(self._airflow.api)
                if answer:
                    return answer
            time.sleep(1.0)
        return None

    def _approve(self, operation: OperationState) -> None:
        """Approve from the command line for odd releases, and through Airflow's own page for even ones."""
        if self._release % 2:
            return super()._approve(operation)
        dag, run_id = self._asked
        # Answered already, or Airflow is down: the next look will tell.
        with suppress(InvalidInput, TemporaryError, HTTPException):
            task = ASKS[asked_about(operation) or About.STATE]
            if self._airflow.api.question(dag, run_id, task):
                self._airflow.api.answer(dag, run_id, task, "Approve", reason="campaign")


def _strikes(case: str) -> list[str]:
    return case.removeprefix("airflow/").split("+")


def _ended(state: str) -> str:
    return state if state in ("success", "failed") else ""


def _line(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return " ".join(process.cmdline())
    return ""


def _parent(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return int(process.ppid())
    return 0


def _below(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return list(process.children(recursive=True))
    return []
