"""Which topics of a query can be compared by their ids, without brokers."""

from __future__ import annotations

from streamkeeper.inspection.kafka_topics import of_one_cluster
from streamkeeper.sources.kafka import KafkaReading

IDS = {"sales": "s", "returns": "r"}


def reading(servers: str, *topics: str, pattern: str = "") -> KafkaReading:
    return KafkaReading(clients={"bootstrap.servers": servers}, topics=frozenset(topics), pattern=pattern)


def test_a_topic_name_in_two_clusters_is_not_compared() -> None:
    """The recorded id is of one of them. Negative control: two sources may read one cluster."""
    assert of_one_cluster(IDS, [reading("a:9092", "sales", "returns"), reading("b:9092", "sales")]) == {"returns": "r"}
    assert of_one_cluster(IDS, [reading("a:9092", "sales", "returns"), reading("a:9092", "sales")]) == IDS


def test_a_pattern_that_only_java_can_read_may_match_any_topic() -> None:
    """Otherwise a topic of its cluster would be compared with the id of another one."""
    assert of_one_cluster(IDS, [reading("a:9092", "sales", "returns"), reading("b:9092", pattern=r"\Qx\E")]) == {}
