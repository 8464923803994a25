"""Replaces interfaces of the operating system and of Spark by the simulated components, for the duration of one or more
simulations.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn
from unittest.mock import patch

from greenlet import GreenletExit

from harness.simulation import clones, file_output
from harness.simulation.coverage import DECIDING
from harness.simulation.input import check_batch
from harness.simulation.process_table import places
from harness.simulation.processes import planned_queries
from harness.simulation.remembered import Remembered
from harness.simulation.sink import answer, compute, read_fences
from harness.simulation.state import export_state
from harness.simulation.threads import InTurn, Queues, Threading
from harness.simulation.yarn import MANAGER
from streamkeeper import lifecycle
from streamkeeper.checkpoints import input_files, publishing, unread_files
from streamkeeper.checkpoints.log_codec import batch_number, sink_entry_from
from streamkeeper.driver import (
    control_loop,
    driver_lifetime,
    ending,
    observing,
    queries,
    source_looks,
    taking_over,
    timings,
    wakeups,
    warm_up,
)
from streamkeeper.inspection import input_look, kafka_topics, resume_proof
from streamkeeper.model import coding
from streamkeeper.model.records import job_state
from streamkeeper.operations.backups import drills
from streamkeeper.operations.deploys import approval, deploy, deploy_acts, stopping
from streamkeeper.operations.fleet import fleet_look
from streamkeeper.operations.jobs import downstream, input_access, journal_entries, placement
from streamkeeper.registry import driver_control, journal
from streamkeeper.registry.environments import read_environment
from streamkeeper.runners import supervisor, yarn_application
from streamkeeper.sinks import append_table, file, table
from streamkeeper.sinks.kind_modules import module_of
from streamkeeper.sinks.kinds.known_kinds import KINDS
from streamkeeper.snapshots import capture
from streamkeeper.system import clock, crash_points

if TYPE_CHECKING:
    from harness.simulation.scheduler import Scheduler
    from harness.simulation.world import World

Put = Callable[[Any, str, Any], None]
_REAL = ("streamkeeper.",)
_ALL = (*_REAL, "harness.simulation.")
_PACE = (
    (deploy, "POLL_S", 0.5),
    (stopping, "POLL_S", 0.5),
    (driver_lifetime, "_STANDBY_LOOK_S", 1.0),
    (journal, "FOLD_EVERY", 20),
)
"""Pauses between two polls of an unchanged world, in virtual seconds, and the number of entries between two copies of
the state: polls that found nothing new took most of a schedule's time, and no journal reached a hundred entries.
"""
_REAL_UUID = uuid.uuid4
_ALLOCATIONS = 200_000
"""How many new objects may be allocated before Python looks for cycles."""
_THREADED = ("driver_channel", "gate", "lease", "progress", "queries", "timings", "comparing")


class _Os:
    """The module ``os``, of which only the exit function is replaced by the simulation's."""

    def __init__(self, leave: Callable[[int], NoReturn]) -> None:
        self._exit = leave

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class _ContainerOs:
    """The module ``os``, with the environment of the pod in which the current process runs."""

    def __init__(self, stage: _Stage) -> None:
        self._stage = stage

    @property
    def environ(self) -> dict[str, str]:
        """Return only the variables that the current process's cluster adds."""
        current = self._stage.scheduler.current
        return dict(current.process.environ) if current is not None else {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class _Moment:
    """A time in the form that journals use; ``pendulum`` needs ten times as long to create one."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def to_iso8601_string(self) -> str:
        """Return a time in UTC as text, in the same form as ``pendulum``."""
        return self._at.isoformat().replace("+00:00", "Z")


class _Signals:
    """The signals of the current process, a supervisor: only a SIGTERM reaches it before it terminates."""

    def __init__(self, scheduler: Scheduler) -> None:
        assert scheduler.current is not None
        self._scheduler, self._process = scheduler, scheduler.current.process

    @property
    def received_at(self) -> float:
        """Return when the signal arrived, in place of ``driver_process.Signals``."""
        return self._process.asked_to_end_s

    def received(self) -> int:
        """Return the signal that has arrived, or 0, in place of ``driver_process.Signals``."""
        return signal.SIGTERM if self._process.asked_to_end_s else 0

    def sleep(self, seconds: float) -> None:
        """Sleep until a signal arrives or the time is over, in place of ``driver_process.Signals``."""
        self._scheduler.wait(lambda: bool(self._process.asked_to_end_s), seconds)


class _Stage:
    """The context that the installed replacements refer to. ``worlds``: contains the world that is running; empty
    between two worlds.
    """

    def __init__(self) -> None:
        self.worlds: list[World] = []
        self.remembered = Remembered()

    @property
    def world(self) -> World:
        """Return the world that is running."""
        return self.worlds[-1]

    @property
    def scheduler(self) -> Scheduler:
        """Return the scheduler of the world that is running."""
        return self.worlds[-1].scheduler

    def crash_point(self, name: str) -> None:
        """Pass a failpoint. A thread outside of any simulation may also pass one between two worlds."""
        if self.worlds:
            self.world.crash_point(name)

    def leave(self, code: int) -> NoReturn:
        """Exit the current process."""
        scheduler = self.scheduler
        current = scheduler.current
        if scheduler.over or current is None:
            raise GreenletExit
        scheduler.say(f"exits with {int(code)}")
        scheduler.kill(current.process, int(code))
        raise GreenletExit

    def unique(self, count: int) -> uuid.UUID:
        """Return a value that is different in every call and depends only on the seed; ``count``: its number of bytes,
        at most 16.

        A thread outside of any simulation may call this, too.
        """
        assert count <= 16
        if not self.worlds or self.scheduler.elsewhere:
            return _REAL_UUID()
        return uuid.UUID(int=self.scheduler.unique.getrandbits(128))

    def print_line(self, text: str, **_: Any) -> None:
        """Record a line that the current process prints."""
        scheduler = self.scheduler
        scheduler.say(f"says: {text}")
        if scheduler.current is not None:
            scheduler.current.process.printed = text

    def nudged(self, real: wakeups.Wakeups) -> None:
        """Connect nudges of the current process with its driver's wakeups."""
        current = self.scheduler.current
        assert current is not None
        current.process.on_nudge = lambda: real.ring(wakeups.Wakeup.NUDGE)

    def noting(self, decide: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of ``decide`` that also records its caller."""

        def noted(*given: Any, **named: Any) -> Any:
            self.world.covered.decided()
            return decide(*given, **named)

        return noted

    def build(self, spec: Any, root: Path, spark: Any, secrets: Any) -> Any:
        """Build the queries of a release."""
        del root, secrets
        return planned_queries(self.world, spark, spec)


_installed: list[_Stage] = []


@contextmanager
def installed() -> Iterator[_Stage]:
    """Install the replacements for several simulations in a row, because installing them takes as long as half a
    deploy.
    """
    if _installed:
        yield _installed[-1]
        return
    for kind in KINDS:
        # A module that is loaded during a simulation would keep the simulation's functions after it.
        module_of(kind)
    stage = _Stage()
    with ExitStack() as stack, _seldom_collected():

        def put(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(owner, name, value))

        put(uuid, "uuid4", lambda: stage.unique(16))
        put(secrets, "token_hex", lambda count: stage.unique(count).hex[: 2 * count])
        _place_driver(put, stage)
        _place_machines(put, stage)
        put(journal, "_utc_now", lambda: _Moment(stage.scheduler.now()))
        for owner, name, pace in _PACE:
            put(owner, name, pace)
        functions: tuple[tuple[str, tuple[str, ...], Any], ...] = (
            ("crash_point", _ALL, stage.crash_point),
            ("tree_at", _ALL, lambda location, **given: stage.world.tree_at(location, **given)),
            ("from_json", _ALL, stage.remembered.from_json),
            ("fold", _ALL, stage.remembered.fold),
            # They look at files of this installation, which do not change meanwhile.
            ("read_environment", _REAL, cache(read_environment)),
            ("batch_number", _REAL, lru_cache(4096)(batch_number)),
            ("sink_entry_from", _REAL, lru_cache(4096)(sink_entry_from)),
        )
        for name, below, value in functions:
            for module in _with(name, below):
                put(module, name, value)
        for module, name, function in _deciding():
            put(module, name, stage.noting(function))
        _installed.append(stage)
        stack.callback(_installed.clear)
        yield stage


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Make Python's garbage collector look for cycles less often in this block: it used to take an eighth of a
    schedule's time.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


@contextmanager
def in_place(world: World) -> Iterator[None]:
    """Run the real code on the simulated components in this block."""
    # What a process remembers must not be known to the next schedule.
    with installed() as stage, clock.use(world.scheduler), patch.dict(driver_control._literals, clear=True):
        stage.worlds.append(world)
        try:
            yield
        finally:
            stage.worlds.pop()
            stage.remembered.clear()


def _deciding() -> list[tuple[ModuleType, str, Any]]:
    """Return the ladder modules that import a deciding function, each with the function and its name there."""
    below = f"{lifecycle.__name__}."
    modules = [module for key, module in sys.modules.items() if key.startswith(below)]
    return [(module, name, each) for module in modules for name, each in vars(module).items() if each in DECIDING]


def _with(name: str, below: tuple[str, ...]) -> list[ModuleType]:
    """Return the modules that contain a function of this name, except those whose own function the replacement
    calls.
    """
    loaded = [module for key, module in sys.modules.items() if key.startswith(below)]
    return [module for module in loaded if name in vars(module) and module not in (crash_points, coding, job_state)]


def _place_driver(put: Put, stage: _Stage) -> None:
    def listen(self: Any, taken: Any) -> None:
        del taken
        session = self._context.session
        if self._listener not in session.listeners:
            session.listeners.append(self._listener)

    for each in _THREADED:
        put(sys.modules[f"streamkeeper.driver.{each}"], "threading", Threading(lambda: stage.scheduler))
    put(wakeups, "queue", Queues(lambda: stage.scheduler))
    put(wakeups.Wakeups, "take_nudges", lambda self: stage.nudged(self))
    put(driver_lifetime, "open_store", lambda url: stage.world.store_of_current())
    put(driver_lifetime, "unpack_job", lambda *_: Path("/simulated/bundle"))
    put(driver_lifetime, "build_queries", stage.build)
    put(driver_lifetime, "os", _Os(stage.leave))
    put(ending, "os", _Os(stage.leave))
    put(ending, "log_line", stage.print_line)
    put(warm_up, "warm_up", lambda *_: "")
    put(warm_up, "touch", lambda *_: None)
    put(observing.Observer, "listen_to", listen)
    for name in ("must_be_create_only", "prepare", "restore_confs"):
        put(queries, name, lambda *_: None)
    put(taking_over, "check_batch", check_batch)
    put(table, "answer", lambda question: answer(stage.world, question))
    _place_files(put, stage)
    _place_input(put, stage)
    put(table, "read_fences", lambda place: read_fences(stage.world, place))
    put(append_table, "read_fences", lambda _: [])
    put(kafka_topics, "reads_all_of", lambda *_: True)
    put(kafka_topics, "topic_ids", lambda *_, **__: stage.world.input.ask_ids())
    for module in (capture, downstream, fleet_look, input_files, journal_entries, publishing):
        put(module, "ThreadPoolExecutor", InTurn)
    put(timings, "time", SimpleNamespace(thread_time=lambda: 0.0))
    put(drills, "LocalTree", lambda root, **given: stage.world.tree_at(str(root), **given))
    put(drills, "unpack_job", lambda *_: Path("/simulated/bundle"))
    put(drills, "ask_driver", lambda module, given, *_: [clones.resume_once(stage.world, given[0])].__iter__())
    put(resume_proof, "run_next", clones.run_next)
    put(resume_proof, "read_all_state", clones.read_all_state)
    put(input_look, "unseen_by", lambda _: {})
    put(approval, "LocalTree", lambda root, **given: stage.world.tree_at(str(root), **given))
    put(approval, "export_state", export_state)
    # Simulated drivers load no jar, so none need be installed here.
    put(deploy_acts, "installed_jars", lambda *_: ("hadoop-aws.jar",))
    put(control_loop, "collect_regularly", lambda: None)
    put(source_looks.SourceLooks, "add", lambda *_: None)


def _place_files(put: Put, stage: _Stage) -> None:
    """Make ``FileSink`` write to the simulated disk, with a simulation of Spark's file sink."""
    put(file, "_spark_sink", lambda batch, to, _: file_output.SparkFileSink(stage.world, batch.sparkSession, to))
    put(file, "read_segments", lambda _, root, spans, *given, **named: file_output.rows_of(root, spans))
    put(file, "compare_frames", file_output.compare_rows)
    put(file, "compute", compute)
    put(file, "forget_schemas", lambda *_: None)
    put(file.FileSink, "check_columns", lambda *_: None)
    put(file.FileWriter, "_record_schema", lambda *_: None)


def _place_input(put: Put, stage: _Stage) -> None:
    """Make the checks of input files see the simulated files."""
    put(input_files, "os", SimpleNamespace(stat=lambda path: stage.world.input.stat(path)))
    put(unread_files, "_files", lambda *_, **__: stage.world.input.listing())


def _place_machines(put: Put, stage: _Stage) -> None:
    """Make supervisors, runners and operations see the simulated machine on which they run."""
    put(supervisor, "os", _ContainerOs(stage))
    put(supervisor, "Signals", lambda: _Signals(stage.scheduler))
    put(supervisor, "Thread", Threading(lambda: stage.scheduler).Thread)
    for module in (input_access, placement):
        put(module, "this_machine", lambda: SimpleNamespace(host=stage.world.here, shares_disk=lambda *_: True))
    put(yarn_application, "manager_url", lambda _: MANAGER)
    for owner, name, value in places(lambda: stage.world.table):
        put(owner, name, value)
