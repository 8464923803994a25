"""The whole switch campaign: the points of each scenario, drivers frozen for longer than their lease, then seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from chaos.playing import play
from chaos.results import Results
from chaos.scenarios import plan_points
from chaos.striking import names_of
from chaos.switching import SwitchStage
from harness.bed import fresh_bed
from harness.places import ROOT

JOBS = [ROOT / "chaos/jobs/ledgers.py"]

FROZEN = (
    "frozen/serving-python@catch-up",
    "frozen/serving-jvm@catch-up",
    "frozen/serving-supervisor@catch-up",
    "frozen/candidate-python@catch-up",
    "frozen/candidate-jvm@compare",
    "frozen/candidate-supervisor@catch-up",
    "frozen/serving-python@drain",
    "frozen/serving-jvm@drain",
    "frozen/serving-supervisor@drain",
    "frozen/candidate-python@drain",
    "frozen/candidate-jvm@drain",
    "frozen/operation@catch-up+operation@drain+operation@first-commit",
    "frozen/serving-python@first-commit",
    "frozen/serving-jvm@first-commit",
)
"""Freezes during a rebuild, each for longer than a driver's lease; the new driver is the serving one from its
appointment on.

A process that is frozen in the drain stays frozen beyond the appointment, which is too short to be observed.
"""


OpenSwitchStage = Callable[[Path], AbstractContextManager[SwitchStage]]


def in_directories(kind: type[SwitchStage]) -> OpenSwitchStage:
    """Return a factory of stages of this kind whose checkpoints are in the installation's own directory."""

    @contextmanager
    def opened(root: Path) -> Iterator[SwitchStage]:
        with fresh_bed(root, JOBS) as bed:
            yield kind(bed)

    return opened


def run_switching(
    root: Path,
    results: Results,
    scenarios: list[str],
    *,
    points: list[str],
    seeds: range,
    everywhere: bool,
    opened: OpenSwitchStage,
    freezes: tuple[str, ...],
    drawn: list[str] | None = None,
) -> int:
    """Run the cases without a result; return 1 if a case found damage, or a point or a frozen process was never hit.

    ``points``: restrict the points and the frozen processes to these. ``opened``: opens the stage that plays the cases.
    ``drawn``: scenarios that the seeds use in turn; with None, each seed draws its own.
    """
    frozen = [case for case in freezes if not points or case in points]
    if not points or set(points) - set(frozen):
        _trace(root, results, scenarios, opened)
    traced = {name: results.traced.get(name, []) for name in scenarios}
    if points:
        traced = {name: [each for each in reached if each in points] for name, reached in traced.items()}
    plans = plan_points(traced, everywhere=everywhere)
    play(root, results, plans, opened)
    # What one death kept another from being reached is tried again alone.
    alone = plan_points({name: _missed(results, each) for name, each in traced.items()}, everywhere=False)
    play(root, results, [f"{head}:{name}" for head, _, group in _parts(alone) for name in group.split("+")], opened)
    play(root, results, frozen, opened)
    named = {seed: f"{drawn[seed % len(drawn)]}/" if drawn else "" for seed in seeds}
    play(root, results, [f"{of}seed:{seed}" for seed, of in named.items()], opened)
    wanted = {each for reached in traced.values() for each in reached}
    return results.conclude(wanted | {name for case in frozen for name in names_of(case)})


def _trace(root: Path, results: Results, scenarios: list[str], opened: OpenSwitchStage) -> None:
    missing = [name for name in scenarios if name not in results.traced]
    if not missing:
        return
    with opened(root) as stage:
        for name in missing:
            results.add_trace(name, stage.discover_in(name))
            print(f"{name}: {len(results.traced[name])} points", flush=True)


def _missed(results: Results, points: list[str]) -> list[str]:
    return [name for name in points if name not in results.hit]


def _parts(plans: list[str]) -> list[tuple[str, str, str]]:
    return [plan.partition(":") for plan in plans]
