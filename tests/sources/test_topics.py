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
def test_a_topic_is_read_if_a_list_assignment_or_pattern_names_it(named, topic, partitions, read):
    """A topic is read if a list or an assignment names it with its partitions, or if a pattern matches its whole name,
    as in Spark.
    """
    assert reads(named, topic, partitions) is read


@pytest.mark.parametrize("named", ['assign {"a": [0]}', "subscribepattern (", "assign {", "elsewhere a", ""])
def test_an_incomplete_assignment_or_malformed_description_reads_no_topic(named):
    """An assignment does not cover all partitions that a topic may get, and a malformed description reads nothing."""
    assert not reads(named, "a")


def test_the_subscribed_topics_can_be_determined_only_for_a_list():
    """The subscribed topics are known only for a list; those of a pattern depend on the brokers."""
    assert subscribed_topics("subscribe a, b") == {"a", "b"}
    assert subscribed_topics("subscribepattern a|b") is None
