"""Tests of a real driver whose sink, a PostgreSQL behind a cuttable connection, is down for longer than any restart
budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, ExitCode
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.restart_budgets import Cause, RestartPolicy
from streamkeeper.model.watch.job_status import JobStatus, find_standing
from tests.driver.driver_house import DriverHouse
from tests.wire import Wire

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900)]

SHORT = RestartPolicy(dependency_pause_s=0.2, dependency_longest_s=0.5)
"""Short pauses for the tests: a dozen attempts would take more than three minutes with the usual pauses."""
TRIES = 12


class Wired(DriverHouse):
    """A driver house with its totals in a PostgreSQL behind a connection that can be cut."""

    def __init__(self, root: Path, server: str) -> None:
        super().__init__(root)
        self.server = server
        self.wire = Wire(int(server.rpartition("/")[0].rpartition(":")[2]))

    def params(self) -> dict[str, object]:  # type: ignore[override]
        """Return the job's params with the near end of the connection as the warehouse."""
        url = f"postgresql+psycopg://streamkeeper@127.0.0.1:{self.wire.port}/postgres"
        return {"input": str(self.input), "warehouse": url, "trigger": "500 milliseconds"}

    def totals(self, table: str = "sales_totals") -> dict[str, tuple[int, int, int]]:
        """Return the contents of the table, read from the server directly."""
        with psycopg.connect(self.server) as connection:
            if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
                return {}
            rows = connection.execute(f"SELECT customer, sales, total, squares FROM {table}").fetchall()
        return {row[0]: tuple(map(int, row[1:])) for row in rows}  # type: ignore[misc]


@pytest.fixture
def house(tmp_path: Path, postgres_server: str) -> Iterator[Wired]:
    house = Wired(tmp_path, postgres_server)
    yield house
    house.close()
    house.wire.cut()
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS sales_totals, streamkeeper_outputs CASCADE")


def serve(house: Wired) -> None:
    """Start a driver and wait until it has written its first totals."""
    house.add([("a", 1), ("b", 2)])
    process = house.launch("first", restarts=SHORT)
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", process, "totals")
    wait_for("the first totals", lambda: house.totals() == house.oracle())


def failures(house: Wired) -> int:
    """Return the query's number of consecutive failures according to the status."""
    status = house.status("first")
    return status.queries["totals"].failures if status is not None and status.queries else 0


def test_a_sink_that_is_down_is_waited_for_and_nothing_is_lost(house: Wired) -> None:
    """A driver waits for an unavailable sink with far more attempts than its restart budget, states in its status what
    it waits for, and continues in the same process without loss. It can be drained during the outage.
    """
    serve(house)
    house.wire.cut()
    house.add([("a", 5)])
    wait_for("a dozen tries", lambda: failures(house) >= TRIES, 300)
    assert house.processes[0].poll() is None
    status = house.status("first")
    assert status is not None
    assert (status.cause, status.generation) == (Cause.DEPENDENCY.value, 1)
    assert "totals: " in status.waiting
    assert find_standing(ObservedDriver(status=status, liveness=Liveness(life=Life.ALIVE, why=""))) is JobStatus.WAITING
    house.wire.mend()
    wait_for("the totals after the outage", lambda: house.totals() == house.oracle(), 120)
    house.add([("c", 7)])
    wait_for("the next totals", lambda: house.totals() == house.oracle(), 120)
    wait_for("no word of waiting", lambda: not house.status("first").waiting and not failures(house))
    house.wire.cut()
    house.add([("a", 5)])
    wait_for("some tries", lambda: failures(house) >= 3, 300)
    house.send("first", house.processes[0], CommandKind.DRAIN)
    assert house.wait_exit(house.processes[0], 60) == ExitCode.DRAINED


@pytest.mark.storage
def test_a_driver_that_cannot_take_over_exits_with_dependency_down(house: Wired) -> None:
    """A driver that cannot take over because its sink is down exits with ``DEPENDENCY_DOWN``, and its next generation
    continues when the sink is reachable.
    """
    house.add([("a", 1)])
    house.wire.cut()
    process = house.launch("first", restarts=SHORT)
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", process, "totals")
    assert house.wait_exit(process, 180) == ExitCode.DEPENDENCY_DOWN
    assert house.status("first").cause == Cause.DEPENDENCY.value
    house.wire.mend()
    house.start("first", 2)
    wait_for("the totals", lambda: house.totals() == house.oracle(), 180)


def test_an_outage_classified_as_a_failure_uses_up_the_restarts(house: Wired) -> None:
    """Negative control: if the outage is classified as a failure, three restarts are used up and the driver fails while
    the sink is down.
    """
    house.program = [str(Path(__file__).with_name("causeless_driver.py"))]
    serve(house)
    house.wire.cut()
    house.add([("a", 5)])
    assert house.wait_exit(house.processes[0], 300) == ExitCode.FAILED
