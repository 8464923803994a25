"""A real driver whose sink is down for longer than any budget: a real PostgreSQL behind a wire that is cut."""

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
"""Seconds stand for minutes: a dozen tries are more than three minutes of the usual pauses."""
TRIES = 12


class Wired(DriverHouse):
    """A house whose totals are in a PostgreSQL behind a wire."""

    def __init__(self, root: Path, server: str) -> None:
        super().__init__(root)
        self.server = server
        self.wire = Wire(int(server.rpartition("/")[0].rpartition(":")[2]))

    def params(self) -> dict[str, object]:  # type: ignore[override]
        """The job's, with the wire's end as the warehouse."""
        url = f"postgresql+psycopg://streamkeeper@127.0.0.1:{self.wire.port}/postgres"
        return {"input": str(self.input), "warehouse": url, "trigger": "500 milliseconds"}

    def totals(self, table: str = "sales_totals") -> dict[str, tuple[int, int, int]]:
        """What the table holds, asked of the server itself."""
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
    """A driver that has written something."""
    house.add([("a", 1), ("b", 2)])
    process = house.launch("first", restarts=SHORT)
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", process, "totals")
    wait_for("the first totals", lambda: house.totals() == house.oracle())


def failures(house: Wired) -> int:
    """How often the query has failed in a row, as the status tells."""
    status = house.status("first")
    return status.queries["totals"].failures if status is not None and status.queries else 0


def test_a_sink_that_is_down_is_waited_for_and_nothing_is_lost(house: Wired) -> None:
    """Far more tries than there are restarts; the same process goes on, and the status says what it waits for.

    A stop need not wait for what is down.
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


def test_a_driver_that_cannot_take_over_says_that_its_sink_is_down(house: Wired) -> None:
    """Its supervisor waits; the next generation that reaches the sink goes on."""
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


def test_without_its_cause_the_outage_ends_the_driver(house: Wired) -> None:
    """Negative control: told as a failure, three restarts are used up while the sink is down."""
    house.program = [str(Path(__file__).with_name("causeless_driver.py"))]
    serve(house)
    house.wire.cut()
    house.add([("a", 5)])
    assert house.wait_exit(house.processes[0], 300) == ExitCode.FAILED
