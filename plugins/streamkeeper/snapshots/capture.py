"""Takes a snapshot while the query keeps writing and Spark keeps cleaning up.

The files from which a query resumes after a committed batch are planned, read and packed; then each is checked once
more. If a file was overwritten, or disappeared before it was read, the capture plans again from the newest commit and
reuses all that it has already read. A file that disappears after it was read does no harm. The record is published
last. Until then the store contains only packs without references, which a later prune collects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.trees import Seen, Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, SnapshotDamaged, SnapshotsChanged
from streamkeeper.model.records.snapshot import Chunk, Pack, Snapshot, SnapshotFile, Stamp
from streamkeeper.snapshots.anchor import Anchor, find_anchor
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.packs import CHUNK_BYTES, PackBuilder
from streamkeeper.snapshots.sealing import hash_of
from streamkeeper.system import clock

ATTEMPTS = 20
SPARSE = 0.25
"""A new snapshot builds on a pack only if it needs at least this share of it; a few bytes do not keep a whole pack."""
SMALL_BYTES = 1024 * 1024
SMALL_PACKS = 8
"""How many small packs a snapshot may build on. With more, it stores their content again in one pack."""
LONGEST_S = 6 * 3600.0
"""A capture that takes longer gives up, because its packs may have been pruned; shorter than any grace period."""


class CaptureProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a capture."""

    batch: int
    """The batch that is being captured."""
    files: int
    """Files captured so far."""
    of_files: int
    """Files in total."""
    bytes: int
    """Bytes of the files captured so far."""
    of_bytes: int
    """Bytes of all files."""
    added: int
    """Bytes added to packs so far."""


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a capture. If not ``taken``, ``snapshot`` is the series' newest snapshot, which already contains
    the requested batch, by default the last committed one. ``attempts``: how often the files were planned and read.
    """

    snapshot: Snapshot
    taken: bool
    attempts: int = 0

    @property
    def sentence(self) -> str:
        """The result as a sentence for operators."""
        one = self.snapshot
        if not self.taken:
            return f"{one.series}: no batch was committed since {one.name} (batch {one.batch})"
        size = f"{len(one.files)} files, {one.bytes:,} bytes, of which {one.stored:,} are new"
        return f"{one.series}: {one.name} contains batch {one.batch}: {size}"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The version and the release that wrote a checkpoint. Each is empty if unknown."""

    version: str = ""
    release: str = ""


Show = Callable[[CaptureProgress], None]
Plan = Callable[[Tree, Anchor], list[str]]
"""A function that returns the paths of the files to take; raises CheckpointDamaged when a file is missing."""


def capture(
    tree: Tree,
    catalogue: Catalogue,
    *,
    batch: int | None = None,
    origin: Origin | None = None,
    show: Show | None = None,
    plan: Plan | None = None,
    pending: bool = True,
) -> Captured:
    """Take a snapshot of a committed batch.

    ``tree``: the checkpoint.
    ``catalogue``: the series that receives the snapshot.
    ``batch``: the committed batch; None means the last one.
    ``origin``: the version and release to record as the checkpoint's writer.
    ``show``: receives the progress.
    ``plan``: selects the files to take; None takes exactly those that the query needs to resume from the batch. With a
    plan, a snapshot is taken even if no batch was committed since the last snapshot.
    ``pending``: whether to include the plan of the next batch, if there is one.

    Raises NotFound (no checkpoint, no committed batch, no such batch), CheckpointDamaged, CheckpointChanged after many
    attempts, SnapshotsChanged, StoreUnavailable. After any error the series contains no incomplete snapshot.
    """
    started = clock.monotonic()
    anchor = _find_anchor(tree, batch, pending=pending)
    newest, base = _find_base(catalogue)
    if base is not None and plan is None and _is_same(base, anchor, pending=pending):
        return Captured(snapshot=base, taken=False)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="upload") as uploads:
        run = _Run(tree, catalogue, base, uploads, show or _say_nothing, plan or _closed_set)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                files = run.take(anchor)
                break
            except (CheckpointChanged, CheckpointDamaged, FileNotFoundError) as error:
                again = _find_anchor(tree, batch, pending=pending)
                if attempt == ATTEMPTS or (isinstance(error, CheckpointDamaged) and again == anchor):
                    raise _told(error, anchor) from error
                anchor = again
        snapshot = run.finish(_describe(tree, catalogue.series, anchor, origin or Origin(), files))
    if run.reused:
        missing = {pack.name for pack in snapshot.packs} - catalogue.pack_names()
        if missing:
            raise SnapshotsChanged(f"pack {min(missing)} of series {catalogue.series} is missing: a prune deleted it")
    if clock.monotonic() - started > LONGEST_S:
        raise SnapshotsChanged(f"the snapshot took longer than {LONGEST_S:.0f} s: its packs may have been pruned")
    published = catalogue.publish(snapshot, newest)
    return Captured(snapshot=published, taken=True, attempts=attempt)


def _find_base(catalogue: Catalogue) -> tuple[int, Snapshot | None]:
    """Return the newest number, and its snapshot to build on; None if its record is damaged: all is stored again."""
    numbers = catalogue.numbers()
    if not numbers:
        return 0, None
    try:
        return numbers[-1], catalogue.read(numbers[-1])
    except SnapshotDamaged:
        return numbers[-1], None


class _Run:
    """The state that several attempts share: files and packs that are already stored."""

    def __init__(
        self,
        tree: Tree,
        catalogue: Catalogue,
        base: Snapshot | None,
        uploads: ThreadPoolExecutor,
        show: Show,
        plan: Plan,
    ) -> None:
        """``tree``: the checkpoint.
        ``catalogue``: the series that receives packs.
        ``base``: the snapshot to build on, if any.
        ``uploads``: sends packs in the background.
        ``show``: receives the progress.
        ``plan``: selects the files.
        """
        self._catalogue = catalogue
        self._plan = plan
        self._source = tree
        self._tree = _Watched(tree)
        self._show = show
        self._uploads = uploads
        self._upload: Future[None] | None = None
        self._old = base
        self._base: dict[str, SnapshotFile] = {}
        self._read: dict[str, SnapshotFile] = {}
        self._packs: list[Pack | None] = list(base.packs) if base else []
        self._known: dict[str, Chunk] = {}
        self._builder = self._new_pack()
        self._inherited = len(base.packs) if base else 0
        self._added = 0
        self.reused = False

    def take(self, anchor: Anchor) -> tuple[SnapshotFile, ...]:
        """Read and pack every file of the anchor's plan; raises CheckpointChanged or FileNotFoundError."""
        self._tree = _Watched(self._source.fresh())
        paths = self._plan(self._tree, anchor)
        stamps = {path: self._tree.seen.get(path) or self._tree.stamp(path) for path in paths}
        self._choose_base(stamps)
        total = sum(stamp.size for stamp in stamps.values())
        files, done = [], 0
        # State first, because Spark cleans it up early; its logs stay for a hundred batches.
        for path, stamp in sorted(stamps.items(), key=lambda item: not item[0].startswith("state/")):
            files.append(self._take_file(path, stamp))
            done += stamp.size
            self._show(
                CaptureProgress(
                    batch=anchor.batch,
                    files=len(files),
                    of_files=len(stamps),
                    bytes=done,
                    of_bytes=total,
                    added=self._added,
                )
            )
        for path, stamp in stamps.items():
            self._require_same(path, stamp)
        return tuple(files)

    def finish(self, snapshot: Snapshot) -> Snapshot:
        """Write the last pack; return the snapshot with only the packs that it needs."""
        content, pack = b"", None
        if not self._builder.empty:
            # The pack's name is the hash of its content, so its own copy of the snapshot cannot contain that name.
            inside = self._compact(snapshot, Pack(name="", size=0))
            content = self._builder.finish(inside)
            pack = Pack(name=hash_of(content), size=len(content))
            self._send(pack, content)
        self._await_upload()
        return self._compact(snapshot, pack)

    def _compact(self, snapshot: Snapshot, last: Pack | None) -> Snapshot:
        packs = [pack if pack is not None else last for pack in self._packs]
        needed = sorted({chunk.pack for file in snapshot.files for chunk in file.chunks})
        place = {old: new for new, old in enumerate(needed)}
        self.reused = any(old < self._inherited for old in needed)
        files = tuple(
            msgspec.structs.replace(
                file, chunks=tuple(msgspec.structs.replace(chunk, pack=place[chunk.pack]) for chunk in file.chunks)
            )
            for file in snapshot.files
        )
        kept = tuple(kept_pack for old in needed if (kept_pack := packs[old]) is not None)
        assert len(kept) == len(needed)
        return msgspec.structs.replace(snapshot, files=files, packs=kept, stored=self._added)

    def _choose_base(self, stamps: dict[str, Stamp]) -> None:
        """Choose which files of the last snapshot count as stored, namely those in packs worth building on."""
        base = self._old
        if base is None:
            return
        worth = _worth_building_on(base, stamps)
        files = [file for file in base.files if all(chunk.pack in worth for chunk in file.chunks)]
        same_place = base.checkpoint == self._tree.url
        self._base = {file.path: file for file in files} if same_place else {}
        for file in base.files:
            for chunk in file.chunks:
                if chunk.pack in worth:
                    self._known.setdefault(chunk.hash, chunk)

    def _take_file(self, path: str, stamp: Stamp) -> SnapshotFile:
        for before in (self._read.get(path), self._base.get(path)):
            if before is not None and before.stamp == stamp:
                return before
        chunks = tuple(self._take_chunk(part) for part in self._tree.parts(path, CHUNK_BYTES, stamp))
        self._read[path] = SnapshotFile(path=path, stamp=stamp, chunks=chunks)
        return self._read[path]

    def _take_chunk(self, data: bytes) -> Chunk:
        digest = hash_of(data)
        if digest not in self._known:
            if self._builder.full:
                self._ship()
            self._known[digest] = self._builder.add(digest, data)
            self._added += self._known[digest].stored
        return self._known[digest]

    def _new_pack(self) -> PackBuilder:
        self._packs.append(None)
        return PackBuilder(self._catalogue.series, len(self._packs) - 1)

    def _ship(self) -> None:
        """Upload the full pack while the next one is filled; at most one upload is in progress."""
        content = self._builder.finish()
        pack = Pack(name=hash_of(content), size=len(content))
        self._packs[-1] = pack
        self._send(pack, content)
        del content
        self._builder = self._new_pack()

    def _send(self, pack: Pack, content: bytes) -> None:
        self._await_upload()
        self._upload = self._uploads.submit(self._catalogue.put_pack, pack.name, content)

    def _await_upload(self) -> None:
        if self._upload is not None:
            self._upload.result()
            self._upload = None

    def _require_same(self, path: str, stamp: Stamp) -> None:
        try:
            found = self._tree.stamp(path)
        except FileNotFoundError:
            return
        if not found.is_same_file(stamp):
            raise CheckpointChanged(f"{self._tree.url}/{path} was overwritten while it was being read")


class _Watched(Tree):
    """A tree that remembers the stamp of each file that was read for the plan, to detect overwritten files later."""

    def __init__(self, inner: Tree) -> None:
        self._inner = inner
        self.url, self.location = inner.url, inner.location
        self.seen: dict[str, Stamp] = {}

    def fresh(self) -> _Watched:
        return _Watched(self._inner.fresh())

    def where(self, path: str) -> str:
        return self._inner.where(path)

    def names(self, folder: str) -> list[str]:
        return self._inner.names(folder)

    def look(self) -> Seen:
        return self._inner.look()

    def read(self, path: str) -> bytes:
        stamp = self._inner.stamp(path)
        content = self._inner.read(path)
        self.seen[path] = stamp
        return content

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        return self._inner.parts(path, size, expected)

    def stamp(self, path: str) -> Stamp:
        return self._inner.stamp(path)

    def create(self, path: str, content: Iterable[bytes]) -> None:
        self._inner.create(path, content)

    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        return self._inner.delete(paths)


def _worth_building_on(base: Snapshot, stamps: dict[str, Stamp]) -> set[int]:
    """Return positions of the packs to build on, judged by files that are probably unchanged: same name and size."""
    used = dict.fromkeys(range(len(base.packs)), 0)
    for file in base.files:
        now = stamps.get(file.path)
        if now is not None and now.size == file.stamp.size:
            for chunk in file.chunks:
                used[chunk.pack] += chunk.stored
    worth = {place for place, size in used.items() if size >= base.packs[place].size * SPARSE}
    small = {place for place in worth if base.packs[place].size < SMALL_BYTES}
    return worth if len(small) <= SMALL_PACKS else worth - small


def _find_anchor(tree: Tree, batch: int | None, *, pending: bool) -> Anchor:
    anchor = find_anchor(tree, batch)
    return anchor if pending else msgspec.structs.replace(anchor, pending=False)


def _is_same(base: Snapshot, anchor: Anchor, *, pending: bool) -> bool:
    """Whether ``base`` is already a snapshot of this anchor. With ``pending``, ``base`` may also have a plan that the
    anchor lacks.
    """
    enough = base.pending or not anchor.pending if pending else not base.pending
    return enough and (base.query_id, base.batch) == (anchor.query_id, anchor.batch)


def _describe(tree: Tree, series: str, anchor: Anchor, origin: Origin, files: tuple[SnapshotFile, ...]) -> Snapshot:
    """Return the record of a snapshot.
    ``tree``: the checkpoint.
    ``series``: the snapshot's series.
    ``anchor``: the captured batch.
    ``origin``: the version and release that wrote the checkpoint.
    ``files``: the captured files.
    """
    return Snapshot(
        number=0,
        series=series,
        checkpoint=tree.url,
        version=origin.version,
        release=origin.release,
        query_id=anchor.query_id,
        batch=anchor.batch,
        pending=anchor.pending,
        offsets=anchor.offsets,
        watermark_ms=anchor.watermark_ms,
        taken_at=clock.now().isoformat(timespec="milliseconds"),
        stored=0,
        packs=(),
        files=files,
    )


def _told(error: Exception, anchor: Anchor) -> Exception:
    if isinstance(error, FileNotFoundError):
        return CheckpointChanged(f"Spark deletes batch {anchor.batch} faster than it can be read: {error.filename}")
    return error


def _closed_set(tree: Tree, anchor: Anchor) -> list[str]:
    return closed_set(tree, anchor.batch, pending=anchor.pending)


def _say_nothing(_: CaptureProgress) -> None:
    return
