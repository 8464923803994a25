"""Records what schedules reach: failpoints, decisions of the ladders, outcomes of operations, and pairs of requests."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from types import CodeType

from msgspec.structs import replace

from harness.simulation.plan import REQUESTS
from streamkeeper import lifecycle
from streamkeeper.lifecycle.instances import give_up, make_decision
from streamkeeper.lifecycle.steps import current_step
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.diagnosis import Recovery
from streamkeeper.model.requests.request import Deployment, Rollback, StartCurrent

LADDERS = Path(lifecycle.__file__).parent
DECIDING = (make_decision, give_up)
"""Each call of one of these functions in ``lifecycle`` is one decision of a ladder."""
NOTHING = "nothing"
"""Stands for the open operation while no operation is open."""


@dataclass
class Covered:
    """The names of everything that schedules have reached."""

    points: set[str] = field(default_factory=set)
    """Failpoints."""
    decisions: set[str] = field(default_factory=set)
    """Decisions, such as ``draining.drain 2``: the second one in the source code of this function."""
    ends: set[str] = field(default_factory=set)
    """The step at which an operation finished and its outcome, such as ``drain: failed``."""
    pairs: set[str] = field(default_factory=set)
    """The kind of an open operation and the request that arrives while it is open, such as ``deploy + stop``."""

    def __or__(self, other: Covered) -> Covered:
        return Covered(**{name: mine | getattr(other, name) for name, mine in vars(self).items()})

    def decided(self) -> None:
        """Record the decision of the ladder that has called ``make_decision`` or ``give_up``."""
        frame = sys._getframe(2)
        if not frame.f_code.co_filename.startswith(str(LADDERS)):
            # A known bug has put its own text in the place of the function.
            return
        line, _, column, _ = _places(frame.f_code)[frame.f_lasti // 2]
        if found := _decisions_of(frame.f_code.co_filename).get((line, column)):
            self.decisions.add(found)


def every_decision() -> set[str]:
    """Return all decisions in the source code of the ladders."""
    return {name for file in sorted(LADDERS.glob("*.py")) for name in _decisions_of(str(file)).values()}


def every_end() -> set[str]:
    """Return every combination of a step and an outcome; not all of them are possible."""
    return {f"{step.label}: {outcome.value}" for step, outcome in product(Step, Outcome)}


def every_pair() -> set[str]:
    """Return every combination of a request with the kind of the operation that is open, or with no open operation."""
    requests = [request for request in REQUESTS if request != "repeat"]
    kinds = ["deploy", "rollback", "start", "recover", NOTHING]
    return {f"{kind} + {request}" for kind, request in product(kinds, requests)}


_KINDS = {Deployment: "deploy", Rollback: "rollback", StartCurrent: "start", Recovery: "recover"}


def kind_of(operation: OperationState | None) -> str:
    """Return the kind of the request that has opened an operation."""
    if operation is None:
        return NOTHING
    return _KINDS[type(operation.request.kind)]


def ends_of(operations: Iterable[OperationState]) -> set[str]:
    """Return, for each finished operation, its first step that was not completed and its outcome."""
    return {
        f"{current_step(replace(each, fall_back='')).label}: {each.outcome.value}"
        for each in operations
        if each.outcome is not None
    }


@cache
def _places(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


@cache
def _decisions_of(file: str) -> dict[tuple[int | None, int | None], str]:
    """Map the first line and column of each call that makes a decision to the name of the decision."""
    path = Path(file)
    found: dict[tuple[int | None, int | None], str] = {}
    for function in [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]:
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _decides(node)]
        for number, call in enumerate(sorted(calls, key=lambda call: (call.lineno, call.col_offset)), 1):
            found[call.lineno, call.col_offset] = f"{path.stem}.{function.name} {number}"
    return found


def _decides(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in {each.__name__ for each in DECIDING}
