"""The record of which process or DAG run carries an operation."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.operations.jobs.carriers import Carrier, job_of, note_carrier, read_carrier, this_process
from streamkeeper.stores.local import LocalStore


def test_reading_a_carrier_returns_the_last_one_noted(tmp_path: Path) -> None:
    """Reading an operation's carrier returns the last one noted, and none if none was noted."""
    store, run = LocalStore(tmp_path), Carrier(dag="streaming_deploy", run="manual__1", group="deploy_sales")
    assert read_carrier(store, "sales", "op") is None
    note_carrier(store, "sales", "op", this_process())
    note_carrier(store, "sales", "op", run)
    assert read_carrier(store, "sales", "op") == run


def test_the_job_of_an_operation_is_found_by_its_id(tmp_path: Path) -> None:
    """The job of an operation is found by its whole id only; a stray key in the folder is ignored."""
    store = LocalStore(tmp_path)
    note_carrier(store, "sales", "op-12", Carrier())
    note_carrier(store, "events", "op-1", Carrier())
    store.replace("carriers/stray.json", b"{}")
    assert [job_of(store, each) for each in ("op-1", "op-12", "op", "op-2")] == ["events", "sales", "", ""]
