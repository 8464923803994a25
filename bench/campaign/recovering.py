"""Recoveries that things die in: a served job is broken first, in the same way each time, and then brought back."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from bench.bed import wait_for
from bench.campaign.cases import JOB
from bench.campaign.scenarios import RECOVERIES, Ask
from bench.campaign.switching import SwitchStage, outcome_of
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.model.liveness import Life

HASTE = ("--first-commit-s", "120", "--probation-batches", "2", "--probation-s", "120")


class RecoverStage(SwitchStage):
    """A site that serves ``ledgers``, whose driver is killed and whose checkpoints are lost and damaged."""

    scenarios = RECOVERIES

    def _go(self, ask: Ask) -> list[str]:
        """As a switch; what is to be recovered is broken before, with a snapshot that lacks what came since."""
        if ask.recover:
            self._break(ask.recover)
        return super()._go(ask)

    def _run(self, ask: Ask, params: dict[str, object], *, carry_on: bool) -> str:
        """The command once; typed again it carries an interrupted recovery on by itself."""
        if not ask.recover:
            return super()._run(ask, params, carry_on=carry_on)
        words = ["recover", JOB, "--action", ask.recover, "--reason", "campaign", "--accept-loss", *HASTE]
        run = self.bed.command(*words, extra=self._extra)
        if run.returncode == -signal.SIGKILL:
            return "killed"
        now = self.state()
        if now.open_operation is not None:
            return f"exit {run.returncode}: {run.stderr.strip()[-300:]}"
        return outcome_of(now)

    def _break(self, action: str) -> None:
        """Kill the driver; of a restore the table's checkpoint is deleted, and the files' last commit emptied."""
        taken = self.bed.command("snapshot", "take", JOB)
        assert taken.returncode == 0, taken.stderr
        before = {query: last_committed(self._checkpoint(query)) for query in ("totals", "copies")}
        wait_for(
            "batches that no snapshot holds",
            lambda: all((last_committed(self._checkpoint(each)) or 0) > (old or 0) for each, old in before.items()),
            timeout_s=120,
        )
        appointed, runner = self.state().appointed, self.bed.site.runner
        runner.kill(JOB, appointed)
        wait_for("its end", lambda: runner.observe(JOB, appointed).life is Life.DEAD, timeout_s=60)
        if action == "restore":
            shutil.rmtree(self._checkpoint("totals"))
            copies = self._checkpoint("copies")
            (copies / "commits" / str(last_committed(copies))).write_bytes(b"")

    def _checkpoint(self, query: str) -> Path:
        current = self.state().current_version(query)
        assert current is not None
        return Path(self.bed.site.settings.checkpoints) / JOB / query / current.version
