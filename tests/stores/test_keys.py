"""Tests the syntax of keys that all stores share."""

from __future__ import annotations

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.stores.keys import check_key


def test_a_key_may_have_900_characters_and_no_more() -> None:
    """A key of 900 characters in short parts is accepted, and one of 901 is refused."""
    longest = "/".join(["x" * 179] * 5)
    assert len(longest) == 899
    assert check_key(f"{longest}x") == f"{longest}x"
    with pytest.raises(InvalidInput):
        check_key(f"{longest}xx")
