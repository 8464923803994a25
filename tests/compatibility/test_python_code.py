"""Tests of the rules about Python code: unreadable code, code beside the state, and the names in a sink function."""

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
def test_unreadable_code_is_unchanged_only_in_an_equal_context(manifest: Manifest, rule: str) -> None:
    """Unreadable code counts as unchanged only in the same known context and with the same settings; otherwise its
    opaque finding is reported.
    """
    assert rules(manifest, manifest) == []
    for other in (changed(manifest, context="other"), changed(manifest, context="")):
        assert rules(manifest, other) == rules(other, manifest) == [rule]
    unknown = changed(manifest, context="")
    assert rules(unknown, unknown) == [rule]
    confs = {**manifest.confs, "spark.sql.shuffle.partitions": "200"}
    assert rule in rules(manifest, changed(manifest, confs=confs))


def test_unreadable_code_with_a_different_digest_is_changed_in_any_context() -> None:
    """Unreadable code with a different digest counts as changed even in the same context, because a param may have
    changed a value in it.
    """
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
    """Changed code whose result the state only carries is resumed with a note, but only if both manifests record it as
    carried and it is the code that differs.
    """
    other = changed(CARRIED, functions=functions, carried=carried)
    for findings in (find_changes(CARRIED, other), find_changes(other, CARRIED)):
        assert rule in [each.rule for each in findings]
        assert (verdict_of(findings) is Verdict.RESUME) == (rule == "code-beside-state-changed")


def test_unreadable_carried_code_gives_no_finding() -> None:
    """Unreadable code that the state only carries gives no finding in a different context; without the record that it
    is carried it does.
    """
    old = changed(OPAQUE, carried=("below/0 plus",))
    assert rules(old, changed(old, context="other")) == []
    assert rules(OPAQUE, changed(old, context="other")) == ["code-in-state-unreadable"]


def test_an_older_manifest_without_carried_code_equals_the_current_one() -> None:
    """A manifest of an older release, without a record of carried code, equals today's manifest of the same code."""
    before = changed(CARRIED, carried=())
    assert rules(before, CARRIED) == rules(CARRIED, before) == []


def test_a_context_alone_is_no_difference() -> None:
    """A different context alone gives no finding for a query whose code can be read."""
    assert rules(changed(STATEFUL, context="one"), changed(STATEFUL, context="other")) == []


def test_a_sink_function_with_a_different_table_name_gives_backup() -> None:
    """A changed sink function that contains a different table name gives BACKUP, because it may write elsewhere; the
    evidence shows both texts.
    """
    other = changed(WRITES, functions={"sink/function": "bb"}, sink_names=("append", "orders_v2"), sink_routing={})
    found = find_changes(WRITES, other)
    assert [each.rule for each in found] == ["sink-function-may-write-elsewhere"]
    assert found[0].evidence == f"{NO_RECORD}; text in the code: `orders` → `orders_v2`"
    assert verdict_of(found) is Verdict.BACKUP


def test_a_sink_function_with_a_changed_routing_may_write_elsewhere() -> None:
    """A changed sink function with the same names but a different routing gives a finding that it may write
    elsewhere.
    """
    other = changed(WRITES, functions={"sink/function": "bb"}, sink_routing={"sink/function": "s"})
    found = find_changes(WRITES, other)
    assert [each.rule for each in found] == ["sink-function-may-write-elsewhere"]
    assert found[0].evidence == NO_RECORD


def test_a_function_that_writes_where_it_did_is_resumed_with_a_note() -> None:
    """A changed sink function with unchanged names and routing is resumed with a note."""
    found = find_changes(WRITES, changed(WRITES, functions={"sink/function": "bb"}))
    assert [each.rule for each in found] == ["sink-function-changed"]
    assert found[0].where == "sink function"
    assert verdict_of(found) is Verdict.RESUME


def test_an_older_manifest_without_sink_names_equals_the_current_one() -> None:
    """A stored manifest without recorded sink names is decoded, and equals today's manifest of the same function."""
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
def test_renamed_local_variables_are_a_note_only_if_both_manifests_prove_it(
    essentials: dict[str, str], expected: list[str]
) -> None:
    """A function with renamed local variables is noted as such only if both manifests record the same digest without
    local names, made by the same definition.
    """
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
def test_a_function_proven_equivalent_by_its_form_digest_is_a_note(
    after: str, rewritten: dict[str, str], expected: list[str]
) -> None:
    """A function that is proven equivalent by the same form digest in both manifests is a note; without that proof, or
    if it is unreadable, it counts as changed.
    """
    other = changed(WRITTEN, functions={"below/0 f": after}, rewritten=rewritten)
    assert rules(WRITTEN, other) == expected


def test_a_function_with_only_renamed_local_variables_has_one_note() -> None:
    """A function whose local variables were renamed has only the note about the renaming, although its form digest is
    equal too.
    """
    old = changed(RENAMED, rewritten={"below/0 f": "form 1:e"})
    assert rules(old, changed(old, functions={"below/0 f": "bb"})) == ["local-variables-renamed"]


def test_an_equivalent_rewrite_of_a_sink_function_is_resumed_with_a_note() -> None:
    """An equivalent rewrite of a sink function is resumed with a note, even if its routing digest differs."""
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
def test_reordered_job_rows_are_a_note_only_if_both_manifests_prove_it(
    functions: dict[str, str], essentials: dict[str, str], expected: list[str]
) -> None:
    """Rows made in the job's code in a different order are noted only if both manifests record the same digest without
    order; otherwise they count as changed.
    """
    other = changed(JOINED_ROWS, functions=functions, essentials=essentials)
    assert rules(JOINED_ROWS, other) == rules(other, JOINED_ROWS) == expected


def test_an_older_manifest_without_the_unordered_digest_equals_the_current_one() -> None:
    """A stored manifest without that digest equals today's manifest of the same rows, and rows in a different order
    count as changed.
    """
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
def test_a_finding_about_transform_with_state_names_the_stateful_class(parts: dict[str, CodePart], told: str) -> None:
    """A finding about code of ``transformWithState`` names the job's stateful class, not the name of PySpark's
    wrapper.
    """
    name = "below/0 transformWithStateUDF"
    old, new = (
        changed(STATEFUL, functions={name: digest}, parts=parts, reached={name: tuple(parts)}) for digest in "ab"
    )
    [found] = find_changes(old, new)
    assert (found.rule, found.where) == ("code-in-state-changed", told)


def test_one_change_below_several_functions_is_one_finding() -> None:
    """A changed value that several functions use gives one finding that names each function once."""
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
