"""Every campaign and every benchmark still runs: one case of each campaign, and the smallest run of each benchmark."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness.places import ROOT

pytestmark = [
    pytest.mark.storage,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.timeout(900),
]

CAMPAIGNS = re.search(r"CAMPAIGNS := (.*)", (ROOT / "Makefile").read_text())
assert CAMPAIGNS is not None
STAGES = shlex.split(CAMPAIGNS[1])
"""The stages that ``make campaign`` runs one after the other."""

REPORTS = {
    "bench.handover --pairs 1 --keys 10": "handover",
    "bench.switching --switches 1 --keys 10 --pairs 1": "switching",
    "bench.driver --batches 10 --busy 1 --idle-s 5": "driver",
    "bench.check --pairs 1 --batches 3,10": "check",
    "bench.watch --jobs 3": "watch",
    "bench.watch --jobs 3 --s3": "watch-s3",
    "bench.page --jobs 3 --views 2": "page",
    "bench.first_second --rounds 1": "first-second",
    "bench.s3_requests --begin 3 --batches 12 --alone-batches 6": "s3-requests",
    "bench.memory --at 0.5": "memory",
    "bench.checkpoint_races --rounds 2 --controls 1": "checkpoint-races",
    "bench.local_files --batches 3 --rounds 1": "local-files",
}
"""The arguments of a benchmark -> the name of the report that it writes to ``--out``."""

LINES = {
    "conformance.bad_inputs --doors cli --only twice": 1,
    "conformance.fuzz --seeds 2 --pairs 2 --no-kafka --truths {here}/truths --keep {here}/keep": 2,
    "conformance.mutants --count 1": 1,
    "chaos.simulate --count 3": 1,
    "conformance.doors --pairs 2": 2,
}
"""The arguments of a bench -> the least number of lines that it writes to ``--results``."""


def run_bench(words: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words.split(), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("stage", STAGES)
def test_each_campaign_runs_its_first_case(stage: str, tmp_path: Path) -> None:
    """The first case of every campaign stage finishes without damage; a stage whose first case is a control finds the
    damage.
    """
    place = [] if stage == "conformance.matrix" else ["--root", str(tmp_path / "site")]
    run = run_bench(stage, "--first", *place)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


@pytest.mark.parametrize("words", REPORTS)
def test_each_benchmark_writes_its_report(words: str, tmp_path: Path) -> None:
    """Every benchmark writes its report even in a very small run, which may miss its goal and exit with 1."""
    run = run_bench(words, "--out", str(tmp_path))
    assert run.returncode in (0, 1), run.stdout[-3000:] + run.stderr[-3000:]
    assert (tmp_path / f"{REPORTS[words]}.json").exists(), run.stdout[-3000:] + run.stderr[-3000:]


@pytest.mark.parametrize("words", LINES)
def test_each_line_bench_exits_with_0_and_writes_result_lines(words: str, tmp_path: Path) -> None:
    """Every bench that writes result lines exits with 0 and writes at least the expected number of lines."""
    results = tmp_path / "results.jsonl"
    run = run_bench(words.format(here=tmp_path), "--results", str(results))
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert len(results.read_text().splitlines()) >= LINES[words]


def test_one_executor_campaign_seed_strikes_without_losing_rows(tmp_path: Path) -> None:
    """One seed of the executor campaign strikes at least once without losing or duplicating a row; it may exit with 1,
    as it need not strike in every way.
    """
    results = tmp_path / "results.jsonl"
    run = run_bench(f"chaos.executor_blows --seeds 1 --root {tmp_path}/site --results {results}")
    assert run.returncode in (0, 1), run.stdout[-3000:] + run.stderr[-3000:]
    cases = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(case["damage"], bool(case["hits"])) for case in cases] == [([], True)]
