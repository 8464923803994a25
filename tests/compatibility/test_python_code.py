"""Rules about code: what cannot be read, and what a sink's function names."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.compatibility.code_changes import NO_RECORD
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import UNREADABLE, CodePart, Manifest
from tests.compatibility.manifests import STATEFUL, STATELESS, changed

OPAQUE = changed(STATEFUL, functions={"below/0 plus": f"{UNREADABLE}1"}, context="same")
WRITES = changed(
    STATELESS,
    functions={"sink/function": "aa"},
    sink_names=("append", "orders"),
    sink_routing={"sink/function": "r"},
)
HIDDEN = changed(STATELESS, functions={"sink/function": f"{UNREADABLE}1"}, sink_names=(), context="same")


def rules(old: Manifest, new: Manifest) -> list[str]:
    return [each.rule for each in find_changes(old, new)]


@pytest.mark.parametrize(
    ("manifest", "rule"), [(OPAQUE, "code-in-state-unreadable"), (HIDDEN, "sink-function-unreadable")]
)
def test_what_cannot_be_read_is_equal_only_where_all_around_it_is(manifest: Manifest, rule: str) -> None:
    """The same bundle, packages, params and environment make the same objects; anything less proves nothing."""
    assert rules(manifest, manifest) == []
    for other in (changed(manifest, context="other"), changed(manifest, context="")):
        assert rules(manifest, other) == rules(other, manifest) == [rule]
    unknown = changed(manifest, context="")
    assert rules(unknown, unknown) == [rule]
    confs = {**manifest.confs, "spark.sql.shuffle.partitions": "200"}
    assert rule in rules(manifest, changed(manifest, confs=confs))


def test_a_difference_by_value_counts_in_the_same_context_too() -> None:
    """A param may have put another value into a closure beside what cannot be read."""
    other = changed(OPAQUE, functions={"below/0 plus": f"{UNREADABLE}2"})
    assert rules(OPAQUE, other) == ["code-in-state-changed"]


CARRIED = changed(STATEFUL, functions={"below/0 plus": "a", "below/1 less": "b"}, carried=("below/0 plus",))


@pytest.mark.parametrize(
    ("functions", "carried", "rule"),
    [
        ({"below/0 plus": "c", "below/1 less": "b"}, ("below/0 plus",), "code-beside-state-changed"),
        ({"below/0 plus": "a", "below/1 less": "c"}, ("below/0 plus",), "code-in-state-changed"),
        ({"below/0 plus": "c", "below/1 less": "b"}, (), "code-in-state-changed"),
        ({"below/0 less": "b"}, (), "code-in-state-changed"),
    ],
    ids=["the carried one", "the one beside it", "no more only carried", "another one in its place"],
)
def test_code_that_is_carried_past_the_state_is_noted_only(
    functions: dict[str, str], carried: tuple[str, ...], rule: str
) -> None:
    """It must be carried on both sides, and be the one that differs."""
    other = changed(CARRIED, functions=functions, carried=carried)
    for findings in (find_changes(CARRIED, other), find_changes(other, CARRIED)):
        assert rule in [each.rule for each in findings]
        assert (verdict_of(findings) is Verdict.RESUME) == (rule == "code-beside-state-changed")


def test_carried_code_that_cannot_be_looked_into_is_not_asked_about() -> None:
    """Like code above all state; without the word that it is carried it is."""
    old = changed(OPAQUE, carried=("below/0 plus",))
    assert rules(old, changed(old, context="other")) == []
    assert rules(OPAQUE, changed(old, context="other")) == ["code-in-state-unreadable"]


def test_a_manifest_of_before_it_was_known_what_is_carried_is_the_same_otherwise() -> None:
    """An older release said nothing of it: the same code stays the same, and other code is asked about."""
    before = changed(CARRIED, carried=())
    assert rules(before, CARRIED) == rules(CARRIED, before) == []


def test_a_context_alone_is_no_difference() -> None:
    """Another module of the bundle or another package is no change of a query whose code can be read."""
    assert rules(changed(STATEFUL, context="one"), changed(STATEFUL, context="other")) == []


def test_a_function_that_names_another_table_is_asked_about() -> None:
    """It may write elsewhere from now on, where the rows so far never arrive."""
    other = changed(WRITES, functions={"sink/function": "bb"}, sink_names=("append", "orders_v2"), sink_routing={})
    found = find_changes(WRITES, other)
    assert [each.rule for each in found] == ["sink-function-may-write-elsewhere"]
    assert found[0].evidence == f"{NO_RECORD}; text in the code: `orders` → `orders_v2`"
    assert verdict_of(found) is Verdict.BACKUP


def test_a_function_that_may_choose_another_of_its_names_is_asked_about() -> None:
    """The same names in another order, or another of them."""
    other = changed(WRITES, functions={"sink/function": "bb"}, sink_routing={"sink/function": "s"})
    found = find_changes(WRITES, other)
    assert [each.rule for each in found] == ["sink-function-may-write-elsewhere"]
    assert found[0].evidence == NO_RECORD


def test_a_function_that_writes_where_it_did_is_resumed_with_a_note() -> None:
    """Its code touches neither state nor offsets."""
    found = find_changes(WRITES, changed(WRITES, functions={"sink/function": "bb"}))
    assert [each.rule for each in found] == ["sink-function-changed"]
    assert found[0].where == "sink function"
    assert verdict_of(found) is Verdict.RESUME


def test_a_manifest_of_before_names_were_kept_says_nothing_of_them() -> None:
    """It still decodes; its function is compared by its digest alone, and asked about where that has changed."""
    stored = from_json(to_json(WRITES).replace(b',"sink_names":["append","orders"]', b""), Manifest, where="stored")
    assert stored.sink_names is None
    assert stored.context == ""
    assert rules(stored, WRITES) == []


RENAMED = changed(STATEFUL, functions={"below/0 f": "aa"}, essentials={"below/0 f": "names 1:e"})


@pytest.mark.parametrize(
    ("essentials", "expected"),
    [
        ({"below/0 f": "names 1:e"}, ["local-variables-renamed"]),
        ({"below/0 f": "names 1:f"}, ["code-in-state-changed"]),
        ({"below/0 f": "names 2:e"}, ["code-in-state-changed"]),
        ({}, ["code-in-state-changed"]),
    ],
    ids=["the same", "other code", "proven otherwise", "names count"],
)
def test_a_function_counts_without_its_local_names_where_both_say_that_they_do_not_count(
    essentials: dict[str, str], expected: list[str]
) -> None:
    """An older release, which says nothing of it, is compared with them."""
    other = changed(RENAMED, functions={"below/0 f": "bb"}, essentials=essentials)
    assert rules(RENAMED, other) == expected


WRITTEN = changed(STATEFUL, functions={"below/0 f": "aa"}, rewritten={"below/0 f": "form 1:e"})


@pytest.mark.parametrize(
    ("after", "rewritten", "expected"),
    [
        ("bb", {"below/0 f": "form 1:e"}, ["code-rewritten-equally"]),
        ("aa", {"below/0 f": "form 1:e"}, []),
        ("bb", {"below/0 f": "form 1:f"}, ["code-in-state-changed"]),
        ("bb", {"below/0 f": "form 2:e"}, ["code-in-state-changed"]),
        ("bb", {}, ["code-in-state-changed"]),
        ("unreadable:bb", {"below/0 f": "form 1:e"}, ["code-in-state-changed"]),
    ],
    ids=["the same", "the same text", "other code", "proven otherwise", "not proven", "unreadable"],
)
def test_a_function_that_does_the_same_in_other_words_is_a_note(
    after: str, rewritten: dict[str, str], expected: list[str]
) -> None:
    """An older release, which has no such digest, is asked about."""
    other = changed(WRITTEN, functions={"below/0 f": after}, rewritten=rewritten)
    assert rules(WRITTEN, other) == expected


def test_a_function_with_other_names_alone_has_one_note() -> None:
    """Renamed variables are the same in both ways."""
    old = changed(RENAMED, rewritten={"below/0 f": "form 1:e"})
    assert rules(old, changed(old, functions={"below/0 f": "bb"})) == ["local-variables-renamed"]


def test_a_sinks_function_in_other_words_writes_where_it_did() -> None:
    """Whatever its routing is: that is made of the same code."""
    old = changed(WRITES, rewritten={"sink/function": "form 1:e"})
    new = changed(old, functions={"sink/function": "bb"}, sink_routing={"sink/function": "s"})
    found = find_changes(old, new)
    assert [(each.rule, each.where) for each in found] == [("code-rewritten-equally", "sink function")]
    assert verdict_of(found) is Verdict.RESUME


JOINED_ROWS = changed(STATEFUL, functions={"below/0 rows": "aa"}, essentials={"below/0 rows": "1:e"})


@pytest.mark.parametrize(
    ("functions", "essentials", "expected"),
    [
        ({"below/0 rows": "bb"}, {"below/0 rows": "1:e"}, ["rows-reordered"]),
        ({"below/0 rows": "aa"}, {"below/0 rows": "1:e"}, []),
        ({"below/0 rows": "bb"}, {"below/0 rows": "1:f"}, ["rows-in-state-changed"]),
        ({"below/0 rows": "bb"}, {"below/0 rows": "2:e"}, ["rows-in-state-changed"]),
        ({"below/0 rows": "bb"}, {}, ["rows-in-state-changed"]),
        ({"below/1 rows": "bb"}, {"below/1 rows": "1:e"}, ["rows-in-state-changed", "rows-in-state-changed"]),
    ],
    ids=["another order", "the same", "other rows", "proven otherwise", "order counts now", "another place"],
)
def test_rows_count_without_their_order_where_both_say_that_it_does_not_count(
    functions: dict[str, str], essentials: dict[str, str], expected: list[str]
) -> None:
    """An older release, which says nothing of it, is compared in order."""
    other = changed(JOINED_ROWS, functions=functions, essentials=essentials)
    assert rules(JOINED_ROWS, other) == rules(other, JOINED_ROWS) == expected


def test_a_release_of_before_essentials_were_recorded_is_the_same_otherwise() -> None:
    """The same rows in the same order stay the same."""
    stored = from_json(to_json(changed(JOINED_ROWS, essentials={})), Manifest, where="stored")
    assert rules(stored, JOINED_ROWS) == rules(JOINED_ROWS, stored) == []
    assert rules(stored, changed(JOINED_ROWS, functions={"below/0 rows": "bb"})) == ["rows-in-state-changed"]


PROCESSOR = {
    "bank.Base": CodePart(digest="b", text="class Base(StatefulProcessor):\n    pass"),
    "bank.Balance": CodePart(digest="p", text="class Balance(Base):\n    pass"),
    "bank.Other": CodePart(digest="o", text="class Other:\n    pass"),
}


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (PROCESSOR, "class bank.Balance (transformWithState), on which the state of the aggregation depends"),
        ({}, "the class given to transformWithState, on which the state of the aggregation depends"),
    ],
)
def test_the_wrapper_of_a_stateful_class_goes_by_the_class(parts: dict[str, CodePart], told: str) -> None:
    """PySpark's own name of it is nothing that the author has written."""
    name = "below/0 transformWithStateUDF"
    old, new = (
        changed(STATEFUL, functions={name: digest}, parts=parts, reached={name: tuple(parts)}) for digest in "ab"
    )
    [found] = find_changes(old, new)
    assert (found.rule, found.where) == ("code-in-state-changed", told)


def test_one_change_below_several_functions_is_one_finding() -> None:
    """It names them; a function that Spark evaluates twice is named once."""
    rate = {f"m.rate {digest}": CodePart(digest=digest, text=digest, place="m.py:1") for digest in "ab"}
    names = ("below/0 f", "below/1 f", "below/2 g")
    old, new = (
        changed(
            STATEFUL,
            functions=dict.fromkeys(names, digest),
            parts={"m.rate": rate[f"m.rate {digest}"]},
            reached=dict.fromkeys(names, ("m.rate",)),
        )
        for digest in "ab"
    )
    [found] = find_changes(old, new)
    assert found.where == "Python function f and Python function g, on which the state of the aggregation depends"
    assert found.evidence == "value m.rate (m.py:1): `a` → `b`"
