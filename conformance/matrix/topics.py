"""Topics of a real broker instead of a unit's input directories. Unlike files, rows cannot be removed from a topic
again.

``in/topics.json`` names the unit's topics. Each call of ``make_topics`` creates new ones, with one partition each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from conformance.matrix.data import Data, File

if TYPE_CHECKING:
    from harness.kafka_broker import KafkaBroker

_RECORD = "topics.json"


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """The topics of a unit. ``other`` is the topic of its second stream; ``with_after`` states whether the topics
    contain the rows after the change.
    """

    servers: str
    input: str
    other: str = ""
    with_after: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the unit's topics."""
        return tuple(filter(None, (self.input, self.other)))


def make_topics(folder: Path, data: Data, broker: KafkaBroker | None) -> None:
    """Create topics that contain the rows before the change, and write the static files."""
    assert broker is not None, "a case on Kafka needs a broker"
    data.place_tables(folder)
    folder.mkdir(parents=True, exist_ok=True)
    other = broker.create_topic() if data.other_before else ""
    topics = Topics(servers=broker.servers, input=broker.create_topic(), other=other)
    _produce(broker, topics, data.before, data.other_before)
    _write(folder, topics)


def add_after(folder: Path, data: Data, broker: KafkaBroker | None) -> None:
    """Append the rows after the change, if this was not done already; the unit's head must have run before."""
    assert broker is not None, "a case on Kafka needs a broker"
    topics = _read(folder)
    if not topics.with_after:
        _produce(broker, topics, data.after, data.other_after)
        _write(folder, msgspec.structs.replace(topics, with_after=True))


def params_of(folder: Path) -> dict[str, str]:
    """Return the params by which a job finds its topics; ``other`` only for a unit with a second topic."""
    topics = _read(folder)
    found = {"servers": topics.servers, "input": topics.input}
    return {**found, "other": topics.other} if topics.other else found


def units_elsewhere(units: Path, broker: KafkaBroker | None) -> list[Path]:
    """Return the folders of the units whose topics this broker does not have."""
    held = set(broker.admin.list_topics(timeout=30).topics) if broker else set()
    return [file.parents[1] for file in _records(units) if not held >= set(_read(file.parent).names)]


def delete_topics(units: Path, broker: KafkaBroker) -> None:
    """Delete the topics of all units; the broker must have them."""
    for file in _records(units):
        for name in _read(file.parent).names:
            broker.delete_topic(name)


def delete_topics_of(unit: Path, broker: KafkaBroker) -> None:
    """Delete the topics of one unit, if it has any."""
    file = unit / "in" / _RECORD
    for name in _read(file.parent).names if file.exists() else ():
        broker.delete_topic(name)


def _records(units: Path) -> list[Path]:
    return sorted(units.glob(f"*/in/{_RECORD}"))


def _produce(broker: KafkaBroker, topics: Topics, rows: Iterable[File], other: Iterable[File]) -> None:
    for topic, files in zip(topics.names, (rows, other), strict=False):
        broker.produce(topic, [json.loads(str(row)) for file in files for row in file.rows])


def _read(folder: Path) -> Topics:
    return msgspec.json.decode((folder / _RECORD).read_bytes(), type=Topics)


def _write(folder: Path, topics: Topics) -> None:
    draft = folder / f"{_RECORD}.draft"
    draft.write_bytes(msgspec.json.encode(topics))
    draft.rename(folder / _RECORD)
