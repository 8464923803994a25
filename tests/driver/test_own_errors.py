"""Tests of a real driver whose queries fail by the job's own errors: whatever their text contains, they are classified
as the job's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.waiting import wait_for
from streamkeeper.health.driver_rules import faults
from streamkeeper.health.rules import find_symptoms
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.model.protocol.fault_kinds import Fault
from tests.driver.driver_house import DriverHouse
from tests.health.looks import changed, dead, well

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

JOB = """
from streamkeeper import ForeachBatch, Param, Query, streaming_job

ERRORS = {
    "discount": ValueError("order 4711 no longer holds a discount"),
    "shop": RuntimeError("upstream API returned 'Connection refused' for shop 7"),
    "metadata": KeyError("metadata.json is missing"),
}


def sink_of(name):
    def write(batch, context):
        raise ERRORS[name]

    return write


def collect(batch, context):
    batch.collect()


@streaming_job(name="own_errors", params={"input": Param(str)})
def own_errors(spark, params):
    read = spark.readStream.schema("name string, amount int")
    lines = read.option("mode", "FAILFAST").json(params["input"])
    for name in ERRORS:
        yield Query(name, lines, sink=ForeachBatch(sink_of(name)), output_mode="append", trigger="200 milliseconds")
    yield Query("poison", lines, sink=ForeachBatch(collect), output_mode="append", trigger="200 milliseconds")
"""
TAKEN_FOR = {
    "discount": Fault.SOURCE_LOST,
    "shop": Fault.SINK_DOWN,
    "metadata": Fault.CHECKPOINT_DAMAGED,
}
"""The wrong fault that the text alone of each error would suggest."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[DriverHouse]:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "own_errors.py").write_text(JOB)
    house = DriverHouse(tmp_path / "house", "own_errors", jobs)
    yield house
    house.close()


def test_a_jobs_own_errors_are_unclassified_and_reported_as_a_crash_loop(house: DriverHouse) -> None:
    """The job's own errors are stored as unclassified and reported as a crash loop, and a truncated record is reported
    with its error class and file. Control: without the stored fault, the text leads to a wrong one.
    """
    process = house.launch("first", params={"input": str(house.input)})
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", process, *TAKEN_FOR, "poison")
    (house.root / "draft").write_text('{"name":"a","amount":1}\n{"name":"b","amo')
    (house.root / "draft").rename(house.input / "orders.json")
    wait_for(
        "every query's failure",
        lambda: len([q for q in house.status("first").queries.values() if q.failures]) == len(TAKEN_FOR) + 1,  # type: ignore[union-attr]
        120,
    )
    status = house.status("first")
    assert status is not None
    assert {query.fault for query in status.queries.values()} == {"unclassified"}
    poison = status.queries["poison"].error
    assert all(part in poison for part in ("MALFORMED_RECORD_IN_PARSING", "JsonEOFException", "orders.json")), poison
    assert "batch 0 reads file:" in status.queries["shop"].error
    assert faults(well(status=status)) == {}
    for query, wrong in TAKEN_FOR.items():
        told = f"it failed with exit code 5; 5 restarts used up: query {query}: {status.queries[query].error}"
        look = dead(told, cause="failure", status=None)
        assert look.driver.exit is not None
        typed = changed(look, exit=replace(look.driver.exit, fault=status.queries[query].fault))
        assert [each.rule for each in find_symptoms(typed)] == ["crash-loop"]
        assert {kind for kind, _ in faults(look).values()} == {wrong}
