"""Only sources that can be read again are taken."""

from __future__ import annotations

import pytest

from streamkeeper.errors import Unsupported
from streamkeeper.sources.known_sources import promise_of


@pytest.mark.parametrize("kind", ["file", "csv", "parquet", "kafka"])
def test_sources_with_a_promise(kind: str) -> None:
    """Files and topics give the same rows for the same offsets, until they are removed."""
    assert promise_of(kind).replays


@pytest.mark.parametrize("kind", ["rate", "socket", "memory", "something-else"])
def test_sources_without_a_promise_are_refused(kind: str) -> None:
    """The refusal says why."""
    with pytest.raises(Unsupported, match=f"source '{kind}' is not supported: "):
        promise_of(kind)
