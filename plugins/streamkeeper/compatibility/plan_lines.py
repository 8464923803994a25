"""Lines of a plan as evidence: SQL's words for the nodes, and without what Spark alone has added. Pure."""

from __future__ import annotations

import re

from streamkeeper.compatibility.sql_words import without_digests
from streamkeeper.compatibility.terms import Term, by_brackets, leaf

_NODES = {
    "Project": "select",
    "RepartitionByExpression": "repartition",
    "Repartition": "repartition",
    "Filter": "where",
    "Aggregate": "aggregate",
    "Generate": "explode",
    "Sort": "order by",
}
_READS = ("StreamingRelation", "StreamingDataSource", "FileSource[", "DataSource")
"""Sources have findings of their own."""

_BATCH_TIME = re.compile(r"current_batch_timestamp\([^()]*(?:\([^()]*\))?\)")
_UNNAMED = ", name=<Unassigned>"
_ADDED = ("StructField(", "Some(")
"""What Spark writes into a plan's text that no author has written."""


def plan_line(line: str) -> Term:
    """A line of a plan: SQL's word for the node, and its expressions without the schemas of what they parse."""
    text = without_digests(line.removeprefix("~").replace(_UNNAMED, ""))
    if text.startswith(_READS):
        return leaf("read the source")
    name, _, rest = text.partition(" ")
    try:
        told = _without_schemas(by_brackets(_BATCH_TIME.sub("current_timestamp()", rest)))
        return Term(f"{_NODES.get(name, name)} ", (told,), "")
    except (ValueError, RecursionError):
        return leaf(text)


def _without_schemas(term: Term) -> Term:
    kept = tuple(_without_schemas(part) for part in term.parts if not str(part).startswith(_ADDED))
    return Term(term.before, kept, term.between, term.after)
