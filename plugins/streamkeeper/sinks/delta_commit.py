"""Commits to a Delta table that change its fence, and with it, in the same commit, its content.

Delta has no public interface for a commit that both names application transactions and sets a table to other files.
Therefore this module calls Delta's own classes in the JVM; requirements/connectors.xml pins the version of Delta.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from streamkeeper.errors import OutputUnfit
from streamkeeper.sinks.delta_columns import TableFacts
from streamkeeper.sinks.delta_session import DeltaSession
from streamkeeper.sinks.sql_names import in_backticks

_OPERATION = "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$"
_CONFLICT = re.compile(r"io\.delta\.exceptions\.\w*(Concurrent|MetadataChanged|ProtocolChanged)\w*Exception")
_NTZ, _NTZ_FEATURE = "timestamp_ntz", "delta.feature.timestampNtz"
_EMPTY_SCHEMA = '{"type":"struct","fields":[]}'


class ConflictingCommit(Exception):
    """Another commit changed the table between the read of its record and this commit."""


class DeltaTable:
    """A Delta table at a path, as Delta's classes in the session's JVM see it."""

    def __init__(self, session: DeltaSession, path: str) -> None:
        self.session = session
        self.path = path
        self._jvm = session.jvm
        self._none = self._jvm.scala.Option.empty()
        self._log = session.log_of(path)

    def newest(self) -> Any:
        """Return Delta's snapshot of the newest commit."""
        with self.session.current():
            return self._log.update(False, self._none, self._none)

    def at(self, commit: int) -> Any:
        """Return Delta's snapshot of a commit."""
        with self.session.current():
            return self._log.getSnapshotAt(commit, self._none, self._none, False)

    def transactions(self, snapshot: Any) -> dict[str, int]:
        """Return the application transactions of a snapshot: id -> number."""
        with self.session.current():
            found: dict[str, int] = dict(
                self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(snapshot.transactions())
            )
        return found

    def facts(self, snapshot: Any) -> TableFacts:
        """Return the facts about the table at a snapshot."""
        metadata, protocol = _fields(snapshot.metadata()), _fields(snapshot.protocol())
        return TableFacts(
            properties=metadata["configuration"],
            fields=json.loads(metadata.get("schemaString", _EMPTY_SCHEMA))["fields"],
            partition_by=metadata["partitionColumns"],
            features=frozenset({*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())}),
        )

    def has_rows(self, snapshot: Any) -> bool:
        """Whether a snapshot has data files."""
        with self.session.current():
            return not snapshot.allFiles().isEmpty()

    def files(self, snapshot: Any) -> dict[str, Any]:
        """Return the data files of a snapshot as Delta's ``AddFile``, by their path and deletion vector."""
        with self.session.current():
            files = snapshot.allFiles().collect()
        return {_name(_fields(file)): file for file in files}

    def allow_times_without_zone(self) -> None:
        """Add the feature to the table that columns of type timestamp_ntz need."""
        table = in_backticks(self.path)
        self.session.spark.sql(f"ALTER TABLE delta.{table} SET TBLPROPERTIES ('{_NTZ_FEATURE}' = 'supported')")

    def commit(
        self,
        numbers: Mapping[str, int],
        *,
        expected: Mapping[str, int],
        content: Content | None = None,
        note: Mapping[str, object],
    ) -> None:
        """Commit numbers of application transactions, and set the table to ``content`` in the same commit.

        ``numbers``: id -> the number to record. ``expected``: id -> the number that the table must still have; -1 for
        none. ``content``: the new content; None to keep the present one. ``note``: the commit's user metadata.

        Raises ConflictingCommit if the table no longer has an expected number, or if another commit changes it now.
        Creates the table, without columns unless ``content`` has some, if there is none.
        """
        # The files of the new content do not change. To list them takes time, in which others may commit.
        wanted = content.files() if content is not None else {}
        with self.session.current(), self.session.noting(note):
            transaction = self._log.startTransaction(self._none, self._none)
            if any(transaction.txnVersion(app_id) != number for app_id, number in expected.items()):
                raise ConflictingCommit
            if content is not None and content.checked not in (None, transaction.readVersion()):
                raise ConflictingCommit
            actions = [self._action("txn", {"appId": app_id, "version": number}) for app_id, number in numbers.items()]
            present: dict[str, Any] = {}
            if transaction.readVersion() >= 0 and content is not None:
                transaction.readWholeTable()
                present = self.files(transaction.snapshot())
            actions += [file.remove() for name, file in present.items() if name not in wanted]
            added = [add | {"dataChange": True} for name, add in wanted.items() if name not in present]
            actions += [self._action("add", add) for add in added]
            if metadata := self._new_metadata(transaction, content):
                transaction.updateMetadata(self._action("metaData", metadata), False)
            try:
                transaction.commit(self._sequence(actions), self._scala(_OPERATION))
            except Exception as error:
                if _CONFLICT.search(str(error)):
                    raise ConflictingCommit from error
                raise

    def _new_metadata(self, transaction: Any, content: Content | None) -> dict[str, Any]:
        """Return the metadata that the transaction must commit; empty if the table keeps its own."""
        columns = content.columns() if content is not None else {}
        if transaction.readVersion() < 0:
            found = _new_table() | columns
        else:
            before = _fields(transaction.snapshot().metadata())
            found = before | columns
            if found == before:
                return {}
        if _NTZ in found["schemaString"]:
            found["configuration"] = {**found["configuration"], _NTZ_FEATURE: "supported"}
        return found

    def _action(self, kind: str, fields: Mapping[str, object]) -> Any:
        return self._scala("org.apache.spark.sql.delta.actions.Action$").fromJson(json.dumps({kind: fields}))

    def _scala(self, name: str) -> Any:
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return self._jvm.java.lang.Class.forName(name, True, loader).getField("MODULE$").get(None)

    def _sequence(self, items: Iterable[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for item in items:
            found.add(item)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()


class Content:
    """The content of a snapshot of a table.

    ``below``: the table's folder in the table whose content is replaced, with a ``/`` at its end; empty if it is that
    table itself. ``checked``: the newest commit of the replaced table that was examined for changes by others; None if
    such changes do not matter.
    """

    def __init__(self, table: DeltaTable, snapshot: Any, below: str = "", *, checked: int | None = None) -> None:
        self._table = table
        self._snapshot = snapshot
        self._below = below
        self.checked = checked

    def files(self) -> dict[str, dict[str, Any]]:
        """Return the files as in ``DeltaTable.files``, each with the fields of its ``add`` action.

        Raises OutputUnfit if a file has a deletion vector, because another table could not find it, and VACUUM may have
        deleted it.
        """
        found = {}
        for file in self._table.files(self._snapshot).values():
            add = _fields(file)
            if "deletionVector" in add:
                raise OutputUnfit(
                    f"table {self._table.path} has deletion vectors, with which its content cannot be set back",
                    hint="run `REORG TABLE … APPLY (PURGE)`, and rebuild the output with `--strategy rebuild`",
                )
            moved = add | {"path": f"{self._below}{add['path']}"}
            found[_name(moved)] = moved
        return found

    def columns(self) -> dict[str, Any]:
        """Return the fields of the metadata that describe the columns; empty if the table has no columns yet."""
        metadata = _fields(self._snapshot.metadata())
        if metadata.get("schemaString", _EMPTY_SCHEMA) == _EMPTY_SCHEMA:
            return {}
        return {part: metadata[part] for part in ("schemaString", "partitionColumns")}


class NoRows(Content):
    """No rows, with the columns that the table has."""

    def __init__(self) -> None:
        self.checked = None

    def files(self) -> dict[str, dict[str, Any]]:
        """Return no file."""
        return {}

    def columns(self) -> dict[str, Any]:
        """Return no change of columns."""
        return {}


def _fields(action: Any) -> dict[str, Any]:
    """Return the fields of one of Delta's actions, as the log contains them."""
    (found,) = json.loads(action.json()).values()
    fields: dict[str, Any] = found
    return fields


def _name(add: Mapping[str, Any]) -> str:
    return f"{add['path']} {json.dumps(add.get('deletionVector'), sort_keys=True)}"


def _new_table() -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _EMPTY_SCHEMA,
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "false"},
    }
