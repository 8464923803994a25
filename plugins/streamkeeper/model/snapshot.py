"""A snapshot: one checkpoint at one committed batch, as a list of files whose content is in packs.

A *series* is a sequence of snapshots: ``<job>/<query>``, over all its checkpoint versions; or ``adopted/<query id>``
for a checkpoint that no job of this registry owns (a query id has dashes, so no job's name can be one). Keys:

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
    """A piece of a file. ``hash``: blake3 of its ``size`` bytes; ``pack``: position in the snapshot's packs.

    It starts at ``at`` in the pack and is ``stored`` bytes long: unchanged if that equals ``size``, otherwise a zstd
    frame.
    """

    hash: str
    size: int
    pack: int
    at: int
    stored: int


class Pack(msgspec.Struct, frozen=True, array_like=True):
    """A pack by its name, blake3 of all of it, and its size in bytes."""

    name: str
    size: int


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """The stamp that distinguishes a file from one that took its name, without reading it; times in nanoseconds.

    ``tag``: device and inode of a local file; an object's ETag.
    """

    size: int
    modified: int
    changed: int
    tag: str

    def is_same_file(self, other: Stamp) -> bool:
        """Whether the file was not rewritten since; a removal during the read alters only its change time."""
        return (self.size, self.modified, self.tag) == (other.size, other.modified, other.tag)


class SnapshotFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the checkpoint, by its path inside it; ``stamp``: its stamp when it was read."""

    path: str
    stamp: Stamp
    chunks: tuple[Chunk, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot."""

    format: int = FORMAT
    """Format version of the record."""
    number: int
    """Its number; 0 in a pack's own copy, because the number is assigned at its publication."""
    series: str
    """Its series."""
    checkpoint: str
    """URL of the directory that it was taken from."""
    version: str = ""
    """The checkpoint version; empty for an adopted checkpoint."""
    release: str = ""
    """The release that wrote it; empty for an adopted checkpoint."""
    query_id: str
    """Spark's id of the query."""
    batch: int
    """Its newest committed batch."""
    pending: bool
    """Whether it contains the plan of the following batch."""
    offsets: dict[str, str]
    """Source -> end offset of ``batch``, in Spark's form."""
    watermark_ms: int | None
    """UTC epoch milliseconds; None without a watermark."""
    taken_at: str
    """UTC, ISO 8601."""
    stored: int
    """Bytes that it added to the store."""
    packs: tuple[Pack, ...]
    """Its packs."""
    files: tuple[SnapshotFile, ...]
    """Its files."""

    @property
    def name(self) -> str:
        """``s0007``."""
        return snapshot_name(self.number)

    @property
    def open_batch(self) -> int | None:
        """The batch that a restored query runs first, with its planned offsets."""
        return self.batch + 1 if self.pending else None

    @property
    def bytes(self) -> int:
        """Size of its files."""
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
    """One sentence."""
    batch: int | None = None
    """The batch that ran; None without input: then reading the state is the proof."""
    state_rows: int = 0
    """Rows of every state store, read through Spark."""
    release: str = ""
    """The release that ran it."""
    at: str = ""
    """UTC, ISO 8601."""
    seconds: float = 0.0
    """Its duration."""

    @property
    def sentence(self) -> str:
        """The result for a person."""
        return f"{'verified' if self.ok else 'NOT verified'}: {self.message} ({self.seconds:.1f} s)"


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A person wants this snapshot kept."""

    format: int = FORMAT
    reason: str
    by: str
    at: str


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """An operation needs this snapshot; ``until``: UTC, ISO 8601, empty until it is released."""

    format: int = FORMAT
    owner: str
    reason: str
    at: str
    until: str = ""


class Garbage(msgspec.Struct, frozen=True, kw_only=True):
    """Packs that no snapshot referenced at ``at`` (UTC, ISO 8601)."""

    format: int = FORMAT
    at: str
    packs: tuple[str, ...]


def snapshot_name(number: int) -> str:
    """7 -> s0007."""
    return f"s{number:04d}"


def snapshot_number(name: str) -> int:
    """s0007 -> 7; raises InvalidInput for anything else."""
    found = _NAME.fullmatch(name)
    if found is None or int(found[1]) == 0:
        raise InvalidInput(f"{name!r} is not a snapshot", hint="a snapshot looks like s0007")
    return int(found[1])


def series_of_query(job: str, query: str) -> str:
    """The series of a deployed query; raises InvalidInput for invalid names."""
    return f"{check_name('job', job)}/{check_name('query', query)}"


def series_of_checkpoint(query_id: str) -> str:
    """The series of a checkpoint that this installation never deployed."""
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
    """``snapshots/<series>/``."""
    return f"{_ROOT}{series}/"


def series_key(series: str, *parts: str) -> str:
    """``snapshots/<series>/<parts…>``."""
    return series_root(series) + "/".join(parts)


def padded(number: int) -> str:
    """7 -> 0000000007: keys sort like their numbers."""
    return f"{number:010d}"
