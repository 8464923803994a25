"""Writes batches to a Delta table under one epoch, and raises the table's fence.

The fence is one commit. It closes the earlier writer, records this one, and sets the table to other files if a cutover,
a rollback or a restore requires that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import structs

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import Fenced, InvalidInput, OutputUnfit, StoreUnavailable
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.sinks.comparison import compare_frames
from streamkeeper.sinks.contract import (
    ComparedVersions,
    OutputClaim,
    SinkContext,
    SinkWriter,
    WriterRole,
    check_installation,
    compute,
    reaching_output,
    refuse_older_copy,
)
from streamkeeper.sinks.delta_answer import is_delta_table, look_back, read_table_record, remove_shadow
from streamkeeper.sinks.delta_columns import check_keys, has_times_without_zone, refuse_forgetting, refuse_table
from streamkeeper.sinks.delta_commit import ConflictingCommit, Content, DeltaTable, NoRows
from streamkeeper.sinks.delta_record import (
    CLOSED,
    FENCE,
    NO_BATCH,
    SHADOWS,
    DeltaRecord,
    DeltaWriterId,
    RecordReader,
    content_after,
    read_record,
    record_of,
)
from streamkeeper.sinks.delta_session import DeltaSession
from streamkeeper.sinks.sql_names import in_backticks
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from streamkeeper.sinks.delta import DeltaSink

_ATTEMPTS = 6
_PAUSE_S = 0.2
_BATCH = "_streamkeeper_batch"


class DeltaWriter(SinkWriter):
    """Writes one query's batches under one epoch; not thread-safe."""

    def __init__(self, sink: DeltaSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._in_shadow = context.role is WriterRole.SHADOW
        self._path = f"{sink.path}/{SHADOWS}/{context.version}" if self._in_shadow else sink.path
        self._me = DeltaWriterId(
            installation=context.installation,
            owner=f"{context.job}/{context.query}",
            version=context.version,
            epoch=context.epoch,
        )
        self._record = RecordReader(tree_at(self._path))
        self._session: DeltaSession | None = None
        self._held: int | None = None
        self._checked: StructType | None = None

    def _delta(self) -> DeltaSession:
        """Return this writer's session, which starts with the first use, because a reading writer needs none."""
        if self._session is None:
            self._session = DeltaSession(self._context.frame.sparkSession)
            self._session.must_reach(self._sink.path)
        return self._session

    @reaching_output()
    def raise_fence(self) -> None:
        """Commit this epoch to the table and close the earlier writer. In the role SERVING, the same commit sets the
        table to the content of ``context.serving``.
        """
        self._repeat_on_conflict(self._commit_fence)
        self._held = self._must_be_current()

    def _repeat_on_conflict(self, commit: Callable[[], None]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                return commit()
            except ConflictingCommit:
                clock.sleep(_PAUSE_S * 2**attempt)
        raise StoreUnavailable(
            f"table {self._path}: {_ATTEMPTS} attempts to commit epoch {self._me.epoch} met commits of others",
            hint="run the operation again while others do not write to the table",
        )

    def _commit_fence(self) -> None:
        record = self._record.read() or DeltaRecord()
        if self._is_fenced(record):
            return
        table = DeltaTable(self._delta(), self._path)
        content, batch = self._content(table, record)
        if is_delta_table(tree_at(self._path)):
            facts = table.facts(table.newest())
            if content is not None or record.writer is None:
                refuse_table(self._path, facts)
            refuse_forgetting(self._path, facts.properties)
        numbers = {FENCE: self._me.epoch, self._me.app_id: _number(batch)}
        numbers |= dict.fromkeys(record.open_ids, CLOSED)
        before = record.writer
        if before is not None and before.version != self._me.version:
            numbers[before.version_id] = _number(record.batch)
        expected = {FENCE: -1, self._me.app_id: -1, **record.app_ids}
        table.commit(numbers, expected=expected, content=content, note=self._note(batch))

    def _is_fenced(self, record: DeltaRecord) -> bool:
        """Whether the table's writer is this one. Raises an error if this writer must not become the table's writer."""
        if self._in_shadow:
            current = read_record(tree_at(self._sink.path))
            if current is not None and current.writer is not None:
                self._must_be_mine(current.writer)
                if current.writer.version == self._me.version:
                    raise Fenced(f"table {self._sink.path}: {self._me.version} is current and no longer a shadow")
        if record.writer is None:
            return False
        self._must_be_mine(record.writer)
        self._must_not_be_older(record.writer)
        return record.writer == self._me

    def _must_be_mine(self, writer: DeltaWriterId) -> None:
        if writer.owner != self._me.owner:
            raise InvalidInput(
                f"table {self._path} is written by {writer.owner}, not by {self._me.owner}",
                hint="give each query its own table",
            )
        check_installation(f"table {self._path}", writer.installation, self._me.installation)

    def _must_not_be_older(self, writer: DeltaWriterId) -> None:
        same = writer.epoch == self._me.epoch and writer.version == self._me.version
        if writer.epoch >= self._me.epoch and not same:
            raise Fenced(
                f"table {self._path}: epoch {self._me.epoch} of {self._me.version} has been superseded by epoch"
                f" {writer.epoch} of {writer.version}"
            )

    def _content(self, table: DeltaTable, record: DeltaRecord) -> tuple[Content | None, int | None]:
        """Return the content that the table must get, None to keep it, and this version's newest batch in it."""
        mine, before = self._me.version, record.writer
        if before is not None and before.version == mine:
            return None, record.batch
        if mine in record.ended:
            return self._earlier(table, mine, None), record.ended[mine]
        parents = [segment for segment in self._context.serving if segment.version != mine]
        if not self._in_shadow and not parents and (shadow := self._shadow_content(mine)) is not None:
            return shadow
        if before is None:
            self._must_be_empty(table)
            return None, None
        for parent in reversed(parents):
            held = record.last(parent.version)
            beyond = held is not None and parent.last is not None and held > parent.last
            if parent.version == before.version and not beyond:
                return None, None
            if parent.last is not None and parent.last < 0:
                continue
            if held is not None:
                return self._earlier(table, parent.version, parent.last if beyond else None), None
            # A rebuilt version whose driver ended before its first fence is still beside the table.
            shadow = self._shadow_content(parent.version)
            if shadow is not None and shadow[1] is not None and (parent.last is None or shadow[1] <= parent.last):
                return shadow[0], None
        if any(parent.last is None or parent.last >= 0 for parent in parents):
            raise OutputUnfit(
                f"table {self._path} has no batch of {parents[-1].version}, which {mine} continues",
                hint="restore the table, or rebuild it with `--strategy rebuild`",
            )
        if record.batches:
            return NoRows(), None
        return None, None

    def _must_be_empty(self, table: DeltaTable) -> None:
        if is_delta_table(tree_at(self._path)) and not self._context.begun and table.has_rows(table.newest()):
            raise InvalidInput(
                f"table {self._path} has rows that Streamkeeper did not write, and a rebuild or a restore would lose"
                " them",
                hint="write to another table, or move these rows to one",
            )

    def _shadow_content(self, version: str) -> tuple[Content, int | None] | None:
        """Return the content of a version's shadow table, and its newest batch; None without such a table."""
        path = f"{self._sink.path}/{SHADOWS}/{version}"
        if not is_delta_table(tree_at(path)):
            return None
        shadow = DeltaTable(self._delta(), path)
        snapshot = shadow.newest()
        record = record_of(shadow.transactions(snapshot))
        if record.writer is None:
            return None
        self._must_be_mine(record.writer)
        return Content(shadow, snapshot, f"{SHADOWS}/{version}/"), record.batch

    def _earlier(self, table: DeltaTable, version: str, last: int | None) -> Content:
        """Return the content of the table with a version's batches up to ``last``. Raises OutputUnfit if it is gone."""
        found = look_back(self._path, version, last)
        why = found.why
        if found.commit is not None and not why:
            try:
                return Content(table, table.at(found.commit), checked=found.checked)
            except Exception as error:
                why = f"Delta cannot read commit {found.commit}: {' '.join(str(error).split()[:40])}"
        batches = f"the batches of {version}" + ("" if last is None else f" up to {last}")
        raise OutputUnfit(
            f"table {self._path} cannot be set back to {batches}: {why}",
            hint="rebuild the output with `--strategy rebuild`, or restore a newer snapshot",
        )

    @reaching_output()
    def seed(self, batch_id: int) -> None:
        """Record that this version continues after ``batch_id``, so that later versions can name this batch."""

        def commit() -> None:
            if self._must_be_current() is None:
                table, me = DeltaTable(self._delta(), self._path), self._me.app_id
                table.commit({me: batch_id}, expected={me: NO_BATCH}, note=self._note(batch_id))

        self._repeat_on_conflict(commit)
        self._held = self._must_be_current()

    @reaching_output()
    def newest_claim(self) -> OutputClaim | None:
        """Return the table's writer, if it belongs to this query and installation; None otherwise."""
        record = read_record(tree_at(self._sink.path))
        writer = record.writer if record is not None else None
        if writer is None or writer.owner != self._me.owner:
            return None
        if writer.installation and self._me.installation and writer.installation != self._me.installation:
            return None
        return OutputClaim(epoch=writer.epoch, version=writer.version)

    @reaching_output()
    def last_batch(self) -> int | None:
        """Return the newest batch of this checkpoint version in the table, or in the version's shadow table."""
        record = self._record.read()
        return record.last(self._me.version) if record is not None else None

    @reaching_output()
    def read_record(self) -> OutputRecord:
        """Return the newest epoch, and the newest batch of every version in the table and in shadow tables."""
        return read_table_record(self._sink.path, shadow=self._me.version if self._in_shadow else "")

    @reaching_output()
    def begin_after(self, batch: DataFrame, batch_id: int) -> None:
        """Record ``batch_id`` as the version's newest batch, with a commit that adds no rows."""
        self._sink.check_columns(batch)
        if (last := self._must_be_current()) is None or last < batch_id:
            nothing: Any = self._delta().spark.createDataFrame([], batch.schema)
            self._save(nothing, batch_id, "append", new=self._is_new(batch.schema))
        self._held = self._must_be_current()

    @reaching_output()
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch in one commit that names this writer and the batch."""
        self._sink.check_columns(batch)
        last = self._must_be_current()
        refuse_older_copy(self._path, self._me.version, self._held, last)
        self._held = last
        if last is not None and last >= batch_id:
            compute(batch)
            return
        new = self._is_new(batch.schema)
        try:
            if self._sink.key:
                self._write_by_key(self._delta().take(batch), batch_id, new=new)
            else:
                self._save(self._delta().take(batch), batch_id, self._context.output_mode, new=new)
        except Exception:
            # A commit of the next writer's fence fails this commit. Fenced is then the cause.
            self._must_be_current()
            raise
        crash_point("sink.committed")
        # A table that has closed this writer ignores the batch without an error.
        refuse_older_copy(self._path, self._me.version, batch_id, self._must_be_current())
        self._held = batch_id

    def _is_new(self, schema: StructType) -> bool:
        """Whether the table gets its columns from the next batch, because it has no rows."""
        if schema == self._checked:
            return False
        table = DeltaTable(self._delta(), self._path)
        snapshot = table.newest()
        if not table.has_rows(snapshot):
            if has_times_without_zone(schema):
                table.allow_times_without_zone()
            return True
        self._sink.check_table(table, snapshot, schema)
        self._checked = schema
        return False

    def _must_be_current(self) -> int | None:
        """Return this version's newest batch in the table.

        Raises Fenced if a newer writer has the table, and OutputLost if an older copy is in its place, or no table.
        """
        record = self._record.read() or DeltaRecord()
        if record.writer == self._me:
            return record.batch
        if record.writer is not None:
            self._must_not_be_older(record.writer)
        refuse_older_copy(self._path, self._me.version, self._held, None)
        raise Fenced(f"table {self._path}: epoch {self._me.epoch} of {self._me.version} is not recorded there")

    def _write_by_key(self, batch: DataFrame, batch_id: int, *, new: bool) -> None:
        """Write a batch whose rows have a key. The plan of the batch runs once, although the key is also checked."""
        kept = batch.persist()
        try:
            check_keys(self._path, kept, self._sink.key)
            if new or self._context.output_mode == "complete":
                self._save(kept, batch_id, "complete", new=new)
            else:
                self._merge(kept, batch_id)
        finally:
            kept.unpersist()

    def _merge(self, batch: DataFrame, batch_id: int) -> None:
        session = self._delta()
        batch.createOrReplaceTempView(_BATCH)
        same = " AND ".join(f"t.{in_backticks(column)} <=> b.{in_backticks(column)}" for column in self._sink.key)
        with session.noting(self._note(batch_id), app_id=self._me.app_id, number=batch_id):
            session.spark.sql(
                f"MERGE INTO delta.{in_backticks(self._path)} t USING {_BATCH} b ON {same}"
                " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

    def _save(self, batch: DataFrame, batch_id: int, mode: str, *, new: bool) -> None:
        """Write a batch. ``new``: whether it decides the table's columns; the table has no rows then."""
        writer = batch.write.format("delta").option("txnAppId", self._me.app_id).option("txnVersion", batch_id)
        writer = writer.option("userMetadata", json.dumps(self._note(batch_id)))
        if new:
            writer = writer.option("overwriteSchema", "true").partitionBy(*self._sink.partition_by)
        writer.mode("overwrite" if new or mode == "complete" else "append").save(self._path)

    def _note(self, batch: int | None) -> dict[str, object]:
        """Return what ``DESCRIBE HISTORY`` shows as the commit's ``userMetadata``."""
        me, context = self._me, self._context
        return {
            "job": context.job,
            "query": context.query,
            "version": me.version,
            "batch": batch,
            "epoch": me.epoch,
            "installation": me.installation,
        }

    def close(self) -> None:
        """Do nothing: no connection is open."""

    @reaching_output()
    def discard(self) -> None:
        """Remove the table of this shadow version, unless the version has been current."""
        current = read_record(tree_at(self._sink.path))
        if not self._in_shadow or next(tree_at(self._path).stamps(), None) is None:
            return
        if current is not None and (
            current.writer is None or self._me.version in {*current.ended, current.writer.version}
        ):
            return
        remove_shadow(self._sink.path, self._me.version)

    @reaching_output()
    def compare_with_current(self, versions: ComparedVersions) -> OutputComparison | None:
        pair = versions.newest_pair()
        if pair is None:
            return None
        frames = []
        for path, version, batch in zip(
            (self._sink.path, self._path), (versions.current, self._me.version), pair, strict=True
        ):
            commit = content_after(tree_at(path), version, batch)
            if commit is None:
                why = f"the log of table {path} does not contain batch {batch} of {version}"
                return OutputComparison(comparable=False, why=why)
            frames.append(self._delta().read(path, commit))
        compared = compare_frames(*frames, may_differ=versions.may_differ)
        return versions.judged(structs.replace(compared, old_batch=pair[0], new_batch=pair[1]))


def _number(batch: int | None) -> int:
    return NO_BATCH if batch is None else batch
