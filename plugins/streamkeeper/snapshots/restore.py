"""Restores a snapshot as a checkpoint, from the store alone. The target becomes a checkpoint only when all of it is
written.

The restored files are equal to the captured ones bit by bit, except files that contain the checkpoint's own location:
these are rewritten (``checkpoints.relocating``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

import msgspec

from streamkeeper.checkpoints.publishing import METADATA, publish_from
from streamkeeper.checkpoints.relocating import names_its_place, relocated
from streamkeeper.checkpoints.trees import Tree, check_inside
from streamkeeper.errors import InvalidInput, PermanentError, SnapshotDamaged
from streamkeeper.model.records.snapshot import Chunk, Snapshot, SnapshotFile
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.packs import PACK_BYTES, open_chunk
from streamkeeper.snapshots.sealing import hash_of

_WHOLE_FROM = 0.5
"""From this share of a pack on, one request for the whole pack is faster than several for its parts."""
_SMALL = 1024 * 1024
"""The largest pack that is always read whole, so that its own hash is checked."""
_BRIDGED = 64 * 1024
"""Two parts with a gap smaller than this are read as one."""
_HELD_BYTES = 4 * PACK_BYTES


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a restored checkpoint."""

    target: str
    files: int
    bytes: int


Show = Callable[[int, int], None]
"""A function that receives the bytes written so far and the bytes in total."""


def restore(catalogue: Catalogue, snapshot: Snapshot, target: Tree, *, show: Show | None = None) -> Restored:
    """Write the checkpoint of ``snapshot`` to ``target``. The target must be empty, or contain only files of an earlier
    attempt of this restore.

    A restore that fails leaves the files written so far, without the checkpoint's metadata; a repeated restore
    continues from there. Raises the errors of ``publish_from`` (InvalidInput for a target that is in use),
    SnapshotDamaged, PermanentError for a full disk, StoreUnavailable.
    """
    _check(snapshot)
    files = {file.path: file for file in sorted(snapshot.files, key=_first_chunk)}
    packs, total, done = _Packs(catalogue, snapshot), snapshot.bytes, 0

    def content(path: str) -> Iterable[bytes]:
        parts = packs.content(files[path])
        return [relocated(path, b"".join(parts), target.location)] if names_its_place(path) else parts

    def written(path: str) -> None:
        nonlocal done
        done += files[path].stamp.size
        if show is not None:
            show(done, total)

    try:
        publish_from(target, files, content, written=written)
    except OSError as error:
        raise PermanentError(
            f"{target.where('')} cannot be restored: {error.strerror or error}",
            hint="remove the cause, such as a full disk, and restore again; the directory has only part of the"
            " checkpoint",
        ) from error
    return Restored(target=target.where(""), files=len(files), bytes=total)


def _check(snapshot: Snapshot) -> None:
    """Raise SnapshotDamaged for content that no capture writes."""
    for file in snapshot.files:
        try:
            check_inside(file.path)
        except InvalidInput:
            raise SnapshotDamaged(f"{snapshot.name} has the file name {file.path!r}, which is not allowed") from None
        if sum(chunk.size for chunk in file.chunks) != file.stamp.size:
            raise SnapshotDamaged(f"{snapshot.name} does not contain all of {file.path}")
    if METADATA not in {file.path for file in snapshot.files}:
        raise SnapshotDamaged(f"{snapshot.name} contains no {METADATA}, so it cannot be restored")


def _first_chunk(file: SnapshotFile) -> tuple[int, int]:
    """Return the sort key that orders files by their first chunk, so that one pack after the other is read."""
    return (file.chunks[0].pack, file.chunks[0].at) if file.chunks else (-1, 0)


class _Packs:
    """The parts of packs that a snapshot needs, as spans (start, end) of the packs' bytes. Each span is read once and
    cached for the files that need it, up to ``_HELD_BYTES``. Threads may share the object.
    """

    def __init__(self, catalogue: Catalogue, snapshot: Snapshot) -> None:
        self._catalogue, self._packs = catalogue, snapshot.packs
        chunks: dict[int, set[tuple[int, int]]] = {}
        for chunk in (chunk for file in snapshot.files for chunk in file.chunks):
            chunks.setdefault(chunk.pack, set()).add((chunk.at, chunk.at + chunk.stored))
        self._spans = {place: _spans(snapshot.packs[place].size, sorted(found)) for place, found in chunks.items()}
        self._held: OrderedDict[tuple[int, int], memoryview] = OrderedDict()
        self._lock = Lock()

    def content(self, file: SnapshotFile) -> Iterator[bytes]:
        """Yield a file's chunks, in order."""
        for chunk in file.chunks:
            start, held = self._around(chunk)
            stored = held[chunk.at - start : chunk.at - start + chunk.stored]
            yield open_chunk(stored, chunk, where=self._catalogue.pack_key(self._packs[chunk.pack].name))

    def _around(self, chunk: Chunk) -> tuple[int, memoryview]:
        ranges = self._spans[chunk.pack]
        start, end = ranges[bisect_right(ranges, chunk.at, key=lambda span: span[0]) - 1]
        key = (chunk.pack, start)
        with self._lock:
            if key not in self._held:
                while self._held and sum(map(len, self._held.values())) + end - start > _HELD_BYTES:
                    self._held.popitem(last=False)
                self._held[key] = memoryview(self._read(chunk.pack, start, end))
            self._held.move_to_end(key)
            return start, self._held[key]

    def _read(self, place: int, start: int, end: int) -> bytes:
        pack = self._packs[place]
        if (start, end) != (0, pack.size):
            return self._catalogue.read_part(pack, start, end - start)
        content = self._catalogue.read_pack(pack)
        if hash_of(content) != pack.name:
            where = self._catalogue.pack_key(pack.name)
            raise SnapshotDamaged(f"{where} is not what was stored: its hash differs")
        return content


def _spans(size: int, chunks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans of a pack to read, in order: the whole pack, or the parts that contain its chunks.

    ``chunks``: (start, end) of each chunk, in order.
    """
    if size <= _SMALL or sum(end - start for start, end in chunks) >= size * _WHOLE_FROM:
        return [(0, size)]
    ranges = chunks[:1]
    for start, end in chunks[1:]:
        if start > ranges[-1][1] + _BRIDGED:
            ranges.append((start, end))
        else:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
    return ranges
