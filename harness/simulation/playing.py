"""Plays a plan, shrinks a plan that breaks a rule, and formats a schedule as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from harness.simulation.coverage import Covered, ends_of
from harness.simulation.plan import Move, Plan
from harness.simulation.schedule import Schedule
from harness.simulation.scheduler import Event, Violation
from harness.simulation.world import World
from streamkeeper.errors import RegistryDamaged
from streamkeeper.model.protocol.driver_messages import LOCAL


@dataclass
class Told:
    """The result of one schedule."""

    plan: Plan
    broken: str = ""
    """The broken rule; empty if all rules held."""
    trace: list[Event] = field(default_factory=list)
    covered: Covered = field(default_factory=Covered)
    """What the schedule has reached."""
    outcomes: list[str] = field(default_factory=list)
    """The outcome of each operation."""
    steps: int = 0


def play(plan: Plan) -> Told:
    """Play a plan, and return the result."""
    told = Told(plan)
    kinds: dict[str, Any] = {
        "files": plan.files,
        "cleaner": plan.cleaner,
        "stateful": plan.stateful,
        "drivers": plan.drivers,
    }
    with World.opened(plan.seed, output=plan.output, **kinds) as world:
        world.covered = told.covered
        schedule = Schedule(world, plan)
        try:
            schedule.run()
        except Violation as violation:
            told.broken = str(violation)
        except RegistryDamaged as error:
            # A writer that listed the journal before the store was replaced, and wrote after that, leaves a gap.
            world.rules.gap = True
            told.broken = "" if world.swapped else str(error)
        told.trace, told.steps = world.scheduler.trace, world.scheduler.steps
        if not told.broken and not world.rules.gap:
            operations = world.state.operations.values()
            told.outcomes = [each.outcome.value if each.outcome is not None else "open" for each in operations]
            told.covered.ends |= ends_of(operations)
    return told


def shrink(told: Told) -> Told:
    """Return a schedule that also breaks a rule, with as few moves and disturbances as possible."""
    best, shorter = told, True
    while shorter:
        shorter = False
        for plan in _simpler(best.plan):
            again = play(plan)
            if again.broken:
                best, shorter = again, True
                break
    return best


def _simpler(plan: Plan) -> list[Plan]:
    moves = plan.moves
    without: list[Plan] = [replace(plan, moves=moves[:at] + moves[at + 1 :]) for at in range(len(moves))]
    calmer = [replace(plan, **{name: 0.0}) for name in ("lost", "unseen") if getattr(plan, name)]
    return without + calmer


def timeline(told: Told) -> str:
    """Return a schedule as text that a person can follow: its moves, and which actor did what at which second."""
    plan = told.plan
    given = f"files{', which it deletes' if plan.cleaner else ''}" if plan.files else "a topic"
    job = f"from {given} to {plan.output.value}{', with state' if plan.stateful else ''}"
    job += f", on {plan.drivers}" if plan.drivers != LOCAL else ""
    lines = [f"seed {plan.seed}, {job}: {told.broken or 'holds'}"]
    lines += [f"  move {number}: {_told_move(move)}" for number, move in enumerate(told.plan.moves, 1)]
    lines += [f"{event.at:9.2f} s  {event.actor:32} {event.what}" for event in told.trace]
    return "\n".join(lines)


def _told_move(move: Move) -> str:
    given: dict[str, Any] = move.request if move.kind == "deploy" else {}
    details = ", ".join(f"{name}={value}" for name, value in given.items())
    return f"after {move.pause_s:.1f} s {move.kind} on {move.machine} {details}".rstrip()
