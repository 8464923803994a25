"""The input of a query: a topic with one partition, or a directory of files. A row is identified by the number of its
arrival.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from harness.simulation.file_log import IncompleteLog, compacts, entry_name, whole_log
from harness.simulation.scheduler import Scheduler
from streamkeeper.checkpoints.log_codec import (
    LoggedFile,
    log_names,
    source_entry_content,
    source_entry_from,
    whole,
)
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import InputGone, SourceOutOfReach
from streamkeeper.model.manifests.manifest import Source
from streamkeeper.sources.files import log_offset
from streamkeeper.sources.kafka import KAFKA

TOPIC = "events"
DIRECTORY = "/simulated/input"
MOST_AGE_MS = 7 * 86_400_000
"""Spark's ``maxFileAge``: a file that is older than this before the newest one is ignored once others were read."""
_LOG = "sources/0"
_SILENT = 0.2
"""The share of requests to the brokers that get no response."""

Create = Callable[[str, bytes], None]
"""A function that creates a file of the checkpoint."""


class Reader(Protocol):
    """An interface that plans batches. A position is the meaning of an offset of the source."""

    start: int
    """The position before the first row."""

    def latest(self, begin: int) -> int:
        """Return the position at which a batch from ``begin`` ends."""

    def request(self, begin: int, end: int) -> None:
        """Request the input of the last batch, as Spark does when a query starts; raises IncompleteLog if an entry of
        the log is missing.
        """

    def rows(self, begin: int, end: int) -> Sequence[int]:
        """Return the rows between two positions."""

    def rows_to(self, end: int) -> Sequence[int]:
        """Return the rows before a position, including those that an earlier checkpoint version has read."""

    def clean(self, end: int) -> Sequence[int]:
        """Delete the files that a committed batch has read, if a cleaner is enabled, and return their rows."""

    def offset(self, position: int) -> dict[str, Any]:
        """Return a position in the form in which Spark writes it."""

    def position(self, offset: str) -> int:
        """Return the position that an offset written by Spark denotes."""


class RecordsGone(RuntimeError):
    """Spark's error for records that are no longer in a topic."""

    condition = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"


class Topic:
    """A topic with one partition, in which rows arrive one by one."""

    source = Source(kind="kafka", location=TOPIC, options={"subscribe": TOPIC}, limits={}, schema="x bigint")
    described = f"KafkaV2[Subscribe[{TOPIC}]]"

    def __init__(self, scheduler: Scheduler, *, every_s: float) -> None:
        self._scheduler, self._every_s = scheduler, every_s
        self.until_s = float("inf")
        self.first = 0
        """The oldest row that the topic still has."""
        self.begin = 0
        """The row at offset 0: more than 0 once the topic was created again."""
        self.gone: set[int] = set()
        """Rows that nobody had read when their topic was deleted, and those that a person has let a query skip."""
        self.most_rows = 7
        """How many rows a batch takes at most."""
        self.gap_s = 0.0
        """How long nothing arrived, because the machines stood still."""

    def close(self) -> None:
        """Stop the arrival of rows."""
        self.until_s = self._scheduler.now_s

    def create_again(self, seen: Container[int]) -> None:
        """Delete the topic with its rows and recreate it; ``seen``: the rows that readers of the output see."""
        self.begin = self.first = self.end()
        self.skip_to(0, seen)

    def ids(self) -> dict[str, str]:
        """Return the topic with its id, which changes when the topic is recreated."""
        return {TOPIC: f"id-{self.begin}"}

    def ask_ids(self) -> dict[str, str]:
        """Return the same as ``ids``, as a driver requests it; after a topic was recreated, the brokers sometimes do
        not answer.
        """
        if self.begin and self._scheduler.strikes(_SILENT):
            raise SourceOutOfReach("simulated: the brokers do not answer", kind=KAFKA.name)
        return self.ids()

    def skip_to(self, offset: int, seen: Container[int]) -> None:
        """Record that a person lets the query continue at an offset of the present topic, so that it skips the rows
        before this offset and the rows of earlier topics that it had not read. ``seen``: the rows that readers of the
        output see.
        """
        self.gone |= set(range(self.begin, self.begin + offset))
        self.gone |= {row for row in range(self.begin) if row not in seen}

    def may_lack(self, row: int) -> bool:
        """Return whether the output may contain later rows without this one, or this one without earlier ones."""
        return row in self.gone

    def gaps(self, rows: Collection[int]) -> list[int]:
        """Return the rows that are missing before the newest of the given rows and should have been read before it."""
        newest = max((row for row in rows if not self.may_lack(row)), default=0)
        return [row for row in range(newest) if row not in rows and not self.may_lack(row)]

    def end(self) -> int:
        """Return how many rows have arrived."""
        return int((min(self._scheduler.now_s, self.until_s) - self.gap_s) / self._every_s)

    def has(self, row: int) -> bool:
        """Return whether a row can be read."""
        return self.first <= row < self.end()

    def stat(self, path: str) -> None:
        """Act as ``os.stat`` for an input file, of which only the errors matter; raises FileNotFoundError."""
        raise FileNotFoundError(2, "No such file or directory", path)

    def listing(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the modification time in milliseconds of each input file."""
        return iter(())

    def reader(self, tree: Tree, create: Create, options: Mapping[str, str] | None = None) -> Reader:
        """Return the reader of the input for a run with this checkpoint; ``options`` override those of the query."""
        del tree, create, options
        return TopicReader(self)


class InputFiles(Topic):
    """A directory in which files with one row each arrive."""

    described = f"FileStreamSource[file:{DIRECTORY}]"

    def __init__(self, scheduler: Scheduler, *, every_s: float, cleaner: bool = False) -> None:
        """Create the directory; ``cleaner``: whether the query deletes the files that it has read."""
        super().__init__(scheduler, every_s=every_s)
        options = {"cleansource": "delete"} if cleaner else {}
        self.source = Source(kind="file", location=DIRECTORY, options=options, limits={}, schema="x bigint")
        self.removed: set[int] = set()
        """The rows whose files were deleted."""
        self.away: list[int] = []
        """The rows from which on files are elsewhere for a while."""
        self.late: dict[int, float] = {}
        """Rows whose files arrive after those of later rows -> when."""
        self.old: set[int] = set()
        """Rows whose files have a modification time of long ago."""

    def has(self, row: int) -> bool:
        arrived = self.late.get(row, 0.0) <= self._scheduler.now_s
        return super().has(row) and arrived and row not in self.removed and all(row < first for first in self.away)

    def may_lack(self, row: int) -> bool:
        return super().may_lack(row) or row in self.late

    def written_ms(self, row: int) -> int:
        """Return the modification time of a row's file, in milliseconds since 1970."""
        return 1_700_000_000_000 + 1000 * row - (2 * MOST_AGE_MS if row in self.old else 0)

    def rows(self) -> Iterator[int]:
        """Return the rows whose files exist."""
        return filter(self.has, range(self.end()))

    def reader(self, tree: Tree, create: Create, options: Mapping[str, str] | None = None) -> Reader:
        return FileReader(self, tree, create, self.source.options | dict(options or {}))

    def stat(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if folder != DIRECTORY or not self.has(row_of(name)):
            raise FileNotFoundError(2, "No such file or directory", path)

    def listing(self) -> Iterator[tuple[str, int]]:
        return ((path_of(row), self.written_ms(row)) for row in self.rows())


class TopicReader:
    """Plans batches by offsets; a position is an offset. A run fails if its topic is recreated, because the brokers are
    unreachable while that happens; the next run reads the new topic at the old offset.
    """

    start = 0

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._begin = topic.begin

    def latest(self, begin: int) -> int:
        self._must_be_there(begin)
        return min(self._topic.end() - self._begin, begin + self._topic.most_rows)

    def request(self, begin: int, end: int) -> None:
        """Do nothing, because a topic has no log."""

    def rows(self, begin: int, end: int) -> Sequence[int]:
        self._must_be_there(begin)
        return range(self._begin + begin, self._begin + end)

    def _must_be_there(self, begin: int) -> None:
        row = self._begin + begin
        if self._begin != self._topic.begin:
            raise ConnectionError("the brokers were away")
        if not self._topic.first <= row <= self._topic.end():
            raise RecordsGone(f"the topic has rows {self._topic.first} to {self._topic.end() - 1}, and not row {row}")

    def rows_to(self, end: int) -> Sequence[int]:
        return range(self._begin + end)

    def clean(self, end: int) -> Sequence[int]:
        """Return no rows, because a topic has no cleaner."""
        return ()

    def offset(self, position: int) -> dict[str, Any]:
        return {TOPIC: {"0": position}}

    def position(self, offset: str) -> int:
        return int(json.loads(offset)[TOPIC]["0"])


class FileReader:
    """The simulation of Spark's ``FileStreamSource``: it lists new files in a log, and plans batches by the log's
    entries.
    """

    start = -1

    def __init__(self, files: InputFiles, tree: Tree, create: Create, options: Mapping[str, str]) -> None:
        self._files, self._create = files, create
        self._cleans = options.get("cleansource", "off") != "off"
        self._entries: dict[int, list[LoggedFile]] = {}
        names = log_names(tree.files(_LOG))
        self._newest = names.newest
        for name in whole_log(names, names.newest):
            for file in whole(source_entry_from(tree.read(f"{_LOG}/{name}"), name), name):
                self._entries.setdefault(file.batch_id, []).append(file)
        self._seen = {row_of(file.path) for listed in self._entries.values() for file in listed}
        self._first = 0
        """Every file before this row is listed."""
        self._ignored_ms = 0
        """Spark ignores files from before this time."""
        self._ignore_old_files()

    def request(self, begin: int, end: int) -> None:
        if missing := [number for number in range(begin + 1, end + 1) if number > self._newest]:
            raise IncompleteLog(f"entry {missing[0]} does not exist")

    def latest(self, begin: int) -> int:
        """List new files in the log, as many as one batch may contain, and return the number of the newest entry."""
        del begin
        while self._first in self._seen:
            self._first += 1
        rows = filter(self._files.has, range(self._first, self._files.end()))
        known, files = self._seen, self._files
        new = [row for row in rows if row not in known and files.written_ms(row) >= self._ignored_ms]
        new = sorted(new, key=files.written_ms)[: files.most_rows]
        if new:
            number = self._newest + 1
            listed = [LoggedFile(f"file://{path_of(row)}", self._files.written_ms(row), number) for row in new]
            before = (
                [file for each in sorted(self._entries) for file in self._entries[each]] if compacts(number) else []
            )
            self._create(f"{_LOG}/{entry_name(number)}", source_entry_content([*before, *listed]))
            self._entries[number], self._newest = listed, number
            self._seen |= set(new)
            self._ignore_old_files()
        return self._newest

    def _ignore_old_files(self) -> None:
        if self._files.old and self._seen:
            self._ignored_ms = max(map(self._files.written_ms, self._seen)) - MOST_AGE_MS

    def rows(self, begin: int, end: int) -> Sequence[int]:
        """Return the rows of the entries after ``begin``, up to ``end``."""
        return [row_of(file.path) for number in range(begin + 1, end + 1) for file in self._entries.get(number, ())]

    def rows_to(self, end: int) -> Sequence[int]:
        return sorted(
            {row_of(file.path) for number in self._entries if number <= end for file in self._entries[number]}
        )

    def clean(self, end: int) -> Sequence[int]:
        rows = self.rows(end - 1, end) if self._cleans else ()
        self._files.removed |= set(rows)
        return rows

    def offset(self, position: int) -> dict[str, Any]:
        return {"logOffset": position}

    def position(self, offset: str) -> int:
        found = log_offset(offset)
        assert found is not None
        return found


def check_batch(batch: Any, number: int) -> None:
    """Check a batch as ``batch_files.check_batch`` does: raises InputGone if files of the batch are missing."""
    if batch.missing:
        raise InputGone(
            f"batch {number} was stopped before it ran: {len(batch.missing)} of its files are missing", hint="none"
        )


def path_of(row: int) -> str:
    """Return the path of a row's file."""
    return f"{DIRECTORY}/{row:06d}.json"


def row_of(path: str) -> int:
    """Return the row of a file."""
    return int(path.rpartition("/")[2].partition(".")[0])


def told(rows: Iterable[int]) -> str:
    """Return rows as text for the trace."""
    there = list(rows)
    if not there:
        return "no row"
    whole_range = there == list(range(there[0], there[-1] + 1))
    return f"rows {there[0]} to {there[-1]}" if whole_range else f"rows {', '.join(map(str, there))}"
