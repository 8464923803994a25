"""Monitors a driver's sources and checkpoints outside its batches, periodically and in a separate thread.

Batches do not depend on these checks, and a failed check is repeated in the next period. An unreachable broker only
removes a query's lag and runway from the status.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator

from streamkeeper.checkpoints.file_sources import FileSource, file_sources
from streamkeeper.checkpoints.growth import checkpoint_growth
from streamkeeper.checkpoints.input_files import other_s3
from streamkeeper.checkpoints.layout import last_committed, read_offsets
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.checkpoints.unread_files import UnreadFiles
from streamkeeper.driver.ending import log_line
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.progress import StatusReporter
from streamkeeper.driver.queries import ServedQuery
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, OtherTopic, SourceOutOfReach, StoreUnavailable
from streamkeeper.inspection.source_readers import SourceWatch, reader_of
from streamkeeper.sources.contract import SourceLook
from streamkeeper.sources.known_sources import kind_of_offset
from streamkeeper.system import clock

LOOK_S = 60.0
_WEIGH_EVERY = 10
"""One in this many checks measures the checkpoint's size, because measuring several hundred thousand files takes
seconds.
"""


class SourceLooks:
    """Checks every added query periodically. ``look_s``: the number of seconds between two checks, by default
    a minute.
    """

    def __init__(self, status_reporter: StatusReporter, *, look_s: float = LOOK_S) -> None:
        self._status_reporter = status_reporter
        self._look_s = look_s
        self._queries: list[QueryLooks] = []
        self._begun = False

    def add(self, query: ServedQuery) -> None:
        """Include a query in the periodic checks from now on; called by the main thread."""
        self._queries.append(QueryLooks(query, self._status_reporter))
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
    """Checks one query's sources and checkpoint."""

    def __init__(self, query: ServedQuery, status_reporter: StatusReporter) -> None:
        self._query = query
        self._status_reporter = status_reporter
        self._files = _Files(query)
        self._watches: dict[str, SourceWatch] = {}
        self._failed = self._said = self._refused = False

    def look(self, *, weigh: bool) -> None:
        """Check the sources once, and report the results to the status reporter; raises no error.

        ``weigh``: whether to measure the checkpoint's size, too.
        """
        self._failed, found = False, []
        try:
            if weigh:
                self._status_reporter.note_size(
                    self._query.name, checkpoint_growth(self._query.checkpoint.fresh()).bytes
                )
            found = list(self._sources())
        except Exception as error:
            # Any error: batches continue without these checks, and report errors of a source or a checkpoint
            # themselves.
            self._note(error)
        self._status_reporter.note_looks(self._query.name, found)
        self._said = self._failed

    def _note(self, error: Exception) -> None:
        self._failed = True
        if not self._said:
            text = f"the query's backlog cannot be read: {describe_fault(error)}"
            log_line(text, query=self._query.name, level=logging.WARNING)

    def _sources(self) -> Iterator[SourceLook]:
        tree = self._query.checkpoint.fresh()
        status = self._status_reporter.query(self._query.name)
        batch = status.committed if status.committed is not None else last_committed(tree)
        if batch is None:
            return
        plan = read_offsets(tree, batch)
        files = {source.name: source for source in file_sources(tree, plan, None)}
        descriptions = [seen.source for seen in self._status_reporter.sources(self._query.name)]
        for number, (name, end) in enumerate(plan.ends.items()):
            try:
                if name in files and len(descriptions) == len(plan.ends):
                    yield self._files.look(tree, number, files[name], descriptions[number])
                else:
                    yield self._look(number, end)
            except (CheckpointChanged, CheckpointDamaged, SourceOutOfReach, StoreUnavailable) as error:
                self._note(error)
                yield SourceLook()

    def _look(self, number: int, end: str) -> SourceLook:
        """Query the servers of a source whose items are not listed in the checkpoint."""
        kind = kind_of_offset(end)
        reader = reader_of(kind.name) if kind is not None else None
        if kind is None or reader is None:
            return SourceLook()
        if kind.name not in self._watches:
            query = self._query
            self._watches[kind.name] = reader.watch(query.planned.query, query.topics, query.note_topics)
        try:
            return self._watches[kind.name].look(number, end)
        except OtherTopic as error:
            if not self._refused:
                self._refused = True
                log_line(error.message, query=self._query.name, level=logging.WARNING)
                self._query.refuse_input(error)
            return SourceLook()


class _Files:
    """Checks the file sources of a query for unread files."""

    def __init__(self, query: ServedQuery) -> None:
        self._query = query
        self._unread: dict[int, UnreadFiles] = {}

    def look(self, tree: Tree, number: int, source: FileSource, description: str) -> SourceLook:
        if number not in self._unread:
            known = self._query.planned.manifest.sources
            options = {**known[number].options, **known[number].limits} if number < len(known) else {}
            unseen = other_s3(self._query.planned.manifest.confs, os.environ)
            self._unread[number] = UnreadFiles(description, options, unseen=unseen)
        found = self._unread[number].look(tree, source)
        if found is None:
            return SourceLook()
        waited = 0.0 if found.oldest is None else max(0.0, clock.unix() - found.oldest)
        return SourceLook(
            lag_files=found.files, waited_s=waited, too_old_files=found.too_old, too_old_example=found.example
        )
