"""The names of a Kafka source's input: ``subscribe a,b``, ``subscribepattern a.*`` or ``assign {"a": [0]}``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection


def subscribed_topics(named: str) -> frozenset[str] | None:
    """Return the topics of a subscription by list; None for every other form of subscription."""
    way, _, rest = named.partition(" ")
    return frozenset(topic.strip() for topic in rest.split(",")) if way == "subscribe" else None


def reads(named: str, topic: str, partitions: Collection[int] | None = None) -> bool:
    """Whether a source with the input ``named`` certainly reads these partitions of ``topic``.

    If ``partitions`` is None, all partitions that the topic has or will get are meant.
    """
    way, _, rest = named.partition(" ")
    try:
        match way:
            case "subscribe":
                return topic in (subscribed_topics(named) or ())
            case "subscribepattern":
                return re.fullmatch(rest, topic) is not None
            case "assign":
                return partitions is not None and set(partitions) <= set(json.loads(rest).get(topic, ()))
            case _:
                return False
    except (ValueError, re.error):
        return False
