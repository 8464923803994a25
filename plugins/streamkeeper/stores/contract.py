"""The Store contract: what every kind of store promises, and nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from streamkeeper.errors import InvalidInput, RegistryDamaged


class Store(ABC):
    """Keys are relative, ``/``-separated, of ``[A-Za-z0-9._=-]`` parts that do not start with a dot.

    Values are bytes and appear whole or not at all.

    Of more than ``most_bytes`` nothing is read (RegistryDamaged), and nothing is written (InvalidInput).
    Every method raises StoreUnavailable when the store cannot be reached, and InvalidInput for a key that is not one.
    No method is built on a conditional overwrite (``If-Match``): two of three measured servers let two writers win.
    """

    url: str
    most_bytes: int = 128 * 1024 * 1024
    """Of a value: a larger one is neither written nor read whole. The largest of ours are packs of snapshots."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """The value; raises KeyMissing."""

    @abstractmethod
    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes ``start`` to ``start + length`` of the value, fewer at its end; raises KeyMissing."""

    @abstractmethod
    def create(self, key: str, value: bytes) -> None:
        """Write ``key`` if nothing is there; of any number of writers exactly one wins, the others get KeyExists."""

    @abstractmethod
    def replace(self, key: str, value: bytes) -> None:
        """Write ``key`` whether or not it is there; a reader sees the old value or the new one, whole."""

    @abstractmethod
    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        """Keys below the folder ``prefix`` (ends with ``/``), in order; only those greater than ``after``, a full key.

        The order is that of the bytes, but for sibling folders of which one's name continues the other's with ``-`` or
        ``.`` (``a/x``, ``a-b/x``): there servers differ, so use ``after`` within one flat folder only.
        """

    def folders(self, prefix: str) -> Iterator[str]:
        """Names of the folders just below the folder ``prefix``, in order: of those that were there before the call.

        Here by one list for each; a store that can does better.
        """
        after = ""
        while key := next(self.list(prefix, after=after), ""):
            name, below, _ = key.removeprefix(prefix).partition("/")
            if below:
                yield name
            # "0" is the character after "/": every key of this folder lies before it, every other one's after it.
            after = f"{prefix}{name}0" if below else key

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove ``key``; removing what is not there is no error."""

    def check_readable(self, key: str, size: int) -> None:
        """Raise RegistryDamaged for what is not to be read into memory."""
        if size > self.most_bytes:
            raise RegistryDamaged(
                f"{key} in store {self.url} is {size:,} bytes, above the limit of {self.most_bytes:,}",
                hint="Streamkeeper did not write it: find out who did, and restore the original value",
            )

    def check_writable(self, key: str, value: bytes) -> None:
        """Raise InvalidInput for what would not be read again."""
        if len(value) > self.most_bytes:
            raise InvalidInput(
                f"{key} would be {len(value):,} bytes in store {self.url}, above the limit of {self.most_bytes:,}",
                hint="a checkpoint or a job has too many files for one value: reduce their number",
            )

    def clear_unfinished(self, prefix: str, *, older_than_s: float) -> int:
        """Remove what writers that were killed have left below the folder ``prefix``, unlisted; how many there were.

        Only what is older, for a writer may be at work; nothing where the kind of store leaves nothing behind.
        """
        return 0
