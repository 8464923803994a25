"""Rules about the location that a source reads."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.effects import NO_ACTION
from streamkeeper.compatibility.rule import NEW_QUERY, breaking, note
from streamkeeper.compatibility.shown import change
from streamkeeper.model.finding import Finding
from streamkeeper.model.manifest import Source
from streamkeeper.model.topics import reads, subscribed_topics


def place(source: Source) -> str:
    """Return the location of a source without the part that may change, such as the brokers' addresses of a topic."""
    topics, separator, _ = source.location.rpartition("@")
    return topics if source.kind == "kafka" and separator else source.location


def place_changed(where: str, before: Source, after: Source) -> Iterator[Finding]:
    """Report another path or topic. The same topics at another address of the same cluster keep their offsets."""
    was, now = place(before), place(after)
    if was == now:
        if before.location != after.location:
            hint = (
                "check that both addresses belong to the same cluster: in another one these offsets mean other records"
            )
            yield note("brokers-moved", where, change(before.location, after.location, "location"), hint=hint)
    elif before.kind == after.kind == "kafka" and after.catches_up:
        yield note("topics-named-otherwise", where, change(was, now, "location"), "kafka_pattern")
    elif after.catches_up:
        hint = f"{NO_ACTION}: every file there that was not read yet is new enough to be read"
        measured = "src_glob_path_changed, src_path_to_parent"
        yield note("source-location-changed", where, change(was, now, "location"), measured, hint)
    elif before.kind == "kafka" and _keeps_topics(was, now):
        yield note("topics-added", where, change(was, now, "location"), "kafka_topic_added, kafka_pattern")
    else:
        measured = "src_path_changed, src_glob_path_changed_old_files, kafka_topic_replaced"
        yield breaking("source-location-changed", where, change(was, now, "location"), measured, NEW_QUERY)


def asks_the_checkpoint(before: Source, after: Source) -> bool:
    """Whether the checkpoint's offsets are needed to decide if the query still reads, after the change, every partition
    that it has read so far.
    """
    if not before.kind == after.kind == "kafka" or _brokers(before) != _brokers(after):
        return False
    return place(before) != place(after) and not _keeps_topics(place(before), place(after))


def _brokers(source: Source) -> str:
    return source.location.rpartition("@")[2]


def _keeps_topics(before: str, after: str) -> bool:
    """Whether, by the names of the topics alone, every topic read so far is still read."""
    topics = subscribed_topics(before)
    return topics is not None and all(reads(after, topic) for topic in topics)
