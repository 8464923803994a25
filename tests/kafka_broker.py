"""A real Kafka broker for the tests marked ``kafka``: started once, on local ports, and stopped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.kafka.broker import KafkaBroker, has_jars, running_broker

__all__ = ["KafkaBroker", "kafka"]


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A broker without topics; skips, with the reason, where its jars were not fetched."""
    if not has_jars():
        pytest.skip("no Kafka jars (make connectors)")
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-kafka-"))
    try:
        with running_broker(home) as broker:
            yield broker
    finally:
        shutil.rmtree(home, ignore_errors=True)
