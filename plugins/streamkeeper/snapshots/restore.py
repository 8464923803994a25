"""A snapshot back as a checkpoint directory: bit for bit, from the store alone, visible only once it is whole.

But for what a checkpoint says of its own place (``checkpoints.relocating``): that is said anew.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from pathlib import Path, PurePosixPath

import msgspec

from streamkeeper.checkpoints.relocating import names_its_place, relocated
from streamkeeper.checkpoints.trees import LocalTree, check_inside
from streamkeeper.crash_points import crash_point
from streamkeeper.errors import InvalidInput, PermanentError, SnapshotDamaged
from streamkeeper.model.snapshot import Chunk, Pack, Snapshot
from streamkeeper.private_files import FILE, make_folders
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.packs import open_chunk
from streamkeeper.snapshots.sealing import hash_of

_DRAFT = re.compile(r"\.restoring-.+-[0-9a-f]{32}")
_WRITERS = 3
_WHOLE_FROM = 0.5
"""From this share of a pack on, one request for all of it is quicker than several for its parts."""
_SMALL = 1024 * 1024
"""A pack up to this size is always read whole, and its own hash checked."""
_SYNCED_ALONE = 1000
_SYNCERS = 8
"""The file system writes its journal once for all who wait: 240 files take 0.05 s, one after the other 0.5 s."""
_BRIDGED = 64 * 1024
"""Two parts with a gap smaller than this are read as one."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    target: str
    files: int
    bytes: int


class _Piece(msgspec.Struct, frozen=True):
    """A chunk of a file and where it belongs in it."""

    path: str
    offset: int
    chunk: Chunk


Show = Callable[[int, int], None]
"""Bytes written, of how many."""


def restore(catalogue: Catalogue, snapshot: Snapshot, target: Path, *, show: Show | None = None) -> Restored:
    """Write the checkpoint of ``snapshot`` to ``target``, which must not exist; it appears whole or not at all.

    Raises InvalidInput (a target that exists, that cannot be made), SnapshotDamaged, PermanentError for a disk that
    fills up, StoreUnavailable.
    """
    _refuse_existing(target)
    _check_paths(snapshot)
    draft = target.parent / f".restoring-{target.name}-{uuid.uuid4().hex}"
    try:
        make_folders(draft)
        _write(catalogue, snapshot, draft, show)
        _relocate(snapshot, draft, target)
        _sync_all(draft, snapshot)
        crash_point("restore.rename.before")
        _refuse_existing(target)
        draft.rename(target)
        _sync(target.parent)
        crash_point("restore.rename.after")
    except OSError as error:
        raise PermanentError(
            f"{target} cannot be restored: {error.strerror or error}",
            hint="nothing is left there; make room, and again",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Restored(target=str(target), files=len(snapshot.files), bytes=snapshot.bytes)


def stale_drafts(folder: Path, *, older_than_s: float) -> Iterator[str]:
    """Directories in ``folder`` that killed restores left, older than ``older_than_s``."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            # A restore that ends just now removes its draft.
            with suppress(FileNotFoundError):
                if _DRAFT.fullmatch(entry.name) and time.time() - entry.stat().st_mtime > older_than_s:
                    yield entry.path


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise InvalidInput(f"{target} exists already", hint="restore into a directory that does not exist")


def _check_paths(snapshot: Snapshot) -> None:
    for file in snapshot.files:
        try:
            check_inside(file.path)
        except InvalidInput:
            raise SnapshotDamaged(f"{snapshot.name} holds the file name {file.path!r}, which is not allowed") from None


def _write(catalogue: Catalogue, snapshot: Snapshot, draft: Path, show: Show | None) -> None:
    for folder in sorted({PurePosixPath(file.path).parent for file in snapshot.files}):
        make_folders(draft / folder)
    for file in snapshot.files:
        if not file.chunks:
            (draft / file.path).touch(FILE)
    pieces = sorted(_pieces(snapshot), key=lambda piece: (piece.chunk.pack, piece.chunk.at))
    total, done = sum(piece.chunk.size for piece in pieces), 0
    with ThreadPoolExecutor(max_workers=_WRITERS, thread_name_prefix="restore") as writers:
        for place, group in groupby(pieces, key=lambda piece: piece.chunk.pack):
            for span in _spans(catalogue, snapshot.packs[place], list(group)):
                for size in writers.map(lambda piece, span=span: span.put(piece, draft), span.pieces):
                    done += size
                if show is not None:
                    show(done, total)


def _relocate(snapshot: Snapshot, draft: Path, target: Path) -> None:
    for saved in snapshot.files:
        if names_its_place(saved.path):
            file = draft / saved.path
            file.write_bytes(relocated(saved.path, file.read_bytes(), LocalTree(target).location))


def _pieces(snapshot: Snapshot) -> Iterator[_Piece]:
    for file in snapshot.files:
        offset = 0
        for chunk in file.chunks:
            yield _Piece(file.path, offset, chunk)
            offset += chunk.size
        if offset != file.stamp.size:
            raise SnapshotDamaged(f"{snapshot.name} does not hold all of {file.path}")


class _Span:
    """Bytes of one pack from ``start`` on, and the pieces that lie in them."""

    def __init__(self, where: str, start: int, content: bytes, pieces: list[_Piece]) -> None:
        self._where, self._start, self._content = where, start, memoryview(content)
        self.pieces = pieces

    def put(self, piece: _Piece, draft: Path) -> int:
        """Write one piece into its file; its size."""
        at = piece.chunk.at - self._start
        data = open_chunk(self._content[at : at + piece.chunk.stored], piece.chunk, where=self._where)
        file = os.open(draft / piece.path, os.O_CREAT | os.O_WRONLY, FILE)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(file, data[written:], piece.offset + written)
        finally:
            os.close(file)
        return len(data)


def _spans(catalogue: Catalogue, pack: Pack, pieces: list[_Piece]) -> Iterator[_Span]:
    where = catalogue.pack_key(pack.name)
    distinct = {(piece.chunk.at, piece.chunk.stored) for piece in pieces}
    if pack.size <= _SMALL or sum(stored for _, stored in distinct) >= pack.size * _WHOLE_FROM:
        content = catalogue.read_pack(pack)
        if hash_of(content) != pack.name:
            raise SnapshotDamaged(f"{where} is not what was stored: its hash differs")
        yield _Span(where, 0, content, pieces)
        return
    for group in _close_together(pieces):
        start = group[0].chunk.at
        end = max(piece.chunk.at + piece.chunk.stored for piece in group)
        yield _Span(where, start, catalogue.read_part(pack, start, end - start), group)


def _close_together(pieces: list[_Piece]) -> Iterator[list[_Piece]]:
    group: list[_Piece] = []
    end = 0
    for piece in pieces:
        if group and piece.chunk.at > end + _BRIDGED:
            yield group
            group = []
        group.append(piece)
        end = max(end, piece.chunk.at + piece.chunk.stored)
    if group:
        yield group


def _sync_all(draft: Path, snapshot: Snapshot) -> None:
    """On the disk itself before it is visible; of many files the whole system's buffers are the quicker way."""
    if len(snapshot.files) > _SYNCED_ALONE:
        os.sync()
        return
    files = [draft / file.path for file in snapshot.files]
    folders = {path.parent for path in files} | {draft}
    with ThreadPoolExecutor(max_workers=_SYNCERS, thread_name_prefix="sync") as syncers:
        for paths in (files, folders):
            for _ in syncers.map(_sync, paths):
                pass


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
