"""The driver's access to the store: commands, the journal and the status, with every request counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamkeeper.errors import PermanentError
from streamkeeper.model.manifests.evidence import Evidence
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.driver_messages import Command, CommandKind, DriverStatus, LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.signals import History
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Record
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.objects import read_manifest
from streamkeeper.stores.counting import CountingStore
from streamkeeper.system import clock

_ENDS = (CommandKind.DRAIN, CommandKind.STOP)
_NEVER = float("-inf")
_NOT_NOW = float("inf")


class DriverChannel:
    """The access of one driver instance to the store; threads may share it. Times are of the monotonic clock.

    ``told_at``: when the status was last written. ``lost``: None, or the heartbeat's error that no retry resolves, such
    as records that are missing from the store. The main thread then ends the driver.
    """

    def __init__(self, store: CountingStore, job: str, instance: str, generation: int) -> None:
        self._store = store
        self._job = job
        self._lock = threading.RLock()
        # Writing a status includes a disk sync; a batch at the gate must not wait for that.
        self._telling = threading.Lock()
        self._control = Control(store, job, instance)
        self._journal = Journal(store, job, writer=f"{instance}/{generation}", passing=True)
        self._commands: list[Command] = []
        self._state: JobState | None = None
        self._commands_at = self._state_at = _NEVER
        self._answered_at = clock.monotonic()
        self._telling_since = _NOT_NOW
        self.told_at = _NEVER
        self.lost: PermanentError | None = None

    @property
    def answered_at(self) -> float:
        """When the store last answered. While the status is being written, answers since the start of this write are
        ignored, so that successful reads do not keep a driver alive whose status write hangs.
        """
        return min(self._answered_at, self._telling_since)

    @property
    def store(self) -> str:
        """The store's URL."""
        return self._store.url

    @property
    def requests(self) -> int:
        """The number of requests that this process has made to the store."""
        return self._store.requests

    @property
    def commands(self) -> list[Command]:
        """The commands that were read so far; makes no request."""
        return list(self._commands)

    @property
    def end_wanted(self) -> bool:
        """Whether a command that was read so far requires the driver to end; makes no request."""
        return any(command.kind in _ENDS for command in self._commands)

    @property
    def state(self) -> JobState | None:
        """The job's state from the journal that was read so far; makes no request. None before the first read."""
        return self._state

    def look(self, *, max_age_s: float = 0.0) -> JobState:
        """Read new commands and journal records, and return the job's state.

        Commands or records that were read less than ``max_age_s`` seconds ago are not read again. Each of the two reads
        makes one request if there is nothing new.
        """
        with self._lock:
            self.look_for_commands(max_age_s=max_age_s)
            asked_at = clock.monotonic()
            if self._state is None or asked_at - self._state_at >= max_age_s:
                self._state = self._journal.state()
                self._state_at = asked_at
                self._answered()
            return self._state

    def look_for_commands(self, *, max_age_s: float = 0.0) -> list[Command]:
        """Return all commands to this driver so far. Commands sent in the last ``max_age_s`` seconds may be missing.

        Makes no request if the last read was less than ``max_age_s`` seconds ago. A read that finds no new command
        makes one request.
        """
        with self._lock:
            asked_at = clock.monotonic()
            if asked_at - self._commands_at >= max_age_s:
                newest = self._commands[-1].number if self._commands else 0
                self._commands += self._control.commands(newest)
                self._commands_at = asked_at
                self._answered()
            return list(self._commands)

    def append(self, decide: Callable[[JobState], Record | None]) -> JobState:
        """Append the record that ``decide`` returns to the journal, and return the job's new state. See
        ``Journal.append``.
        """
        with self._lock:
            self._state = self._journal.append(decide)
            self._answered()
            return self._state

    def write_status(self, status: Callable[[], DriverStatus]) -> None:
        """Replace the stored status by the result of ``status``. One thread writes at a time, so that heartbeats are in
        order.
        """
        with self._tells():
            self._control.write_status(status())
            self._answered()
            self.told_at = clock.monotonic()

    def write_history(self, history: Callable[[], History | None]) -> None:
        """Replace the stored history by the result of ``history``, unless that result is None."""
        with self._tells():
            found = history()
            if found is not None:
                self._control.write_history(found)
                self._answered()

    def read_history(self) -> History | None:
        """Return the history as last written; None if none was written."""
        with self._lock:
            return self._control.read_history()

    def read_launch(self) -> LaunchSpec | None:
        """Return the launch specification of this driver; None if none is stored."""
        with self._lock:
            return self._control.read_launch()

    def read_process(self, generation: int) -> ProcessRecord | None:
        """Return the process that has claimed a generation of this instance; None if no process has."""
        with self._lock:
            return self._control.read_process(generation)

    def read_status(self) -> DriverStatus | None:
        """Return the last status that any generation of this instance wrote; None if none was written."""
        with self._lock:
            return self._control.read_status()

    def read_status_of(self, instance: str) -> DriverStatus | None:
        """Return another instance's last status; None if it has written none."""
        with self._lock:
            return Control(self._store, self._job, instance).read_status()

    def write_manifests(self, manifests: dict[str, Manifest]) -> dict[str, Manifest]:
        """Store the job's manifests and return the stored ones. If an earlier generation has stored manifests, those
        are kept and returned.
        """
        with self._lock:
            stored = self._control.write_manifests(manifests)
            self._answered()
            return stored

    def write_evidence(self, evidence: Evidence) -> None:
        """Store the evidence gathered about the job."""
        with self._lock:
            self._control.write_evidence(evidence)
            self._answered()

    def read_deployed(self, sha256: str) -> Manifest:
        """Return a manifest that was stored for a release of the job; ``sha256``: the manifest's digest."""
        return read_manifest(self._store, self._job, sha256)

    @contextmanager
    def _tells(self) -> Iterator[None]:
        with self._telling:
            self._telling_since = clock.monotonic()
            try:
                yield
            finally:
                self._telling_since = _NOT_NOW

    def _answered(self) -> None:
        self._answered_at = clock.monotonic()
