"""The kinds of tree on which the tests of checkpoints run: a directory, and one in memory that behaves like S3.

With ``--on-hdfs``, a folder of a real HDFS is used as well, which takes half an hour.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

from streamkeeper.checkpoints.hdfs_tree import HdfsTree
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.trees import LocalTree, Seen, Tree, check_inside
from streamkeeper.errors import CheckpointChanged
from streamkeeper.model.records.snapshot import Stamp

KINDS = ("disk", "memory")
_chosen = "disk"
_hdfs_url = ""
_clock = count(1_700_000_000)
_made: dict[Path, Tree] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--on-hdfs", action="store_true", help="run what runs on every kind of tree on HDFS, too")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that uses ``kind_of_tree`` on every kind."""
    if "kind_of_tree" in metafunc.fixturenames:
        on_hdfs = [pytest.param("hdfs", marks=pytest.mark.hdfs)] if metafunc.config.getoption("--on-hdfs") else []
        metafunc.parametrize("kind_of_tree", [*KINDS, *on_hdfs], indirect=True)


@pytest.fixture
def kind_of_tree(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of tree that ``at`` returns."""
    _choose(request.param, request.getfixturevalue("hdfs_url") if request.param == "hdfs" else "")
    yield request.param
    _choose(KINDS[0])


def _choose(kind: str, hdfs_url: str = "") -> None:
    global _chosen, _hdfs_url
    _chosen, _hdfs_url = kind, hdfs_url
    _made.clear()


def at(root: Path) -> Tree:
    """Return the current content of a directory, or what was written there, as a tree of the test's kind."""
    if _chosen == "disk":
        return LocalTree(root)
    if _chosen == "hdfs":
        return uploaded(root, _on_hdfs(root)) if root.exists() else _made.setdefault(root, _on_hdfs(root))
    return MemoryTree.of(root) if root.exists() else _made.setdefault(root, MemoryTree(str(root)))


def contents(root: Path) -> dict[str, bytes]:
    """Return every file of ``at(root)``, without temporary files of a writer that died."""
    tree = at(root)
    return {path: tree.read(path) for path in sorted(Listed(tree).below("")) if not path.endswith(".tmp")}


def write(tree: Tree, path: str, content: bytes) -> None:
    """Write a file as a checkpoint's owner does, overwriting an existing one."""
    if isinstance(tree, MemoryTree):
        tree.put(path, content)
    elif isinstance(tree, HdfsTree):
        owners = HdfsTree(tree.url)
        owners.delete([path])
        owners.create(path, [content])
    else:
        (Path(tree.where("")) / path).write_bytes(content)


def uploaded(root: Path, tree: HdfsTree) -> HdfsTree:
    """Return the tree after copying a directory into it, with its empty folders and its files' times."""
    folders, files = [], []
    for path in sorted(root.rglob("*")):
        (folders if path.is_dir() else files).append(path)

    def upload(path: Path) -> None:
        name = path.relative_to(root).as_posix()
        tree.create(name, [path.read_bytes()])
        modified = path.stat().st_mtime_ns // 1_000_000
        tree._hdfs._ask("date", "PUT", tree._path(name), "SETTIMES", modificationtime=str(modified))

    with ThreadPoolExecutor(8) as writers:
        list(writers.map(upload, files))
    for folder in folders:
        tree._hdfs._ask("make", "PUT", tree._path(folder.relative_to(root).as_posix()), "MKDIRS")
    return tree.fresh()


def _on_hdfs(root: Path) -> HdfsTree:
    tree = HdfsTree(f"{_hdfs_url}/{uuid.uuid4().hex}/{root.name}")
    tree.checksums = True
    return tree


class MemoryTree(Tree):
    """Objects by path; a folder exists if it contains something or has a marker, as s3a leaves it."""

    checksums = True
    """True, as for the directory of which it is a copy."""

    def __init__(self, url: str = "memory://tree") -> None:
        self.url = self.location = url
        self._objects: dict[str, tuple[bytes, Stamp]] = {}

    @classmethod
    def of(cls, root: Path) -> MemoryTree:
        """Return a copy of a directory with that directory's name as its location."""
        tree = cls(str(root))
        for folder, folders, names in os.walk(root):
            inside = Path(folder).relative_to(root)
            for name in folders:
                tree.put(f"{(inside / name).as_posix()}/", b"")
            for name in names:
                file = Path(folder) / name
                tree.put((inside / name).as_posix(), file.read_bytes(), modified=file.stat().st_mtime_ns)
        return tree

    def put(self, path: str, content: bytes, *, modified: int = 0) -> None:
        """Write a file as a checkpoint's owner does, overwriting an existing one."""
        written_at = modified or next(_clock) * 10**9
        stamp = Stamp(size=len(content), modified=written_at, changed=0, tag=sha256(content).hexdigest())
        self._objects[path] = content, stamp

    def names(self, folder: str) -> list[str]:
        above = f"{folder}/" if folder else ""
        below = [path.removeprefix(above) for path in self._objects if path.startswith(above) and path != above]
        return sorted({name + slash for name, slash, _ in (path.partition("/") for path in below)})

    def look(self) -> Seen:
        return Seen({path: stamp for path, (_, stamp) in self._objects.items() if not path.endswith("/")})

    def read(self, path: str) -> bytes:
        return self._object(path)[0]

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        for start in range(0, max(expected.size, 1), size):
            content, stamp = self._object(path)
            if stamp != expected:
                raise CheckpointChanged(f"{self.where(path)} changed while it was being read")
            if part := content[start : start + size]:
                yield part

    def stamp(self, path: str) -> Stamp:
        return self._object(path)[1]

    def create(self, path: str, content: Iterable[bytes]) -> None:
        whole = b"".join(content)
        if check_inside(path) in self._objects:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.where(path))
        self.put(path, whole)

    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        for path in paths:
            self._objects.pop(check_inside(path), None)
        return {}

    def drop_empty_folders(self) -> None:
        files = self.look().files
        for marker in [path for path in self._objects if path.endswith("/")]:
            if not any(path.startswith(marker) for path in files):
                del self._objects[marker]

    def _object(self, path: str) -> tuple[bytes, Stamp]:
        try:
            return self._objects[check_inside(path)]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.where(path)) from None
