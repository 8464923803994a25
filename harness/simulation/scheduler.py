"""A virtual clock and the actors that run on it, one at a time. The same seed always produces the same order of
steps.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from threading import get_ident
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

START = 1_800_000_000.0
"""The virtual time at which every simulation starts, in seconds since 1970."""
_START = datetime.fromtimestamp(START, UTC)
_NEVER = float("inf")
_LONGEST_STEP_S = 0.02
"""The longest time that a step at a seam takes, so that the actors' steps interleave in an order that the seed
determines.
"""


class Violation(AssertionError):
    """Raised when an invariant does not hold."""


@dataclass(eq=False)
class Process:
    """A process on a machine: its actors stop permanently when it dies, and temporarily while it is frozen."""

    name: str
    machine: str
    parent: Process | None = None
    alive: bool = True
    frozen: bool = False
    dies_with_parent: bool = False
    """Whether the kernel kills this process when its parent terminates."""
    code: int | None = None
    """The exit code; negative for a signal. None while the process lives."""
    children: list[Process] = field(default_factory=list)
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that its cluster adds."""
    asked_to_end_s: float = 0.0
    """When the process received its first SIGTERM; 0 before that."""
    printed: str = ""
    """The last line of its output."""
    on_nudge: Callable[[], None] | None = None
    blind_until: float = 0.0
    """The time until which this process cannot reach the store."""
    answered_s: float = float("-inf")
    """When this process last received a response from the store."""
    held: list[tuple[Actor, int]] = field(default_factory=list)

    def tree(self) -> list[Process]:
        """Return this process and all its descendants."""
        return [self, *(below for child in self.children for below in child.tree())]


@dataclass(eq=False)
class Actor:
    """One thread of a process."""

    name: str
    process: Process
    glet: greenlet
    chance: random.Random
    """The random generator that actors of this name draw from."""
    waiting: Callable[[], bool] | None = None
    """The condition for which the actor waits, besides its time; None if it waits only for its time."""
    ticket: int = 0
    """The number of its present wait; queue entries with an older number are void."""
    done: bool = False


@dataclass(frozen=True)
class Event:
    """One line of the trace: the time, the actor and the event."""

    at: float
    actor: str
    what: str


class Scheduler:
    """Runs actors in the order of their wake-up times; ties are broken by the order of the requests."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chances: dict[str, random.Random] = {}
        self._chance_of_world = random.Random(seed)
        self.unique = random.Random(f"unique {seed}")
        """What random names are drawn from: how many there are changes nothing else."""
        self.now_s = 0.0
        self.trace: list[Event] = []
        self.steps = 0
        self.over = False
        self.broken = ""
        """The first broken rule; empty while all hold."""
        self.current: Actor | None = None
        self._queue: list[tuple[float, int, Actor, int]] = []
        self._waiting: dict[Actor, None] = {}
        """Those who wait for a condition, in the order in which they began."""
        self._actors: list[Actor] = []
        self._count = 0
        self._until_s, self._most_steps = 0.0, 0
        self._hub = getcurrent()
        self._thread = get_ident()

    @property
    def chance(self) -> random.Random:
        """Return the random generator of the current actor: what one actor draws does not depend on the number of steps
        of a different actor.
        """
        return self.current.chance if self.current is not None else self._chance_of_world

    @property
    def elsewhere(self) -> bool:
        """Return whether the calling thread does not belong to the simulation, such as one that an earlier test has
        left running.
        """
        return get_ident() != self._thread

    def strikes(self, share: float) -> bool:
        """Draw whether a fault that affects this share of an actor's calls affects the present call; outside of actors
        there are no faults.
        """
        return bool(share) and self.current is not None and self.chance.random() < share

    # The clock

    def now(self) -> datetime:
        """Return the virtual time, with its time zone."""
        return _START + timedelta(seconds=self.now_s)

    def unix(self) -> float:
        """Return the virtual time in seconds since 1970."""
        return START + self.now_s

    def monotonic(self) -> float:
        """Return the virtual time in seconds since the start."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Suspend the current actor for a time; outside of an actor, advance the clock."""
        if self.elsewhere:
            time.sleep(seconds)
            return
        if self.current is None:
            self.now_s += max(0.0, seconds)
            return
        self._suspend(self.now_s + max(0.0, seconds), None)

    # Actors

    def start(self, process: Process, name: str, run: Callable[[], Any], *, after_s: float = 0.0) -> Actor:
        """Start an actor of a process."""

        def body() -> None:
            with suppress(GreenletExit):
                run()
            actor.done = True
            if not self.over:
                self.wake()

        actor = Actor(name, process, greenlet(body, self._hub), self._chance_of(name))
        self._actors.append(actor)
        self._push(actor, self.now_s + after_s + actor.chance.random() * _LONGEST_STEP_S)
        return actor

    def seam(self) -> None:
        """Mark a point at which other actors may run and a fault may be injected. Returns at a later virtual time."""
        if self.over:
            raise GreenletExit
        if (actor := self.current) is None:
            return
        self._push(actor, self.now_s + actor.chance.random() * _LONGEST_STEP_S)
        self._leave(actor)

    @contextmanager
    def in_no_time(self) -> Iterator[None]:
        """Prevent other actors from running in this block, so that a rule that examines the world takes no time."""
        asking, self.current = self.current, None
        try:
            yield
        finally:
            self.current = asking

    def wait(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Suspend the current actor until the condition holds; return False if the time ran out first."""
        if condition():
            return True
        if self.current is None:
            raise RuntimeError("only an actor can wait")
        self._suspend(_NEVER if timeout_s is None else self.now_s + timeout_s, condition)
        return condition()

    def wake(self) -> None:
        """Check the conditions of waiting actors once more. Call this after any change for which an actor may be
        waiting.
        """
        for actor in list(self._waiting):
            if not actor.process.alive:
                del self._waiting[actor]
            elif actor.waiting is not None and actor.waiting():
                actor.waiting = None
                del self._waiting[actor]
                self._push(actor, self.now_s)

    def break_rule(self, what: str) -> None:
        """Record a broken rule and end the schedule. An exception would not do, because the code under test would
        handle it as one of its own.
        """
        self.broken = self.broken or what
        self.say(f"BROKEN: {what}")
        if self.current is not None:
            self._hub.switch()
        raise Violation(what)

    def say(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(Event(self.now_s, self.current.name if self.current is not None else "world", what))

    def run(self, until_s: float, *, most_steps: int = 200_000) -> None:
        """Run until the virtual time ``until_s``, or until no actor that can run is left."""
        self._until_s, self._most_steps = until_s, most_steps
        while (actor := self._next()) is not None:
            self.current = actor
            try:
                actor.glet.switch()
            finally:
                self.current = None
            if self.broken:
                raise Violation(self.broken)
        if self.steps >= most_steps:
            raise Violation(f"the schedule has not ended after {most_steps} steps")
        self.now_s = max(self.now_s, until_s)

    def _next(self) -> Actor | None:
        """Take the next actor from the queue and advance the clock to its time; return None if none is due."""
        queue = self._queue
        while queue and queue[0][0] <= self._until_s and self.steps < self._most_steps:
            at, _, actor, ticket = heappop(queue)
            if actor.ticket != ticket or actor.done or not actor.process.alive:
                continue
            if actor.process.frozen:
                actor.process.held.append((actor, ticket))
                continue
            if at > self.now_s:
                self.now_s = at
            self.steps += 1
            if actor.waiting is not None:
                actor.waiting = None
                del self._waiting[actor]
            return actor
        return None

    def _leave(self, actor: Actor) -> None:
        """Switch to the next actor, unless that is the same one; if none is due, the hub continues."""
        following = self._next()
        if following is not actor:
            self.current = following
            (self._hub if following is None else following.glet).switch()
        if self.over:
            raise GreenletExit

    def kill(self, process: Process, code: int) -> None:
        """Kill one process; its children live on, except those that die with it. If the current actor belongs to a
        process that is killed, this call does not return.
        """
        ended = [process] if process.alive else []
        for each in ended:
            each.alive, each.code, each.frozen = False, code if each is process else -9, False
            ended += [child for child in each.children if child.alive and child.dies_with_parent]
        if ended:
            self.wake()
        if self.current is not None and not self.current.process.alive:
            self._hub.switch()

    def ask_to_end(self, process: Process) -> None:
        """Send a SIGTERM to a process."""
        process.asked_to_end_s = process.asked_to_end_s or self.now_s
        self.wake()

    def thaw(self, process: Process) -> None:
        """Continue a frozen process."""
        process.frozen = False
        held, process.held = process.held, []
        for actor, ticket in held:
            if actor.ticket == ticket:
                self._push(actor, self.now_s)

    def close(self) -> None:
        """Terminate the suspended actors."""
        self.over = True
        for actor in self._actors:
            if not actor.done and actor.glet:
                self.current = None
                with suppress(BaseException):
                    actor.glet.throw(GreenletExit)
        self._actors.clear()

    def _chance_of(self, name: str) -> random.Random:
        found = self._chances.get(name)
        if found is None:
            found = self._chances[name] = random.Random(f"{self._seed} {name}")
        return found

    def _suspend(self, until_s: float, condition: Callable[[], bool] | None) -> None:
        if self.over:
            raise GreenletExit
        actor = self.current
        assert actor is not None
        if condition is not None:
            actor.waiting = condition
            self._waiting[actor] = None
        actor.ticket += 1
        if until_s != _NEVER:
            self._push(actor, until_s)
        self._leave(actor)

    def _push(self, actor: Actor, at: float) -> None:
        self._count += 1
        actor.ticket += 1
        heappush(self._queue, (at, self._count, actor, actor.ticket))
