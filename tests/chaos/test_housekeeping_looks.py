"""Each check of the housekeeping campaign finds the damage that it is for."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from chaos.failpoints import named_points
from chaos.housekeeping.house import JOB, QUERY, SERIES, build_house
from chaos.housekeeping.looks import find_differences, find_missing, read_final_state
from chaos.housekeeping_runs import ALL_POINTS, CONTROLS, times
from harness.places import ROOT
from streamkeeper.model.records.journal_records import JobForgotten
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.local import LocalStore


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation in the state in which every case begins."""
    for name in [name for name in os.environ if name.startswith("STREAMKEEPER_")]:
        monkeypatch.delenv(name)
    site = tmp_path / "site"
    for name in ("home", "jobs"):
        (site / name).mkdir(parents=True)
        monkeypatch.setenv(f"STREAMKEEPER_{name.upper()}", str(site / name))
    build_house()
    return site


def _drop(*patterns: str) -> Callable[[Path], None]:
    """Delete the newest file of each pattern."""

    def drop(site: Path) -> None:
        for pattern in patterns:
            max(site.glob(pattern)).unlink()

    return drop


VERSIONS = f"home/checkpoints/{JOB}/{QUERY}"


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (_drop(*[f"{VERSIONS}/v0001/state/0/1/{kind}" for kind in ("*.snapshot", "*.delta")]), "state-file-missing"),
        (_drop(f"{VERSIONS}/v0002/offsets/7"), f"{VERSIONS}/v0002"),
        (_drop(*[f"{VERSIONS}/v0001/commits/[0-9]*"] * 8), f"{VERSIONS}/v0001 has metadata and no committed batch"),
        (_drop(f"{VERSIONS}/v0002/metadata"), f"the current checkpoint v0002 of {SERIES} is gone"),
        (_drop(f"home/store/snapshots/{SERIES}/packs/*"), f"of {SERIES}"),
    ],
    ids=["state", "plan", "commits", "current", "pack"],
)
def test_a_deleted_needed_file_is_reported_as_missing(site: Path, harm: Callable[[Path], None], told: str) -> None:
    """A needed file that was deleted is reported as missing, whoever deleted it; negative control: before that, nothing
    is reported.
    """
    assert find_missing(site) == []
    harm(site)
    assert told in "; ".join(find_missing(site))


def _forget(site: Path) -> None:
    journal = Journal(LocalStore(site / "home/store"), JOB, writer="test")
    journal.append(lambda _: JobForgotten(requested_by="somebody", reason=""))


def _turn_table(site: Path) -> None:
    with closing(sqlite3.connect(site / "warehouse.db")) as database, database:
        database.execute("UPDATE streamkeeper_outputs SET epoch = 9")


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (_drop(f"{VERSIONS}/v0001/sources/0/[0-9]*"), "is gone"),
        (lambda site: (site / VERSIONS / "v0001" / "removing").write_text("x"), "removing is left"),
        (_forget, f"journal of {JOB} differs"),
        (_turn_table, "table differs"),
        (lambda site: (site / "home" / "home.json").write_text("{}"), "home.json differs"),
        (_drop("home/store/control/*/*/status.json"), "status.json is gone"),
    ],
    ids=["file", "marker", "journal", "table", "record", "driver"],
)
def test_a_final_state_that_differs_from_an_undisturbed_run_is_reported(
    site: Path, harm: Callable[[Path], None], told: str
) -> None:
    """A final state that differs from the one of an undisturbed run is reported; negative control: a copy with other
    file times does not differ.
    """
    expected = read_final_state(site)
    copy = site.with_name("copy")
    shutil.copytree(site, copy, copy_function=shutil.copyfile)
    assert find_differences(expected, read_final_state(copy)) == []
    harm(site)
    assert told in "; ".join(find_differences(expected, read_final_state(site)))


def test_failpoints_used_by_the_housekeeping_campaign_exist() -> None:
    """All failpoints that the campaign uses exist; at a renamed one nothing would die."""
    assert set(ALL_POINTS) <= named_points()
    assert {case.split(":")[1] for case in CONTROLS.values()} <= set(ALL_POINTS)


def test_the_campaign_page_has_the_figures_of_the_raw_lines() -> None:
    """The campaign page states the number of cases and points of the raw lines, which come from one state of the code,
    have no damage, and whose controls all found some.
    """
    text = (ROOT / "bench/results/housekeeping.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    cases = [line for line in lines if "case" in line]
    points = {point for case in cases for point in case["hits"]}
    told = f"{len(cases)} cases at {len(points)} points, all with the same code: no damage"
    assert told in (ROOT / "docs/internals/campaigns.md").read_text()
    assert (len({line["code"] for line in lines}), [case for case in cases if case["damage"]]) == (1, [])
    assert {line["control"] for line in lines if line.get("found")} == CONTROLS.keys()
    assert not re.search(r"(?<!\w)/(work|home|root|tmp)/", text)


@pytest.mark.parametrize(
    ("count", "found"),
    [
        (0, {"first": 1}),
        (1, {"first": 1}),
        (2, {"first": 1, "last": 2}),
        (3, {"first": 1, "middle": 2, "last": 3}),
        (8, {"first": 1, "middle": 4, "last": 8}),
    ],
)
def test_a_repeatedly_reached_failpoint_is_hit_first_middle_and_last(count: int, found: dict[str, int]) -> None:
    """A failpoint that is reached many times is hit at the first, the middle and the last time, so that kills also
    strike late in a command.
    """
    assert times(count) == found


def test_each_case_of_a_stage_runs_once_and_is_clean(tmp_path: Path) -> None:
    """The whole stage runs with one failpoint: the command is killed, retried and compared without damage; a second run
    of the stage adds no case.
    """
    file = tmp_path / "lines.jsonl"
    words = ["--housekeeping", "--root", str(tmp_path / "root"), "--results", str(file)]
    command = [sys.executable, "-m", "chaos", *words, "--points", "record.job-forgotten.after"]
    for _ in range(2):
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
    lines = [line for line in map(json.loads, file.read_text().splitlines()) if "case" in line]
    assert [(line["case"], line["hits"], line["damage"]) for line in lines] == [
        ("forget:record.job-forgotten.after:first", ["record.job-forgotten.after"], [])
    ]
    assert str(tmp_path) not in file.read_text()
