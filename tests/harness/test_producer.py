"""Tests that the producer's files appear complete and carry the same events for both jobs."""

from __future__ import annotations

import threading
from pathlib import Path

from harness.ledger import read_rows
from harness.producer import EVENTS, REFUND, SALES, next_number, produce


class _After(threading.Event):
    """An event that becomes set after ``times`` waits, which limits a producer's life without a clock."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = times

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        if self._left <= 0:
            self.set()
        return self.is_set()


def _produce(root: Path, files: int) -> int:
    return produce(root, rows=3, every_s=0, seed=1, customers=2, stop=_After(files))


def test_both_folders_hold_the_same_events(tmp_path: Path) -> None:
    """The sales folder and the events folder contain every event id exactly once, and no draft is left behind."""
    assert _produce(tmp_path, 4) == 12
    sales, events = [row[0] for row in read_rows(tmp_path / SALES)], [row[0] for row in read_rows(tmp_path / EVENTS)]
    assert sales == events
    assert len(set(sales)) == 12
    assert list((tmp_path / ".drafts").iterdir()) == []


def test_a_restarted_producer_never_reuses_a_file_name(tmp_path: Path) -> None:
    """A restarted producer never reuses a file name, not even one that only one of the two folders contains."""
    _produce(tmp_path, 2)
    (tmp_path / SALES / "000001.csv").unlink()
    assert next_number(tmp_path) == 2
    _produce(tmp_path, 1)
    ids = [row[0] for row in read_rows(tmp_path / EVENTS)]
    assert len(ids) == len(set(ids)) == 9


def test_refunds_are_produced_only_after_they_are_requested(tmp_path: Path) -> None:
    """No event is a refund before refunds are requested; afterwards each file contains one."""
    refunds = threading.Event()
    for files in (3, 2):
        produce(tmp_path, rows=3, every_s=0, seed=1, customers=2, stop=_After(files), refunds=refunds)
        refunds.set()
    kinds = [row[2] for row in read_rows(tmp_path / EVENTS)]
    assert REFUND not in kinds[:9]
    assert [number for number, kind in enumerate(kinds) if kind == REFUND] == [9, 12]
