"""Tests the description of a source from its format and options: which parts may change, which matter and which are
never recorded.
"""

from __future__ import annotations

import pytest

from streamkeeper.sources.kafka import kafka_reading
from streamkeeper.sources.known_sources import describe_source


def test_a_kafka_description_separates_location_and_rate_limits_from_options() -> None:
    """The description of a Kafka source has topics and brokers as its location and rate limits apart from its options,
    and contains no secret.
    """
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
def test_a_kafka_source_skips_deleted_records_only_without_fail_on_data_loss(
    told: dict[str, str], passes_over: bool
) -> None:
    """A Kafka source skips deleted records only if ``failOnDataLoss`` is false; by default Spark fails over them."""
    assert kafka_reading({"subscribe": "orders", **told}).passes_over is passes_over


@pytest.mark.parametrize("path", ["/data/in", "/data/in/", "file:/data/in", "file:///data/in/"])
def test_one_directory_has_one_location(path: str) -> None:
    """All spellings of a local directory result in one location."""
    found = describe_source("csv", {"path": path, "header": "true"}, "k string", None)
    assert (found.kind, found.location, found.options) == ("file", "/data/in", {"format": "csv", "header": "true"})


def test_another_scheme_is_another_location() -> None:
    """The same path under a different scheme is a different location."""
    assert describe_source("csv", {"path": "s3a://data/in/"}, "", None).location == "s3a://data/in"


def test_option_names_are_compared_without_case() -> None:
    """Format and option names are compared regardless of case, as in Spark."""
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
def test_the_topics_of_a_kafka_source_follow_from_its_subscription_options(
    options: dict[str, str], read: set[str], not_read: set[str]
) -> None:
    """The topics that a Kafka source reads follow from ``subscribe``, ``subscribePattern`` or ``assign``."""
    found = kafka_reading(options)
    assert all(found.reads(each) for each in read)
    assert not any(found.reads(each) for each in not_read)


def test_kafka_clients_get_exactly_the_options_with_the_kafka_prefix() -> None:
    """Kafka's clients get exactly the options that begin with ``kafka.``, with the case of their names unchanged."""
    given = {"kafka.bootstrap.servers": "a:9092", "kafka.sasl.mechanism": "PLAIN", "startingOffsets": "earliest"}
    assert kafka_reading(given).clients == {"bootstrap.servers": "a:9092", "sasl.mechanism": "PLAIN"}
