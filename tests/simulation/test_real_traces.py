"""Tests that the simulation can produce what real runs did: each pair of successive events in a real trace also occurs
in a schedule.
"""

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
"""Seeds whose schedules together contain every pair of successive events of the real runs, except those with a restored
copy.
"""
OF_SEVERAL_QUERIES = {
    ("operation: step-done reach", "operation: checkpoint-version-created"),
    ("operation: step-done ready", "operation: checkpoint-version-created"),
}
"""Pairs that need two queries, of which one is rebuilt and the other handed off or resumed; a simulated job has one
query.
"""


@cache
def simulated(seed: int) -> Follows:
    """Return the pairs of events that directly follow each other in the schedule of a seed."""
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
    """Return, by run, the pairs of events that directly follow each other in the real traces."""
    lines = map(json.loads, TRACES.read_text().splitlines())
    return {line["run"]: frozenset((before, after) for before, after in line["follows"]) for line in lines}


def test_every_pair_of_successive_events_of_real_runs_occurs_in_the_simulation() -> None:
    """Every pair of successive events in at least 50 real operations (deploys, switches, kills and recoveries, with
    their drivers and checkpoints) also occurs in the simulation.
    """
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
def test_forbidden_event_sequences_occur_in_neither_schedules_nor_real_runs(before: str, after: str) -> None:
    """Neither schedules nor real runs contain forbidden sequences: a file before the record of its version, a claim
    after the exit, or a start without proof that the predecessor has stopped.
    """
    assert all((before, after) not in simulated(seed) for seed in SEEDS)
    assert all((before, after) not in pairs for pairs in real().values())
