"""The triggers of deferred tasks: one for a step that waits, and one for a task that was queued on the
wrong machine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from streamkeeper.errors import TemporaryError
from streamkeeper.locations import local_path
from streamkeeper.model.records.step import Step
from streamkeeper.orchestration.watch import OperationWatch, Sight
from streamkeeper.system import clock

if TYPE_CHECKING:
    from streamkeeper.operations.jobs.installation import Installation


class PutBack(BaseTrigger):
    """Fires after ``pause_s`` seconds with the given event, so that the task is queued again for any worker."""

    def __init__(self, *, event: dict[str, Any], pause_s: float) -> None:
        super().__init__()
        self.event, self.pause_s = event, pause_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return this class's import path, and the arguments with which Airflow recreates the trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"event": self.event, "pause_s": self.pause_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the given event. If the event has a waiting time, the pause is added to that time."""
        await asyncio.sleep(self.pause_s)
        waited = {"waited_s": self.event["waited_s"] + self.pause_s} if "waited_s" in self.event else {}
        yield TriggerEvent({**self.event, **waited})


class StepTrigger(BaseTrigger):
    """Fires when the state that a task waits on has changed, or after ``at_most_s`` seconds at the latest.

    ``job``, ``operation``, ``step``: what the task waits for.
    ``sight``: the state that the task observed before it was deferred.
    ``at_most_s``: the longest wait, in seconds.
    ``poll_s``: the pause between two observations, in seconds.
    ``store``: the store's URL; empty for the installation's store.

    If the store does not answer, the trigger fires, and the resumed task reports the error.
    """

    def __init__(
        self,
        *,
        job: str,
        operation: str,
        step: str,
        sight: Sight,
        at_most_s: float,
        poll_s: float = 0.5,
        store: str = "",
    ) -> None:
        super().__init__()
        self.job, self.operation, self.step, self.sight = job, operation, step, sight
        self.at_most_s, self.poll_s, self.store = at_most_s, poll_s, store

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return this class's import path, and the arguments with which Airflow recreates the trigger."""
        names = ("job", "operation", "step", "sight", "at_most_s", "poll_s", "store")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event with the seconds waited."""
        began = clock.monotonic()
        watch: OperationWatch | None = None
        if self.store and not local_path("store", self.store).is_dir():
            # A dry run's private store is on the machine of its tasks. Opening the store here would create it.
            await asyncio.sleep(self.at_most_s)
        while clock.monotonic() - began < self.at_most_s:
            try:
                if watch is None:
                    watch = await asyncio.to_thread(self._open)
                sight = await asyncio.to_thread(watch.look)
            except TemporaryError as error:
                self.log.warning("%s", error)
                break
            if sight != list(self.sight):
                break
            await asyncio.sleep(self.poll_s)
        yield TriggerEvent({"waited_s": clock.monotonic() - began})

    def _open(self) -> OperationWatch:
        from streamkeeper.operations.jobs.installation import Installation
        from streamkeeper.stores.store_urls import open_store

        installation: Installation = Installation.from_environment(os.environ)
        if self.store:
            installation = dataclasses.replace(installation, store=open_store(self.store))
        journal = installation.journal(self.job, f"trigger:{self.operation}")
        return OperationWatch(installation.store, journal, self.job, self.operation, Step[self.step])
