"""The fleet's metrics from a real local store: few reads, and a result even if parts of the store cannot be read."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from harness.fault_store import FaultStore, unavailable
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus
from streamkeeper.model.records.journal_records import InstanceAppointed, InstancePlanned, ReleasePromoted, Role
from streamkeeper.model.settings.settings import Settings
from streamkeeper.model.watch.fleet_index import FleetIndex, JobMemory, JobRow, SnapshotFacts
from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.fleet.fleet_metrics import FRESH_S, RecentFleet, look_at_fleet
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.fleet import write_index
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.contract import Store
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from streamkeeper.system.metrics import Fleet, render_metrics


def site_of(root: Path, store: Store) -> Installation:
    settings = Settings(store=store.url, checkpoints=str(root / "cp"), jobs=str(root / "jobs"), home=str(root / "home"))
    return Installation.of(settings, store, {})


def serve(store: Store, job: str) -> None:
    """Store the records of a job whose driver has reported its status."""
    journal, instance = Journal(store, job, writer="test"), "op-1-candidate"
    for record in (
        InstancePlanned(operation="op-1", instance=instance, release="r0001", role=Role.CANDIDATE),
        InstanceAppointed(operation="op-1", instance=instance),
        ReleasePromoted(operation="op-1", release="r0001", instance=instance),
    ):
        journal.append(lambda _, record=record: record)
    told = DriverStatus(
        instance=instance, release="r0001", generation=2, state=DriverState.SERVING, beat=3, at="2026-11-22T00:00:00Z"
    )
    Control(store, job, instance).write_status(told)


def test_the_metrics_contain_every_job_even_with_an_unreadable_journal(tmp_path: Path) -> None:
    """The metrics contain every job; one with an unreadable journal appears by its name and hides no other job."""
    store = LocalStore(tmp_path / "store")
    for job in ("orders", "sales"):
        serve(store, job)
    (tmp_path / "store/registry/orders/journal/0000000002.json").write_text("{ cut")
    seen = look_at_fleet(site_of(tmp_path, store), now=0.0)
    assert [(each.job, each.serving, each.release) for each in seen.jobs] == [
        ("orders", None, ""),
        ("sales", False, "r0001"),
    ]
    assert seen.store_up
    assert 'streamkeeper_restarts_total{job="sales"} 1.0' in render_metrics(seen)


def test_an_unreachable_store_is_reported_as_down_in_the_metrics(tmp_path: Path) -> None:
    """With an unreachable store the scrape succeeds, reports ``streamkeeper_store_up 0``, and contains nothing that an
    alert could read as a healthy job.
    """
    seen = look_at_fleet(site_of(tmp_path, FaultStore(LocalStore(tmp_path / "store"), unavailable("read"))), now=0.0)
    assert seen == Fleet(store_up=False)
    assert "streamkeeper_store_up 0.0" in render_metrics(seen)


def test_scrapes_within_the_refresh_interval_do_not_read_the_store(tmp_path: Path) -> None:
    """Repeated scrapes within the refresh interval cost no request to the store. Negative control: with an interval of
    0 each scrape reads the store.
    """
    inner = LocalStore(tmp_path / "store")
    serve(inner, "sales")
    store = CountingStore(inner)
    site = site_of(tmp_path, store)
    recent = RecentFleet(lambda: look_at_fleet(site, now=0.0))
    first, asked = recent(), store.requests
    assert asked > 0
    assert [recent() for _ in range(3)] == [first] * 3
    assert store.requests == asked
    eager = RecentFleet(lambda: look_at_fleet(site, now=0.0), refresh_s=0.0)
    eager()
    eager()
    assert store.requests == 3 * asked


def test_a_new_installation_has_no_jobs(tmp_path: Path) -> None:
    """The metrics of a new installation report that the store answers, and no jobs."""
    assert look_at_fleet(site_of(tmp_path, LocalStore(tmp_path / "store")), now=0.0) == Fleet(store_up=True)


NOW = 1_795_000_000.0


def test_with_a_fresh_watch_pass_a_scrape_reads_only_index_and_statuses(tmp_path: Path) -> None:
    """With a fresh pass of the watch a scrape reads only the index and one status for each job; symptoms and snapshot
    ages come from the index.
    """
    inner = LocalStore(tmp_path / "store")
    store = CountingStore(inner)
    for job in ("orders", "sales"):
        serve(inner, job)
    write_index(inner, index_of("orders", "sales", started=NOW - 60))
    seen = look_at_fleet(site_of(tmp_path, store), now=NOW)
    assert store.requests == 1 + 2
    told = render_metrics(seen)
    assert 'streamkeeper_symptom{job="sales",query="totals",rule="stalled",severity="page"} 1.0' in told
    assert 'streamkeeper_snapshot_age_seconds{job="sales",query="totals",verified="false"} 100.0' in told
    assert 'streamkeeper_snapshot_age_seconds{job="sales",query="totals",verified="true"} 500.0' in told
    assert 'streamkeeper_restarts_total{job="orders"} 1.0' in told
    assert seen.watch_pass == NOW - 58


def test_a_fresh_pass_by_another_watch_does_not_hide_a_dead_scheduler(tmp_path: Path) -> None:
    """The metric of the last pass is the one by Airflow, even if a different watch has made a fresh pass, whose
    symptoms are still shown.
    """
    store = LocalStore(tmp_path / "store")
    serve(store, "sales")
    write_index(store, replace(index_of("sales", started=NOW - 60), airflow_pass_at=NOW - 600))
    seen = look_at_fleet(site_of(tmp_path, store), now=NOW)
    assert seen.watch_pass == NOW - 600
    assert [symptom.rule for symptom in seen.symptoms] == ["stalled"]


def test_from_an_outdated_index_only_the_time_of_the_pass_is_reported(tmp_path: Path) -> None:
    """From an outdated index the metrics report only the time of the last pass; its symptoms are dropped, and each job
    is read from the store.
    """
    store = LocalStore(tmp_path / "store")
    for job in ("orders", "sales"):
        serve(store, job)
    write_index(store, index_of("sales", started=NOW - FRESH_S - 60))
    seen = look_at_fleet(site_of(tmp_path, store), now=NOW)
    assert [each.job for each in seen.jobs] == ["orders", "sales"]
    assert (seen.symptoms, seen.watch_pass) == ((), NOW - FRESH_S - 58)


def test_the_index_of_a_copied_store_is_ignored(tmp_path: Path) -> None:
    """The index of a copied store is ignored, because it was written by the watch of a different installation."""
    store = LocalStore(tmp_path / "store")
    write_index(store, replace(index_of("sales", started=NOW), installation="another"))
    assert look_at_fleet(site_of(tmp_path, store), now=NOW) == Fleet(store_up=True)


def index_of(*jobs: str, started: float) -> FleetIndex:
    """Return the index of a pass that took two seconds."""
    snapshots = {"totals": SnapshotFacts(looked_at=started, taken_at=NOW - 100, verified_at=NOW - 500)}
    found = Symptom(
        rule="stalled", severity=Urgency.PAGE, job="sales", query="totals", cause="c", action="a", heading="h"
    )
    rows = [
        JobRow(
            job=job,
            standing=JobStatus.SERVING,
            release="r0001",
            instance="op-1-candidate",
            symptoms=(found,) if job == "sales" else (),
            memory=JobMemory(snapshots=snapshots),
        )
        for job in jobs
    ]
    return FleetIndex(number=7, started=started, seconds=2.0, rows=tuple(rows))
