"""The drill task: which snapshot it drills and how it reports the result, with a stand-in for the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import NotFound
from streamkeeper.model.records.snapshot import DrillResult, Snapshot
from streamkeeper.snapshots.catalogue import Catalogue
from tests.operations.backups.test_snapshots import Registered
from tests.orchestration.installed import SERIES, install
from tests.orchestration.running import Instance, context_of

pytestmark = pytest.mark.airflow


class Drills:
    """A stand-in for the driver: ``ok`` is the result of each drill, ``done`` lists the drilled snapshots."""

    def __init__(self) -> None:
        self.ok = True
        self.done: list[str] = []

    def __call__(self, catalogue: Catalogue, snapshot: Snapshot, *_: Any) -> DrillResult:
        self.done.append(snapshot.name)
        message = "batch 8 ran on 6 rows of state" if self.ok else "batch 8 cannot be planned"
        result = DrillResult(id=f"{len(self.done):04d}", ok=self.ok, message=message, at="2026-11-21", seconds=1.25)
        catalogue.note_drill(snapshot.number, result)
        return result


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    return install(tmp_path, monkeypatch)


@pytest.fixture
def drills(monkeypatch: pytest.MonkeyPatch) -> Drills:
    from streamkeeper.operations.backups import drills

    stand_in = Drills()
    monkeypatch.setattr(drills, "drill", stand_in)
    monkeypatch.setattr(drills, "released_job", lambda site, snapshot: None)
    return stand_in


def run(**form: Any) -> tuple[str, str]:
    """Run the drill task, and return its result and the run's report."""
    from streamkeeper.orchestration.drill_task import DrillOperator

    instance = Instance()
    returned = DrillOperator(task_id="drill", series=SERIES).work(context_of(instance, **form))
    return returned, instance.pushed["report"]


def test_the_newest_snapshot_is_drilled_until_it_is_verified(job: Registered, drills: Drills) -> None:
    """The newest snapshot is drilled until it is verified and then skipped; the next snapshot is drilled in its
    turn.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match=f"{SERIES}: no snapshot yet"):
        run()
    job.take()
    sentence = f"{SERIES} s0001: verified: batch 8 ran on 6 rows of state (1.2 s)"
    assert run() == (sentence, sentence)
    with pytest.raises(AirflowSkipException, match=f"{SERIES} s0001: verified already, 2026-11-21"):
        run()
    job.commit(8)
    job.take()
    run()
    assert drills.done == ["s0001", "s0002"]


def test_a_snapshot_requested_by_name_is_drilled_even_if_verified(job: Registered, drills: Drills) -> None:
    """A snapshot that is requested by name is drilled even if it is verified; an unknown name is refused with the
    existing snapshots.
    """
    job.take()
    named = {"job": "sales", "query": "totals", "snapshot": "s0001"}
    run(**named)
    run(**named)
    assert drills.done == ["s0001", "s0001"]
    with pytest.raises(NotFound, match="has no snapshot s0009 .*s0001"):
        run(**{**named, "snapshot": "s0009"})


def test_a_failed_drill_fails_its_task_and_is_retried_by_the_next_run(job: Registered, drills: Drills) -> None:
    """A failed drill fails its task with the drill's message and a report, and the next run repeats the drill."""
    from streamkeeper.orchestration.drill_task import DrillFailed, DrillOperator

    job.take()
    drills.ok = False
    instance = Instance()
    with pytest.raises(DrillFailed, match="s0001: NOT verified: batch 8 cannot be planned"):
        DrillOperator(task_id="drill", series=SERIES).work(context_of(instance))
    assert "NOT verified" in instance.pushed["report"]
    drills.ok = True
    run()
    assert drills.done == ["s0001", "s0001"]
