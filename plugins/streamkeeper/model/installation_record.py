"""Which installation a store belongs to, and where it lives: what tells a copy of a store from the one that it is of.

``installation/0000000001.json``, create-only and numbered; the newest counts. Processes, checkpoint versions and
outputs carry its id, so that a copy that has become an installation of its own has nothing to do with the former's.
"""

from __future__ import annotations

import msgspec

FORMAT = 1
PREFIX = "installation/"


class InstallationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record. ``place``: the store's URL where it lives; ``first``: the id of the store's first record.

    ``at``: UTC, for people.
    """

    format: int = FORMAT
    number: int
    id: str
    place: str
    first: str
    at: str
    by: str = ""
    reason: str = ""

    @property
    def is_a_copy(self) -> bool:
        """Whether it began as a copy of another one."""
        return self.id != self.first

    def is_mine(self, recorded: str) -> bool:
        """Whether what was recorded under this id is this installation's; records of before there were ids have none,
        and are the first one's."""
        return (recorded or self.first) == self.id


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """``<home>/home.json``: the path at which a home was last known to be."""

    format: int = FORMAT
    path: str


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """``owner.json`` in a store of snapshots that is apart: the installation that has used it first."""

    format: int = FORMAT
    id: str
    place: str


def installation_key(number: int) -> str:
    """``installation/0000000001.json``: keys sort as their numbers do."""
    return f"{PREFIX}{number:010d}.json"
