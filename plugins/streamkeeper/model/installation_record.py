"""The installation of a store and the store's location: how a copy of a store is distinguished from the original.

``installation/0000000001.json``, create-only and numbered; the newest is valid. Processes, checkpoint versions and
outputs carry its id, so that a copy that has become a separate installation does not use the original's.
"""

from __future__ import annotations

import msgspec

FORMAT = 1
PREFIX = "installation/"


class InstallationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record."""

    format: int = FORMAT
    """Format version of the record."""
    number: int
    """The record's number."""
    id: str
    """The installation's id."""
    place: str
    """URL of the store at its location."""
    first: str
    """Id of the store's first record."""
    at: str
    """UTC, for people."""
    by: str = ""
    """The person or process that recorded it."""
    reason: str = ""
    """The reason."""

    @property
    def is_a_copy(self) -> bool:
        """Whether it started as a copy of another installation."""
        return self.id != self.first

    def is_mine(self, recorded: str) -> bool:
        """Whether a record with this id belongs to this installation.

        Older records have no id and belong to the first installation.
        """
        return (recorded or self.first) == self.id


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """``<home>/home.json``: the last known path of a home."""

    format: int = FORMAT
    path: str


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """``owner.json`` in a separate store of snapshots: the installation that used it first."""

    format: int = FORMAT
    id: str
    place: str


def installation_key(number: int) -> str:
    """``installation/0000000001.json``: keys sort like their numbers."""
    return f"{PREFIX}{number:010d}.json"
