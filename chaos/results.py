"""The campaign's result file: one line per case, for one commit or one state of the code; recorded cases are not
rerun.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from chaos.cases import CaseResult
from harness.checkout import read_origin


class FirstResult(Exception):
    """Raised once a campaign that was asked for a single result has it; ``code`` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Results:
    """A result file and its lines for the present ``commit`` or the present ``code``.

    ``first``: the first case or control that is added raises FirstResult after it is written.
    """

    def __init__(self, file: Path, *, of: str = "commit", first: bool = False) -> None:
        self._file = file
        self._first = first
        self._origin = read_origin()
        file.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text() if file.exists() else ""
        lines = [each for each in map(json.loads, text.splitlines()) if each.get(of) == self._origin[of]]
        self.cases = {each["case"]: msgspec.convert(each, CaseResult) for each in lines if "case" in each}
        self.controls = {each["control"] for each in lines if "control" in each}
        self.traced: dict[str, list[str]] = {each["traced"]: each["points"] for each in lines if "traced" in each}

    @property
    def hit(self) -> set[str]:
        """Every point that some case has hit."""
        return {point for result in self.cases.values() for point in result.hits}

    def add_case(self, result: CaseResult) -> None:
        """Record the case and print its sentence."""
        self.cases[result.case] = result
        self.add(msgspec.to_builtins(result))
        print(result.sentence, flush=True)
        if self._first:
            raise FirstResult(0 if result.clean else 1)

    def add_trace(self, scenario: str, points: list[str]) -> None:
        """Record which points a scenario reaches."""
        self.traced[scenario] = points
        self.add({"traced": scenario, "points": points})

    def add(self, line: dict[str, Any]) -> None:
        """Append a line to the result file."""
        with self._file.open("a") as file:
            file.write(json.dumps({**self._origin, **line}) + "\n")
        if self._first and "control" in line:
            raise FirstResult(0 if line["found"] else 1)

    def conclude(self, wanted: Iterable[str]) -> int:
        """Print what was hit; return 1 if a case found damage or a wanted point was never hit."""
        results = list(self.cases.values())
        hits = Counter(point for result in results for point in result.hits)
        for point, count in sorted(hits.items()):
            print(f"{count:4}  {point}")
        missed = [name for name in wanted if name not in hits]
        damaged = [result.case for result in results if not result.clean]
        print(f"{len(results)} cases, {len(hits)} points hit, {len(missed)} not hit, {len(damaged)} damaged")
        ended = Counter(result.outcomes[-1] for result in results if result.outcomes)
        print(", ".join(f"{count} {outcome}" for outcome, count in ended.most_common()))
        watched = [result.looks_per_s for result in results if result.looks_per_s]
        if watched:
            print(f"the serving table was read at least {min(watched):g} times a second")
        for case in (*missed, *damaged):
            print(f"  {case}")
        return 1 if damaged or missed else 0
