"""Where a Kafka source began, or is to begin: ``sources/<position or name>/0``.

Format of Spark 4.2.0 (``KafkaSourceInitialOffsetWriter``): a zero byte, a line ``v1``, then the offsets in JSON. Spark
reads it before it looks at ``startingOffsets``, and only while no batch is planned.
"""

from __future__ import annotations

from pathlib import Path

from streamkeeper.checkpoints.facts import kafka_offsets

_HEAD = b"\0v1\n"
NAME = "0"


def initial_offsets(content: bytes) -> str | None:
    """The offsets in one line of JSON; None where the content is another kind of source's."""
    if not content.startswith(_HEAD):
        return None
    try:
        return kafka_offsets(content[len(_HEAD) :].decode())
    except UnicodeDecodeError:
        return None


def read_initial_offsets(log: Path) -> str | None:
    """The same from a source's folder; None where there are none."""
    try:
        return initial_offsets((log / NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def initial_offsets_file(offsets: str) -> bytes:
    """The content that makes a Kafka source begin at ``offsets``: JSON, topic -> partition -> next offset to read."""
    return _HEAD + offsets.encode()
