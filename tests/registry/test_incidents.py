"""Tests a job's incident records and the identification of their writers."""

from __future__ import annotations

from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.incident import IncidentRaised, JobIncidents
from streamkeeper.registry.incidents import IncidentLog
from tests.contracts.memory_store import MemoryStore

DEAD = Symptom(job="sales", query="", rule="driver-dead", severity=Urgency.PAGE, cause="c", action="a", heading="h")


def raise_once(state: JobIncidents) -> IncidentRaised | None:
    return None if state.open else IncidentRaised(symptom=DEAD)


def test_two_watches_with_the_same_host_and_pid_have_distinct_writers() -> None:
    """Two watches with the same host name and process number have distinct writer names, and the slower one sees that
    the record is not its own.
    """
    store = MemoryStore()
    slow, fast = (IncidentLog(store, "sales", writer="watch:host:1") for _ in range(2))
    assert slow.state().number == 0
    assert [log.append(raise_once, now=1.0) for log in (fast, slow)] == [1, 0]
    assert [notice.by for notice in slow.state().unsent] == [fast.writer]
    assert slow.writer != fast.writer
    assert slow.writer.startswith("watch:host:1#")
