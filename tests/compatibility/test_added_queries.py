"""Queries that came and went: which of them may be one query under two names."""

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
    """A query that a function writes."""
    sink = SinkDescription(kind="foreach", output=name, options={})
    return changed(base, sink=sink, **{"functions": {"sink/function": name}, **fields})


OLD = function()
OTHER = function("jobs:post", base=with_source(STATELESS, location="/other"))
"""Another function over another source, without state."""


def of_added(old: Manifest, new: Manifest, **more: Manifest) -> list[Finding]:
    """What is found of the query ``new`` where ``old`` is deployed and goes; ``more``: queries of both."""
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
def test_a_renamed_query_that_a_function_writes_is_asked_about(new: Manifest) -> None:
    """Its state begins anew, or its rows are written twice: no place shows whether it is another output."""
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


def test_a_query_that_is_like_none_that_went_is_new() -> None:
    """Control: other input, other state, another function."""
    assert [each.rule for each in of_added(OLD, OTHER)] == ["query-added"]
    assert not may_be_renamed(OLD, OTHER)


def test_a_query_that_is_added_replaces_none_that_stays() -> None:
    """Nor does one that goes alone come back under another name; one function may write for both."""
    added = assess({"old": OLD}, {"old": OLD, "new": changed(OLD, query="new")})
    assert (added.verdict, added.queries["new"].findings[0].rule) == (Verdict.RESUME, "query-added")
    gone = assess({"old": OLD, "new": OLD}, {"old": OLD})
    assert (gone.verdict, gone.queries["new"].findings[0].rule) == (Verdict.RESUME, "query-removed")
    assert [each.rule for each in of_added(OTHER, OLD, kept=OLD)] == ["query-added"]
    (alone,) = gone.queries["new"].findings
    assert alone.evidence == "the candidate has no query `new`"


def test_functions_that_name_one_thing_are_alike() -> None:
    """A table's name says something; a short word and code that cannot be looked into say nothing."""
    old, new = changed(OLD, sink_names=("orders_daily", "k")), changed(OTHER, sink_names=("orders_daily",))
    assert may_be_renamed(old, new)
    assert not may_be_renamed(old, changed(OTHER, sink_names=("k",)))
    hidden = {"functions": {"sink/function": f"{UNREADABLE}x"}}
    assert not may_be_renamed(changed(OLD, **hidden), changed(OTHER, **hidden))
    assert may_be_renamed(changed(OLD, sink_routing={"sink/f": "r"}), changed(OTHER, sink_routing={"sink/f": "r"}))


def test_a_topic_on_other_brokers_is_the_same_input() -> None:
    """As it is for the checkpoint."""
    kafka = msgspec.structs.replace(SOURCE, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
    old, new = changed(OLD, sources=(kafka,)), changed(OTHER, sources=(kafka,))
    assert may_be_renamed(old, new)
    moved = msgspec.structs.replace(kafka, location="subscribe orders@b:9092")
    assert may_be_renamed(old, changed(new, sources=(moved,)))
    other = msgspec.structs.replace(kafka, location="subscribe refunds@a:9092")
    assert not may_be_renamed(old, changed(new, sources=(other,)))


def test_a_function_and_a_table_may_be_one_output() -> None:
    """Where the query is the same, or the function names the table."""
    table = STATEFUL
    assert may_be_renamed(OLD, table)
    assert may_be_renamed(table, OLD)
    assert not may_be_renamed(table, OTHER)
    assert not may_be_renamed(OLD, with_operator(STATEFUL, kind="deduplicate"))
    assert may_be_renamed(table, changed(OTHER, sink_names=("insert into totals values (1)",)))


def test_two_outputs_that_name_their_places_are_told_apart_by_these() -> None:
    """Another table is another output; the same one is refused."""
    elsewhere = changed(STATEFUL, sink=msgspec.structs.replace(STATEFUL.sink, output="sqlite:/db#sums"))
    assert not may_be_renamed(STATEFUL, elsewhere)
    assert [each.rule for each in of_added(STATEFUL, changed(elsewhere, query="new"))] == ["query-added"]
    assert [each.rule for each in of_added(STATEFUL, changed(STATEFUL, query="new"))] == ["output-changes-hands"]
