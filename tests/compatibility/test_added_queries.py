"""Tests of added and removed queries: which of them may be one query under a new name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamkeeper.compatibility.added_queries import may_be_renamed
from streamkeeper.compatibility.assess import assess
from streamkeeper.model.manifests.finding import Finding, Severity, Verdict
from streamkeeper.model.manifests.manifest import UNREADABLE, Manifest, SinkDescription
from tests.compatibility.manifests import SOURCE, STATEFUL, STATELESS, changed, with_operator, with_source


def function(name: str = "jobs:write", base: Manifest = STATEFUL, **fields: Any) -> Manifest:
    """Return a query whose sink is a function."""
    sink = SinkDescription(kind="foreach", output=name, options={})
    return changed(base, sink=sink, **{"functions": {"sink/function": name}, **fields})


OLD = function()
OTHER = function("jobs:post", base=with_source(STATELESS, location="/other"))
"""A query without state, with a different source and a different sink function."""


def of_added(old: Manifest, new: Manifest, **more: Manifest) -> list[Finding]:
    """Return the findings about the query ``new`` when ``old`` is deployed and removed; ``more`` are queries of both
    releases.
    """
    return list(assess({"old": old, **more}, {"new": new, **more}).queries["new"].findings)


@pytest.mark.parametrize(
    "new",
    [
        function(),
        function("jobs:store"),
        function("jobs:post", base=with_source(STATEFUL, location="/moved")),
        function("jobs:post", base=STATELESS),
        changed(OTHER, functions={"sink/function": "jobs:write"}),
        changed(OTHER, sink=OLD.sink),
    ],
    ids=["all", "another function", "a moved source", "without state", "the same code", "the same name"],
)
def test_a_possibly_renamed_query_with_a_sink_function_gives_backup(new: Manifest) -> None:
    """An added query with a sink function that shares its code, source or state with a removed query may be that query
    renamed: the verdict is BACKUP, and both findings name what they share.
    """
    (finding,) = of_added(OLD, changed(new, query="new"))
    named, alike = finding.evidence.split("; both ")
    assert (finding.rule, named, bool(alike)) == ("query-may-be-renamed", "query name: `old` → `new`", True)
    assert "keep the deployed name old" in finding.hint
    assert "starts with empty state" in finding.effect
    judged = assess({"old": OLD}, {"new": changed(new, query="new")})
    assert judged.verdict is Verdict.BACKUP
    (gone,) = judged.queries["old"].findings
    assert (gone.rule, gone.severity) == ("query-removed", Severity.NOTE)
    resembles = "but a new query `new` that resembles `old`: both"
    assert gone.evidence == f"the candidate has no query `old`, {resembles} {alike}"
    assert gone.hint.endswith("under a new name, keep the name old. If it is a different query, no action is needed")


def test_an_added_query_unlike_any_removed_one_is_new() -> None:
    """Control: an added query with a different source, state and sink function is reported as new, not as renamed."""
    assert [each.rule for each in of_added(OLD, OTHER)] == ["query-added"]
    assert not may_be_renamed(OLD, OTHER)


def test_an_added_query_is_not_a_rename_of_a_remaining_query() -> None:
    """An added query is not taken for a renamed one while the query that it resembles stays, and a query that is
    removed without an added one is only noted.
    """
    added = assess({"old": OLD}, {"old": OLD, "new": changed(OLD, query="new")})
    assert (added.verdict, added.queries["new"].findings[0].rule) == (Verdict.RESUME, "query-added")
    gone = assess({"old": OLD, "new": OLD}, {"old": OLD})
    assert (gone.verdict, gone.queries["new"].findings[0].rule) == (Verdict.RESUME, "query-removed")
    assert [each.rule for each in of_added(OTHER, OLD, kept=OLD)] == ["query-added"]
    (alone,) = gone.queries["new"].findings
    assert alone.evidence == "the candidate has no query `new`"


def test_sink_functions_with_a_common_table_or_routing_may_be_one_query() -> None:
    """Two sink functions that contain the same table name or the same routing may be one query; a short text or
    unreadable code in common is not enough.
    """
    old, new = changed(OLD, sink_names=("orders_daily", "k")), changed(OTHER, sink_names=("orders_daily",))
    assert may_be_renamed(old, new)
    assert not may_be_renamed(old, changed(OTHER, sink_names=("k",)))
    hidden = {"functions": {"sink/function": f"{UNREADABLE}x"}}
    assert not may_be_renamed(changed(OLD, **hidden), changed(OTHER, **hidden))
    assert may_be_renamed(changed(OLD, sink_routing={"sink/f": "r"}), changed(OTHER, sink_routing={"sink/f": "r"}))


def test_a_topic_on_other_brokers_is_the_same_input() -> None:
    """The same Kafka topic on different brokers counts as the same input of a possibly renamed query; a different topic
    does not.
    """
    kafka = msgspec.structs.replace(SOURCE, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
    old, new = changed(OLD, sources=(kafka,)), changed(OTHER, sources=(kafka,))
    assert may_be_renamed(old, new)
    moved = msgspec.structs.replace(kafka, location="subscribe orders@b:9092")
    assert may_be_renamed(old, changed(new, sources=(moved,)))
    other = msgspec.structs.replace(kafka, location="subscribe refunds@a:9092")
    assert not may_be_renamed(old, changed(new, sources=(other,)))


def test_a_function_and_a_table_may_be_one_output() -> None:
    """A query that writes a table and one with a sink function may be one query if their inputs and state are the same,
    or if the function names the table.
    """
    table = STATEFUL
    assert may_be_renamed(OLD, table)
    assert may_be_renamed(table, OLD)
    assert not may_be_renamed(table, OTHER)
    assert not may_be_renamed(OLD, with_operator(STATEFUL, kind="deduplicate"))
    assert may_be_renamed(table, changed(OTHER, sink_names=("insert into totals values (1)",)))


def test_two_table_outputs_are_compared_by_their_location() -> None:
    """Two table outputs are compared by their location: a different table makes the query a new one, and the same table
    is reported as an output that changes hands.
    """
    elsewhere = changed(STATEFUL, sink=msgspec.structs.replace(STATEFUL.sink, output="sqlite:/db#sums"))
    assert not may_be_renamed(STATEFUL, elsewhere)
    assert [each.rule for each in of_added(STATEFUL, changed(elsewhere, query="new"))] == ["query-added"]
    assert [each.rule for each in of_added(STATEFUL, changed(STATEFUL, query="new"))] == ["output-changes-hands"]
