"""Puts the simulated parts in the place of the operating system's, for the time of one simulation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn
from unittest.mock import patch

from greenlet import GreenletExit

from harness.simulation.processes import planned_queries
from harness.simulation.remembered import Remembered
from harness.simulation.threads import Queues, Threading
from streamkeeper import clock, crash_points
from streamkeeper.driver import ending, main, observing, queries, serving, source_looks, taking_over, wakeups, warm_up
from streamkeeper.model import coding, job_state
from streamkeeper.operations import deploy, stopping, whereabouts
from streamkeeper.registry import control, journal
from streamkeeper.runners import supervisor

if TYPE_CHECKING:
    from harness.simulation.world import World

_ALL = ("streamkeeper.", "harness.simulation.")
_PACE = (
    (deploy, "POLL_S", 0.5),
    (stopping, "POLL_S", 0.5),
    (main, "_STANDBY_LOOK_S", 1.0),
    (journal, "FOLD_EVERY", 20),
)
"""Pauses between two looks at an unchanged world, in virtual seconds, and entries between two copies of the state: most
of a schedule's time was spent on looks that show nothing new, and no journal reached a hundred entries.
"""
_THREADED = ("control", "gate", "lease", "progress", "queries", "spans", "comparing")


class _Os:
    """The module ``os``, of which only the exit is the simulation's."""

    def __init__(self, leave: Callable[[int], NoReturn]) -> None:
        self._exit = leave

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class _Signals:
    """The supervisor's signals: a killed supervisor does not notice it."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.sleep, self.received_at = sleep, 0.0

    def received(self) -> int:
        """None."""
        return 0


@contextmanager
def in_place(world: World) -> Iterator[None]:
    """Run the real code on the simulation's parts in this block."""
    scheduler = world.scheduler

    def leave(code: int) -> NoReturn:
        current = scheduler.current
        if scheduler.over or current is None:
            raise GreenletExit
        scheduler.say(f"exits with {int(code)}")
        scheduler.kill(current.process, int(code))
        raise GreenletExit

    def nudged(self: wakeups.Wakeups) -> None:
        current = scheduler.current
        assert current is not None
        current.process.on_nudge = lambda: self.ring(wakeups.Wakeup.NUDGE)

    def listen(self: Any, taken: Any) -> None:
        del taken
        session = self._at.session
        if self._listener not in session.listeners:
            session.listeners.append(self._listener)

    def build(spec: Any, root: Path, spark: Any, secrets: Any) -> Any:
        del root, secrets
        return planned_queries(world, spark, spec)

    with ExitStack() as stack:

        def put(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(owner, name, value))

        stack.enter_context(clock.use(scheduler))
        for each in _THREADED:
            put(sys.modules[f"streamkeeper.driver.{each}"], "threading", Threading(scheduler))
        put(wakeups, "queue", Queues(scheduler))
        put(wakeups.Wakeups, "take_nudges", nudged)
        for module in _with("crash_point"):
            put(module, "crash_point", world.crash_point)
        put(main, "open_store", lambda url: world.store_of_current())
        put(main, "unpack_job", lambda *_: Path("/simulated/bundle"))
        put(main, "build_queries", build)
        put(main, "os", _Os(leave))
        put(ending, "os", _Os(leave))
        put(ending, "say", lambda text, **_: scheduler.say(f"says: {text}"))
        put(warm_up, "warm_up", lambda *_: "")
        put(observing.Observer, "listen_to", listen)
        for name in ("must_be_create_only", "prepare", "restore_confs"):
            put(queries, name, lambda *_: None)
        put(taking_over, "check_batch", lambda *_: None)
        put(serving, "collect_regularly", lambda: None)
        put(source_looks.SourceLooks, "add", lambda *_: None)
        for owner, name, value in _PACE:
            put(owner, name, value)
        _place_machines(put, world)
        # What a process remembers must not be known to the next schedule.
        stack.enter_context(patch.dict(control._literals, clear=True))
        remembered = Remembered()
        for module in _with("from_json", _ALL):
            put(module, "from_json", remembered.from_json)
        for module in _with("fold", _ALL):
            put(module, "fold", remembered.fold)
        for module in _with("tree_at", _ALL):
            put(module, "tree_at", world.tree_at)
        yield


def _with(name: str, below: tuple[str, ...] = ("streamkeeper.",)) -> list[ModuleType]:
    """The modules of the real code and of the simulation that know a function by this name."""
    loaded = [module for key, module in sys.modules.items() if key.startswith(below)]
    return [module for module in loaded if name in vars(module) and module not in (crash_points, coding, job_state)]


def _place_machines(put: Callable[[Any, str, Any], Any], world: World) -> None:
    """Let a supervisor and an operation see the machine on which they run."""
    put(supervisor, "Signals", lambda: _Signals(world.scheduler.sleep))
    put(supervisor, "this_machine", lambda: SimpleNamespace(text=world.boots[world.here], host=world.here))
    put(whereabouts, "this_machine", lambda: SimpleNamespace(host=world.here, shares_disk=lambda *_: True))
    put(supervisor, "_own_root", lambda: SimpleNamespace(pid=world.next_pid(), started=1))
    put(supervisor, "why_gone", lambda _: "")
