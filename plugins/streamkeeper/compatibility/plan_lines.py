"""Renders lines of a plan as evidence: nodes by their SQL keyword, without parts that Spark added. Pure."""

from __future__ import annotations

import re

from streamkeeper.compatibility.sql_words import without_digests
from streamkeeper.compatibility.terms import Term, by_brackets, leaf

_NODES = {
    "Project": "select",
    "RepartitionByExpression": "repartition",
    "Repartition": "repartition",
    "Filter": "where",
    "Generate": "",
    "Aggregate": "aggregate",
    "ArrowEvalPython": "run Python",
    "BatchEvalPython": "run Python",
    "Sort": "order by",
    "Union": "union",
    "SortWithin": "sort within partitions by",
}
_GENERATED = re.compile(
    r"Generate (?P<made>.*), \[[\d, ]*\], (?P<outer>true|false), (?:\w+, )?\[(?P<columns>[^\[\]]*)\]"
)
"""Matches a ``Generate`` node: Spark's generator, the columns that it does not pass on, whether it keeps rows without a
result, and the columns of its results.
"""
_SORTED = re.compile(r"Sort (?P<by>.*), (?P<all>true|false)")
_PYTHON_RESULTS = re.compile(r", \[pythonUDF[^\[\]]*\](?:, \d+)?$")
"""Matches Spark's columns for the results of Python functions, and the way in which Spark runs these functions."""
_READS = ("StreamingRelation", "StreamingDataSource", "FileSource[", "DataSource")
"""Nodes that read a source. Changes of sources have findings of their own."""

_BATCH_TIME = re.compile(r"current_batch_timestamp\([^()]*(?:\([^()]*\))?\)")
_UNNAMED = ", name=<Unassigned>"
_BY_POSITION = "Union false, false"
_IN_SQL = (
    (re.compile(r"StructField\(([^,()]+),([^()]*(?:\(\d+,\d+\)[^()]*)*),(?:true|false)\)"), r"\1 \2"),
    (re.compile(r"StructType\(([^()]*(?:\(\d+,\d+\)[^()]*)*)\)"), r"struct<\1>"),
    (re.compile(r"ArrayType\(([^()]*(?:\(\d+,\d+\)[^()]*)*),(?:true|false)\)"), r"array<\1>"),
    (re.compile(r"MapType\(([^()]*(?:\(\d+,\d+\)[^()]*)*),(?:true|false)\)"), r"map<\1>"),
    (
        re.compile(r"\b(String|Integer|Long|Double|Float|Short|Byte|Boolean|Binary|Date|Timestamp|Decimal)Type\b"),
        lambda found: found[1].lower(),
    ),
)
_GIVEN_BY_SPARK = (
    (re.compile(r"\b_groupingexpression\b"), "grouping expression"),
    (re.compile(r"\bpythonUDF\d+\b"), "Python result"),
)
"""Names that Spark gives to columns without a name."""
_ADDED = ("StructField(", "Some(")
"""Parts of a plan's text that Spark adds."""


def plan_line(line: str, *, schemas: bool = False) -> Term:
    """Return a line of a plan as the node's SQL keyword and its expressions; ``schemas``: whether to include the
    schemas of parsers.
    """
    text = without_digests(line.removeprefix("~").replace(_UNNAMED, ""))
    if text.startswith(_READS):
        return leaf("read the source")
    if text == _BY_POSITION:
        return leaf("union")
    name, _, rest = text.partition(" ")
    if found := _GENERATED.fullmatch(text):
        rest = f"{'outer ' if found['outer'] == 'true' else ''}{found['made']} as {found['columns']}"
    elif found := _SORTED.fullmatch(text):
        name, rest = name if found["all"] == "true" else "SortWithin", found["by"]
    try:
        text_of = _PYTHON_RESULTS.sub("", _BATCH_TIME.sub("current_timestamp()", rest))
        for pattern, words in _GIVEN_BY_SPARK:
            text_of = pattern.sub(words, text_of)
        fields = by_brackets(_fields(text_of)) if schemas else _without_schemas(by_brackets(text_of))
        word = _NODES.get(name, name)
        return Term(f"{word} " if word else "", (fields,), "")
    except (ValueError, RecursionError):
        return leaf(text)


def _fields(text: str) -> str:
    """Return a text with Spark's schemas in SQL syntax: each field with its name and type."""
    while (shorter := _inner_fields(text)) != text:
        text = shorter
    return text


def _inner_fields(text: str) -> str:
    for pattern, replacement in _IN_SQL:
        text = pattern.sub(replacement, text)
    return text


def _without_schemas(term: Term) -> Term:
    kept = tuple(_without_schemas(part) for part in term.parts if not str(part).startswith(_ADDED))
    return Term(term.before, kept, term.between, term.after)
