"""Monitors a driver's sources and checkpoints outside its batches, periodically and in a separate thread.

Batches do not depend on these checks, and a failed check is repeated in the next period. An unreachable broker only
removes a query's lag and runway from the status.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from streamkeeper import clock
from streamkeeper.checkpoints.file_sources import FileSource, file_sources
from streamkeeper.checkpoints.growth import checkpoint_growth
from streamkeeper.checkpoints.input_files import other_s3
from streamkeeper.checkpoints.layout import last_committed, read_offsets
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.checkpoints.unread_files import UnreadFiles
from streamkeeper.driver.ending import say
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.progress import StatusBoard
from streamkeeper.driver.queries import ServedQuery
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, OtherTopic, SourceOutOfReach, StoreUnavailable
from streamkeeper.inspection.kafka_topics import HeldTopics, must_be_the_same
from streamkeeper.inspection.plan_sources import kafka_readings
from streamkeeper.model.measuring import Held, Partition, SourceLook, positions, records_behind, runway_s
from streamkeeper.sources.kafka import KafkaReading

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
        self._readings: list[KafkaReading] | None = None
        self._topics: dict[int, _Topics] = {}
        self._unread: dict[int, UnreadFiles] = {}
        self._failed = self._said = self._refused = False

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
            needed = positions(end.encode())
            if name in files and len(descriptions) == len(plan.ends):
                yield self._files(tree, number, files[name], descriptions[number])
            elif needed:
                yield self._kafka(number, needed)
            else:
                yield SourceLook()

    def _files(self, tree: Tree, number: int, source: FileSource, description: str) -> SourceLook:
        if number not in self._unread:
            known = self._query.planned.manifest.sources
            options = {**known[number].options, **known[number].limits} if number < len(known) else {}
            unseen = other_s3(self._query.planned.manifest.confs, os.environ)
            self._unread[number] = UnreadFiles(description, options, unseen=unseen)
        try:
            found = self._unread[number].look(tree, source)
        except (CheckpointChanged, CheckpointDamaged, StoreUnavailable) as error:
            self._note(error)
            return SourceLook()
        if found is None:
            return SourceLook()
        waited = 0.0 if found.oldest is None else max(0.0, clock.unix() - found.oldest)
        return SourceLook(
            lag_files=found.files, waited_s=waited, too_old_files=found.too_old, too_old_example=found.example
        )

    def _kafka(self, number: int, needed: dict[Partition, int]) -> SourceLook:
        if self._readings is None:
            frame: Any = self._query.planned.query.df
            self._readings = list(kafka_readings(frame._jdf.queryExecution().analyzed()).values())
        if number not in self._topics:
            names = {topic for topic, _ in needed}
            reading = next((kept for kept in self._readings if all(map(kept.reads, names))), None)
            if reading is None:
                return SourceLook()
            frame = self._query.planned.query.df
            held = HeldTopics(frame.sparkSession._jvm, reading)
            self._topics[number] = _Topics(self._query, held, alone=len(self._readings) == 1)
        try:
            return self._topics[number].look(needed)
        except OtherTopic as error:
            if not self._refused:
                self._refused = True
                say(error.message, query=self._query.name, level=logging.WARNING)
                self._query.refuse_input(error)
            return SourceLook()
        except SourceOutOfReach as error:
            self._note(error)
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
