"""A snapshot: one checkpoint at one committed batch, as a list of files whose content is in packs.

A *series* is the sequence of a query's snapshots over all its checkpoint versions, named ``<job>/<query>``. A
checkpoint that no job of this installation owns has the series ``adopted/<query id>``. Keys:

``snapshots/<series>/index/0000000007``          the Snapshot, with its own hash; create-only and published last
``snapshots/<series>/packs/<blake3>``            chunks, then the pack's own index; named by its content
``snapshots/<series>/drills/0000000007/<id>``    DrillResult, with its own hash; create-only
``snapshots/<series>/pins/0000000007``           Pin, with its own hash: kept until it is unpinned
``snapshots/<series>/holds/0000000007/<owner>``  Hold, with its own hash: kept for an operation
``snapshots/<series>/garbage/<id>``              Garbage, with its own hash: packs without a reference at that time
"""

from __future__ import annotations

import re

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.model.names import check_name

FORMAT = 1
_ROOT = "snapshots/"
_NAME = re.compile(r"s(\d{4,10})")
_ADOPTED = re.compile(r"adopted/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a file. ``hash``: blake3 of its ``size`` bytes; ``pack``: index in the snapshot's list of packs.

    In the pack the chunk starts at ``at`` and is ``stored`` bytes long. It is stored unchanged if ``stored`` equals
    ``size``, otherwise as a zstd frame.
    """

    hash: str
    size: int
    pack: int
    at: int
    stored: int


class Pack(msgspec.Struct, frozen=True, array_like=True):
    """A pack: its name, which is the blake3 of its content, and its size in bytes."""

    name: str
    size: int


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """The properties that show whether a file was replaced, without reading it; times in nanoseconds.

    ``tag``: device and inode of a local file, or the ETag of an object.
    """

    size: int
    modified: int
    changed: int
    tag: str

    def is_same_file(self, other: Stamp) -> bool:
        """Whether both stamps show the same, unchanged file.

        ``changed`` is not compared, because removing a link to the file alters ``changed``.
        """
        return (self.size, self.modified, self.tag) == (other.size, other.modified, other.tag)


class SnapshotFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the checkpoint, with its path inside the checkpoint and its stamp when it was read."""

    path: str
    stamp: Stamp
    chunks: tuple[Chunk, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A backup of one committed batch of a checkpoint."""

    format: int = FORMAT
    """Format version of the record."""
    number: int
    """The snapshot's number in its series; 0 in the copy inside a pack, made before the number is assigned."""
    series: str
    """The snapshot's series."""
    checkpoint: str
    """URL of the checkpoint directory from which the snapshot was taken."""
    version: str = ""
    """The checkpoint version; empty for an adopted checkpoint."""
    release: str = ""
    """The release that wrote the checkpoint; empty for an adopted checkpoint."""
    query_id: str
    """Spark's id of the query."""
    batch: int
    """The newest committed batch in the snapshot."""
    pending: bool
    """Whether the snapshot also contains the plan of the next batch."""
    offsets: dict[str, str]
    """Source -> end offset of ``batch``, in Spark's form."""
    watermark_ms: int | None
    """The watermark in UTC epoch milliseconds; None without one."""
    taken_at: str
    """When the snapshot was taken, UTC, ISO 8601."""
    stored: int
    """Bytes that the snapshot added to the store."""
    packs: tuple[Pack, ...]
    """Its packs."""
    files: tuple[SnapshotFile, ...]
    """Its files."""

    @property
    def name(self) -> str:
        """The name of the snapshot, such as ``s0007``."""
        return snapshot_name(self.number)

    @property
    def open_batch(self) -> int | None:
        """The number of the batch whose plan the snapshot contains; None if it contains no plan.

        A query that is restored from the snapshot runs this batch first.
        """
        return self.batch + 1 if self.pending else None

    @property
    def bytes(self) -> int:
        """Total size of the checkpoint's files, in bytes."""
        return sum(file.stamp.size for file in self.files)


class DrillResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of restoring a snapshot and resuming its query on it, with the sink diverted."""

    format: int = FORMAT
    """Format version of the record."""
    id: str
    """The drill's own id."""
    ok: bool
    """Whether the query resumed."""
    message: str
    """The result in one sentence."""
    batch: int | None = None
    """The batch that ran; None without input, in which case reading the state is the proof."""
    state_rows: int = 0
    """Number of rows in all state stores, which were read through Spark."""
    release: str = ""
    """The release that resumed the query."""
    at: str = ""
    """Time of the drill, UTC, ISO 8601."""
    seconds: float = 0.0
    """Duration of the drill."""

    @property
    def sentence(self) -> str:
        """The result as a sentence for a person."""
        return f"{'verified' if self.ok else 'NOT verified'}: {self.message} ({self.seconds:.1f} s)"


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A person's request to keep this snapshot whatever the retention rules are."""

    format: int = FORMAT
    reason: str
    by: str
    at: str


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The protection of a snapshot that an operation needs.

    ``until``: when the operation released the snapshot, UTC, ISO 8601; empty while the hold lasts.
    """

    format: int = FORMAT
    owner: str
    reason: str
    at: str
    until: str = ""


class Garbage(msgspec.Struct, frozen=True, kw_only=True):
    """The packs that no snapshot referenced at ``at`` (UTC, ISO 8601)."""

    format: int = FORMAT
    at: str
    packs: tuple[str, ...]


def snapshot_name(number: int) -> str:
    """Return the name of a snapshot, such as s0007 for 7."""
    return f"s{number:04d}"


def snapshot_number(name: str) -> int:
    """Return the number of a snapshot, such as 7 for s0007; raises InvalidInput for anything else."""
    found = _NAME.fullmatch(name)
    if found is None or int(found[1]) == 0:
        raise InvalidInput(f"{name!r} is not a snapshot", hint="a snapshot looks like s0007")
    return int(found[1])


def series_of_query(job: str, query: str) -> str:
    """Return the series of a deployed query; raises InvalidInput for invalid names."""
    return f"{check_name('job', job)}/{check_name('query', query)}"


def series_of_checkpoint(query_id: str) -> str:
    """Return the series of an adopted checkpoint, which belongs to no job of this installation."""
    return check_series(f"adopted/{query_id.lower()}")


def check_series(series: str) -> str:
    """Return ``series`` if it is valid, otherwise raise InvalidInput."""
    if _ADOPTED.fullmatch(series):
        return series
    job, separator, query = series.partition("/")
    if not separator:
        raise InvalidInput(f"{series!r} is not a series of snapshots", hint="write JOB/QUERY")
    return series_of_query(job, query)


def series_root(series: str) -> str:
    """Return the prefix ``snapshots/<series>/`` of a series' keys."""
    return f"{_ROOT}{series}/"


def series_key(series: str, *parts: str) -> str:
    """Return the key ``snapshots/<series>/<parts…>``."""
    return series_root(series) + "/".join(parts)


def padded(number: int) -> str:
    """Return a number as in keys, such as 0000000007 for 7, so that keys sort like their numbers."""
    return f"{number:010d}"
