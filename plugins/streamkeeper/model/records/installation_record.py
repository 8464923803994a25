"""The record of a store's installation and location, which distinguishes a copy of a store from the original.

``installation/0000000001.json`` is create-only and numbered; the newest record is valid. Processes, checkpoint versions
and outputs carry the installation's id. A copy that has become a separate installation therefore does not use the
processes, checkpoint versions and outputs of the original.
"""

from __future__ import annotations

import msgspec

FORMAT = 1
PREFIX = "installation/"


class InstallationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the installation that a store belongs to, and of the store's location."""

    format: int = FORMAT
    """Format version of the record."""
    number: int
    """The record's number."""
    id: str
    """The installation's id."""
    place: str
    """URL of the store at the location that this record states."""
    first: str
    """The id in the store's first record."""
    at: str
    """Time of the record in UTC, for people."""
    by: str = ""
    """The person or process that made the record."""
    reason: str = ""
    """The reason for the record."""

    @property
    def is_a_copy(self) -> bool:
        """Whether this installation started as a copy of another one."""
        return self.id != self.first

    def is_mine(self, recorded: str) -> bool:
        """Whether a record with the id ``recorded`` belongs to this installation.

        Records that older versions of Streamkeeper wrote have no id. They belong to the store's first installation.
        """
        return (recorded or self.first) == self.id


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``<home>/home.json``: the last known path of that home directory."""

    format: int = FORMAT
    path: str


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``owner.json`` in a separate store of snapshots: the installation that used that store first."""

    format: int = FORMAT
    id: str
    place: str


def installation_key(number: int) -> str:
    """Return the key ``installation/0000000001.json``; the keys sort like the numbers."""
    return f"{PREFIX}{number:010d}.json"
