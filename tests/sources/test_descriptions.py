"""A source from its format and options: what may move, what matters, what is never written down."""

from __future__ import annotations

import pytest

from streamkeeper.sources.kafka import kafka_reading
from streamkeeper.sources.known_sources import describe_source


def test_kafka_keeps_topics_and_brokers_apart_from_what_matters() -> None:
    """Topics and addresses are the location, limits are limits, secrets are nowhere."""
    options = {
        "subscribe": "orders",
        "kafka.bootstrap.servers": "a:9092,b:9092",
        "maxOffsetsPerTrigger": "1000",
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "kafka.sasl.jaas.config": "user=me password=hidden",
        "kafka.ssl.keystore.password": "hidden",
    }
    found = describe_source("kafka", options, "value binary", None)
    assert (found.kind, found.location) == ("kafka", "subscribe orders@a:9092,b:9092")
    assert found.limits == {"maxoffsetspertrigger": "1000"}
    assert found.options == {"startingoffsets": "earliest", "failondataloss": "false"}
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(("told", "passes_over"), [({}, False), ({"failOnDataLoss": "FALSE"}, True)])
def test_what_kafka_passes_over_is_read_from_its_option(told: dict[str, str], passes_over: bool) -> None:
    """Spark fails over records that are gone unless it is told not to."""
    assert kafka_reading({"subscribe": "orders", **told}).passes_over is passes_over


@pytest.mark.parametrize("path", ["/data/in", "/data/in/", "file:/data/in", "file:///data/in/"])
def test_one_directory_has_one_location(path: str) -> None:
    """However the path is written."""
    found = describe_source("csv", {"path": path, "header": "true"}, "k string", None)
    assert (found.kind, found.location, found.options) == ("file", "/data/in", {"format": "csv", "header": "true"})


def test_another_scheme_is_another_location() -> None:
    """The same path elsewhere is not the same directory."""
    assert describe_source("csv", {"path": "s3a://data/in/"}, "", None).location == "s3a://data/in"


def test_option_names_are_compared_without_case() -> None:
    """As Spark does."""
    one = describe_source("csv", {"path": "/in", "maxFilesPerTrigger": "1", "Header": "true"}, "", None)
    assert one == describe_source("CSV", {"PATH": "/in", "maxfilespertrigger": "1", "header": "true"}, "", None)


@pytest.mark.parametrize(
    ("options", "read", "not_read"),
    [
        ({"subscribe": "orders, refunds"}, {"orders", "refunds"}, {"order", "orders, refunds"}),
        ({"subscribePattern": "ord.*"}, {"orders"}, {"disorder", "refunds"}),
        ({"assign": '{"orders":[0,1]}'}, {"orders"}, {"refunds"}),
    ],
)
def test_which_topics_a_source_reads(options: dict[str, str], read: set[str], not_read: set[str]) -> None:
    """By whichever of the three options it was told."""
    found = kafka_reading(options)
    assert all(found.reads(each) for each in read)
    assert not any(found.reads(each) for each in not_read)


def test_kafkas_clients_get_what_begins_with_kafka() -> None:
    """Names of clients' options keep their case; Spark's own options are not theirs."""
    given = {"kafka.bootstrap.servers": "a:9092", "kafka.sasl.mechanism": "PLAIN", "startingOffsets": "earliest"}
    assert kafka_reading(given).clients == {"bootstrap.servers": "a:9092", "sasl.mechanism": "PLAIN"}
