import pytest

from streamkeeper.sources.kafka import reads, subscribed_topics


@pytest.mark.parametrize(
    ("named", "topic", "partitions", "read"),
    [
        ("subscribe a, b", "b", None, True),
        ("subscribe a,b", "c", None, False),
        ("subscribepattern a.*", "ab", {0, 1}, True),
        ("subscribepattern a.*", "ba", None, False),
        ("subscribepattern a.b", "a.b.c", None, False),
        ('assign {"a": [0, 1]}', "a", {1}, True),
        ('assign {"a": [0, 1]}', "a", {1, 2}, False),
        ('assign {"a": [0, 1]}', "b", {0}, False),
    ],
)
def test_a_topic_is_read_where_its_name_or_its_partitions_are_named(named, topic, partitions, read):
    """A topic is read if a list or an assignment names it with its partitions, or if a pattern matches its whole name,
    as in Spark.
    """
    assert reads(named, topic, partitions) is read


@pytest.mark.parametrize("named", ['assign {"a": [0]}', "subscribepattern (", "assign {", "elsewhere a", ""])
def test_what_cannot_be_told_is_not_read(named):
    """An assignment does not cover all partitions that a topic may get, and a malformed description reads nothing."""
    assert not reads(named, "a")


def test_only_a_list_of_topics_names_all_of_them():
    """The subscribed topics are known only for a list; those of a pattern depend on the brokers."""
    assert subscribed_topics("subscribe a, b") == {"a", "b"}
    assert subscribed_topics("subscribepattern a|b") is None
