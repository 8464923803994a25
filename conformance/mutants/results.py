"""The result lines of the campaign, one per mutant and state of the tests, and the reasons why some mutants are
equivalent.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from harness.places import ROOT

RESULTS = ROOT / "bench/results/mutants.jsonl"
REASONS = Path(__file__).with_name("reasons.toml")


class Outcome(StrEnum):
    """The result of the tests for one mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"
    """A test did not finish in time; this counts as killed."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One mutant and its result."""

    id: str
    seed: int
    file: str
    line: int
    function: str
    kind: str
    change: str
    source: str
    tests: str
    """The id of the git tree of the tests."""
    outcome: Outcome
    test: str
    """The test that failed."""
    passed: int
    """The number of tests that passed before it."""
    markers: str
    """The marker expression that excluded the slow tests."""
    seconds: float
    commit: str
    key: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "key", key_of(self.source, self.tests))


def key_of(source: str, tests: str) -> str:
    """Return the key of an outcome, which is valid only for this source of the mutated function and this state of the
    tests.
    """
    return hashlib.sha256(f"{source}\0{tests}".encode()).hexdigest()[:12]


def append_line(file: Path, line: Line) -> None:
    """Append the line of a mutant to the results file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        stream.write(msgspec.json.encode(line) + b"\n")


def read_lines(file: Path) -> dict[str, Line]:
    """Return the last line of each mutant, by its id."""
    if not file.exists():
        return {}
    return {line.id: line for line in msgspec.json.Decoder(Line).decode_lines(file.read_bytes())}


def read_reasons(file: Path = REASONS) -> dict[str, str]:
    """Return the reasons why surviving mutants are equivalent or harmless, by their ids."""
    return {id: str(reason) for id, reason in tomllib.loads(file.read_text()).items()}


def render_score(lines: Iterable[Line], reasons: Mapping[str, str], present: Container[str]) -> str:
    """Render a table by package: how many mutants were run, killed, timed out, explained, survived or are outdated."""
    titles = ("run", "killed", "timeout", "explained", "survived", "outdated")
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        package = counts.setdefault(line.file.split("/")[2], Counter())
        outcome = "explained" if line.outcome is Outcome.SURVIVED and line.id in reasons else str(line.outcome)
        package.update(["outdated"] if line.id not in present else ["run", outcome])
    counts["total"] = sum(counts.values(), Counter())
    width = max(map(len, counts))
    rows = [" ".join((" " * width, *(f"{title:>9}" for title in titles)))]
    rows += [
        " ".join((f"{name:{width}}", *(f"{count[title]:>9}" for title in titles))) for name, count in counts.items()
    ]
    return "\n".join(rows)
