"""Campaign cases for stop, start, watch and recover operations in which processes die; each case starts from the same
job state.
"""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

from chaos.cases import JOB, started_without
from chaos.ledger import read_accounts
from chaos.scenarios import RECOVERIES, Ask
from chaos.switching import SwitchStage, outcome_of
from chaos.watching import find_steps_back
from harness.bed import Bed
from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.watch.fleet_index import INDEX_KEY
from streamkeeper.registry.incidents import IncidentLog

HASTE = ("--first-commit-s", "120", "--probation-batches", "2", "--probation-s", "120")
WATCH_S = 300.0
"""Time limit in seconds for passes of the watch to bring a job back."""
_STATE_FILES = (".delta", ".snapshot", ".zip", ".changelog")


class RecoverStage(SwitchStage):
    """An installation running ``ledgers`` whose job is stopped and started, killed, and damaged."""

    scenarios = RECOVERIES
    drawn = tuple(RECOVERIES)

    def _prepare(self, ask: Ask) -> None:
        """Bring the driver into the state that the operation is to find, and damage what is to be recovered."""
        if ask.recover:
            self._break(ask.recover)
        if ask.driver == "gone":
            self._end_driver()
            # What happened is hours ago as far as the watch remembers: it starts a job so many times an hour.
            self.bed.installation.store.delete(INDEX_KEY)
        if ask.driver in ("frozen", "killed"):
            for name, process in self._victims():
                if name == "serving python" and "streamkeeper.driver" in process.cmdline():
                    process.send_signal(signal.SIGSTOP if ask.driver == "frozen" else signal.SIGKILL)

    def _go(self, ask: Ask) -> list[str]:
        """Run the operation as for a switch; after a stop, also verify that nothing runs and that the watch starts
        nothing.
        """
        if ask.verb == "watch":
            return self._watch_until_it_serves()
        outcomes = super()._go(ask)
        if ask.stops:
            self._seen += [] if outcomes[-1] == "stopped" else [f"the stop ended: {outcomes[-1]}"]
            self._seen += find_stirring(self.bed, self.output)
        return outcomes

    def _run(self, ask: Ask, params: dict[str, object], *, carry_on: bool) -> str:
        """Run the command once; a repeated call continues an interrupted operation by itself."""
        if ask.recover:
            words = ["recover", JOB, "--action", ask.recover, "--reason", "campaign", "--accept-loss", *HASTE]
        elif ask.verb:
            words = [ask.verb, JOB, "--reason", "campaign", *(("--drain-s", "10") if ask.stops else ())]
        else:
            return super()._run(ask, params, carry_on=carry_on)
        run = self.bed.command(*words, extra=self._extra)
        if run.returncode == -signal.SIGKILL:
            return "killed"
        now = self.state()
        if now.open_operation is not None or (run.returncode and ask.verb):
            return f"exit {run.returncode}: {run.stderr.strip()[-300:]}"
        return "stopped" if ask.stops else outcome_of(now)

    def _watch_until_it_serves(self) -> list[str]:
        """Run passes of the watch until one finds the job serving, and return the outcome of each pass."""
        outcomes: list[str] = []
        began, well = time.monotonic(), False
        with self._watch() as watch:
            while not well and time.monotonic() - began < WATCH_S:
                serves = self._serving_lives() and self.state().open_operation is None
                run = self.bed.command("watch", "--once", extra=self._extra)
                killed = run.returncode == -signal.SIGKILL
                told = "killed" if killed else f"exit {run.returncode}: {run.stderr.strip()[-300:]}"
                outcomes.append("looked" if run.returncode == 0 else told)
                well = serves and run.returncode == 0
        self._seen += find_steps_back(watch.sights)
        if not well:
            outcomes.append("left to a person")
            told_of = IncidentLog(self.bed.installation.store, JOB).state().open
            self._seen += [] if told_of else ["the watch left the job dead, and tells nobody"]
        print(f"    watch: {', '.join(outcomes)}, {time.monotonic() - began:.0f} s", flush=True)
        return outcomes

    def _revive_here(self) -> list[str]:
        """Start a stopped job, as a person would; deploy any other job that does not serve."""
        if self.state().stopped is None:
            return super()._revive_here()
        return ["is stopped", *self._go(Ask(verb="start"))]

    def _break(self, action: str) -> None:
        """Kill the driver, then damage the checkpoints that the recovery action has to repair.

        For a restore, the checkpoint of ``totals`` is deleted and the last commit file of ``copies`` is emptied; for a
        rebuild, ``totals`` loses its state files.
        """
        taken = self.bed.command("snapshot", "take", JOB)
        assert taken.returncode == 0, taken.stderr
        before = {query: self._committed(query) for query in ("totals", "copies")}
        wait_for(
            "batches that no snapshot holds",
            lambda: all((self._committed(query) or 0) > (old or 0) for query, old in before.items()),
            timeout_s=120,
        )
        self._end_driver()
        if action == "restore":
            shutil.rmtree(self._checkpoint("totals"))
            copies = self._checkpoint("copies")
            (copies / "commits" / str(last_committed(LocalTree(copies)))).write_bytes(b"")
        if action == "rebuild":
            for file in (self._checkpoint("totals") / "state").rglob("*"):
                if file.suffix in _STATE_FILES:
                    file.unlink()
                    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    def _end_driver(self) -> None:
        """Kill all processes of the driver, its supervisor first."""
        appointed, runner = self.state().appointed, self.bed.installation.runner
        runner.kill(JOB, appointed)
        wait_for("its end", lambda: runner.observe(JOB, appointed).life is Life.DEAD, timeout_s=60)

    def _checkpoint(self, query: str) -> Path:
        state = self.state()
        current = state.current_version(query)
        assert current is not None
        tree = self.bed.installation.checkpoint(state, query, current.version)
        assert isinstance(tree, LocalTree)
        return tree.root

    def _committed(self, query: str) -> int | None:
        return last_committed(LocalTree(self._checkpoint(query)))


def find_stirring(bed: Bed, output: Path, *, off: str = "") -> list[str]:
    """Return what still runs of a stopped job: immediately, and after a pass of the watch once unread input has
    arrived.

    ``off``: protections that are switched off for the watch.
    """
    found = [f"{each} runs after the stop" for each in _instances(bed)]
    wait_for(
        "input that nobody reads", lambda: any(each.lost for each in read_accounts(bed.input, output)), timeout_s=60
    )
    while (run := bed.command("watch", "--once", by=started_without(off))).returncode == -signal.SIGKILL:
        pass
    found += [f"the watch failed: {run.stderr.strip()[-300:]}"] if run.returncode else []
    found += [f"{each} runs after a pass of the watch" for each in _instances(bed)]
    state = bed.installation.journal(JOB, "campaign").state()
    if state.stopped is None or state.open_operation is not None:
        found.append("it is not on record as stopped any more")
    return found


def _instances(bed: Bed) -> list[str]:
    return sorted({each.environ()["STREAMKEEPER_INSTANCE"] for each in bed.processes()})
