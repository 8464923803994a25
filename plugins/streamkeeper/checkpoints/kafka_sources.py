"""Reads from a checkpoint where its Kafka sources started, and from which offsets they need their topics."""

from __future__ import annotations

from streamkeeper.checkpoints.layout import last_planned, read_offsets
from streamkeeper.checkpoints.log_codec import kafka_offsets, parse_json, starts_from
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.sources.kafka import reads

Positions = dict[str, dict[int, int]]
"""Topic -> partition -> the next offset to read."""


def read_start(tree: Tree, source: str) -> str | None:
    """Return the offsets at which a Kafka source started, as one line of JSON; None if the checkpoint does not record
    them.

    ``source``: the name of the source's folder.
    """
    try:
        return starts_from(tree.read(f"sources/{source}/0"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def start_offsets(tree: Tree, sources: int) -> tuple[str, ...]:
    """Return the offsets at which each source started, as one line of JSON per source.

    The line is ``null`` for a source that reads from the beginning, such as a file source. ``sources``: the number of
    the query's sources; a source that the query reads twice counts once. Raises CheckpointDamaged.
    """
    planned = last_planned(tree)
    plan = read_offsets(tree, planned) if planned is not None else None
    named = plan is not None and plan.named and len(plan.ends) == sources
    folders = list(plan.ends) if plan is not None and named else [str(number) for number in range(sources)]
    return tuple(read_start(tree, folder) or "null" for folder in folders)


def stands_at(tree: Tree, batch: int | None) -> dict[str, Positions]:
    """Return the position of every Kafka source after ``batch``, by the source's id in the offset log.

    If ``batch`` is None, return the positions before the first batch, at which the sources started. Raises
    CheckpointDamaged.
    """
    if batch is None:
        lines = {name: read_start(tree, name) for name in tree.folders("sources")}
    else:
        lines = {name: kafka_offsets(end) for name, end in read_offsets(tree, batch).ends.items()}
    return {name: _positions(line) for name, line in lines.items() if line is not None}


def read_by(tree: Tree, batch: int) -> dict[str, Positions]:
    """Return the first offset that ``batch`` reads from each partition, as source -> topic -> partition -> offset.

    A partition is omitted if the batch reads no record from it, or if its position before the batch is not recorded.
    Raises CheckpointDamaged.
    """
    starts = stands_at(tree, batch - 1 if batch > 0 else None)
    return {name: _short_of(starts.get(name, {}), ends) for name, ends in stands_at(tree, batch).items()}


def would_read_on(tree: Tree, source: str, topics: str) -> bool:
    """Whether a subscription certainly covers every partition for which a source has a position in the last planned
    batch. False if the source has no such position.

    ``source``: the source's id in the offset log.
    ``topics``: the subscription, in the form of ``sources.kafka``.
    """
    planned = last_planned(tree)
    positions = stands_at(tree, planned).get(source, {}) if planned is not None else {}
    return bool(positions) and all(reads(topics, topic, set(partitions)) for topic, partitions in positions.items())


def _short_of(starts: Positions, ends: Positions) -> Positions:
    found: Positions = {}
    for topic, partitions in starts.items():
        read = {partition: at for partition, at in partitions.items() if at < ends.get(topic, {}).get(partition, at)}
        if read:
            found[topic] = read
    return found


def _positions(line: str) -> Positions:
    """Parse positions without -1 and -2, which mean the newest or oldest offset at the time of reading."""
    return {
        topic: {int(partition): offset for partition, offset in partitions.items() if offset >= 0}
        for topic, partitions in parse_json(line).items()
    }
