"""The syntax of keys that all stores share."""

from __future__ import annotations

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.stores.keys import check_key


def test_a_key_may_have_900_characters_and_no_more() -> None:
    """The longest key that is allowed passes, and one with another character is refused; each of its parts is short."""
    longest = "/".join(["x" * 179] * 5)
    assert len(longest) == 899
    assert check_key(f"{longest}x") == f"{longest}x"
    with pytest.raises(InvalidInput):
        check_key(f"{longest}xx")
