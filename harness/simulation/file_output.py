"""Runs the real ``FileSink`` on the simulated disk; only Spark's own file sink, which it calls for each batch, is
simulated.

The name of each output file lists the rows of its batch.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from harness.simulation.file_log import compacts, entry_name, whole_log
from harness.simulation.input import told
from streamkeeper.checkpoints.log_codec import LogNames, log_names, sink_entry_content
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.file_locations import folder_at
from streamkeeper.sinks.file_serving import newest_epoch
from streamkeeper.sinks.sink_log import SINK_LOG, listed_files

if TYPE_CHECKING:
    from harness.simulation.spark import Session
    from harness.simulation.world import World

PLACE = "/simulated/output"


class SparkFileSink:
    """The simulation of Spark's ``FileStreamSink`` for one directory, which runs in the JVM."""

    def __init__(self, world: World, session: Session | None, directory: str) -> None:
        self._world, self._session, self._directory = world, session, directory

    def addBatch(self, number: int, rows: Sequence[int]) -> None:  # noqa: N802
        """Write the files of a batch and list them in the sink's log, unless the batch is listed already; the call runs
        to its end even if the Python process dies.
        """
        if self._session is None:
            self._add(number, rows)
        else:
            self._session.in_jvm(lambda: self._add(number, rows))

    def _add(self, number: int, rows: Sequence[int]) -> None:
        world, files = self._world, self._world.files
        world.scheduler.seam()
        if number <= self._entries().newest:
            return
        named = "_".join(map(str, rows))
        path = f"{self._directory}/part-{named}-{world.scheduler.chance.getrandbits(64):016x}.parquet"
        files.create(path, b"rows")
        world.take_time()
        world.scheduler.seam()
        listed = {"path": f"file://{path}", "size": 4, "isDir": False, "modificationTime": 0, "blockReplication": 1,
                  "blockSize": 4, "action": "add"}  # fmt: skip
        content = b"\n".join([sink_entry_content(), json.dumps(listed).encode()])
        if compacts(number):
            content = self._compacted(number, content)
        try:
            files.create(f"{self._directory}/{SINK_LOG}/{entry_name(number)}", content)
        except FileExistsError:
            raise RuntimeError(f"Race while writing batch {number}") from None
        world.scheduler.say(f"lists batch {number} of {self._directory}: {told(rows)}")
        world.scheduler.seam()

    def _compacted(self, number: int, content: bytes) -> bytes:
        entries = self._entries()
        lines: list[bytes] = []
        for name in whole_log(entries, number - 1):
            found = self._world.files.get(f"{self._directory}/{SINK_LOG}/{name}")
            assert found is not None
            lines += found[0].splitlines()[1:]
        return b"\n".join([sink_entry_content(), *lines, *content.splitlines()[1:]])

    def _entries(self) -> LogNames:
        return log_names(self._world.files.names(f"{self._directory}/{SINK_LOG}"))


def rows_of(root: str, spans: Iterable[OutputSegment]) -> list[int]:
    """Return the rows of several segments of the output, as readers see them; raises IncompleteLog."""
    rows: list[int] = []
    for span in spans:
        directory = f"{root}/{span.version}"
        names = folder_at(directory, SINK_LOG).names("")
        if names:
            entries = log_names(names)
            # The real reader leaves a whole log to Spark.
            whole = span.last is None or entries.newest <= span.last
            if whole:
                list(whole_log(entries, entries.newest))
            for file in listed_files(directory, last=None if whole else span.last):
                name = file.rpartition("/")[2]
                rows += map(int, filter(None, name.split("-")[1].split("_")))
    return rows


def rows_seen(root: str) -> list[int]:
    """Return the rows that readers of an output see at present, in order; raises IncompleteLog."""
    claim = newest_epoch(root)
    return rows_of(root, claim.segments) if claim is not None else []


def compare_rows(
    old: Sequence[int] | None, new: Sequence[int] | None, *, may_differ: Collection[str] = ()
) -> OutputComparison:
    """Compare two outputs, in place of ``compare_frames``."""
    del may_differ
    if not old or not new:
        return OutputComparison(comparable=False, why="an output has no batch yet")
    return OutputComparison(
        old_rows=len(old),
        new_rows=len(new),
        only_old=len(set(old) - set(new)),
        only_new=len(set(new) - set(old)),
    )
