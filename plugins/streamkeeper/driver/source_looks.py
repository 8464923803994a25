"""Monitors a driver's sources and checkpoints outside its batches, periodically and in a separate thread.

Batches do not depend on these checks, and a failed check is repeated in the next period. An unreachable broker only
removes a query's lag and runway from the status.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from streamkeeper import clock
from streamkeeper.checkpoints.file_sources import FileSource, file_sources
from streamkeeper.checkpoints.growth import checkpoint_growth
from streamkeeper.checkpoints.input_files import other_s3
from streamkeeper.checkpoints.layout import last_committed, read_offsets
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.checkpoints.unread_files import UnreadFiles
from streamkeeper.driver.ending import say
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.measuring import SourceLook
from streamkeeper.driver.progress import StatusBoard
from streamkeeper.driver.queries import ServedQuery
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, OtherTopic, SourceOutOfReach, StoreUnavailable
from streamkeeper.inspection.kafka_topics import HeldTopics, must_be_the_same
from streamkeeper.inspection.plan_sources import kafka_readings
from streamkeeper.sources.files import FILES
from streamkeeper.sources.kafka import KAFKA, Held, KafkaReading, Partition, positions, records_behind, runway_s
from streamkeeper.sources.known_sources import kind_of_offset

LOOK_S = 60.0
_WEIGH_EVERY = 10
"""Measuring a checkpoint of several hundred thousand files takes seconds."""
_WINDOW = 120
"""The window of the rate at which a topic drops its records, in checks: two hours."""


class SourceLooks:
    """Checks every added query regularly; ``look_s``: seconds between two checks, by default a minute."""

    def __init__(self, board: StatusBoard, *, look_s: float = LOOK_S) -> None:
        self._board = board
        self._look_s = look_s
        self._queries: list[QueryLooks] = []
        self._begun = False

    def add(self, query: ServedQuery) -> None:
        """Check a query from now on; called by the main thread."""
        self._queries.append(QueryLooks(query, self._board))
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._look, name="source looks", daemon=True).start()

    def _look(self) -> None:
        rounds = 0
        while True:
            # Wait briefly first, until the query's start-up work is done.
            clock.sleep(self._look_s if rounds else min(2.0, self._look_s))
            for query in list(self._queries):
                query.look(weigh=rounds % _WEIGH_EVERY == 0)
            rounds += 1


class QueryLooks:
    """The checks of one query's sources and checkpoint."""

    def __init__(self, query: ServedQuery, board: StatusBoard) -> None:
        self._query = query
        self._board = board
        self._watches: dict[str, Watch] = {name: watch(query) for name, watch in _WATCHES.items()}
        self._failed = self._said = False

    def look(self, *, weigh: bool) -> None:
        """Check the sources once, and report to the board; raises no error. ``weigh``: whether to measure the
        checkpoint's size, too.
        """
        self._failed, found = False, []
        try:
            if weigh:
                self._board.note_size(self._query.name, checkpoint_growth(self._query.checkpoint.fresh()).bytes)
            found = list(self._sources())
        except Exception as error:
            # Any error: batches continue without these checks, and report errors of a source or a checkpoint
            # themselves.
            self._note(error)
        self._board.note_looks(self._query.name, found)
        self._said = self._failed

    def _note(self, error: Exception) -> None:
        self._failed = True
        if not self._said:
            text = f"the query's backlog cannot be read: {describe_fault(error)}"
            say(text, query=self._query.name, level=logging.WARNING)

    def _sources(self) -> Iterator[SourceLook]:
        tree = self._query.checkpoint.fresh()
        status = self._board.query(self._query.name)
        batch = status.committed if status.committed is not None else last_committed(tree)
        if batch is None:
            return
        plan = read_offsets(tree, batch)
        files = {source.name: source for source in file_sources(tree, plan, None)}
        descriptions = [seen.source for seen in self._board.sources(self._query.name)]
        for number, (name, end) in enumerate(plan.ends.items()):
            kind = kind_of_offset(end)
            watch = self._watches.get(kind.name) if kind is not None else None
            if watch is None:
                yield SourceLook()
                continue
            description = descriptions[number] if len(descriptions) == len(plan.ends) else ""
            at = Watched(number=number, end=end, description=description, log=files.get(name))
            try:
                yield watch.look(tree, at)
            except (CheckpointChanged, CheckpointDamaged, SourceOutOfReach, StoreUnavailable) as error:
                self._note(error)
                yield SourceLook()


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A source after a batch."""

    number: int
    """The source's number in the query."""
    end: str
    """Its offset after the batch."""
    description: str
    """Spark's description of the source; empty if unknown."""
    log: FileSource | None
    """Its log, if the checkpoint lists what was read."""


class Watch(Protocol):
    """Checks the sources of one kind of a query, repeatedly."""

    def look(self, tree: Tree, at: Watched) -> SourceLook:
        """Check a source once. Raises CheckpointChanged, CheckpointDamaged, SourceOutOfReach and StoreUnavailable."""


class _Files:
    """The file sources of a query."""

    def __init__(self, query: ServedQuery) -> None:
        self._query = query
        self._unread: dict[int, UnreadFiles] = {}

    def look(self, tree: Tree, at: Watched) -> SourceLook:
        if at.log is None or not at.description:
            return SourceLook()
        if at.number not in self._unread:
            known = self._query.planned.manifest.sources
            options = {**known[at.number].options, **known[at.number].limits} if at.number < len(known) else {}
            unseen = other_s3(self._query.planned.manifest.confs, os.environ)
            self._unread[at.number] = UnreadFiles(at.description, options, unseen=unseen)
        found = self._unread[at.number].look(tree, at.log)
        if found is None:
            return SourceLook()
        waited = 0.0 if found.oldest is None else max(0.0, clock.unix() - found.oldest)
        return SourceLook(
            lag_files=found.files, waited_s=waited, too_old_files=found.too_old, too_old_example=found.example
        )


class _Kafka:
    """The Kafka sources of a query."""

    def __init__(self, query: ServedQuery) -> None:
        self._query = query
        self._readings: list[KafkaReading] | None = None
        self._topics: dict[int, _Topics] = {}
        self._refused = False

    def look(self, tree: Tree, at: Watched) -> SourceLook:
        needed = positions(at.end.encode())
        if not needed:
            return SourceLook()
        frame: Any = self._query.planned.query.df
        if self._readings is None:
            self._readings = list(kafka_readings(frame._jdf.queryExecution().analyzed()).values())
        if at.number not in self._topics:
            names = {topic for topic, _ in needed}
            reading = next((kept for kept in self._readings if all(map(kept.reads, names))), None)
            if reading is None:
                return SourceLook()
            held = HeldTopics(frame.sparkSession._jvm, reading)
            self._topics[at.number] = _Topics(self._query, held, alone=len(self._readings) == 1)
        try:
            return self._topics[at.number].look(needed)
        except OtherTopic as error:
            if not self._refused:
                self._refused = True
                say(error.message, query=self._query.name, level=logging.WARNING)
                self._query.refuse_input(error)
            return SourceLook()


class _Topics:
    """The records of a Kafka source's topics, now and earlier."""

    def __init__(self, query: ServedQuery, held: HeldTopics, *, alone: bool) -> None:
        """``query``: the query that reads them; ``alone``: whether it has no other Kafka source. Another one may read a
        topic of the same name from another cluster.
        """
        self._query = query
        self._held, self._alone = held, alone
        self._ids = dict(query.topics)
        """Topic -> its id when the query was taken over, or in the first look that found it."""
        self._seen: deque[Held] = deque(maxlen=_WINDOW)

    def look(self, needed: dict[Partition, int]) -> SourceLook:
        """Check them once; raises OtherTopic if a topic was deleted and created again meanwhile."""
        ids = self._held.ids(sorted({topic for topic, _ in needed}))
        must_be_the_same(self._query.name, self._ids, ids)
        self._ids = ids | self._ids
        if self._alone:
            self._query.note_topics(ids)
        oldest, newest = self._held.ask(needed)
        now = Held(at=clock.unix(), oldest=oldest, newest=newest)
        self._seen.append(now)
        return SourceLook(lag_records=records_behind(newest, needed), runway_s=runway_s(needed, now, self._seen[0]))


_WATCHES: dict[str, Callable[[ServedQuery], Watch]] = {FILES.name: _Files, KAFKA.name: _Kafka}
"""Kind of source -> its watch. The sources of another kind are not checked."""
