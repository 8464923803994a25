"""Figures in the documentation that add up runs at several commits state that they do, with the numbers of the raw
results.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from typing import Any

import pytest

from harness.places import ROOT

WORDS = {2: "two", 3: "three", 6: "six", 7: "seven", 8: "eight", 9: "nine"}
DOCS = ("docs/internals/campaigns.md", "docs/internals/guarantees.md")
SEEDS_OF_SWITCHES = ("1370976", "4cf6b7d", "5bed051", "3576e73", "116bf0c", "352d197")


@cache
def lines_of(name: str) -> list[dict[str, Any]]:
    """Return the lines of a file of raw results."""
    return [json.loads(line) for line in (ROOT / f"bench/results/{name}.jsonl").read_text().splitlines()]


def runs_of(file: str, case: str, commits: tuple[str, ...] = ()) -> Counter[str]:
    """Return how many cases of a kind were run at each commit, limited to ``commits`` if given."""
    runs = [each["commit"] for each in lines_of(file) if re.match(case, each.get("case", ""))]
    return Counter(each for each in runs if not commits or each in commits)


@pytest.mark.parametrize(
    ("file", "case", "commits", "told"),
    [
        ("deploy-crash", "points:|first:", (), "{runs} cases at {commits} commits"),
        ("deploy-crash", "seed:", (), "{runs} seeds"),
        ("switch-crash", ".*/points:", (), "{runs} cases at {commits} commits"),
        ("switch-crash", "seed:", SEEDS_OF_SWITCHES, "{runs} runs"),
        ("switch-crash", "frozen/", (), "at {commits} commits"),
        ("broker-crash", "broker/", (), "at {commits} commits"),
        ("airflow-crash", "seed:", (), "{runs} seeds"),
        ("switch-crash-s3", "seed:", (), "{runs} seeds"),
        ("switch-crash-kubernetes", ".*seed:", (), "{runs} runs at {commits} commits"),
        ("attacks", ".", (), "at {commits} commits"),
    ],
)
def test_a_figure_over_several_commits_is_documented_as_a_union(
    file: str, case: str, commits: tuple[str, ...], told: str
) -> None:
    """A figure that adds up runs at several commits is described in the documentation as a union, with the numbers of
    runs and commits in the raw results.
    """
    runs = runs_of(file, case, commits)
    assert len(runs) > 1, "these are runs at one commit"
    wanted = told.format(runs=runs.total(), commits=WORDS[len(runs)])
    for page in DOCS:
        lines = [each for each in (ROOT / page).read_text().splitlines() if "union" in each]
        assert any(wanted in each for each in lines), f"{page} tells nowhere of {wanted}"


def test_each_commit_of_a_union_is_documented_with_its_number_of_seeds() -> None:
    """The documentation names each commit of a union of seeds with its number of seeds."""
    for file in ("deploy-crash", "airflow-crash", "switch-crash-s3"):
        parts = ", ".join(f"{count} at {commit}" for commit, count in runs_of(file, "seed:").most_common())
        for page in DOCS:
            assert parts in (ROOT / page).read_text(), f"{page}: {file}"
