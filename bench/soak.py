"""``python -m bench.soak``: run an installation for half an hour with every event that a month brings.

Two jobs run at triggers of one second, one writing a table of totals and one copying files, while input keeps arriving.
Events follow one another, drawn by ``--seed``: a process of a driver is killed and the watch restarts the driver, a
deploy changes a param or the code (which switches the checkpoint), the command of a deploy is killed and run a second
time, a release is rolled back, snapshots are taken, everything is pruned. The first half runs from the code of
``--from`` (a commit), the second from today's code: drivers of the older code live on until their next deploy. At the
end the ledger has to be exact.

Every 15 seconds it records the memory of each driver and the number of files in each folder of the home.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from bench.report import write_report
from harness.bed import Bed, fresh_bed
from harness.ledger import Account, compare_events, compare_totals, expected_totals, read_rows
from harness.outputs import read_event_ids, read_totals
from harness.places import ROOT
from harness.waiting import wait_for
from streamkeeper.operations.jobs.installation import Installation

TOTALS, COPIES = JOBS = ("sales_totals", "event_copy")
HASTE = ("--drain-s", "30", "--first-commit-s", "120", "--probation-batches", "2", "--reason", "a soak")
RETENTION = {"STREAMKEEPER_KEEP": "last=2,hourly=1,daily=1", "STREAMKEEPER_RETIRED_DAYS": "0.002"}
OF_TODAY = {"STREAMKEEPER_ENDED_DAYS": "0.002"}
"""Reduces a retention of days to three minutes, so that a prune has something to delete; kept apart because older code
may not have the setting.
"""
LOOK_S = 15.0
SETTLE_S = 180.0
_COUNT = 'F.count("*").alias("sales"),'
_LARGEST = 'F.max("amount").alias("largest"),'
_MIB = 1 << 20


def main() -> int:
    """Run the soak, print each event as it happens and write the report; return 1 when a row was lost or doubled, or a
    command failed unexpectedly.
    """
    parser = argparse.ArgumentParser(prog="bench.soak", description="Half an hour of a site's life.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="earlier", required=True, help="the commit whose code the first half runs from")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with fresh_bed(ROOT / "build/soak", [ROOT / f"jobs/{name}.py" for name in JOBS]) as bed:
        soak = Soak(bed, chosen.seed, _unpack(chosen.earlier, bed.root / "earlier"))
        soak.live(60 * chosen.minutes)
        accounts = soak.settle()
    figures = {"from": chosen.earlier, "seed": chosen.seed, "minutes": chosen.minutes, **soak.figures(accounts)}
    print(f"written to {write_report('soak', figures, into=chosen.out)}")
    for account in accounts:
        print(f"{account.name}: {account.produced} rows, {account.lost} lost, {account.duplicated} doubled")
    return 0 if all(each.clean for each in accounts) and not soak.wrong else 1


class Soak:
    """The events and the samples of one run; ``wrong`` lists the commands that failed in a way that is not allowed, and
    is empty when all is well.
    """

    def __init__(self, bed: Bed, seed: int, earlier: Path) -> None:
        self._bed, self._chance, self._code = bed, random.Random(seed), earlier
        self._began = self._looked = time.monotonic()
        self._changed = 0
        self.wrong: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.looks: list[dict[str, Any]] = []

    def live(self, seconds: float) -> None:
        """Deploy both jobs, then run one event after another; halfway, the installation is upgraded."""
        self._bed.start_producer(rows=10, every_s=0.5)
        self._began = time.monotonic()
        for job in JOBS:
            self._do("first deploy", job, _deploy_first)
        # Each thing once in a shuffled row, then again: half an hour leaves none of them out.
        turns: list[str] = []
        while (passed := time.monotonic() - self._began) < seconds:
            if passed > seconds / 2 and self._code != ROOT:
                self._code = ROOT
                self._note("upgrade", "", "the commands run from today's code; drivers live on")
            turns = turns or self._chance.sample(sorted(_HAPPENINGS), len(_HAPPENINGS))
            name = turns.pop()
            self._do(name, self._chance.choice(JOBS), _HAPPENINGS[name])
            # A site's watch looks each minute, and a start that it begins takes it several passes.
            self._command("watch", "--once")
            self._rest(self._chance.uniform(5, 20))

    def settle(self) -> list[Account]:
        """End the input, wait until the outputs hold all of it, stop both jobs and return the ledger."""
        self._bed.stop_producer()
        self._command("watch", "--once")
        with suppress(TimeoutError):
            wait_for("all input out", lambda: all(each.clean for each in self._accounts()), timeout_s=SETTLE_S)
        for job in JOBS:
            self._do("stop", job, _stop)
        self._do("prune", "", _prune)
        self._look()
        return self._accounts()

    def figures(self, accounts: list[Account]) -> dict[str, Any]:
        """Return the figures for the report."""
        ledger = [{"name": a.name, "rows": a.produced, "lost": a.lost, "doubled": a.duplicated} for a in accounts]
        after = [each for each in self.events if each["what"] == "prune" and "files" in each]
        counts: dict[str, int] = {}
        for each in self.events:
            counts[each["what"]] = counts.get(each["what"], 0) + 1
        return {
            "ledger": ledger,
            "wrong": self.wrong,
            "happened": counts,
            "files_after_prunes": [[each["minute"], each["files"]] for each in after],
            "events": self.events,
            "looks": self.looks,
        }

    def _do(self, what: str, job: str, act: Callable[[Soak, str], str]) -> None:
        began = time.monotonic()
        told = act(self, job)
        self._note(what, job, told, seconds=round(time.monotonic() - began, 1))

    def _note(self, what: str, job: str, told: str, **more: Any) -> None:
        minute = round((time.monotonic() - self._began) / 60, 2)
        if what == "prune":
            more["files"] = self._files()
        self.events.append({"minute": minute, "what": what, "job": job, "told": told, **more})
        print(f"{minute:6.2f} {what} {job}: {told}", flush=True)

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if time.monotonic() - self._looked >= LOOK_S:
                self._looked = time.monotonic()
                self._look()
            time.sleep(0.5)

    def _environment(self) -> dict[str, str]:
        known = {**RETENTION, **OF_TODAY} if self._code == ROOT else RETENTION
        return {**self._bed.environment, **known, "PYTHONPATH": f"{self._code / 'plugins'}:{self._code}"}

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._bed.program(*arguments),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._code,
        )

    def _command(self, *arguments: str, may_end: tuple[int, ...] = (0,)) -> str:
        run = self._start(*arguments)
        told = run.communicate(timeout=600)[0]
        last = next((line.strip() for line in reversed(told.splitlines()) if line.strip()), "")
        if run.returncode not in may_end or "Traceback" in told:
            self.wrong.append(f"{' '.join(arguments)[:120]}: exit {run.returncode}: {told[-800:]}")
        return last[:160]

    def _params(self, job: str) -> dict[str, Any]:
        if job == TOTALS:
            return {"input": str(self._bed.input / "sales"), "warehouse": f"sqlite:///{self._bed.root}/warehouse.db"}
        return {"input": str(self._bed.input / "events"), "output": str(self._bed.root / "copies")}

    def _next_params(self, job: str) -> str:
        self._changed += 1
        return json.dumps({**self._params(job), "files_per_trigger": 100 + self._changed})

    def _victim(self, job: str) -> psutil.Process | None:
        """Return a random process of the job's serving driver: its supervisor, its Python process or its JVM."""
        instance = Installation.from_environment(self._environment()).journal(job, "soak").state().serving_instance
        tree = []
        for process in self._bed.processes():
            with suppress(psutil.Error):
                mine = process.environ().get("STREAMKEEPER_INSTANCE") == f"{job}/{instance}"
                if mine and (process.name() == "java" or any("streamkeeper" in word for word in process.cmdline())):
                    tree.append(process)
        return self._chance.choice(sorted(tree, key=lambda each: each.pid)) if tree else None

    def _look(self) -> None:
        drivers: dict[str, dict[str, Any]] = {}
        now = time.time()
        for process in self._bed.processes():
            with suppress(psutil.Error):
                instance = process.environ()["STREAMKEEPER_INSTANCE"]
                seen = drivers.setdefault(instance, {"age_s": 0.0, "jvm_mib": 0.0, "python_mib": 0.0})
                size = process.memory_info().rss / _MIB
                seen["age_s"] = round(max(seen["age_s"], now - process.create_time()), 1)
                part = "jvm_mib" if process.name() == "java" else "python_mib"
                seen[part] = round(seen[part] + size, 1)
        minute = round((time.monotonic() - self._began) / 60, 2)
        self.looks.append({"minute": minute, "drivers": drivers, "files": self._files()})

    def _files(self) -> dict[str, int]:
        """Return the number of files in each folder of the home."""
        return {
            folder.name: sum(1 for each in folder.rglob("*") if each.is_file())
            for folder in sorted(self._bed.home.iterdir())
            if folder.is_dir()
        }

    def _accounts(self) -> list[Account]:
        totals, copies = read_totals(self._bed.root / "warehouse.db"), self._bed.root / "copies"
        found = {customer: each.plain for customer, each in totals.items()}
        events = [row[0] for row in read_rows(self._bed.input / "events")]
        return [
            compare_totals("totals", expected_totals(self._bed.input / "sales"), found),
            compare_events("copies", events, read_event_ids(copies)),
        ]


def _deploy_first(soak: Soak, job: str) -> str:
    return soak._command("deploy", job, "--params", json.dumps(soak._params(job)), *HASTE)


def _stop(soak: Soak, job: str) -> str:
    return soak._command("stop", job, "--reason", "the end")


def _kill(soak: Soak, job: str) -> str:
    """Kill a process of the driver; one pass of the watch then restarts the driver unless its supervisor already
    has.
    """
    victim = soak._victim(job)
    if victim is None:
        return "no driver to kill"
    name = victim.name()
    with suppress(psutil.NoSuchProcess):
        victim.send_signal(signal.SIGKILL)
    soak._rest(soak._chance.uniform(1, 20))
    return f"{name} killed; {soak._command('watch', '--once')}"


def _change_a_param(soak: Soak, job: str) -> str:
    return soak._command("deploy", job, "--params", soak._next_params(job), *HASTE)


def _change_the_code(soak: Soak, _job: str) -> str:
    """Add a column to the totals, or remove it; either way the deploy is a switch."""
    file = soak._bed.jobs / f"{TOTALS}.py"
    text = file.read_text()
    changed = text.replace(_LARGEST, "") if _LARGEST in text else text.replace(_COUNT, f"{_COUNT}{_LARGEST}")
    file.write_text(changed)
    return soak._command("deploy", TOTALS, *HASTE)


def _kill_a_deploy(soak: Soak, job: str) -> str:
    """Kill the command of a deploy on its way and run it a second time after a while, so that it continues the
    deploy.
    """
    words = ("deploy", job, "--params", soak._next_params(job), *HASTE)
    run = soak._start(*words)
    soak._rest(soak._chance.uniform(1, 25))
    with suppress(ProcessLookupError):
        run.kill()
    run.communicate()
    soak._rest(soak._chance.uniform(0, 10))
    return f"killed and typed again; {soak._command(*words)}"


def _roll_back(soak: Soak, job: str) -> str:
    # 2: there is nothing to go back to, said in a sentence.
    return soak._command("rollback", job, "--reason", "a soak", "--probation-batches", "2", may_end=(0, 2))


def _take_snapshots(soak: Soak, job: str) -> str:
    return soak._command("snapshot", "take", job)


def _prune(soak: Soak, _job: str) -> str:
    return soak._command("prune", "--grace", "0")


_HAPPENINGS: dict[str, Callable[[Soak, str], str]] = {
    "kill": _kill,
    "kill again": _kill,
    "param changed": _change_a_param,
    "code changed": _change_the_code,
    "deploy killed": _kill_a_deploy,
    "rollback": _roll_back,
    "snapshot": _take_snapshots,
    "snapshot again": _take_snapshots,
    "prune": _prune,
}


def _unpack(commit: str, into: Path) -> Path:
    """Unpack the code of a commit."""
    run = subprocess.run(["git", "archive", commit, "plugins", "jobs"], cwd=ROOT, capture_output=True, check=False)
    if run.returncode:
        raise SystemExit(f"error: {commit} is no commit of this repository")
    with tarfile.open(fileobj=io.BytesIO(run.stdout)) as archive:
        archive.extractall(into, filter="data")
    return into


if __name__ == "__main__":
    raise SystemExit(main())
