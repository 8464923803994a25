"""A snapshot: one checkpoint at one committed batch, as a list of files whose content lies in packs.

A *series* is what belongs together: ``<job>/<query>``, over all its checkpoint versions; or ``adopted/<query id>`` for
a checkpoint that no job of this registry owns (a query id has dashes, so no job's name can be one). Keys:

``snapshots/<series>/index/0000000007``          the Snapshot, sealed; create-only and published last
``snapshots/<series>/packs/<blake3>``            chunks, then the pack's own index; named by its content
``snapshots/<series>/drills/0000000007/<id>``    DrillResult, sealed, create-only
``snapshots/<series>/pins/0000000007``           Pin, sealed: kept until it is unpinned
``snapshots/<series>/holds/0000000007/<owner>``  Hold, sealed: kept for an operation
``snapshots/<series>/garbage/<id>``              Garbage, sealed: packs that nothing referenced at that time
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

    It lies at ``at`` in the pack, ``stored`` bytes long: as it is where that equals ``size``, else as a zstd frame.
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
    """What tells a file from one that took its name, without reading it; times in nanoseconds.

    ``tag``: device and inode of a local file; an object's ETag.
    """

    size: int
    modified: int
    changed: int
    tag: str

    def is_same_file(self, other: Stamp) -> bool:
        """Whether nobody has written it since; a file that was removed while it was read has changed in time only."""
        return (self.size, self.modified, self.tag) == (other.size, other.modified, other.tag)


class SnapshotFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the checkpoint, by its path inside it; ``stamp`` as it was when it was read."""

    path: str
    stamp: Stamp
    chunks: tuple[Chunk, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot. ``batch``: its newest committed batch; ``pending``: with the plan of the batch after it.

    ``checkpoint``: URL of the directory it was taken from; ``version`` and ``release``: the checkpoint version and the
    release that wrote it, empty for an adopted one. ``offsets``: source -> end offset of ``batch``, as Spark wrote it.
    ``watermark_ms``: UTC epoch milliseconds, None where there is none. ``taken_at``: UTC, ISO 8601. ``stored``: bytes
    that this snapshot added to the store. ``number`` is 0 in a pack's own copy, for it is given when it is published.
    """

    format: int = FORMAT
    number: int
    series: str
    checkpoint: str
    version: str = ""
    release: str = ""
    query_id: str
    batch: int
    pending: bool
    offsets: dict[str, str]
    watermark_ms: int | None
    taken_at: str
    stored: int
    packs: tuple[Pack, ...]
    files: tuple[SnapshotFile, ...]

    @property
    def name(self) -> str:
        """``s0007``."""
        return snapshot_name(self.number)

    @property
    def open_batch(self) -> int | None:
        """The batch that a restored query runs first, with the offsets it was planned with."""
        return self.batch + 1 if self.pending else None

    @property
    def bytes(self) -> int:
        """Size of its files."""
        return sum(file.stamp.size for file in self.files)


class DrillResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of restoring a snapshot and resuming its query on it, with the sink diverted.

    ``batch``: the batch that ran, None when there was nothing to read: then reading the state is the proof.
    ``state_rows``: rows of every state store, read through Spark. ``message``: one sentence. ``id``: the drill's own.
    """

    format: int = FORMAT
    id: str
    ok: bool
    message: str
    batch: int | None = None
    state_rows: int = 0
    release: str = ""
    at: str = ""
    seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """What it says of the snapshot, for a person."""
        return f"{'verified' if self.ok else 'NOT verified'}: {self.message} ({self.seconds:.1f} s)"


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants this snapshot kept."""

    format: int = FORMAT
    reason: str
    by: str
    at: str


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """An operation needs this snapshot; ``until``: UTC, ISO 8601, empty as long as nobody lets go of it."""

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
    """The series of a deployed query; raises InvalidInput for names that are none."""
    return f"{check_name('job', job)}/{check_name('query', query)}"


def series_of_checkpoint(query_id: str) -> str:
    """The series of a checkpoint that was never deployed from here."""
    return check_series(f"adopted/{query_id.lower()}")


def check_series(series: str) -> str:
    """Return ``series`` if it is one, else raise InvalidInput."""
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
    """7 -> 0000000007: keys sort as their numbers do."""
    return f"{number:010d}"
