"""Tests that only sources that can be replayed are accepted."""

from __future__ import annotations

import pytest

from streamkeeper.errors import Unsupported
from streamkeeper.sources.known_sources import promise_of


@pytest.mark.parametrize("kind", ["file", "csv", "parquet", "kafka"])
def test_files_and_kafka_topics_promise_the_same_rows_for_the_same_offsets(kind: str) -> None:
    """Files and Kafka topics promise the same rows for the same offsets, as long as the rows are not deleted."""
    assert promise_of(kind).replays


@pytest.mark.parametrize("kind", ["rate", "socket", "memory", "something-else"])
def test_sources_that_cannot_be_replayed_are_refused(kind: str) -> None:
    """A source that cannot be replayed is refused by name with the reason."""
    with pytest.raises(Unsupported, match=f"source '{kind}' is not supported: "):
        promise_of(kind)
