"""The contract tests for a kind of sink whose writer, a real process, is killed between any two of its writes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from streamkeeper.errors import Fenced
from streamkeeper.model.manifests.sink_capabilities import SinkCapabilities
from streamkeeper.sinks.contract import Sink, WriterRole
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from tests.contracts.sink_contract import opened

_FILE_WRITES = frozenset({"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"})


class KilledPlace(Protocol):
    """A test output of the kind that other processes can write."""

    sink: Sink
    where: str

    def batch(self, row: tuple[str, int]) -> Any:
        """Return a batch of one row, as a frame of the query."""

    def rows(self) -> list[tuple[str, int]]:
        """Return the rows that a reader of the serving output sees, in order."""

    def before_each_write(self, act: Callable[[], None]) -> None:
        """Make this process call ``act`` before each of its writes to the output, until it terminates."""


class SinkKillContract:
    """The contract of a sink whose writer is killed, run against an empty ``place``. Kills inside a single write of
    Spark or of a database are not tested: Spark and the database guarantee that such a write is atomic.
    """

    fewest_kills = 1
    """The minimum number of writes of a batch: fewer mean that the test does not detect them."""

    @pytest.fixture
    def can(self, place: KilledPlace) -> SinkCapabilities:
        return capabilities_of(place.sink.describe().kind)

    def test_a_kill_between_two_writes_leaves_a_batch_complete_or_absent(
        self, place: KilledPlace, can: SinkCapabilities
    ) -> None:
        """A kill between two writes leaves the batch complete or absent. When the next writer replays the batch, its
        row is there once, or possibly twice in an output that does not accept replays.
        """
        known: list[tuple[str, int]] = []
        for number in count():
            row = (f"c{number:03}", number)

            def write(number: int = number, row: tuple[str, int] = row) -> None:
                opened(place, 2 * number + 1).write(place.batch(row), number)

            killed = kill_before(place, number, write)
            left = place.rows()
            assert left in ([*known], [*known, row])
            writer = opened(place, 2 * number + 2)
            if can.knows_batches:
                assert (writer.last_batch() == number) is (row in left)
            writer.write(place.batch(row), number)
            writer.close()
            known = place.rows()
            assert known in ([*left, row], *([left] if can.takes_again else []))
            assert not can.takes_again or known.count(row) == 1
            if not killed:
                break
        assert number >= self.fewest_kills

    def test_a_kill_during_a_cutover_leaves_one_output_complete(
        self, place: KilledPlace, can: SinkCapabilities
    ) -> None:
        """A kill during a cutover leaves either the old or the new output complete, and the next writer of the new
        version completes the cutover.
        """
        if not can.shadows:
            return
        writer = opened(place, 1)
        writer.write(place.batch(("old", 0)), 0)
        writer.close()
        serving = [("old", 0)]
        for number in count():
            version, row = f"v{number + 2:04}", (f"c{number:03}", number)
            shadow = opened(place, 3 * number + 2, version, role=WriterRole.SHADOW)
            shadow.write(place.batch(row), 0)
            shadow.close()

            def cut_over(number: int = number, version: str = version) -> None:
                opened(place, 3 * number + 3, version)

            killed = kill_before(place, number, cut_over)
            assert place.rows() in (serving, [row])
            new = opened(place, 3 * number + 4, version)
            assert (place.rows(), new.last_batch()) == ([row], 0)
            new.close()
            serving = [row]
            if not killed:
                break
        assert number >= self.fewest_kills

    def test_a_killed_writers_epoch_is_fenced_by_the_next_epoch(
        self, place: KilledPlace, can: SinkCapabilities
    ) -> None:
        """A writer with the epoch of a killed writer is fenced after the next epoch has raised its fence."""
        if not can.fences:
            return
        kill_before(place, 1, lambda: opened(place, 1).write(place.batch(("a", 1)), 0))
        opened(place, 2).close()
        with pytest.raises(Fenced):
            opened(place, 1)


def kill_before(place: KilledPlace, number: int, act: Callable[[], None]) -> bool:
    """Run ``act`` in a child process that is killed before its write number ``number``, and return whether it made that
    many writes.
    """
    child = os.fork()
    if child == 0:
        left = number

        def kill_at_zero() -> None:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        def run() -> None:
            try:
                place.before_each_write(kill_at_zero)
                act()
                os._exit(0)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(1)

        # A thread of its own has a connection of its own to the JVM, which its death does not break for others.
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def before_each_file_write(root: Path, act: Callable[[], None]) -> None:
    """Make this process call ``act`` before it writes, creates, renames or removes a file below a directory."""

    def see(event: str, args: tuple[Any, ...]) -> None:
        writes = event in _FILE_WRITES or (event == "open" and isinstance(args[2], int) and args[2] & os.O_ACCMODE)
        if writes and isinstance(args[0], str | os.PathLike) and Path(args[0]).is_relative_to(root):
            act()

    sys.addaudithook(see)
