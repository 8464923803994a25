"""Striking an operation while it is at a step: a thread that looks where it is, and what a case's names mean."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from streamkeeper.lifecycle.steps import current_step
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step

_POLL_S = 0.1


class Striker:
    """Does what a case's names say to the next operation, each at its step; a context manager.

    ``strike`` is given ``KIND@STEP`` as long as the operation is at that step, until it says that it hit somebody.
    """

    def __init__(self, read_state: Callable[[], JobState], wanted: list[str], strike: Callable[[str], bool]) -> None:
        self._read_state, self._wanted, self._strike = read_state, wanted, strike
        self._before = len(read_state().operations)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="striker", daemon=True)
        self.hits: list[str] = []

    def __enter__(self) -> Striker:
        """Start looking."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End, once a strike that is under way is over."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_POLL_S):
            step = running_after(self._read_state(), self._before)
            for name in self._wanted:
                here = step is not None and name.endswith(f"@{step.label}")
                if here and name not in self.hits and self._strike(name):
                    self.hits.append(name)
                    break


def names_of(case: str) -> list[str]:
    """``broker/kill@drain`` and so on, of a case that has several of them: ``broker/kill@drain+freeze@go``."""
    kind, _, named = case.partition("/")
    return [f"{kind}/{each}" for each in named.split("+")]


def running_after(state: JobState, before: int) -> Step | None:
    """At which step the operation is that came after so many; None when there is none, or it is over."""
    return next(map(step_of, list(state.operations.values())[before:]), None)


def step_of(operation: OperationState) -> Step | None:
    """The step that an operation is at, as it decides that itself; None once it has an outcome."""
    return None if operation.outcome is not None else current_step(operation)
