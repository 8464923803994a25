"""``python -m bench.handover``: measure the gap in the output while a release is replaced, against the plain way.

Two sides read the same input, each with its own checkpoint and table: ``warm`` is a Streamkeeper deploy; ``plain``
stops the driver with SIGTERM, waits until it has ended and submits the new one with spark-submit. In each of
``--pairs`` pairs one side is frozen while the other changes its release, in alternating order. The gap is the time from
the last commit of the old driver to the first commit of the new one, by the mtimes of the commit files.

``--elsewhere``: both sides have their checkpoint in HDFS and their table in PostgreSQL, and their tasks run on a
standalone cluster. ``--on-yarn``: the same with the drivers of both in YARN containers; ``plain`` kills its
application, waits until it has ended and submits the next one in cluster mode. ``--on-kubernetes``: both sides have
their checkpoint on S3, their table in PostgreSQL and their driver in a pod; ``plain`` deletes its pod, waits until it
has ended and submits the next one in cluster mode. ``--on-kubernetes-by-hand``: ``plain`` creates the next pod itself,
and all tasks run in that pod.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench.cluster_sides import PodPlainSide, SubmittedPodSide, YarnPlainSide
from bench.report import write_report
from bench.sides import TRIGGER, PlainSide, Side, deploy, fill, gap_around, replace_alone
from harness.bed import Bed, fresh_bed
from harness.places import ROOT
from harness.postgres_server import new_database
from harness.remote_servers import YARN, hdfs_and_database, hdfs_servers, pod_servers
from harness.variables import set_variables
from harness.yarn_server import yarn_server
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.model.runner_kinds.kubernetes_kind import KUBERNETES

JOB = "sales_totals"
JOBS = [ROOT / "jobs/sales_totals.py"]
SIDES = ("warm", "plain")


class WarmSide:
    """The side that Streamkeeper deploys: releases of ``sales_totals`` that differ in one param."""

    def __init__(self, bed: Bed, params: Callable[[int], dict[str, Any]]) -> None:
        self.bed = bed
        self.commits = tree_at(f"{bed.checkpoints or bed.home / 'checkpoints'}/{JOB}/totals/v0001/commits")
        self._params = params
        self._release = 0

    def replace(self) -> None:
        """Deploy the next release."""
        self._release += 1
        room = ("--conf", "spark.executor.memory=512m") if self.bed.master else ()
        room = ("--conf", "spark.driver.memory=512m") if self.bed.drivers else room
        deploy(self.bed, JOB, self._params(self._release), *room)

    def processes(self) -> list[psutil.Process]:
        """Return the processes of its drivers."""
        return list(self.bed.processes())

    def gap(self) -> float:
        """Return the gap around the end of the previous driver, whose time is that of its supervisor's exit record."""
        job = self.bed.home / "store" / "control" / JOB
        ended = max(file.stat().st_mtime for file in job.glob("*/exit.json"))
        return gap_around(ended, self.commits)


def _params(bed: Bed, database: str, release: int) -> dict[str, Any]:
    return {
        "input": str(bed.input / "sales"),
        "warehouse": database.replace("postgresql://", "postgresql+psycopg://"),
        "trigger": TRIGGER,
        "files_per_trigger": 100 + release,
    }


def main() -> int:
    """Measure with each number of keys, print and write the report; return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="bench.handover", description="Warm handover against stop-and-submit.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--keys", default="10,1000000")
    parser.add_argument("--goal", type=float, default=0.125)
    places = parser.add_mutually_exclusive_group()
    for place in _PLACES:
        places.add_argument(f"--{place}", dest="place", action="store_const", const=place, default="")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    measure = _PLACES[chosen.place] if chosen.place else _measure_here
    figures = {}
    for keys in (int(each) for each in chosen.keys.split(",")):
        figures[str(keys)] = measure(ROOT / f"build/bench/handover-{keys}", keys, chosen.pairs)
        print(keys, json.dumps(figures[str(keys)]), flush=True)
    file = write_report(
        "-".join(filter(None, ("handover", chosen.place))), {"goal": chosen.goal, "keys": figures}, into=chosen.out
    )
    print(f"written to {file}")
    return 0 if all(each["ratio"] <= chosen.goal for each in figures.values()) else 1


def _measure_here(root: Path, keys: int, pairs: int) -> dict[str, Any]:
    with fresh_bed(root, JOBS) as bed:
        databases = {side: f"sqlite:///{bed.root}/{side}.db" for side in SIDES}
        plain = PlainSide(bed, JOB, partial(_params, bed, databases["plain"]))
        return _measure(WarmSide(bed, partial(_params, bed, databases["warm"])), plain, keys, pairs)


def _measure_elsewhere(root: Path, keys: int, pairs: int) -> dict[str, Any]:
    # Room for both sides and a standby.
    with (
        hdfs_servers(workers=3) as servers,
        set_variables(servers.environment),
        fresh_bed(root, JOBS, f"{servers.hdfs.url}/checkpoints", servers.cluster.master) as bed,
    ):
        databases = {side: new_database(servers.database, side) for side in SIDES}
        plain = PlainSide(bed, JOB, partial(_params, bed, databases["plain"]), f"{servers.hdfs.url}/plain")
        return _measure(WarmSide(bed, partial(_params, bed, databases["warm"])), plain, keys, pairs)


def _measure_on_yarn(root: Path, keys: int, pairs: int) -> dict[str, Any]:
    local = {"SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        hdfs_and_database() as (hdfs, database),
        fresh_bed(root, JOBS, f"{hdfs.url}/checkpoints", drivers=YARN) as bed,
        yarn_server(bed.root / "yarn", local, beside=hdfs.conf) as yarn,
        set_variables({**yarn.environment, **local}),
    ):
        databases = {side: new_database(database, side) for side in SIDES}
        plain = YarnPlainSide(bed, JOB, partial(_params, bed, databases["plain"]), f"{hdfs.url}/plain", yarn)
        return _measure(WarmSide(bed, partial(_params, bed, databases["warm"])), plain, keys, pairs)


def _measure_on_kubernetes(
    root: Path, keys: int, pairs: int, plain_side: type[PodPlainSide] = SubmittedPodSide
) -> dict[str, Any]:
    shared = root.absolute()
    with (
        pod_servers(shared) as servers,
        set_variables(servers.environment),
        fresh_bed(root, JOBS, servers.checkpoints, drivers=KUBERNETES, pod_template=str(servers.template)) as bed,
    ):
        databases = {side: new_database(servers.database, side) for side in SIDES}
        there = servers.checkpoints.replace("/checkpoints", "/plain")
        plain = plain_side(bed, JOB, partial(_params, bed, databases["plain"]), there, servers)
        return _measure(WarmSide(bed, partial(_params, bed, databases["warm"])), plain, keys, pairs)


_PLACES: dict[str, Callable[[Path, int, int], dict[str, Any]]] = {
    "elsewhere": _measure_elsewhere,
    "on-yarn": _measure_on_yarn,
    "on-kubernetes": _measure_on_kubernetes,
    "on-kubernetes-by-hand": partial(_measure_on_kubernetes, plain_side=PodPlainSide),
}
"""Maps an option to the measurement that it selects; without an option both sides run on this machine."""


def _measure(warm: WarmSide, plain: PlainSide, keys: int, pairs: int) -> dict[str, Any]:
    bed = warm.bed
    fill(bed, keys)
    gaps: dict[str, list[float]] = {"warm": [], "plain": []}
    try:
        sides: list[tuple[str, Side]] = [("warm", warm), ("plain", plain)]
        for _, side in sides:
            side.replace()
        bed.start_producer(rows=10, every_s=0.2, customers=min(keys, 1000))
        for number in range(pairs):
            for name, side in sides if number % 2 == 0 else reversed(sides):
                other: Side = plain if side is warm else warm
                gaps[name].append(replace_alone(side, other))
                print(f"  {keys} keys, pair {number + 1}: {name} {gaps[name][-1]:.2f} s", flush=True)
    finally:
        plain.close()
    medians = {name: statistics.median(each) for name, each in gaps.items()}
    return {**gaps, "median": medians, "ratio": round(medians["warm"] / medians["plain"], 4)}


if __name__ == "__main__":
    raise SystemExit(main())
