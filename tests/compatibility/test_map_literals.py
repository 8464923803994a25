"""Tests of literal maps with their entries in a different order: equal if only a value is looked up in them, and
different elsewhere.
"""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.normal_expressions import in_key_order

TYPE = ':{"keyType":"string","type":"map","valueContainsNull":false,"valueType":"integer"}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('getmapvalue([["a", "b"], [1, 2]]{T}, source 0.k)', 'getmapvalue([["b", "a"], [2, 1]]{T}, source 0.k)'),
        ('elementat([["a, (", "b"], [1, 2]]{T}, x)', 'elementat([["b", "a, ("], [2, 1]]{T}, x)'),
        ("sum(getmapvalue([[1.0, 2], [null, [3]]]{T}, x))", "sum(getmapvalue([[2, 1.0], [[3], null]]{T}, x))"),
        (
            'add("[[":string, getmapvalue([["a", "b"], [1, 2]]{T}, getmapvalue([["c", "d"], [3, 4]]{T}, x)))',
            'add("[[":string, getmapvalue([["b", "a"], [2, 1]]{T}, getmapvalue([["d", "c"], [4, 3]]{T}, x)))',
        ),
    ],
)
def test_entry_order_is_ignored_in_a_map_used_only_for_lookups(old: str, new: str) -> None:
    """The order of entries does not matter in a map that is only looked up, with keys of any type and in nested
    lookups.
    """
    old, new = old.replace("{T}", TYPE), new.replace("{T}", TYPE)
    assert old != new
    assert in_key_order(old) == in_key_order(new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('getmapvalue([["a", "b"], [1, 2]]{T}, k)', 'getmapvalue([["a", "b"], [2, 1]]{T}, k)'),
        ('getmapvalue([["a", "b"], [1, 2]]{T}, k)', 'getmapvalue([["a", "c"], [1, 2]]{T}, k)'),
        ("getmapvalue([[1, 2], [3, 4]]{T}, k)", 'getmapvalue([["1", 2], [3, 4]]{T}, k)'),
        ("getmapvalue([[1.0], [3]]{T}, k)", "getmapvalue([[1.00], [3]]{T}, k)"),
    ],
)
def test_maps_with_different_keys_or_values_differ(old: str, new: str) -> None:
    """Maps differ if values are swapped, a key differs, or a key has a different type or precision."""
    assert in_key_order(old.replace("{T}", TYPE)) != in_key_order(new.replace("{T}", TYPE))


@pytest.mark.parametrize(
    "meaning",
    [
        'mapkeys([["b", "a"], [2, 1]]{T})',
        '[["b", "a"], [2, 1]]{T}',
        'elementat([["b", "a"], ["d", "c"]]:{"containsNull":false,"elementType":"string","type":"array"}, 1:integer)',
        'getmapvalue([["a", "a"], [2, 1]]{T}, k)',
        'equalto(k, "getmapvalue([[2, 1], [4, 3]]{T}, k)":string)',
        "getmapvalue([[b, a], [2, 1]]{T}, k)",
    ],
)
def test_entry_order_is_kept_in_a_map_used_as_a_value(meaning: str) -> None:
    """The order is kept where the map itself is a value, in arrays, in strings of the job, and in maps that cannot be
    parsed.
    """
    meaning = meaning.replace("{T}", TYPE.replace('"', '\\"') if ":string" in meaning else TYPE)
    assert in_key_order(meaning) == meaning
