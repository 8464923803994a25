"""Tests the check that a standalone Spark master answers."""

from __future__ import annotations

import socket

import pytest

from streamkeeper.errors import TemporaryError
from streamkeeper.system.masters import check_master


def test_a_master_passes_if_one_of_its_addresses_answers() -> None:
    """A master with several addresses passes the check if one of them answers, because a standby may be down."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:9,127.0.0.1:{port}")


@pytest.mark.parametrize("place", ["127.0.0.1:9", "no-such-host.invalid:7077", "127.0.0.1:99999"])
def test_a_master_that_does_not_answer_is_named_within_seconds(place: str) -> None:
    """A master that does not answer is named in an error within seconds, while Spark would try for a minute."""
    with pytest.raises(TemporaryError, match=f"the master spark://{place} does not answer .*STREAMKEEPER_MASTER"):
        check_master(f"spark://{place}")
