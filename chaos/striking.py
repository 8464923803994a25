"""Strikes an operation while it is at a given step: a thread that polls the current step, and the meaning of case
names.
"""

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
    """A context manager that carries out a case's strikes on the next operation, each at its step.

    ``strike`` is called with ``KIND@STEP`` as long as the operation is at that step, until it returns that it hit a
    process.
    """

    def __init__(self, read_state: Callable[[], JobState], wanted: list[str], strike: Callable[[str], bool]) -> None:
        self._read_state, self._wanted, self._strike = read_state, wanted, strike
        self._before = len(read_state().operations)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="striker", daemon=True)
        self.hits: list[str] = []

    def __enter__(self) -> Striker:
        """Start polling the operation's step."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop polling, and wait for a strike in progress to finish."""
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
    """Split a case with several strikes, such as ``broker/kill@drain+freeze@go``, into ``broker/kill@drain`` and so
    on.
    """
    kind, _, named = case.partition("/")
    return [f"{kind}/{each}" for each in named.split("+")]


def running_after(state: JobState, before: int) -> Step | None:
    """Return the current step of the first operation after the first ``before`` ones; None if there is none or it has
    finished.
    """
    return next(map(step_of, list(state.operations.values())[before:]), None)


def step_of(operation: OperationState) -> Step | None:
    """Return the step that an operation is at, by the operation's own decision; None once it has an outcome."""
    return None if operation.outcome is not None else current_step(operation)
