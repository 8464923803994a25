"""The contract tests for every store: a test class of an implementation inherits them and provides the fixture
``store``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from streamkeeper.errors import InvalidInput, KeyExists, KeyMissing, RegistryDamaged
from streamkeeper.stores.contract import Store


class StoreContract:
    """The contract that every store fulfils."""

    def test_created_value_reads_back(self, store: Store) -> None:
        """A created key holds exactly the bytes that were written, including empty and binary values."""
        for key, value in {"a/empty": b"", "a/binary": bytes(range(256)) * 100, "top": b"x"}.items():
            store.create(key, value)
            assert store.read(key) == value

    def test_a_value_above_the_size_limit_is_neither_read_nor_written(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Reading or writing a value above the size limit fails with the key and both sizes; a value of the maximum
        size and a range of a larger value are accepted.
        """
        store.create("a/large", b"x" * 2000)
        monkeypatch.setattr(Store, "most_bytes", 1000)
        with pytest.raises(RegistryDamaged, match=r"a/large in store .* is 2,000 bytes, above the limit of 1,000"):
            store.read("a/large")
        with pytest.raises(RegistryDamaged, match="1,001 bytes"):
            store.read_range("a/large", 0, 1001)
        assert store.read_range("a/large", 1000, 10**15) == b"x" * 1000
        for write in (store.create, store.replace):
            with pytest.raises(InvalidInput, match="a/new would be 1,001 bytes"):
                write("a/new", b"x" * 1001)
        with pytest.raises(KeyMissing):
            store.read("a/new")
        store.create("a/new", b"x" * 1000)
        assert store.read("a/new") == b"x" * 1000

    def test_a_second_create_of_a_key_fails_and_leaves_its_value_unchanged(self, store: Store) -> None:
        """Creating an existing key raises ``KeyExists`` and leaves its value unchanged, whether the new bytes differ or
        not.
        """
        store.create("a/b", b"first")
        for value in (b"second", b"first"):
            with pytest.raises(KeyExists) as caught:
                store.create("a/b", value)
            assert caught.value.key == "a/b"
        assert store.read("a/b") == b"first"

    def test_one_of_many_writers_wins(self, store: Store) -> None:
        """If eight writers create the same key at the same time, exactly one succeeds and its value is stored."""
        for key in ("race/1", "race/2", "race/3"):
            winners = race(8, lambda writer, key=key: store.create(key, b"%d" % writer))
            assert [b"%d" % writer for writer in winners] == [store.read(key)]

    def test_folders_are_listed_once_by_name(self, store: Store) -> None:
        """Listing folders returns each folder once, even if names are prefixes of each other, and does not return keys
        beside the folders.
        """
        for key in ("jobs/a/1", "jobs/a/b/2", "jobs/a-b/1", "jobs/a0/1", "jobs/b/1", "jobs/top", "other/c/1"):
            store.create(key, b"")
        assert sorted(store.folders("jobs/")) == ["a", "a-b", "a0", "b"]
        assert list(store.folders("jobs/b/")) == []
        assert list(store.folders("nothing/")) == []

    def test_reading_a_missing_key_raises_key_missing(self, store: Store) -> None:
        """Reading a missing key raises ``KeyMissing`` with that key, also for a folder and inside a missing folder."""
        store.create("a/b", b"")
        for key in ("a/c", "b/c/d", "a"):
            with pytest.raises(KeyMissing) as caught:
                store.read(key)
            assert caught.value.key == key

    def test_replace_overwrites_an_existing_key_and_creates_a_missing_one(self, store: Store) -> None:
        """Replacing writes an existing key and creates a missing one."""
        store.replace("status/new.json", b"1")
        store.replace("status/new.json", b"22")
        assert store.read("status/new.json") == b"22"

    def test_readers_of_a_replaced_key_see_whole_values(self, store: Store) -> None:
        """A concurrent reader of a replaced key always sees one complete value, never a mixture and never a missing
        key.
        """
        values = [bytes([65 + number]) * (1000 + 7000 * number) for number in range(4)]
        store.replace("s", values[0])
        done = threading.Event()
        seen: list[bytes] = []

        def look() -> None:
            while not done.is_set():
                seen.append(store.read("s"))

        reader = threading.Thread(target=look)
        reader.start()
        for number in range(40):
            store.replace("s", values[number % 4])
        done.set()
        reader.join()
        assert seen
        assert set(seen) <= set(values)

    def test_list_is_in_key_order_and_below_the_folder(self, store: Store) -> None:
        """Listing a folder returns the full keys below it, including nested ones, in byte order."""
        keys = ["j/0001", "j/0002", "j/0010", "j/a.b", "j/a0", "j/c/x", "j/c/y/z", "j/c0", "jj/0001", "k"]
        for key in reversed(keys):
            store.create(key, b"")
        assert list(store.list("j/")) == [key for key in keys if key.startswith("j/")]
        assert list(store.list("j/c/")) == ["j/c/x", "j/c/y/z"]
        assert list(store.list("")) == keys
        assert list(store.list("nothing/")) == []

    def test_list_after_gives_greater_keys_only(self, store: Store) -> None:
        """With ``after``, a listing returns only greater keys, whether or not that key exists and whether it lies
        inside a folder or between folders.
        """
        keys = ["j/0001", "j/0002", "j/0010", "j/a_b/x", "j/c/x", "j/c/y/z", "j/d"]
        for key in keys:
            store.create(key, b"")
        for after in [*keys, "j/0005", "j/c/", "j/c0", "j/c/y/", "j/zz", "i", "z"]:
            assert list(store.list("j/", after=after)) == [key for key in keys if key > after], after

    def test_list_returns_every_key_once_despite_prefixed_folder_names(self, store: Store) -> None:
        """A listing returns every key once even if folder names are prefixes of each other, which servers sort
        differently.
        """
        keys = ["j/a-b/x", "j/a.b/x", "j/a/x", "j/a/y", "j/a0/x"]
        for key in keys:
            store.create(key, b"")
        assert sorted(store.list("j/")) == keys

    def test_list_goes_past_one_page(self, store: Store) -> None:
        """A listing returns all of 1,050 keys, which is more than one page of an object store."""
        keys = [f"many/{number:05d}" for number in range(1050)]
        race(8, lambda writer: [store.replace(key, b"") for key in keys[writer::8]])
        assert list(store.list("many/")) == keys
        assert list(store.list("many/", after=keys[1020])) == keys[1021:]

    def test_range_is_part_of_the_value(self, store: Store) -> None:
        """Reading a range returns the same bytes as slicing the value, and a missing key raises ``KeyMissing`` even for
        a length of 0.
        """
        store.create("r", b"0123456789")
        for start, length in [(0, 4), (3, 3), (4, 1), (8, 5), (10, 2), (50, 1), (2, 0)]:
            assert store.read_range("r", start, length) == b"0123456789"[start : start + length]
        for length in (0, 1):
            with pytest.raises(KeyMissing):
                store.read_range("none", 0, length)

    def test_a_deleted_key_is_not_listed_and_can_be_recreated(self, store: Store) -> None:
        """A deleted key is not listed and can be created anew; deleting a missing key is not an error."""
        store.create("d/1", b"old")
        store.delete("d/1")
        store.delete("d/1")
        store.delete("never/there")
        assert list(store.list("d/")) == []
        store.create("d/1", b"new")
        assert store.read("d/1") == b"new"

    @pytest.mark.parametrize(
        "key",
        ["", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/./b", ".a", "a b", "a\\b", "ä", "a\n", "x" * 201],
    )
    def test_an_invalid_key_is_refused_by_every_call(self, store: Store, key: str) -> None:
        """Every call refuses a key that could leave the store, be hidden in it or mean something else on a different
        system.
        """
        calls: list[Callable[[], object]] = [
            lambda: store.read(key),
            lambda: store.read_range(key, 0, 1),
            lambda: store.create(key, b""),
            lambda: store.replace(key, b""),
            lambda: store.delete(key),
        ]
        for call in calls:
            with pytest.raises(InvalidInput):
                call()

    def test_listing_an_invalid_folder_prefix_is_refused(self, store: Store) -> None:
        """Listing refuses a prefix that is not a folder inside the store."""
        for prefix in ("a", "../", "/", "a//"):
            with pytest.raises(InvalidInput):
                list(store.list(prefix))


def race(writers: int, attempt: Callable[[int], object]) -> list[int]:
    """Run ``attempt(0…writers-1)`` in threads that start together, and return the numbers of those that did not raise
    ``KeyExists``.
    """
    barrier = threading.Barrier(writers)
    winners: list[int] = []
    errors: list[BaseException] = []

    def run(writer: int) -> None:
        barrier.wait()
        try:
            attempt(writer)
            winners.append(writer)
        except KeyExists:
            pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return winners
