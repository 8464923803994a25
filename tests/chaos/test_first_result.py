"""``--first`` stops a campaign after its first result, whose exit code becomes the campaign's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.cases import CaseResult
from chaos.results import FirstResult, Results


def a_case(*damage: str) -> CaseResult:
    return CaseResult(case="seed:0", hits=[], outcomes=[], tries=1, replays=0, damage=list(damage), wall_s=1.0)


@pytest.mark.parametrize(("damage", "code"), [((), 0), (("a row is lost",), 1)])
def test_the_first_case_stops_the_campaign(damage: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """The first case stops the campaign, with exit code 0 if it is clean and 1 if damaged, after its line was
    written.
    """
    file = tmp_path / "results.jsonl"
    results = Results(file, first=True)
    results.add_trace("resume", ["a.point"])
    with pytest.raises(FirstResult) as ended:
        results.add_case(a_case(*damage))
    assert ended.value.code == code
    assert [json.loads(line).get("damage") for line in file.read_text().splitlines()] == [None, list(damage)]


@pytest.mark.parametrize(("found", "code"), [(["a row is lost"], 0), ([], 1), ("", 1)])
def test_the_first_control_stops_the_campaign(found: Any, code: int, tmp_path: Path) -> None:
    """The first control stops the campaign and exits with 0 only if it found damage."""
    with pytest.raises(FirstResult) as ended:
        Results(tmp_path / "results.jsonl", first=True).add({"control": "gate", "found": found})
    assert ended.value.code == code


def test_without_the_first_option_a_campaign_continues(tmp_path: Path) -> None:
    """Negative control: without ``--first`` a campaign continues after a damaged case and a failed control."""
    results = Results(tmp_path / "results.jsonl")
    results.add_case(a_case("a row is lost"))
    results.add({"control": "gate", "found": []})
    assert not results.cases["seed:0"].clean
