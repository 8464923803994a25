"""Tests of what a running driver notices between two batches, such as another driver that owns its query."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.epoch import claim_epoch
from streamkeeper.driver.observing import Observer
from streamkeeper.errors import Fenced, JournalOutdated
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from tests.driver.test_newest_claims import JOB, MINE, NAME, Place


class Serving:
    """An observer of one query whose driver has claimed its epoch; only its channel to the store is real."""

    def __init__(self, root: Path) -> None:
        self.root, self.place = root, Place(root, "table")
        self.line = self.place.line
        self.line.look()
        claim, _ = claim_epoch(
            self.line, JOB, "old", 1, self.place.query, self.place.checkpoint, installation=MINE, seen=()
        )
        self.queries: list[Any] = [SimpleNamespace(name=NAME, claim=claim)]
        at: Any = SimpleNamespace(channel=self.line, status_reporter=None, timings=None, wakeups=None)
        self.observer = Observer(at)

    def check(self) -> None:
        self.observer.check_owner(self.queries)

    def claim_anew(self) -> None:
        """Let a second generation of the driver claim the query, and let the first one read the journal."""
        other = DriverChannel(CountingStore(LocalStore(self.root / "store")), JOB, "old", 2)
        other.look()
        claim_epoch(other, JOB, "old", 2, self.place.query, self.place.checkpoint, installation=MINE, seen=())
        self.line.look()


def test_a_driver_whose_query_was_claimed_again_ends(tmp_path: Path) -> None:
    """A driver whose query has a newer claim in the journal that it read last is fenced; without one it continues."""
    serving = Serving(tmp_path)
    serving.check()
    serving.claim_anew()
    with pytest.raises(Fenced, match=f"^query {NAME}: "):
        serving.check()


def test_missing_journal_entries_are_raised_before_claims_are_compared(tmp_path: Path) -> None:
    """A loss of journal entries that the heartbeat has found is raised in the main thread before any claim is
    compared.
    """
    serving = Serving(tmp_path)
    serving.line.lost = JournalOutdated("entry 4 is missing")
    with pytest.raises(JournalOutdated, match="entry 4 is missing"):
        serving.check()
