"""What a checkpoint says about its Kafka sources: where they began, and from where they still need their topics."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.checkpoints.entries import read_offsets
from streamkeeper.checkpoints.facts import kafka_offsets
from streamkeeper.checkpoints.initial_offsets import read_initial_offsets
from streamkeeper.checkpoints.layout import last_planned
from streamkeeper.checkpoints.parsing import parse_json
from streamkeeper.model.topics import reads

Positions = dict[str, dict[int, int]]
"""Topic -> partition -> the next offset to read."""

_NAMED = 2


def start_offsets(checkpoint: Path, sources: int) -> tuple[str, ...]:
    """Where each source began, as one line of JSON; ``null`` for one that reads all there is, as file sources do.

    ``sources``: how many the query has; one that it reads twice counts once. Raises CheckpointDamaged.
    """
    planned = last_planned(checkpoint)
    plan = read_offsets(checkpoint, planned) if planned is not None else None
    named = plan is not None and plan.version == _NAMED and len(plan.ends) == sources
    folders = list(plan.ends) if plan is not None and named else [str(each) for each in range(sources)]
    return tuple(read_initial_offsets(checkpoint / "sources" / each) or "null" for each in folders)


def stands_at(checkpoint: Path, batch: int | None) -> dict[str, Positions]:
    """Source, as the offset log names it -> where it stands after ``batch``, of the Kafka sources only.

    None stands for before the first batch: it is where they began. Raises CheckpointDamaged.
    """
    if batch is None:
        logs = sorted(path for path in (checkpoint / "sources").glob("*") if path.is_dir())
        lines = {path.name: read_initial_offsets(path) for path in logs}
    else:
        lines = {name: kafka_offsets(end) for name, end in read_offsets(checkpoint, batch).ends.items()}
    return {name: _positions(line) for name, line in lines.items() if line is not None}


def read_by(checkpoint: Path, batch: int) -> dict[str, Positions]:
    """Source -> from where ``batch`` reads, of the partitions of which it reads anything; raises CheckpointDamaged."""
    starts = stands_at(checkpoint, batch - 1 if batch > 0 else None)
    return {name: _short_of(starts.get(name, {}), ends) for name, ends in stands_at(checkpoint, batch).items()}


def would_read_on(checkpoint: Path, source: str, topics: str) -> bool:
    """Whether ``topics`` (as ``model.topics`` has them) read every partition at which a source stands; False where that
    cannot be told. ``source``: as the offset log names it.
    """
    planned = last_planned(checkpoint)
    positions = stands_at(checkpoint, planned).get(source, {}) if planned is not None else {}
    return bool(positions) and all(reads(topics, topic, set(each)) for topic, each in positions.items())


def _short_of(starts: Positions, ends: Positions) -> Positions:
    found: Positions = {}
    for topic, partitions in starts.items():
        read = {each: at for each, at in partitions.items() if at < ends.get(topic, {}).get(each, at)}
        if read:
            found[topic] = read
    return found


def _positions(line: str) -> Positions:
    """Without -1 and -2, which stand for whatever is newest or oldest by then."""
    return {
        topic: {int(partition): offset for partition, offset in partitions.items() if offset >= 0}
        for topic, partitions in parse_json(line).items()
    }
