"""Tests, without Spark, every kind of source against the promises of its declaration."""

from __future__ import annotations

from streamkeeper.sources.known_sources import REPLAYED
from tests.contracts.source_contract import Example, SourceKindContract


class TestFiles(SourceKindContract):
    """CSV files of a local directory keep the contract."""

    example = Example(
        kind="file",
        format="csv",
        options={"path": "/data/in", "header": "true"},
        elsewhere={"path": "/data/other"},
        limit="maxFilesPerTrigger",
        of_rows={"sep": ";"},
        default={"multiLine": "false"},
        upkeep={"cleanSource": "archive"},
        risky={"ignoreMissingFiles": "true"},
        offset='{"logOffset":3}',
    )


class TestKafka(SourceKindContract):
    """Kafka topics that a pattern names keep the contract."""

    example = Example(
        kind="kafka",
        format="kafka",
        options={"subscribePattern": "orders-.*", "kafka.bootstrap.servers": "a:9092"},
        elsewhere={"subscribePattern": "refunds-.*"},
        limit="maxOffsetsPerTrigger",
        of_rows={"kafka.isolation.level": "read_committed"},
        default={"includeHeaders": "false"},
        upkeep={"kafka.request.timeout.ms": "1000"},
        risky={"failOnDataLoss": "false"},
        offset='{"orders-1":{"0":5,"1":9}}',
    )


def test_every_kind_of_source_that_promises_replay_is_tested() -> None:
    """Every kind of source that promises replay has a suite in this module."""
    assert {kind.name for kind in REPLAYED} == {suite.example.kind for suite in (TestFiles, TestKafka)}
