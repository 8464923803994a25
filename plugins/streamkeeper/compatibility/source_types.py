"""States what a file source reads if a column of its schema gets another type, by format and types. Pure.

Measured with Spark 4.2.0: files written with one type and read with each other one, in JSON, CSV, Parquet and ORC.
"""

from __future__ import annotations

from streamkeeper.model.manifests.manifest import Source

_WIDENING = ("tinyint", "smallint", "int", "bigint")
"""Integer types, each of which holds all values of those before it."""
_EXACT_IN_DOUBLE = ("tinyint", "smallint", "int", "float")
_TEXTS = ("json", "csv")
_BINARY = ("parquet", "orc")
_NOT_NULL = " not null"
_STATE = "Spark would reject or misread state that stores the column with the old type"
_WRAPPED = "300 as tinyint is 44"
_LONGEST = 40
"""A longer type, such as a struct, is not repeated."""
_MISFITS = {
    "FAILFAST": "the query would stop at the first value that cannot be read as {after}",
    "DROPMALFORMED": "a row with a value that cannot be read as {after} would be dropped without an error",
}
_NULL = "a value that cannot be read as {after} would become null without an error"


def effect_of_type(source: Source, before: str, after: str) -> str:
    """Return a text that describes the effect of reading a column as another type; empty if the effect was not measured
    for the source's format.

    ``source``: the candidate's source.
    """
    options = {key.lower(): value for key, value in source.options.items()}
    kind = options.get("format", "").lower()
    was, now = before.removesuffix(_NOT_NULL), after.removesuffix(_NOT_NULL)
    if was == now:
        return "the same values would be read; Spark would reject state that stores the column as never null"
    if kind in (*_TEXTS, *_BINARY) and _is_wider(was, now):
        return f"every value would be read as before, in the wider type {now}; {_STATE}"
    if kind in (*_TEXTS, "orc") and now == "string":
        return f"every value would be read as its text; {_STATE}"
    if kind in (*_TEXTS, "orc"):
        mode = options.get("mode", "").upper() if kind in _TEXTS else ""
        return _MISFITS.get(mode, _NULL).format(after=_short(now, "the new type"))
    if kind == "parquet" and is_wider_integer(now, was) and was != _WIDENING[-1]:
        return f"a value that does not fit {now} would be read as another number without an error: {_WRAPPED}"
    if kind == "parquet":
        return (
            f"the query would stop at the first file that stores {_short(was, 'the old type')}, or read its values as "
            f"{_short(now, 'the new type')} where Parquet stores both types alike"
        )
    return ""


def is_wider_integer(before: str, after: str) -> bool:
    """Whether both are integer types, and the second one holds all values of the first one and more."""
    return before in _WIDENING and after in _WIDENING and _WIDENING.index(before) < _WIDENING.index(after)


def _is_wider(before: str, after: str) -> bool:
    return is_wider_integer(before, after) or (before in _EXACT_IN_DOUBLE and after == "double")


def _short(kind: str, otherwise: str) -> str:
    return kind if len(kind) <= _LONGEST else otherwise
