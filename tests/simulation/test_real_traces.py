"""The simulation can produce what real runs did: each event came directly after another one in a schedule too."""

from __future__ import annotations

import json
from functools import cache
from unittest.mock import patch

import pytest

from harness.places import ROOT
from harness.simulation.plan import draw
from harness.simulation.playing import play
from harness.simulation.releases import JOB
from harness.simulation.store import Disk
from harness.simulation.trees import Files
from harness.traces import Created, Follows, events_of, follows

TRACES = ROOT / "bench" / "results" / "real-traces.jsonl"
SEEDS = (2, 9, 66, 75, 107, 121, 129, 152, 275, 402, 541, 690, 733, 776, 1059, 1090, 1623, 1878, 2424, 2490)
"""Seeds whose schedules have together every pair of events of the real runs, without a copy that was put back."""
OF_SEVERAL_QUERIES = {
    ("operation: step-done reach", "operation: checkpoint-version-created"),
    ("operation: step-done ready", "operation: checkpoint-version-created"),
}
"""One query is rebuilt and another one handed off, or resumes; a simulated job has one query."""


@cache
def simulated(seed: int) -> Follows:
    """Which event came directly after which other one in a schedule."""
    created: list[Created] = []
    create, write = Disk.create, Files.create

    def noted_create(disk: Disk, key: str, value: bytes) -> bool:
        made = create(disk, key, value)
        if made:
            created.append(Created(key, value))
        return made

    def noted_write(files: Files, path: str, content: bytes) -> None:
        write(files, path, content)
        created.append(Created(path, b""))

    with patch.object(Disk, "create", noted_create), patch.object(Files, "create", noted_write):
        assert not play(draw(seed)).broken
    return follows(events_of(created, JOB, f"/simulated/checkpoints/{JOB}/"))


@cache
def real() -> dict[str, Follows]:
    """Run -> which event came directly after which other one."""
    lines = map(json.loads, TRACES.read_text().splitlines())
    return {line["run"]: frozenset((before, after) for before, after in line["follows"]) for line in lines}


def test_every_real_run_can_be_simulated() -> None:
    """Fifty operations of campaigns: deploys, switches, kills and recoveries, with their drivers and checkpoints."""
    assert len(real()) >= 50
    possible: set[tuple[str, str]] = {*OF_SEVERAL_QUERIES}
    for seed in SEEDS:
        possible |= simulated(seed)
    missing = {run: sorted(pairs - possible) for run, pairs in real().items() if not pairs <= possible}
    assert not missing


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("version: begin", "version: offsets"),
        ("version: begin", "version: commits"),
        ("instance: exit.json", "instance: epoch-claimed"),
        ("instance: instance-ended", "instance: instance-appointed"),
        ("operation: step-begun drain", "operation: step-done go"),
        ("operation: step-done drain", "operation: step-done go"),
        ("operation: operation-finished succeeded", "operation: step-done go"),
    ],
)
def test_what_the_contracts_forbid_is_not_simulated(before: str, after: str) -> None:
    """No file comes before the record of its version, no claim after the end, and nothing starts without a proof."""
    assert all((before, after) not in simulated(seed) for seed in SEEDS)
    assert all((before, after) not in pairs for pairs in real().values())
