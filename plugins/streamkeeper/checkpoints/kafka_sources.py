"""What a checkpoint says about its Kafka sources: where they began, and from where they still need their topics."""

from __future__ import annotations

from streamkeeper.checkpoints.layout import last_planned, read_offsets
from streamkeeper.checkpoints.log_codec import kafka_offsets, parse_json, starts_from
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.topics import reads

Positions = dict[str, dict[int, int]]
"""Topic -> partition -> the next offset to read."""


def read_start(tree: Tree, source: str) -> str | None:
    """Where a source began, by its folder's name, as ``log_codec.starts_from`` has it; None where nothing tells."""
    try:
        return starts_from(tree.read(f"sources/{source}/0"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def start_offsets(tree: Tree, sources: int) -> tuple[str, ...]:
    """Where each source began, as one line of JSON; ``null`` for one that reads all there is, as file sources do.

    ``sources``: how many the query has; one that it reads twice counts once. Raises CheckpointDamaged.
    """
    planned = last_planned(tree)
    plan = read_offsets(tree, planned) if planned is not None else None
    named = plan is not None and plan.named and len(plan.ends) == sources
    folders = list(plan.ends) if plan is not None and named else [str(number) for number in range(sources)]
    return tuple(read_start(tree, folder) or "null" for folder in folders)


def stands_at(tree: Tree, batch: int | None) -> dict[str, Positions]:
    """Source, as the offset log names it -> where it stands after ``batch``, of the Kafka sources only.

    None stands for before the first batch: it is where they began. Raises CheckpointDamaged.
    """
    if batch is None:
        lines = {name: read_start(tree, name) for name in tree.folders("sources")}
    else:
        lines = {name: kafka_offsets(end) for name, end in read_offsets(tree, batch).ends.items()}
    return {name: _positions(line) for name, line in lines.items() if line is not None}


def read_by(tree: Tree, batch: int) -> dict[str, Positions]:
    """Source -> from where ``batch`` reads, of the partitions of which it reads anything; raises CheckpointDamaged."""
    starts = stands_at(tree, batch - 1 if batch > 0 else None)
    return {name: _short_of(starts.get(name, {}), ends) for name, ends in stands_at(tree, batch).items()}


def would_read_on(tree: Tree, source: str, topics: str) -> bool:
    """Whether ``topics`` (as ``model.topics`` has them) read every partition at which a source stands; False where that
    cannot be told. ``source``: as the offset log names it.
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
    """Without -1 and -2, which stand for whatever is newest or oldest by then."""
    return {
        topic: {int(partition): offset for partition, offset in partitions.items() if offset >= 0}
        for topic, partitions in parse_json(line).items()
    }
