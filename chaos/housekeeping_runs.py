"""The campaign of housekeeping: each command is killed at each of its points and run again.

A case is ``<kind>:<point>:<first, middle or last>``; the last part states at which of the times that the command
reaches the point it is killed. Every case begins with a copy of one installation, and its final state must be that of
an uninterrupted run on such a copy. A damaged case is not run again until its line is deleted.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.cases import CaseResult
from chaos.housekeeping.apart import Run, run_apart
from chaos.housekeeping.house import build_house
from chaos.housekeeping.kinds import KINDS
from chaos.housekeeping.looks import State, find_differences, find_missing, read_final_state
from chaos.results import Results
from streamkeeper.errors import StreamkeeperError

CONTROLS = {
    "needed-files": "prune:prune.batch.after:last",
    "metadata-first": "prune-retired:prune.batch.after:last",
    "installation-first": "rebuild-elsewhere:rebuild.installation.before:first",
}
"""Maps a protection to the case that must find damage without it."""
ALL_POINTS = tuple(dict.fromkeys(point for kind in KINDS.values() for point in kind.points))


def run_housekeeping(root: Path, results: Results, *, points: list[str], controls: bool) -> int:
    """Run the cases that are not in the results yet; return 1 when a case found damage, a point was not hit, or a
    control found no damage.
    """
    chosen = points or list(ALL_POINTS)
    if controls:
        return _run_controls(root, results)
    stage: HousekeepingStage | None = None
    for name, kind in KINDS.items():
        wanted = [point for point in kind.points if point in chosen]
        if name in results.traced and all(case in results.cases for case in _cases(name, wanted, results.traced[name])):
            continue
        if not wanted:
            continue
        stage = stage or HousekeepingStage(root)
        stage.prepare(name)
        results.add_trace(name, stage.traced)
        for case in _cases(name, wanted, stage.traced):
            if case not in results.cases:
                results.add_case(stage.play(case))
    return results.conclude(chosen)


def _run_controls(root: Path, results: Results) -> int:
    harmless = []
    left = {off: case for off, case in CONTROLS.items() if off not in results.controls}
    stage = HousekeepingStage(root) if left else None
    for off, case in left.items():
        assert stage is not None
        stage.prepare(case.partition(":")[0])
        played = stage.play(case, off)
        found = played.damage if played.hits else []
        print(f"{case} without {off}: {'; '.join(found) or 'no damage'}", flush=True)
        results.add({"control": off, "switched_off": off, "killed": case, "found": found})
        harmless += [] if found else [off]
    return 1 if harmless else 0


def _cases(name: str, wanted: list[str], traced: list[str]) -> list[str]:
    """Return the cases of a kind; a point that it never reaches gets a case too, which reports that."""
    return [f"{name}:{point}:{when}" for point in wanted for when in times(Counter(traced)[point])]


def times(count: int) -> Mapping[str, int]:
    """Return at which of ``count`` times a command is killed at a point: the first, the last, and one in the middle."""
    middle = {"middle": (count + 1) // 2} if count > 2 else {}
    return {"first": 1, **middle, **({"last": count} if count > 1 else {})}


class HousekeepingStage:
    """One installation, created once and copied for each case; a copy has the path of the original, because records
    contain paths.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.installation = root.absolute(), root.absolute() / "site"
        shutil.rmtree(self.root, ignore_errors=True)
        (self.installation / "home").mkdir(parents=True)
        (self.installation / "jobs").mkdir()
        self.traced: list[str] = []
        self._expected: dict[str, State] = {}
        self._code = 0
        made = self._run(build_house)
        assert made.code == 0, made.printed
        self.installation.rename(self.root / "kept")

    def prepare(self, name: str) -> None:
        """Bring the installation into the state in which the kind begins; run the call once to the end and keep its
        final state.
        """
        kind = KINDS[name]
        self._copy("kept")
        kind.prepare(self.installation, lambda call, **extra: self._run(call, extra))
        shutil.rmtree(self.root / "prepared", ignore_errors=True)
        self.installation.rename(self.root / "prepared")
        self._copy("prepared")
        trace = self.root / "trace"
        trace.unlink(missing_ok=True)
        run = self._run(kind.call(self.installation), {**kind.settings, "STREAMKEEPER_CRASH_TRACE": str(trace)})
        self.traced = trace.read_text().split() if trace.exists() else []
        self._code, self._expected = run.code, {"": read_final_state(self.installation)}
        print(f"{name}: exit {run.code}, {len(self.traced)} points: {run.printed.strip()[-300:]}", flush=True)
        if kind.done_at:
            self._run(kind.call(self.installation), kind.settings)
            self._expected[kind.done_at] = read_final_state(self.installation)
        assert not (missing := find_missing(self.installation)), missing

    def play(self, case: str, off: str = "") -> CaseResult:
        """Kill the call at the point, run it again and compare the final state; ``off`` lists protections that the
        killed call lacks.
        """
        name, point, when = case.split(":")
        kind, began = KINDS[name], time.monotonic()
        count = Counter(self.traced)[point]
        nth = times(count).get(when, 1)
        self._copy("prepared")
        killed = self._run(kind.call(self.installation), {**kind.settings, "STREAMKEEPER_CRASH": f"{point}:{nth}"}, off)
        damage = [] if killed.was_killed else [f"it was not killed: exit {killed.code}: {killed.printed[-300:]}"]
        damage += self._look("after the kill", lambda: find_missing(self.installation))
        again = self._run((kind.again or kind.call)(self.installation), kind.settings)
        if again.code != self._code:
            damage.append(f"the second run: exit {again.code} instead of {self._code}: {again.printed[-300:]}")
        damage += self._look("at the end", lambda: find_missing(self.installation))
        first = f"killed at {nth} of {count}" if killed.was_killed else f"exit {killed.code}"
        expected = self._expected.get(point, self._expected[""])
        damage += self._look("at the end", lambda: find_differences(expected, read_final_state(self.installation)))
        return CaseResult(
            case=case,
            hits=[point] if killed.was_killed else [],
            outcomes=[first, f"exit {again.code}"],
            tries=2,
            replays=0,
            damage=[each.replace(str(self.root), self.root.name) for each in damage],
            wall_s=round(time.monotonic() - began, 1),
        )

    def _look(self, when: str, look: Callable[[], list[str]]) -> list[str]:
        try:
            return [f"{when}: {each}" for each in look()]
        except (StreamkeeperError, OSError) as error:
            return [f"{when}: {error}"]

    def _copy(self, name: str) -> None:
        shutil.rmtree(self.installation, ignore_errors=True)
        shutil.copytree(self.root / name, self.installation, symlinks=True)

    def _run(self, call: Callable[[], None], extra: Mapping[str, str] | None = None, off: str = "") -> Run:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("STREAMKEEPER_", "AIRFLOW"))}
        here = {
            "STREAMKEEPER_HOME": str(self.installation / "home"),
            "STREAMKEEPER_JOBS": str(self.installation / "jobs"),
        }
        return run_apart(call, {**kept, **here, **(extra or {})}, self.root / "transcript", off=off)
