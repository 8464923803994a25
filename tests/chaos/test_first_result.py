"""``--first`` ends a campaign with its first result, whose exit code is that of the whole."""

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
def test_the_first_case_ends_it(damage: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """A clean case exits with 0 and a damaged one with 1; both are written first."""
    file = tmp_path / "results.jsonl"
    results = Results(file, first=True)
    results.add_trace("resume", ["a.point"])
    with pytest.raises(FirstResult) as ended:
        results.add_case(a_case(*damage))
    assert ended.value.code == code
    assert [json.loads(line).get("damage") for line in file.read_text().splitlines()] == [None, list(damage)]


@pytest.mark.parametrize(("found", "code"), [(["a row is lost"], 0), ([], 1), ("", 1)])
def test_the_first_control_ends_it(found: Any, code: int, tmp_path: Path) -> None:
    """A control exits with 0 only if it finds the damage that it is there for."""
    with pytest.raises(FirstResult) as ended:
        Results(tmp_path / "results.jsonl", first=True).add({"control": "gate", "found": found})
    assert ended.value.code == code


def test_without_it_a_campaign_goes_on(tmp_path: Path) -> None:
    """The control of the two above."""
    results = Results(tmp_path / "results.jsonl")
    results.add_case(a_case("a row is lost"))
    results.add({"control": "gate", "found": []})
    assert not results.cases["seed:0"].clean
