"""``python -m chaos``: run every named point once, then random cases by seed; resumable, one JSON line per case.

--root DIR        where the installation is created (build/campaign)
--results FILE    where the lines are written; cases already in the file are not run again
--switching       switches, backups and rollbacks instead of plain deploys; lines in bench/results/switch-crash.jsonl
--recovering      stops, starts, watches and recoveries of a broken job; lines in bench/results/recover-crash.jsonl
--broker          switches of a job on Kafka whose broker dies and comes back; lines in bench/results/broker-crash.jsonl
--airflow         switches by a real Airflow whose own processes die; lines in bench/results/airflow-crash.jsonl
--attacks         damage without a kill: lost checkpoints, copied homes, wrong clocks and others; lines in
                  bench/results/attacks.jsonl
--drills          faults made on purpose, which the watch must name and recover must mend; lines in
                  bench/results/drills.jsonl
--housekeeping    prunes, aborts, forgotten jobs, rebuilds, restores and notices, without Spark; lines in
                  bench/results/housekeeping.jsonl; cases that were run for the present code are not run again
--points a,b      run only these points, cases of --broker or --airflow, or frozen/… cases of --switching;
                  --seeds N: number of random cases after them (60; with --attacks 4 of each kind)
--scenarios a,b   with --switching: run only these scenarios; --everywhere: each point in each of them that reaches it;
                  --from-seed K: the first seed; --no-points: run only the seeds;
                  --drawn a,b: scenarios that the seeds take in turn, including back-cutover and back-probation
--on-s3           with --switching: checkpoints in a bucket, behind a proxy at which one request in twenty fails and
                  one answer to a write in twenty is lost; lines in bench/results/switch-crash-s3.jsonl
--into-delta      with --switching: totals and copies in Delta tables; lines in bench/results/switch-crash-delta.jsonl
--append-tables   with --switching: copies in a table without a key; lines in bench/results/switch-crash-append.jsonl
--on-hdfs         with --switching: checkpoints in HDFS, tables in PostgreSQL, and tasks on the executors of a cluster,
                  which are killed and frozen too; lines in bench/results/switch-crash-hdfs.jsonl
--on-yarn         with --switching: checkpoints in HDFS, tables in PostgreSQL, and drivers in YARN containers whose
                  processes the commands cannot see; NodeManagers and application masters are killed and frozen too;
                  lines in bench/results/switch-crash-yarn.jsonl
--on-kubernetes   with --switching: checkpoints on S3, tables in PostgreSQL, and drivers in Kubernetes pods whose
                  processes the commands cannot see; the kubelet and the container shims are killed and frozen too;
                  lines in bench/results/switch-crash-kubernetes.jsonl
--controls        run the negative controls instead: with a protection switched off they must find damage, else exit 1
                  with --attacks: for each kind, seeds are tried until one does harm
                  with --drills: for each kind, the rules that name it are off; its cause must be missed
--only a,b        run only these controls, or these kinds of attacks or drills
--first           run only one case: of the seeds, without the named points, or of the controls; its line is written to
                  build/first/, in a file of its own unless --results names another
"""

from __future__ import annotations

import argparse
from pathlib import Path

from chaos.airflow_runs import NAMED, run_airflow
from chaos.append_tables import AppendTableStage
from chaos.attack_runs import run_attacks
from chaos.attacks.kinds import KINDS
from chaos.broker_runs import GROUPS, run_broker
from chaos.cases import Stage, is_of_a_broken_release, is_of_a_first_deploy
from chaos.controls import CONTROLS, ON_S3, PROTECTED, run_control
from chaos.drill_runs import run_drills
from chaos.drills.kinds import KINDS as DRILLS
from chaos.housekeeping_runs import run_housekeeping
from chaos.into_delta import DeltaStage
from chaos.on_hdfs import in_hdfs
from chaos.on_kubernetes import on_kubernetes
from chaos.on_s3 import in_a_bucket
from chaos.on_yarn import on_yarn
from chaos.recovering import RecoverStage
from chaos.results import FirstResult, Results
from chaos.scenarios import RECOVERIES, SCENARIOS, of_a_driver
from chaos.switch_runs import FROZEN, in_directories, run_switching
from chaos.switching import SwitchStage
from harness.bed import fresh_bed
from harness.places import ROOT

USUAL = {
    "deploys": "build/campaign.jsonl",
    "switching": "bench/results/switch-crash.jsonl",
    "switching-on-s3": "bench/results/switch-crash-s3.jsonl",
    "switching-into-delta": "bench/results/switch-crash-delta.jsonl",
    "switching-append-tables": "bench/results/switch-crash-append.jsonl",
    "switching-on-hdfs": "bench/results/switch-crash-hdfs.jsonl",
    "switching-on-yarn": "bench/results/switch-crash-yarn.jsonl",
    "switching-on-kubernetes": "bench/results/switch-crash-kubernetes.jsonl",
    "recovering": "bench/results/recover-crash.jsonl",
    "broker": "bench/results/broker-crash.jsonl",
    "airflow": "bench/results/airflow-crash.jsonl",
    "attacks": "bench/results/attacks.jsonl",
    "drills": "bench/results/drills.jsonl",
    "housekeeping": "bench/results/housekeeping.jsonl",
}
"""The default results file of each kind of campaign."""
PLACES = {
    "": in_directories(SwitchStage),
    "on-s3": in_a_bucket,
    "into-delta": in_directories(DeltaStage),
    "append-tables": in_directories(AppendTableStage),
    "on-hdfs": in_hdfs,
    "on-yarn": on_yarn,
    "on-kubernetes": on_kubernetes,
}
"""Maps an option to the function that opens a stage with its checkpoints in that place."""
SEEDS = {"attacks": 4, "drills": 1}


def main() -> int:
    """Run the campaign; return 1 when a case found damage, or a negative control found none."""
    chosen = _arguments()
    file = ROOT / USUAL["-".join(filter(None, (chosen.kind, chosen.place)))]
    if chosen.first:
        file = ROOT / "build/first" / f"{file.stem}{'-controls' if chosen.controls else ''}.jsonl"
        file.unlink(missing_ok=True)
    of = "code" if chosen.kind == "housekeeping" else "commit"
    try:
        return _run(chosen, Results(chosen.results or file, of=of, first=chosen.first))
    except FirstResult as result:
        return result.code


def _run(chosen: argparse.Namespace, results: Results) -> int:
    points = chosen.points.split(",") if chosen.points else []
    if chosen.kind == "housekeeping":
        return run_housekeeping(chosen.root, results, points=points, controls=chosen.controls)
    usual = SEEDS.get(chosen.kind, 60)
    seeds = range(chosen.from_seed, chosen.from_seed + (usual if chosen.seeds is None else chosen.seeds))
    if chosen.kind == "attacks":
        kinds = [each for each in chosen.only.split(",") if each in KINDS]
        return run_attacks(chosen.root, results, kinds=kinds, seeds=seeds, controls=chosen.controls)
    if chosen.kind == "drills":
        wanted = [each for each in chosen.only.split(",") if each in DRILLS]
        return run_drills(chosen.root, results, kinds=wanted, seeds=seeds, controls=chosen.controls)
    if chosen.controls:
        return _run_controls(chosen, results)
    if chosen.kind == "broker":
        groups = [] if chosen.no_points else points or list(GROUPS)
        return run_broker(chosen.root, results, groups=groups, seeds=seeds)
    if chosen.kind == "airflow":
        named = [] if chosen.no_points else [case for case in NAMED if not points or case in points]
        return run_airflow(chosen.root, results, named=named, seeds=seeds)
    if chosen.kind == "recovering":
        named = [each for each in chosen.scenarios.split(",") if each in RECOVERIES] or list(RECOVERIES)
        scenarios = [] if chosen.no_points else named
        asked = {"points": points, "seeds": seeds, "everywhere": chosen.everywhere}
        opened = in_directories(RecoverStage)
        return run_switching(chosen.root, results, scenarios, opened=opened, freezes=(), **asked)
    if chosen.kind == "switching":
        return _run_switches(chosen, results, points, seeds)
    return _run_deploys(chosen.root, results, points, seeds, no_points=chosen.no_points)


def _run_switches(chosen: argparse.Namespace, results: Results, points: list[str], seeds: range) -> int:
    scenarios = [] if chosen.no_points else chosen.scenarios.split(",")
    return run_switching(
        chosen.root,
        results,
        scenarios,
        points=points,
        seeds=seeds,
        everywhere=chosen.everywhere,
        opened=PLACES[chosen.place],
        freezes=() if chosen.no_points else FROZEN,
        drawn=[each for each in chosen.drawn.split(",") if each],
    )


def _run_deploys(root: Path, results: Results, points: list[str], seeds: range, *, no_points: bool) -> int:
    def play(stage: Stage, plans: list[str]) -> None:
        for plan in plans:
            if plan not in results.cases:
                results.add_case(stage.play(plan))

    jobs = [ROOT / "chaos/jobs/ledgers.py"]
    with fresh_bed(root, jobs) as bed:
        stage = Stage(bed)
        points = [] if no_points else points or stage.discover()
        later = [name for name in points if not is_of_a_first_deploy(name)]
        play(stage, [f"points:{'+'.join(group)}" for group in group_points(later)])
        # What one death kept another from being reached is tried again alone.
        play(stage, [f"points:{name}" for name in later if name not in results.hit])
        play(stage, [f"seed:{seed}" for seed in seeds])
    for name in filter(is_of_a_first_deploy, points):
        if f"first:{name}" not in results.cases:
            with fresh_bed(root.with_name(f"{root.name}-first"), jobs) as bed:
                play(Stage(bed), [f"first:{name}"])
    return results.conclude(points)


def group_points(points: list[str]) -> list[list[str]]:
    """Group the points at which one deploy dies: many of the operation's own, but few of a driver's, because its
    restarts are limited.
    """
    falling = [name for name in points if is_of_a_broken_release(name)]
    driver = [name for name in points if of_a_driver(name) and name not in falling]
    rest = [name for name in points if name not in falling and name not in driver]
    batches = [(rest, 12), (driver, 3), (falling, 6)]
    return [names[start : start + size] for names, size in batches for start in range(0, len(names), size)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description="Kill deploys and look at the ledger.")
    parser.add_argument("--root", type=Path, default=ROOT / "build/campaign")
    parser.add_argument("--results", type=Path, default=None)
    kinds = parser.add_mutually_exclusive_group()
    for kind in ("switching", "recovering", "broker", "airflow", "attacks", "drills", "housekeeping"):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="deploys")
    parser.add_argument("--points", default="")
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument("--drawn", default="")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--everywhere", action="store_true")
    parser.add_argument("--no-points", action="store_true")
    places = parser.add_mutually_exclusive_group()
    for place in filter(None, PLACES):
        places.add_argument(f"--{place}", dest="place", action="store_const", const=place, default="")
    parser.add_argument("--controls", action="store_true")
    parser.add_argument("--only", default=",".join([*CONTROLS, *ON_S3]))
    parser.add_argument("--first", action="store_true")
    chosen = parser.parse_args()
    chosen.no_points |= chosen.first
    if chosen.place and chosen.kind != "switching":
        parser.error(f"--{chosen.place} goes with --switching")
    return chosen


def _run_controls(chosen: argparse.Namespace, results: Results) -> int:
    wrong = 0
    only = chosen.only.split(",")
    runs = [*((name, False) for name in (*CONTROLS, *ON_S3)), *((name, True) for name in (*PROTECTED, *ON_S3))]
    for name, protected in [each for each in runs if each[0] in only]:
        found = run_control(name, chosen.root, protected=protected)
        wrong += bool(found) is protected
        print(f"{name} {'on' if protected else 'off'}: {found or 'no damage'}", flush=True)
        results.add({"control": name, "switched_off": not protected, "found": found})
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
