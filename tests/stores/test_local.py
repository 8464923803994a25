"""Tests that the local store keeps the store contract and handles failures that only a directory has."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from streamkeeper.errors import InvalidInput, KeyExists, StoreUnavailable
from streamkeeper.stores.contract import Store
from streamkeeper.stores.local import LocalStore
from tests.contracts.store_contract import StoreContract


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


class TestLocalStore(StoreContract):
    """A directory keeps the store contract."""


def test_list_is_in_byte_order_everywhere(tmp_path: Path) -> None:
    """A directory lists keys in byte order, as Amazon's S3 does, even if one folder's name is the beginning of a
    different one.
    """
    store = LocalStore(tmp_path)
    keys = ["j/a-b/x", "j/a.b", "j/a/x", "j/a/y/z", "j/a0"]
    for key in reversed(keys):
        store.create(key, b"")
    assert list(store.list("j/")) == keys
    for after in [*keys, "j/a", "j/a/", "j/a/y/"]:
        assert list(store.list("j/", after=after)) == [key for key in keys if key > after]


def test_unfinished_files_are_never_listed(tmp_path: Path) -> None:
    """A file that a killed writer left unfinished is not listed as a key."""
    store = LocalStore(tmp_path)
    store.create("a/b", b"")
    (tmp_path / "a" / ".0123").write_bytes(b"half")
    assert list(store.list("")) == ["a/b"]


def test_every_write_leaves_exactly_one_file_for_each_key(tmp_path: Path) -> None:
    """Successful, failed and replacing writes leave exactly one file for each key."""
    store = LocalStore(tmp_path)
    store.create("a/b", b"1")
    with pytest.raises(KeyExists):
        store.create("a/b", b"2")
    store.replace("a/c", b"3")
    assert sorted(os.listdir(tmp_path / "a")) == ["b", "c"]


@pytest.mark.parametrize("call", ["create", "replace"])
def test_a_value_is_on_the_disk_before_it_has_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A write syncs new folders and the whole content to disk before the file gets its name, and the folder
    afterwards.
    """
    store = LocalStore(tmp_path)
    acts: list[str] = []
    sync, name = os.fsync, {"create": os.link, "replace": os.rename}[call]

    def note_sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        size = f"{os.fstat(descriptor).st_size} bytes"
        acts.append(path.relative_to(tmp_path).as_posix() if path.is_dir() else size)
        sync(descriptor)

    def note_name(source: str, target: str) -> None:
        acts.append("name")
        name(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, name.__name__, note_name)
    getattr(store, call)("a/b/c", b"value")
    assert acts == [".", "a", "5 bytes", "name", "a/b"]


def test_vanished_directory_is_unavailable_not_empty(tmp_path: Path) -> None:
    """If the store's directory was moved away, every call raises ``StoreUnavailable`` with its path in one line, and
    none creates a new directory.
    """
    root = tmp_path / "store"
    store = LocalStore(root)
    store.create("a/b", b"1")
    root.rename(tmp_path / "elsewhere")
    calls = [
        lambda: store.read("a/b"),
        lambda: store.create("a/c", b""),
        lambda: store.create("top", b""),
        lambda: store.replace("a/b", b""),
        lambda: list(store.list("a/")),
        lambda: store.delete("a/b"),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable, match="the store's directory is missing") as caught:
            call()
        assert "\n" not in str(caught.value)
        assert str(root) in str(caught.value)
    assert not root.exists()


def test_a_store_whose_directory_cannot_be_created_is_refused(tmp_path: Path) -> None:
    """A store whose directory cannot be created, because a file is in the way, is refused with that path."""
    (tmp_path / "file").write_text("")
    with pytest.raises((InvalidInput, StoreUnavailable), match="file"):
        LocalStore(tmp_path / "file" / "store")


def test_key_below_a_key_is_refused(tmp_path: Path) -> None:
    """A key below an existing key, or above one, is refused and changes nothing, because a directory cannot contain a
    file and a folder of one name.
    """
    store = LocalStore(tmp_path)
    store.create("a/b", b"1")
    with pytest.raises(InvalidInput):
        store.create("a/b/c", b"2")
    with pytest.raises(InvalidInput):
        store.replace("a", b"2")
    assert store.read("a/b") == b"1"


def test_write_that_does_not_fit_is_unavailable_and_leaves_nothing(tmp_path: Path) -> None:
    """A write that the system cuts short, here by a limit on file sizes, raises ``StoreUnavailable`` and leaves neither
    a key nor a folder.
    """
    script = (
        "import resource, signal, sys; from streamkeeper.stores.local import LocalStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (1000, {resource.RLIM_INFINITY}))\n"
        "LocalStore(sys.argv[1]).create('a/b', b'x' * 5000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert f"StoreUnavailable: store {tmp_path.as_uri()}: cannot create {tmp_path}/a/b: File too large" in done.stderr
    assert os.listdir(tmp_path) == []  # an empty folder would be listed, as a job that there is not


def test_contract_suite_sees_a_store_that_overwrites(tmp_path: Path) -> None:
    """Negative control: if create overwrites existing keys, the contract's tests of a second create and of concurrent
    creates fail.
    """

    class Overwriting(LocalStore):
        def create(self, key: str, value: bytes) -> None:
            self.replace(key, value)

    broken: Store = Overwriting(tmp_path)
    suite = StoreContract()
    with pytest.raises(pytest.fail.Exception):
        suite.test_a_second_create_of_a_key_fails_and_leaves_its_value_unchanged(broken)
    with pytest.raises(AssertionError):
        suite.test_one_of_many_writers_wins(broken)
