"""The Store contract: the guarantees that every kind of store gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from streamkeeper.errors import InvalidInput, RegistryDamaged


class Store(ABC):
    """A key-value store with atomic writes.

    Keys are relative paths of ``/``-separated parts. A part consists of ``[A-Za-z0-9._=-]`` and does not start with a
    dot. Values are bytes. A value appears whole or not at all.

    A value larger than ``most_bytes`` is neither read (RegistryDamaged) nor written (InvalidInput). Every method raises
    StoreUnavailable when the store cannot be reached, and InvalidInput for an invalid key. No method relies on a
    conditional overwrite (``If-Match``): on two of three measured servers, two writers both succeeded.
    """

    url: str
    most_bytes: int = 128 * 1024 * 1024
    """The size limit of a value in bytes, for reading and writing. The largest values are packs of snapshots."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """Return the value; raises KeyMissing."""

    @abstractmethod
    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return the bytes from ``start`` to ``start + length`` of the value, fewer at its end; raises KeyMissing."""

    @abstractmethod
    def create(self, key: str, value: bytes) -> None:
        """Write ``key`` if it does not exist. Of several writers exactly one succeeds; the others get KeyExists."""

    @abstractmethod
    def replace(self, key: str, value: bytes) -> None:
        """Write ``key`` whether or not it exists; a reader sees either the old value or the new one, whole."""

    @abstractmethod
    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        """Yield the keys below the folder ``prefix`` (which ends with ``/``), in order; with ``after``, a full key,
        yield only the keys greater than ``after``.

        Keys are in byte order, with one exception. If a folder's name is a sibling's name plus a suffix that begins
        with ``-`` or ``.`` (``a-b/`` next to ``a/``), the order of the two folders depends on the server. Therefore use
        ``after`` only within one flat folder.
        """

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield, in order, the names of all folders directly below the folder ``prefix`` that existed before the call.

        This implementation makes one list request per folder; a store that can do better overrides it.
        """
        after = ""
        while key := next(self.list(prefix, after=after), ""):
            name, below, _ = key.removeprefix(prefix).partition("/")
            if below:
                yield name
            # "0" is the character after "/": all keys of this folder sort before it, all other keys after it.
            after = f"{prefix}{name}0" if below else key

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove ``key``; removing a missing key is not an error."""

    def check_readable(self, key: str, size: int) -> None:
        """Raise RegistryDamaged for a value of ``size`` bytes that is too large to read into memory."""
        if size > self.most_bytes:
            raise RegistryDamaged(
                f"{key} in store {self.url} is {size:,} bytes, above the limit of {self.most_bytes:,}",
                hint="find out which other program wrote the value, because Streamkeeper writes none of this size. Then"
                " restore the original value",
            )

    def check_writable(self, key: str, value: bytes) -> None:
        """Raise InvalidInput for a value that is too large to be read back."""
        if len(value) > self.most_bytes:
            raise InvalidInput(
                f"{key} would be {len(value):,} bytes in store {self.url}, above the limit of {self.most_bytes:,}",
                hint="reduce the number of files in the checkpoint or the job",
            )

    def clear_unfinished(self, prefix: str, *, older_than_s: float) -> int:
        """Remove the unlisted leftovers of killed writers below the folder ``prefix``; return how many were removed.

        Only leftovers older than ``older_than_s`` seconds are removed, because a younger leftover may belong to an
        active writer. A store whose writers leave no such files removes none.
        """
        return 0
