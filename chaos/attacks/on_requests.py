"""Attacks by the request itself: outputs that differ, confs, misspelt keys, a reused run id, and a wrong clock."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.airflow_runs import MortalAirflow
from chaos.attacks.attack import DEADLINES, Attack
from chaos.cases import JOB
from harness.forms import DAG
from harness.outputs import read_totals
from harness.places import Places
from harness.rest import AirflowApi
from harness.system import System
from streamkeeper.model.protocol.liveness import Life

DAY_S = 24 * 3600
KEEP = "last=3,hourly=4,daily=3"
CONFS = {
    "spark.master": "spark://10.0.0.7:7077",
    "spark.submit.deployMode": "cluster",
    "spark.remote": "sc://10.0.0.7",
    "spark.sql.streaming.checkpointFileManagerClass": "com.example.FileManager",
    "spark.sql.streaming.stateStore.providerClass": "com.example.StateStoreProvider",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.streaming.checkpointLocation": "/elsewhere",
}
IN_CODE = ("spark.sql.streaming.stateStore.checkpointFormatVersion", "1")
MISSPELT = {"dryrun": True, "dry-run": True, "parms": {}, "accept_risks": True, "approvs_s": 5, "most_differring": 1.0}
UNATTENDED = ("--most-differing", "1", "--most-missing", "1", "--accept-risk")
"""Options that were once the default; the negative control requests them."""
DIFFERENT: tuple[tuple[dict[str, object], tuple[str, ...]], ...] = (
    ({"skip": "-000"}, ()),
    ({"bias": 1}, ()),
    ({"skip": "-001", "bias": 2}, ()),
    ({"bias": 3}, ("--no-compare",)),
)
AGAIN = "attack-1"
_RUN_S = 300.0


def differing_rebuild(at: Attack, chance: random.Random) -> None:
    """Rebuild with a different output: rows are left out, or opaque code computes other amounts. The rebuild must not
    be approved by itself.
    """
    how, compare = at.way(*DIFFERENT)
    with at.ended():
        at.serve(code=1)
        serving, before = at.state().serving_instance, read_totals(at.output / "warehouse.db", "totals")
        at.did.append(f"a rebuild with {how} {' '.join(compare)}".strip())
        if at.off:
            at.must(at.ask(*UNATTENDED, code=2, shape=1, **how))
            return
        answer = at.ask(*compare, code=2, shape=1, **how)
        at.refused("rebuild", answer, "not approved", "r0001 stays as it was")
        words = (
            ["Why an answer is needed"]
            if compare
            else ["Why an answer is needed", "the current output compared", "differ"]
        )
        at.damage += [f"{word!r} is not in the question" for word in words if word not in answer.stdout]
        if at.bed.installation.runner.observe(JOB, serving).life is not Life.ALIVE:
            at.damage.append(f"{serving} was ended")
        if read_totals(at.output / "warehouse.db", "totals") != before:
            at.damage.append("the table that serves is another one")
        at.more()


def confs(at: Attack, chance: random.Random) -> None:
    """Set confs that would hide executors, files or state from Streamkeeper, in a release and in a job's own code: each
    must be refused.
    """
    with at.ended():
        at.serve()
        serving = at.state().serving_instance
        for key in chance.sample(sorted(CONFS), 3):
            at.did.append(f"{key}={CONFS[key]}")
            answer = at.ask("--conf", f"{key}={CONFS[key]}")
            at.refused("conf", answer, f"conf {key}{'=' if key == 'spark.master' else ' '}", "cannot be set")
        key, value = IN_CODE
        at.did.append(f"{key}={value} in code")
        at.refused("code", at.ask(sets=f"{key}={value}"), f"the job's code sets {key}")
        if (
            at.state().serving_instance != serving
            or at.bed.installation.runner.observe(JOB, serving).life is not Life.ALIVE
        ):
            at.damage.append(f"{serving} does not serve any more")


def used_again(at: Attack, chance: random.Random) -> None:
    """Trigger through Airflow a reused run id with a different request, and requests with unknown keys: each run must
    fail.
    """
    with at.ended(), _airflow(at) as api:
        at.serve()
        first = {"job": JOB, "reason": "attack", "params": at.params(), "conf": {}, **DEADLINES, "standby_s": 300}
        done = _run(at, api, AGAIN, first)
        if done != "success":
            at.damage.append(f"the first run: {done}")
        api.delete_run(DAG, AGAIN)
        before = len(at.state().operations)
        at.did.append("a run id again, with another request")
        _fails(at, api, AGAIN, {**first, "params": at.params(), "dry_run": True}, "another request")
        for key in chance.sample(sorted(MISSPELT), 2):
            at.did.append(f"the key {key}")
            _fails(
                at, api, f"attack-{key}", {**first, "params": at.params(), key: MISSPELT[key]}, f"'{key}'", "perhaps"
            )
        if len(at.state().operations) != before:
            at.damage.append(f"{len(at.state().operations) - before} operations were begun")


def wrong_clock(at: Attack, chance: random.Random) -> None:
    """Take and prune snapshots on machines whose clocks are days off: the newest three snapshots must be kept."""
    series = f"{JOB}/copies"
    with at.ended():
        at.serve()
        for _ in range(9):
            at.more(0.7)
            off_s = chance.choice((0, 0, 0, -2 * DAY_S, 3 * DAY_S, -40 * DAY_S))
            at.must(_at_clock(at, off_s, "snapshot", "take", series))
        numbers = _numbers(at, series)
        off_s = at.way(-2 * DAY_S, 2 * DAY_S, -400 * DAY_S, 400 * DAY_S)
        at.did.append(
            f"{len(numbers)} snapshots under clocks of many days, pruned under one {off_s // DAY_S:+} days off"
        )
        usual = at.must(_at_clock(at, 0, "prune", series, "--keep", KEEP, "--dry-run")).stdout
        shifted = at.must(_at_clock(at, off_s, "prune", series, "--keep", KEEP, "--dry-run")).stdout
        if usual != shifted:
            at.damage.append(f"another clock, another list: {shifted.strip()[:300]}")
        at.told.append(at.must(_at_clock(at, off_s, "prune", series, "--keep", KEEP)).stdout.strip()[-300:])
        if gone := set(numbers[-3:]) - set(_numbers(at, series)):
            at.damage.append(f"of the newest three {', '.join(sorted(gone))} are gone")
        at.must(at.run("snapshot", "verify", series))


@contextmanager
def _airflow(at: Attack) -> Iterator[AirflowApi]:
    """Provide an Airflow of the installation, which is killed when the context ends."""
    system = System(Places(at.bed.root), lambda line: None)
    for each in ("BACKUP", "DRILL", "PRUNE", "WATCH"):
        system.environment[f"STREAMKEEPER_{each}_SCHEDULE"] = "never"
    airflow = MortalAirflow(system)
    try:
        airflow.start()
        yield airflow.api
    finally:
        airflow.kill("airflow")


def _run(at: Attack, api: AirflowApi, run_id: str, form: dict[str, object]) -> str:
    at.bed.start_producer(rows=5, every_s=0.5, seed=7)
    api.trigger(DAG, form, run_id=run_id)
    ended = api.wait_for_run(DAG, run_id, timeout_s=_RUN_S)
    at.bed.stop_producer()
    return ended


def _fails(at: Attack, api: AirflowApi, run_id: str, form: dict[str, object], *words: str) -> None:
    """Require that the run fails in its first task, with these words in one line of its log."""
    ended = _run(at, api, run_id, form)
    log = api.task_log(DAG, run_id, "bundle")
    said = [line for line in log.splitlines() if all(word in line for word in words)]
    at.told.append(f"{run_id} {ended}: {said[-1][-300:] if said else ''}")
    if ended != "failed" or not said:
        at.damage.append(f"{run_id}: {ended}, and {words} stand in no line of its log")


def _at_clock(at: Attack, off_s: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a clock that is this many seconds off."""
    script = Path(__file__).with_name("shifted.py")
    command = [sys.executable, str(script), str(off_s), at.off, *arguments]
    return subprocess.run(command, env=at.bed.environment, capture_output=True, text=True, timeout=300, check=False)


def _numbers(at: Attack, series: str) -> list[str]:
    lines = at.must(at.run("snapshot", "list", series, "--json")).stdout.splitlines()
    return [json.loads(line)["snapshot"] for line in lines]
