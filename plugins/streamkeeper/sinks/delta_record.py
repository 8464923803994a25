"""The record of writers and batches in a Delta table, read from the table's log without Spark.

Delta stores application transactions, each an id with a number, in the commits of a table. A write that names a pair of
both is ignored if the table already has that number or a higher one for the id. Streamkeeper uses two forms of ids:

- ``streamkeeper:<installation>:<job>/<query>:<version>:<epoch>``: a writer. The number is its newest batch. The fence
  of the next writer sets the number to ``CLOSED``, so that the table ignores all later writes of this writer.
- ``streamkeeper:<installation>:<job>/<query>:<version>``: a checkpoint version that is no longer written. The number is
  its newest batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import StoreUnavailable
from streamkeeper.model.records.snapshot import Stamp
from streamkeeper.system import clock

LOG = "_delta_log"
SHADOWS = "_streamkeeper"
"""The folder of shadow tables below a table. Delta's VACUUM ignores folders whose names start with ``_``."""
CLOSED = 2**63 - 1
"""The number of a writer that a newer one has superseded."""
NO_BATCH = -1
"""The number of a writer or version that has written no batch."""
FENCE = "streamkeeper-fence"
"""The id that each fence reads and writes, so that of two fences at the same time only one succeeds."""
_PREFIX = "streamkeeper"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.([0-9a-f-]{36}))?\.(?:parquet|json)")
_LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
_AT_ONCE = 16
"""How many commits are read at once from a server."""
_ATTEMPTS = 4
_PAUSE_S = 0.1

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaWriterId:
    """One writer of a table: one epoch of a query's checkpoint version."""

    installation: str
    """The id of the writing installation; empty if unknown."""
    owner: str
    """``<job>/<query>``."""
    version: str
    """The checkpoint version."""
    epoch: int
    """The epoch."""

    @property
    def app_id(self) -> str:
        """The id under which the table counts this writer's batches."""
        return f"{self.version_id}:{self.epoch}"

    @property
    def version_id(self) -> str:
        """The id under which the table keeps the version's newest batch once the version is no longer written."""
        return ":".join((_PREFIX, self.installation, self.owner, self.version))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRecord:
    """A table's record of its writers and batches."""

    writer: DeltaWriterId | None = None
    """The writer whose batches the table accepts; None if Streamkeeper has not written to the table."""
    batch: int | None = None
    """The newest batch of this writer's version; None without one."""
    ended: Mapping[str, int | None] = field(default_factory=dict)
    """Version -> its newest batch, for versions that were written before; None without a batch."""
    app_ids: Mapping[str, int] = field(default_factory=dict)
    """Every id of Streamkeeper in the table -> its number."""

    @property
    def open_ids(self) -> list[str]:
        """The ids of the writers whose batches the table accepts; normally at most one."""
        return [app_id for app_id, number in self.app_ids.items() if app_id.count(":") == 4 and number != CLOSED]

    def last(self, version: str) -> int | None:
        """Return the newest batch of a version in the table; None without one."""
        if self.writer is not None and self.writer.version == version:
            return self.batch
        return self.ended.get(version)

    @property
    def batches(self) -> dict[str, int]:
        """Version -> its newest batch, without versions that have none."""
        versions = {*self.ended, *([self.writer.version] if self.writer is not None else [])}
        return {name: last for name in sorted(versions) if (last := self.last(name)) is not None}


def record_of(transactions: Mapping[str, int]) -> DeltaRecord:
    """Return the record in a table's application transactions: id -> number. Other applications' ids are left out."""
    ours = {app_id: number for app_id, number in transactions.items() if app_id.startswith((f"{_PREFIX}:", FENCE))}
    writer, batch, ended = None, None, dict[str, int | None]()
    for app_id, number in ours.items():
        if app_id == FENCE:
            continue
        _, installation, owner, version, *epoch = app_id.split(":")
        found = None if number == NO_BATCH else number
        if not epoch:
            ended[version] = found
        elif number != CLOSED:
            one = DeltaWriterId(installation=installation, owner=owner, version=version, epoch=int(epoch[0]))
            if writer is None or one.epoch > writer.epoch:
                writer, batch = one, found
    return DeltaRecord(writer=writer, batch=batch, ended=ended, app_ids=ours)


def read_record(table: Tree) -> DeltaRecord | None:
    """Return the record in a table's log; None if the folder contains no Delta table.

    Raises StoreUnavailable if the log is incomplete, and OSError if it cannot be read.
    """
    return RecordReader(table).read()


class RecordReader:
    """Reads the record of one table repeatedly. Each read after the first one reads only new commits."""

    def __init__(self, table: Tree) -> None:
        self._table = table
        self._number = -1
        self._stamp: Stamp | None = None
        self._transactions: dict[str, int] = {}

    def read(self) -> DeltaRecord | None:
        """Return the present record; see ``read_record``, also for the errors."""
        if not self._follow() and not retried(self._read_log):
            return None
        return record_of(self._transactions)

    def _follow(self) -> bool:
        """Read the commits after the newest one that was read; False if the log does not contain that one (any
        more).
        """
        if self._stamp is None:
            return False
        with suppress(FileNotFoundError):
            if not self._table.fresh().stamp(_commit_file(self._number)).is_same_file(self._stamp):
                return False
            with suppress(FileNotFoundError):
                while True:
                    following = _commit_file(self._number + 1)
                    stamp = self._table.stamp(following)
                    self._transactions |= _in_lines(self._table.read(following))
                    self._number, self._stamp = self._number + 1, stamp
            return True
        return False

    def _read_log(self) -> bool:
        """Read the log; False without one."""
        self._stamp = None
        log = DeltaLogFiles.from_checkpoint(self._table)
        newest = log.commits.get(log.newest)
        stamp = self._table.stamp(newest) if newest is not None else None
        self._transactions = log.transactions()
        self._number, self._stamp = log.newest, stamp
        return log.exists


def content_after(table: Tree, version: str, batch: int | None) -> int | None:
    """Return the newest commit whose content has a version's batches up to ``batch``, and no later batch of any
    version; None if the log has no such commit (any more).

    ``batch``: None for the version's newest batch. Commits by others directly after that batch are included. Raises the
    same errors as ``read_record``.
    """
    return retried(lambda: DeltaLogFiles.listed(table).content_after(version, batch))


def retried(read: Callable[[], Found]) -> Found:
    """Repeat a read of a log if files of the log are missing: Delta may have removed them after the listing, and a
    listing of a growing folder may lack a file.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except (FileNotFoundError, StoreUnavailable):
            clock.sleep(_PAUSE_S)
    return read()


@dataclass(frozen=True, slots=True)
class DeltaLogFiles:
    """The files of a table's log, as listed at one moment."""

    table: Tree
    commits: Mapping[int, str]
    """Number of a commit -> its file."""
    checkpoints: Sequence[tuple[int, tuple[str, ...]]]
    """The complete checkpoints of the log, the newest first: their commits and their files."""
    _contents: dict[int, bytes] = field(default_factory=dict)
    """The content of the commits that were read."""

    @classmethod
    def listed(cls, table: Tree) -> DeltaLogFiles:
        """List the log of a table; without any file if there is none."""
        return cls._of(table, table.fresh().names(LOG))

    @classmethod
    def _of(cls, table: Tree, names: Iterable[str]) -> DeltaLogFiles:
        commits, parts = {}, dict[tuple[int, int, str], set[str]]()
        for name in names:
            if found := _COMMIT.fullmatch(name):
                commits[int(found[1])] = f"{LOG}/{name}"
            elif found := _CHECKPOINT.fullmatch(name):
                parts.setdefault((int(found[1]), int(found[3] or 1), found[4] or ""), set()).add(f"{LOG}/{name}")
        complete = [(key[0], tuple(sorted(names))) for key, names in parts.items() if len(names) == key[1]]
        return cls(table, dict(sorted(commits.items())), sorted(complete, reverse=True))

    @classmethod
    def from_checkpoint(cls, table: Tree) -> DeltaLogFiles:
        """List the log from its newest checkpoint on if the log names one; otherwise list the whole log.

        A log may contain a commit for each batch of the last 30 days.
        """
        try:
            newest = int(json.loads(table.read(_LAST_CHECKPOINT))["version"])
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return cls.listed(table)
        found = cls._of(table, table.names_after(LOG, f"{newest:020d}"))
        return found if found._usable_checkpoint() is not None else cls.listed(table)

    @property
    def exists(self) -> bool:
        """Whether there is a log."""
        return bool(self.commits or self.checkpoints)

    @property
    def beginning(self) -> list[str]:
        """The files of which one is needed to read the log: its checkpoints and its first commit."""
        first = [path for number, path in self.commits.items() if number == 0]
        return [*(name for _, names in self.checkpoints for name in names), *first]

    @property
    def newest(self) -> int:
        """The newest commit; -1 without one."""
        return max([*self.commits, *(number for number, _ in self.checkpoints)], default=-1)

    def transactions(self) -> dict[str, int]:
        """Return all application transactions of the table: id -> number."""
        start, found = self._checkpointed()
        for number in range(start, self.newest + 1):
            if number not in self.commits:
                raise StoreUnavailable(f"{self.table} lacks commit {number} in its Delta log")
            found |= self.transactions_in(number)
        return found

    def _checkpointed(self) -> tuple[int, dict[str, int]]:
        """Return the commit after the newest readable checkpoint, and the transactions in that checkpoint."""
        found: dict[str, int] = {}
        number, names = self._usable_checkpoint() or (-1, ())
        for name in names:
            found |= self._in_checkpoint(name)
        return number + 1, found

    def _usable_checkpoint(self) -> tuple[int, tuple[str, ...]] | None:
        """Return the newest checkpoint without an empty file: a power loss may leave one, and Delta ignores it, too."""
        return next((one for one in self.checkpoints if all(self.table.stamp(name).size for name in one[1])), None)

    def _in_checkpoint(self, name: str) -> dict[str, int]:
        """Return the transactions in a file of a checkpoint. Of a Parquet file, which may be large, only their column
        is read.
        """
        if name.endswith(".json"):
            return _in_lines(self.table.read(name))
        import pyarrow.parquet as pq

        with self.table.open(name) as content, pq.ParquetFile(content) as file:
            if "txn" not in file.schema_arrow.names:
                return {}
            rows: Iterable[Mapping[str, object] | None] = file.read(columns=["txn"])["txn"].to_pylist()
        return {str(row["appId"]): int(str(row["version"])) for row in rows if row is not None}

    def transactions_in(self, commit: int) -> dict[str, int]:
        """Return the application transactions of one commit."""
        return _in_lines(self._content(commit))

    def content_after(self, version: str, batch: int | None) -> int | None:
        """Return a commit as the function of this name does."""
        later = self.newest + 1
        for number in sorted(self.commits, reverse=True):
            ours = record_of(self.transactions_in(number))
            writer = ours.writer
            if writer is None:
                continue
            if writer.version == version and batch in (None, ours.batch):
                return later - 1
            later = number
        return None

    def foreign_changes(self, after: int) -> list[int]:
        """Return the commits after one commit with which others changed rows of the table."""
        return [number for number in self.commits if number > after and _changes_rows(self._lines(number))]

    def removed_files(self, after: int) -> list[str]:
        """Return the paths, as in the log, of the files that a commit's content has and that later commits removed."""
        added, removed = set[str](), set[str]()
        for number in self.commits:
            for line in self._lines(number) if number > after else ():
                action = json.loads(line)
                if "add" in action:
                    added.add(action["add"]["path"])
                elif "remove" in action and action["remove"]["path"] not in added:
                    removed.add(action["remove"]["path"])
        return sorted(removed)

    def _lines(self, commit: int) -> list[bytes]:
        return self._content(commit).splitlines()

    def _content(self, commit: int) -> bytes:
        """Return the content of a commit. On a server, the commits before it are read at the same time, because most
        callers go back in the log.
        """
        if commit not in self._contents:
            ahead = 1 if isinstance(self.table, LocalTree) else _AT_ONCE
            back = range(commit, commit - ahead, -1)
            wanted = [number for number in back if number in self.commits and number not in self._contents]
            with ThreadPoolExecutor(len(wanted)) as pool:
                found = pool.map(self.table.read, [self.commits[number] for number in wanted])
                self._contents.update(zip(wanted, found, strict=True))
        return self._contents[commit]


def _commit_file(number: int) -> str:
    return f"{LOG}/{number:020d}.json"


def _in_lines(content: bytes) -> dict[str, int]:
    lines = (json.loads(line)["txn"] for line in content.splitlines() if line.startswith(b'{"txn"'))
    return {found["appId"]: found["version"] for found in lines}


def _changes_rows(lines: Iterable[bytes]) -> bool:
    """Whether the lines of a commit change rows, but name no writer of Streamkeeper."""
    changes = False
    for line in lines:
        action = json.loads(line)
        if action.get("txn", {}).get("appId", "").startswith(f"{_PREFIX}:"):
            return False
        changes |= any(action.get(kind, {}).get("dataChange") for kind in ("add", "remove"))
    return changes
