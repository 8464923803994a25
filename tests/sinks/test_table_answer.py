"""Tests the answer of an output about a checkpoint version, from its description alone."""

from __future__ import annotations

import pytest

from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.table import TableSink, answer
from tests.sinks.warehouse import Warehouse

RECORD = OutputRecord(epoch=1, last={"v0001": 4})


@pytest.mark.parametrize(
    ("owner", "version", "told"),
    [
        ("sales/totals", "v0001", OutputAnswer(batch=4, record=RECORD)),
        ("sales/copy", "v0001", OutputAnswer(unknown="table totals is written by sales/totals")),
        (
            "sales/totals",
            "v0002",
            OutputAnswer(unknown="checkpoint version v0001 has written to table totals since", record=RECORD),
        ),
    ],
)
def test_only_the_version_that_wrote_an_output_gets_its_newest_batch(
    warehouse: Warehouse, owner: str, version: str, told: OutputAnswer
) -> None:
    """An output returns its newest batch only to the query and checkpoint version that wrote it; others get the reason
    why it is unknown.
    """
    warehouse.writer("v0001", 1).raise_fence()
    warehouse.execute(
        "CREATE TABLE totals (customer VARCHAR PRIMARY KEY, total BIGINT)",
        "UPDATE streamkeeper_outputs SET version = 'v0001', batch_id = 4",
    )
    described = TableSink(warehouse.url, table="totals", key=("customer",)).describe()
    question = OutputQuestion(
        sink=described, owner=owner, version=version, places=(warehouse.url,), mask=lambda text: text
    )
    assert answer(question) == told
