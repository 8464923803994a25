"""Tests of the mutation testing: which mutants are drawn, which tests are chosen for them, and how survivors are
reported.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from conformance.mutants.results import (
    REASONS,
    RESULTS,
    Line,
    Outcome,
    append_line,
    read_lines,
    read_reasons,
    render_score,
)
from conformance.mutants.running import Runner, UnusableTests
from conformance.mutants.selection import Selection
from conformance.mutants.sites import Site, draw, find_sites

MODULE = '''
"""Says 1 < 2 and not True."""
from typing import TYPE_CHECKING
__all__ = ["Ledger"]
LIMIT = 3
if TYPE_CHECKING:
    from os import PathLike
class Ledger:
    """Holds not more than 5."""
    size: int = 5
    def add(self, amount: "1 | 2" = 4, *rest: int) -> int:
        """Return 6, and not 7."""
        count: int = 8
        if amount < 2 and not rest:
            raise ValueError(f"{amount + 1} is not more than {1}")
        if "ä" in rest:
            return 0
        say("not more than 2")
        self.check(amount, timeout_s=5, size=400)
        assert count != 3
        return count
'''

EXPECTED = {
    ("constant", "8 -> 9"),
    ("constant", "8 -> 7"),
    ("negated-condition", "amount < 2 and not rest -> not (amount < 2 and (not rest))"),
    ("and-or", "amount < 2 and not rest -> (amount < 2 or not rest)"),
    ("comparison", "amount < 2 -> amount <= 2"),
    ("constant", "2 -> 3"),
    ("constant", "2 -> 1"),
    ("dropped-not", "not rest -> (rest)"),
    ("dropped-raise", 'raise ValueError(f"{amount + 1} is not more than {1}") -> pass'),
    ("negated-condition", "\"ä\" in rest -> not ('ä' in rest)"),
    ("dropped-return", "return 0 -> pass"),
    ("constant", "0 -> 1"),
    ("constant", "0 -> -1"),
    ("dropped-call", "self.check(amount, timeout_s=5, size=400) -> pass"),
}

RULES = """
def may_pass(age: int) -> bool:
    if age < 3:
        return False
    return True

def is_even(number: int) -> bool:
    return number % 2 == 0
"""
TESTS = """
from fake.room.rules import may_pass

def test_before():
    assert True

def test_the_young_stay_out():
    assert not may_pass(1)
"""
ENDLESS = """
def count(last: int) -> int:
    found = 0
    while found != last:
        found += 1
    return found
"""
ENDLESS_TESTS = """
from fake.hall.counting import count

def test_it_counts():
    assert count(2) == 2
"""


def test_mutants_of_every_kind_are_found_and_none_changes_text_or_annotations() -> None:
    """A small module has exactly the expected mutants, and none of them changes a docstring, a log text or an
    annotation.
    """
    assert {(site.kind, site.change) for site in find_sites("a.py", MODULE)} == EXPECTED


@pytest.mark.parametrize("site", find_sites("a.py", MODULE), ids=lambda site: f"{site.kind}-{site.place}")
def test_a_mutant_compiles_and_means_something_else(site: Site) -> None:
    """Every mutant compiles and differs from the module in its syntax tree."""
    mutated = site.apply(MODULE)
    compile(mutated, "a.py", "exec")
    assert site.is_sound(MODULE)
    assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(MODULE))


def test_the_id_follows_the_function_and_not_the_line() -> None:
    """Moving a function keeps the ids of its mutants, and changing the function gives them new ids."""
    ids = {site.id for site in find_sites("a.py", MODULE)}
    assert len(ids) == len(EXPECTED)
    assert {site.id for site in find_sites("a.py", f"import os\n{MODULE}")} == ids
    assert not {site.id for site in find_sites("a.py", MODULE.replace("400", "401"))} & ids


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A committed Git repository with a small package of three rooms and tests for two of them."""
    root = tmp_path / "repository"
    texts = {
        "plugins/fake/room/rules.py": RULES,
        "plugins/fake/hall/counting.py": ENDLESS,
        "plugins/fake/cellar/untested.py": RULES,
        "tests/room/test_rules.py": TESTS,
        "tests/hall/test_counting.py": ENDLESS_TESTS,
        "tests/outside/test_through.py": "from fake.hall.counting import count\n",
        "tests/room/test_slow.py": f"import pytest\npytestmark = pytest.mark.spark\n{TESTS}",
    }
    for name, text in texts.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "A"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


@pytest.fixture
def runner(repository: Path) -> Iterator[Runner]:
    """A mutant runner with a time limit of 2 seconds per test, which is closed after the test."""
    runner = Runner(repository, Selection(repository), test_limit_s=2)
    yield runner
    runner.close()


def mutant(repository: Path, room: str, change: str) -> Site:
    """Return the first mutant of a room whose change starts with this text."""
    return next(site for site in draw(repository, [f"plugins/fake/{room}"], 1) if site.change.startswith(change))


def test_a_mutant_is_killed_by_the_test_that_notices_it(repository: Path, runner: Runner) -> None:
    """The result of a killed mutant names the failing test and the commit, and the working tree stays unchanged."""
    line = runner.run(mutant(repository, "room", "return False"), 1)
    assert (line.outcome, line.test) == (Outcome.KILLED, "tests/room/test_rules.py::test_the_young_stay_out")
    assert line.passed == 1
    assert line.commit == runner.commit
    run = ["git", "status", "--porcelain"]
    assert not subprocess.run(run, cwd=repository, capture_output=True, check=True).stdout


def test_a_mutant_that_no_test_notices_survives(repository: Path, runner: Runner) -> None:
    """A mutant at a boundary that no test covers survives, and the mutant that ran before it leaves nothing behind."""
    runner.run(mutant(repository, "room", "return False"), 1)
    assert runner.run(mutant(repository, "room", "age < 3 -> age <= 3"), 1).outcome is Outcome.SURVIVED


def test_an_endless_mutant_is_a_timeout(repository: Path, runner: Runner) -> None:
    """A mutant that loops forever is recorded as a timeout with the name of the test that did not finish."""
    line = runner.run(mutant(repository, "hall", "1 -> 0"), 1)
    assert (line.outcome, line.test) == (Outcome.TIMEOUT, "tests/hall/test_counting.py::test_it_counts")


def test_a_test_that_fails_anyway_kills_nothing(repository: Path, runner: Runner) -> None:
    """A test that fails without any mutant does not count as killing one."""
    tests = runner.tree / "tests/room/test_rules.py"
    tests.write_text(tests.read_text().replace("assert True", "assert False"))
    assert runner.run(mutant(repository, "room", "age < 3 -> age <= 3"), 1).outcome is Outcome.SURVIVED


def test_a_module_without_fast_tests_has_no_outcome(repository: Path, runner: Runner) -> None:
    """A mutant in a module without fast tests raises ``UnusableTests`` instead of counting as a survivor."""
    with pytest.raises(UnusableTests, match=r"no fast test ran for plugins/fake/cellar/untested\.py"):
        runner.run(mutant(repository, "cellar", "age < 3"), 1)


def test_the_tests_of_the_room_come_first_and_slow_ones_never(repository: Path) -> None:
    """The tests of the mutated room run first, then tests elsewhere that import the module; slow tests are never
    chosen.
    """
    selection = Selection(repository)
    assert selection.stages("plugins/fake/room/rules.py") == [["tests/room/test_rules.py"]]
    hall = [["tests/hall/test_counting.py"], ["tests/outside/test_through.py"]]
    assert selection.stages("plugins/fake/hall/counting.py") == hall


def test_packages_and_kinds_take_turns(repository: Path) -> None:
    """Drawing alternates between packages and varies the kinds of mutants; the same seed draws the same mutants and a
    different seed draws others.
    """
    packages = ["plugins/fake/room", "plugins/fake/hall"]
    drawn = list(islice(draw(repository, packages, 1), 6))
    assert drawn == list(islice(draw(repository, packages, 1), 6))
    assert [site.file.split("/")[2] for site in drawn] == ["room", "hall"] * 3
    assert len({site.kind for site in drawn[::2]}) == 3
    assert drawn != list(islice(draw(repository, packages, 2), 6))


def test_the_score_counts_the_last_line_of_each_mutant(repository: Path, runner: Runner, tmp_path: Path) -> None:
    """The score counts the newest line of each mutant, counts explained survivors separately, and ignores mutants of
    functions that have changed since.
    """
    site = mutant(repository, "room", "age < 3 -> age <= 3")
    survived = runner.run(site, 1)
    file = tmp_path / "lines.jsonl"
    for line in (_with(survived, Outcome.KILLED), survived, _with(survived, Outcome.SURVIVED, id="gone")):
        append_line(file, line)
    lines = read_lines(file)
    assert lines[site.id] == survived
    score = render_score(lines.values(), {}, {site.id}).splitlines()
    assert score[1].split() == ["room", "1", "0", "0", "0", "1", "1"]
    assert render_score(lines.values(), {site.id: "so"}, {site.id}).splitlines()[1].split()[4:6] == ["1", "0"]


def _with(line: Line, outcome: Outcome, id: str = "") -> Line:
    return Line(
        **{**{name: getattr(line, name) for name in line.__struct_fields__}, "outcome": outcome, "id": id or line.id}
    )


def test_every_reason_is_about_a_mutant_that_survived() -> None:
    """Every recorded reason belongs to a mutant that survived; a reason for a killed or unknown mutant is outdated."""
    survived = {id for id, line in read_lines(RESULTS).items() if line.outcome is Outcome.SURVIVED}
    assert set(read_reasons(REASONS)) <= survived
