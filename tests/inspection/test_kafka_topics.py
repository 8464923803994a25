"""Tests, without brokers, which topics of a query can be compared by their ids."""

from __future__ import annotations

from streamkeeper.inspection.kafka_topics import of_one_cluster
from streamkeeper.sources.kafka import KafkaReading

IDS = {"sales": "s", "returns": "r"}


def reading(servers: str, *topics: str, pattern: str = "") -> KafkaReading:
    return KafkaReading(clients={"bootstrap.servers": servers}, topics=frozenset(topics), pattern=pattern)


def test_a_topic_name_in_two_clusters_is_not_compared() -> None:
    """A topic name that is read from two clusters is not compared, because the recorded id belongs to one of them.
    Negative control: two sources that read the same cluster are compared.
    """
    assert of_one_cluster(IDS, [reading("a:9092", "sales", "returns"), reading("b:9092", "sales")]) == {"returns": "r"}
    assert of_one_cluster(IDS, [reading("a:9092", "sales", "returns"), reading("a:9092", "sales")]) == IDS


def test_a_pattern_that_only_java_can_read_may_match_any_topic() -> None:
    """A topic pattern that only Java can parse is assumed to match any topic, so no topic is compared with an id from a
    different cluster.
    """
    assert of_one_cluster(IDS, [reading("a:9092", "sales", "returns"), reading("b:9092", pattern=r"\Qx\E")]) == {}
