"""Builds observations of a healthy job, and variants in which one thing is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState, DriverStatus, QueryStatus
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.signals import HistoryPoint, QuerySignals, SourceSignals
from streamkeeper.model.watch.health import AskedPerson, BackupLook, CheckpointLook, JobLook
from streamkeeper.model.watch.watched_facts import JobFacts, OperationFacts

NOW = 1_700_000_000.0
GIB = 2**30


def well(**changes: Any) -> JobLook:
    """Return the observation of a job that runs, keeps up and is backed up."""
    look = JobLook(
        job="sales",
        now=NOW,
        facts=JobFacts(
            number=9, wanted=True, stopped="", serving_release="r0002", serving_instance="op-candidate",
            desired_release="r0002", last_failure="",
        ),
        driver=ObservedDriver(liveness=Liveness(life=Life.ALIVE, why="processes 1, 2"), status=status()),
        checkpoints={"totals": CheckpointLook(version="v0001", directory="/cp/sales/totals/v0001")},
        backups={"totals": BackupLook(age_s=600, verified_age_s=3600, lacks_s=60)},
        prune_age_s=3600,
    )  # fmt: skip
    return changed(look, **changes)


def changed(look: JobLook, **changes: Any) -> JobLook:
    """Return the observation with changes to itself, to the facts from the journal, and to what is observed of the
    driver.
    """
    parts = {
        part: {name: changes.pop(name) for name in [*changes] if name in kind.__struct_fields__}
        for part, kind in (("look", JobLook), ("facts", JobFacts), ("driver", ObservedDriver), ("liveness", Liveness))
    }
    assert not changes, changes
    assert look.driver.liveness is not None
    liveness = replace(look.driver.liveness, **parts["liveness"])
    driver = replace(look.driver, liveness=liveness, **parts["driver"])
    return replace(look, facts=replace(look.facts, **parts["facts"]), driver=driver, **parts["look"])


def status(error: str = "", query_error: str = "", cause: str = "", waiting: str = "", **signals: Any) -> DriverStatus:
    """Return a driver's newest status, with these signals of its only query."""
    at = QuerySignals(**{"batch": 7, "batch_s": 2.0, "usual_batch_s": 2.0, "trigger_s": 5.0, **signals})
    query = QueryStatus(query="totals", version="v0001", epoch=1, error=query_error, signals=at)
    told = datetime.fromtimestamp(NOW, UTC).isoformat()
    return DriverStatus(
        instance="op-candidate", release="r0002", generation=1, state=DriverState.SERVING, beat=3, at=told,
        queries={"totals": query}, error=error, cause=cause, waiting=waiting,
    )  # fmt: skip


def dead(
    error: str = "", *, state: DriverState = DriverState.FAILED, code: int = 5, cause: str = "", **changes: Any
) -> JobLook:
    """Return a job whose driver has terminated, with its last report."""
    ending = DriverExit(instance="op-candidate", state=state, code=code, error=error, cause=cause)
    return well(**{"life": Life.DEAD, "why": "it is gone", "exit": ending, **changes})


def serving(**signals: Any) -> JobLook:
    """Return a running job with these signals."""
    return well(status=status(**signals))


def written(*batches: tuple[float, float], **now: Any) -> JobLook:
    """Return a job whose newest batches took (batch, checkpoint) seconds; the last one is what its driver reports
    now.
    """
    told = [
        QuerySignals(batch=number, batch_s=took, checkpoint_write_s=wrote)
        for number, (took, wrote) in enumerate(batches)
    ]
    points = tuple(
        HistoryPoint(at=NOW - 60.0 * (len(told) - each.batch), slowest_batch_s=each.batch_s, signals=each)
        for each in told[:-1]
    )
    took, wrote = batches[-1]
    return well(
        status=status(batch=len(batches) - 1, batch_s=took, usual_batch_s=took, checkpoint_write_s=wrote, **now),
        history={"totals": points},
    )


def source(**signals: Any) -> dict[str, Any]:
    """Return the signals of one source."""
    return {"sources": (SourceSignals(source="kafka", **signals),)}


def history(count: int, over_s: float, **last: Any) -> dict[str, Any]:
    """Return a history whose figures grow evenly from zero to ``last``."""
    points = []
    for step in range(count):
        part = (step + 1) / count
        told = {name: value if isinstance(value, tuple) else int(value * part) for name, value in last.items()}
        if "lag_records" in told:
            told = source(lag_records=told.pop("lag_records"))
        at = NOW - over_s * (1 - part)
        points.append(HistoryPoint(at=at, slowest_batch_s=2.0, signals=QuerySignals(**told)))
    return {"history": {"totals": tuple(points)}}


def operation(*, open_s: float = 60.0, owned: bool = True, **changes: Any) -> dict[str, Any]:
    """Return the fields of an open operation."""
    usual = {"operation": "op2", "kind": "deploy", "step": "drain", "began_at": NOW - open_s}
    return {"operation": OperationFacts(**{**usual, **changes}), "owned": owned}


def person(**changes: Any) -> dict[str, Any]:
    """Return the fields of a recovery that waits for a person's approval before it is recorded."""
    usual = {"operation": "op3", "action": "restore", "sentence": "LOSES 3 files", "left_s": 600.0}
    return {"asked": AskedPerson(**{**usual, **changes})}


def backup(**changes: Any) -> dict[str, Any]:
    """Return the fields of the query's snapshots."""
    return {"backups": {"totals": BackupLook(**changes)}}


def checkpoint(lost: str = "", **seen: str) -> dict[str, Any]:
    """Return the fields of the query's checkpoint."""
    return {"checkpoints": {"totals": CheckpointLook(version="v0001", directory="/cp", lost=lost, **seen)}}
