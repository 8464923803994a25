"""What a running driver notices between two batches: that another driver owns its query."""

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
    """An observer of one query whose driver has claimed its epoch; only its line to the store is real."""

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
        """A second generation of the driver claims the query; the first one reads the journal again."""
        other = DriverChannel(CountingStore(LocalStore(self.root / "store")), JOB, "old", 2)
        other.look()
        claim_epoch(other, JOB, "old", 2, self.place.query, self.place.checkpoint, installation=MINE, seen=())
        self.line.look()


def test_a_driver_whose_query_was_claimed_again_ends(tmp_path: Path) -> None:
    """The claim is compared with what the driver has read last; without a newer claim it goes on."""
    serving = Serving(tmp_path)
    serving.check()
    serving.claim_anew()
    with pytest.raises(Fenced, match=f"^query {NAME}: "):
        serving.check()


def test_a_driver_whose_records_are_missing_ends(tmp_path: Path) -> None:
    """The heartbeat's error is raised in the main thread, before any claim is compared."""
    serving = Serving(tmp_path)
    serving.line.lost = JournalOutdated("entry 4 is missing")
    with pytest.raises(JournalOutdated, match="entry 4 is missing"):
        serving.check()
