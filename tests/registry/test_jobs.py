"""Tests the list of jobs in a store and its cost."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.registry.jobs import list_jobs, stray_folders
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore


def test_jobs_are_listed_once_each_in_order(tmp_path: Path) -> None:
    """Every job in the registry is listed once in order, whatever the names of other jobs, with a single list request
    on a directory.
    """
    store = CountingStore(LocalStore(tmp_path))
    assert list_jobs(store) == []
    for job in ("sales", "sales0", "sales_totals", "a", "b", "sale"):
        for number in range(3):
            store.create(f"registry/{job}/journal/{number:010d}.json", b"")
        store.create(f"registry/{job}/bundles/00.zip", b"")
    store.create("control/other/i/status.json", b"")
    store.requests = 0
    assert list_jobs(store) == ["a", "b", "sale", "sales", "sales0", "sales_totals"]
    assert store.requests == 1


def test_a_folder_with_an_invalid_job_name_is_listed_as_a_stray(tmp_path: Path) -> None:
    """A folder whose name is not a job name, in the registry or among the control folders, is listed as a stray and not
    as a job.
    """
    store = LocalStore(tmp_path)
    for folder in ("registry/sales", "registry/sales.bak", "registry/Sales-old", "control/sales", "control/sales.bak"):
        store.create(f"{folder}/journal/0000000001.json", b"")
    assert list_jobs(store) == ["sales"]
    assert stray_folders(store) == ["registry/Sales-old", "registry/sales.bak", "control/sales.bak"]
