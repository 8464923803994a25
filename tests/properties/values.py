"""Hypothesis strategies for any stored value, derived from its type, so that a new kind of record is covered
automatically.
"""

from __future__ import annotations

import enum
import types
import typing

import msgspec
from hypothesis import strategies as st

from streamkeeper.model.records.journal_records import Record

# Few names, so that records meet: the same operation, query, instance, version and release come up again and again.
_NAMES = st.sampled_from(["", "a", "b", "r0001", "r0002", "v0001", "v0002"])


def values(kind: typing.Any) -> st.SearchStrategy[typing.Any]:
    """Return a strategy for values of ``kind``: a Struct, an Enum, a plain type, or a dict, tuple or union of these."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(each) for each in arguments])
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(values, arguments))
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        wanted = [each for each in msgspec.structs.fields(kind) if each.name != "format"]
        return st.fixed_dictionaries({each.name: values(hints[each.name]) for each in wanted}).map(
            lambda fields: kind(**fields)
        )
    return _PLAIN[kind]


_PLAIN: dict[typing.Any, st.SearchStrategy[typing.Any]] = {
    str: _NAMES,
    int: st.integers(0, 4),
    float: st.floats(-1e6, 1e6),
    bool: st.booleans(),
    type(None): st.none(),
}

RECORDS: st.SearchStrategy[Record] = values(Record)
