"""``python -m chaos.executor_blows``: verify that every row exists exactly once although executors are killed and
frozen.

One job runs on a standalone cluster with two workers, its checkpoints on S3 and its table in PostgreSQL, while input
keeps arriving. A seed strikes three times: executors are killed, or frozen for a while and woken up, or frozen while
their driver is killed and woken up once another one serves. Then the input ends and the table is compared with all of
it. Resumable: a seed that has a line for the present commit in ``bench/results/executor-blows.jsonl`` is not run again.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from chaos.cases import CaseResult
from chaos.results import Results
from harness.bed import Bed, fresh_bed
from harness.ledger import Totals, compare_totals, expected_totals
from harness.places import ROOT
from harness.remote_servers import RemoteServers, remote_servers
from harness.waiting import wait_for
from streamkeeper.model.protocol.liveness import Life

JOB = "sales_totals"
_RESULTS = ROOT / "bench/results/executor-blows.jsonl"
_SMALL = ("spark.executor.memory=512m", "spark.sql.shuffle.partitions=2")
_BACK_S = 300.0
_BLOWS = ("kill", "freeze", "freeze and kill the driver")


class Stage:
    """The job that runs on the cluster, and the strikes against it."""

    def __init__(self, bed: Bed, servers: RemoteServers) -> None:
        self._bed, self._cluster, self._database = bed, servers.cluster, servers.database
        self._environ = servers.whereabouts.environment

    def deploy(self) -> None:
        """Deploy the job, with input arriving."""
        self._bed.start_producer(rows=10, every_s=0.5)
        url = self._database.replace("postgresql://", "postgresql+psycopg://")
        params = json.dumps({"input": str(self._bed.input / "sales"), "warehouse": url})
        conf = [word for text in _SMALL for word in ("--conf", text)]
        self._command("deploy", JOB, "--params", params, *conf, "--reason", "to be struck", "--probation-batches", "1")

    def play(self, seed: int) -> CaseResult:
        """Strike three times, then compare the table with the input."""
        choice, started = random.Random(seed), time.monotonic()
        hits: list[str] = []
        damage: list[str] = []
        self._bed.start_producer(rows=10, every_s=0.5, seed=seed)
        for _ in range(3):
            blow = choice.choice(_BLOWS)
            hits.append(blow)
            self._strike(blow, choice.uniform(0.0, 3.0))
        self._bed.stop_producer()
        try:
            wait_for("all of the input", self._is_exact, _BACK_S)
        except TimeoutError:
            account = compare_totals(JOB, expected_totals(self._bed.input / "sales"), self._totals()).closed
            damage.append(f"{account.lost} lost, {account.duplicated} duplicated: {', '.join(account.examples)}")
        wall_s = round(time.monotonic() - started, 1)
        case = f"seed:{seed}"
        return CaseResult(case=case, hits=hits, outcomes=[], tries=len(hits), replays=0, damage=damage, wall_s=wall_s)

    def _strike(self, blow: str, after_s: float) -> None:
        time.sleep(after_s)
        if blow == "kill":
            self._cluster.strike("kill")
            return
        self._cluster.strike("suspend")
        try:
            if blow == "freeze":
                time.sleep(5.0)
                return
            state = self._installation.journal(JOB, "bench").state()
            self._installation.runner.kill(JOB, state.appointed)
            wait_for("its end", lambda: self._installation.runner.observe(JOB, state.appointed).life is Life.DEAD, 60)
            self._command("recover", JOB, "--action", "restart", "--reason", "struck")
        finally:
            self._cluster.strike("resume")

    @property
    def _installation(self) -> Any:
        return self._bed.installation

    def _is_exact(self) -> bool:
        return self._totals() == expected_totals(self._bed.input / "sales")

    def _totals(self) -> dict[str, Totals]:
        with psycopg.connect(self._database) as connection:
            rows = connection.execute(f"SELECT customer, sales, total, squares FROM {JOB}").fetchall()
        return {customer: Totals(int(count), int(total), int(squares)) for customer, count, total, squares in rows}

    def _command(self, *words: str) -> None:
        done = self._bed.command(*words, extra=self._environ)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words[:2])}: {(done.stdout + done.stderr)[-2000:]}")


@contextmanager
def _stage(root: Path) -> Iterator[Stage]:
    with remote_servers() as servers, fresh_bed(root, [ROOT / "jobs" / f"{JOB}.py"]) as bed:
        stage = Stage(bed, servers)
        stage.deploy()
        yield stage


def main() -> int:
    """Run the seeds that are missing in the results; return 1 when one found damage."""
    parser = argparse.ArgumentParser(prog="chaos.executor_blows", description="Executors killed and frozen.")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--root", type=Path, default=ROOT / "build/executor-blows")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    chosen = parser.parse_args()
    results = Results(chosen.results)
    missing = [seed for seed in range(chosen.seeds) if f"seed:{seed}" not in results.cases]
    if missing:
        with _stage(chosen.root) as stage:
            for seed in missing:
                results.add_case(stage.play(seed))
    return results.conclude(_BLOWS)


if __name__ == "__main__":
    raise SystemExit(main())
