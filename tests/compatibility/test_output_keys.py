"""Tests of changes to the columns by which an output places its rows: keys of tables and partitions of files."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamkeeper.compatibility.assess import assess, find_changes
from streamkeeper.compatibility.output_keys import placing_columns
from streamkeeper.model.manifests.concern import Concern, concern_of
from streamkeeper.model.manifests.finding import Finding, Severity, Verdict, verdict_of
from streamkeeper.model.manifests.manifest import UNREADABLE, Manifest, SinkDescription, StateColumn
from tests.compatibility.manifests import SOURCE, STATEFUL, STATELESS, changed, with_operator, with_source

TO_FILES = SinkDescription(kind="file", output="/out", options={"format": "json", "partition_by": "k"})
OTHER_PLAN = {"plan": STATEFUL.plan.replace("structure 11", "structure 13")}
DATED = 'dateformatclass(source 0.ts, "yyyy":string, in session)'
UDF = "pythonudf(source 0.k, dataType=string, evalType=101, func={}, udfDeterministic=True)"
IN_ZONE = {"spark.sql.session.timeZone": "CET"}


def keyed(meaning: str, manifest: Manifest = STATEFUL, **fields: Any) -> Manifest:
    """Return the manifest with a different expression for the table's key column ``k``; its plan shows the change."""
    functions = fields.pop("run_by", ())
    column = StateColumn(meaning=meaning, type="string", name="k", functions=functions)
    structure = f"structure {abs(hash(meaning))}"
    plan = f"{manifest.plan}\n{structure}" if meaning != manifest.columns[0].meaning else manifest.plan
    return changed(manifest, **{"columns": (column, *manifest.columns[1:]), "plan": plan, **fields})


def of_keys(old: Manifest, new: Manifest) -> list[Finding]:
    """Return the findings about keys and partitions."""
    return [each for each in find_changes(old, new) if each.rule in ("sink-key-redefined", "sink-partition-redefined")]


def into(sink: SinkDescription, manifest: Manifest) -> Manifest:
    """Return the manifest with a different sink, in append mode."""
    return changed(manifest, sink=sink, output_mode="append")


@pytest.mark.parametrize("base", [STATEFUL, STATELESS], ids=["state", "no state"])
@pytest.mark.parametrize("mode", ["update", "append"])
def test_a_changed_expression_of_a_table_key_gives_switch(base: Manifest, mode: str) -> None:
    """A changed expression of a table's key gives the verdict SWITCH with and without state, in update and append mode,
    because existing rows keep the old key.
    """
    old = changed(base, output_mode=mode)
    (finding,) = of_keys(old, keyed("upper(source 0.k)", old))
    assert (finding.severity, finding.where) == (Severity.BREAKING, "sink, key column k")
    assert (finding.evidence, concern_of(finding)) == ("`k` → `upper(k)`", Concern.OUTPUT)
    judged = assess({"q": old}, {"q": keyed("upper(source 0.k)", old)}).queries["q"]
    assert judged.verdict is Verdict.SWITCH
    assert "nothing would change" not in " ".join(each.effect for each in judged.findings)
    assert "reads the input again" in judged.findings[-1].hint


def test_the_same_key_expression_in_a_changed_plan_gives_no_finding() -> None:
    """Control: a changed plan or order of columns with the same key expression gives no finding about the key."""
    assert of_keys(STATEFUL, changed(STATEFUL, **OTHER_PLAN)) == []
    assert of_keys(STATEFUL, changed(STATEFUL, columns=STATEFUL.columns[::-1], **OTHER_PLAN)) == []


def test_a_changed_value_column_gives_no_finding_about_the_key() -> None:
    """Control: a changed value column beside the key gives no finding about the key."""
    value = msgspec.structs.replace(STATEFUL.columns[1], meaning="multiply(sum(source 0.x), 100:integer)")
    assert of_keys(STATEFUL, changed(STATEFUL, columns=(STATEFUL.columns[0], value), **OTHER_PLAN)) == []


def test_a_changed_key_is_resumed_in_complete_mode() -> None:
    """In complete mode a changed key is resumed, because each batch replaces the table; a change to update mode
    together with the key is breaking.
    """
    whole = changed(STATEFUL, output_mode="complete")
    assert of_keys(whole, keyed("upper(source 0.k)", whole)) == []
    assert verdict_of(find_changes(whole, keyed("upper(source 0.k)", whole))) is Verdict.RESUME
    assert [each.severity for each in of_keys(whole, keyed("upper(source 0.k)"))] == [Severity.BREAKING]


def test_a_changed_partition_column_of_files_is_breaking() -> None:
    """A changed expression of a partition column of files is breaking; without partitions there is no finding."""
    old = into(TO_FILES, STATELESS)
    (finding,) = of_keys(old, keyed("upper(source 0.k)", old))
    assert (finding.rule, finding.severity) == ("sink-partition-redefined", Severity.BREAKING)
    whole = into(SinkDescription(kind="file", output="/out", options={"format": "json", "partition_by": ""}), STATELESS)
    assert of_keys(whole, keyed("upper(source 0.k)", whole)) == []


def test_a_query_with_a_sink_function_has_no_key_columns() -> None:
    """A query with a sink function has no key columns in its description, and gives no finding about a key."""
    old = into(SinkDescription(kind="foreach", output="jobs:write", options={}), STATELESS)
    assert placing_columns(old) == ()
    assert of_keys(old, keyed("upper(source 0.k)", old)) == []


def test_every_column_list_option_of_an_unknown_sink_counts_as_a_key() -> None:
    """For an unknown kind of sink every option that lists output columns counts as a key."""
    old = into(SinkDescription(kind="novel", output="x", options={"route": "k", "form": "csv"}), STATELESS)
    assert placing_columns(old) == ("k",)
    assert [each.severity for each in of_keys(old, keyed("upper(source 0.k)", old))] == [Severity.BREAKING]


def test_a_comma_in_a_name_makes_every_column_a_key() -> None:
    """If a key option cannot be split because a name contains a comma, every column counts as a key."""
    sink = msgspec.structs.replace(STATEFUL.sink, options={"key": "k,of it"})
    assert placing_columns(changed(STATEFUL, sink=sink)) == ("k", "s")


def test_a_changed_grouping_key_is_reported_once() -> None:
    """A changed grouping key is reported once, by the rule about the state; a further change to the key above it has
    its own finding.
    """
    raised = with_operator(STATEFUL, key_columns=(StateColumn(meaning="upper(source 0.k)", type="string"),))
    new = keyed("upper(source 0.k)", raised)
    assert [each.rule for each in find_changes(STATEFUL, new) if each.severity is Severity.BREAKING] == [
        "grouping-key-changed"
    ]
    both = keyed("md5(upper(source 0.k))", raised)
    assert [each.severity for each in of_keys(STATEFUL, both)] == [Severity.BREAKING]


def test_a_key_returned_by_stateful_code_shows_changed_grouping_columns_in_full() -> None:
    """The finding about a key that stateful code returns shows the changed grouping columns in full."""
    of_code = "FlatMapGroupsInPandasWithState(groupingAttributes=[{}], outputMode=Update)[0]"
    old = keyed(of_code.format("source 0.site, source 0.sensor"))
    (finding,) = of_keys(old, keyed(of_code.format("source 0.sensor, source 0.site")))
    assert finding.evidence == "groups of the stateful code: `site`, `sensor` → `sensor`, `site`"
    (computed,) = of_keys(old, keyed(of_code.format("upper(source 0.site), source 0.sensor")))
    assert computed.evidence.startswith("result of the stateful code: ")


def test_a_key_returned_by_stateful_code_names_the_changed_code_setting() -> None:
    """The finding about a key that stateful code returns names the changed setting of that code."""
    code = "FlatMapGroupsInPandasWithState(outputMode=Update, timeout={})[0]"
    keeps = {"kind": "pandas-with-state"}
    old = keyed(code.format("none"), with_operator(STATEFUL, **keeps, detail={"timeout": "none"}))
    new = keyed(code.format("event-time"), with_operator(STATEFUL, **keeps, detail={"timeout": "event-time"}))
    (finding,) = of_keys(old, new)
    assert finding.evidence.startswith("the stateful code that returns it has a changed setting or state: timeout")


def test_a_key_returned_by_stateful_code_with_renamed_state_states_that_the_state_stays() -> None:
    """If only a name in the state's type differs, the finding about a key that stateful code returns says that the
    stored state stays.
    """
    code = 'FlatMapGroupsInPandasWithState(stateType={"fields":[{"name":"%s","type":"long"}],"type":"struct"})[0]'
    (finding,) = of_keys(keyed(code % "sums"), keyed(code % "amounts"))
    assert finding.effect.endswith("the stored state stays: Spark reads its fields by position, not by name")


def test_a_constant_for_a_null_key_changes_no_row_of_a_table() -> None:
    """Replacing a null key by a constant is no finding for a table, which contains no such row, and breaking for files,
    which have a partition for null.
    """
    filled = "coalesce(source 0.k, 1:string)"
    assert of_keys(STATEFUL, keyed(filled)) == []
    files = into(TO_FILES, STATELESS)
    assert [each.severity for each in of_keys(files, keyed(filled, files))] == [Severity.BREAKING]


@pytest.mark.parametrize("meaning", ["", "?x", "concat(source 0.k, ?total)"])
def test_a_key_with_an_unknown_expression_is_opaque_if_the_plan_differs(meaning: str) -> None:
    """A key with an unknown expression is opaque if the plan differs, and no finding if the plan is the same."""
    old, new = keyed(meaning), keyed(meaning, **OTHER_PLAN)
    assert [each.severity for each in of_keys(old, new)] == [Severity.OPAQUE]
    assert [each.severity for each in of_keys(STATEFUL, new)] == [Severity.OPAQUE]
    assert of_keys(old, old) == []


def test_a_question_mark_in_a_string_does_not_mark_an_unknown_expression() -> None:
    """A question mark inside a string does not mark an expression as unknown."""
    text = 'regexpreplace(source 0.k, "a?b":string)'
    assert of_keys(keyed(text), keyed(text, **OTHER_PLAN)) == []
    (finding,) = of_keys(keyed(text), keyed(text.replace("a?b", "a?c")))
    assert finding.severity is Severity.BREAKING


def test_a_key_that_a_function_computes_goes_by_its_code() -> None:
    """A key that a Python function computes is opaque if that function's code changed; other functions' code and
    renumbered functions do not count.
    """
    run = {"functions": {"above/0 shop": "aa", "above/1 label": "bb"}}
    old = keyed(UDF.format(0), run_by=("above/0 shop",), **run)
    other_key = changed(old, functions={**old.functions, "above/0 shop": "cc"})
    assert [each.severity for each in of_keys(old, other_key)] == [Severity.OPAQUE]
    other_value = changed(old, functions={**old.functions, "above/1 label": "cc"})
    assert of_keys(old, other_value) == []
    renumbered = keyed(UDF.format(1), run_by=("above/1 shop",), functions={"above/0 label": "bb", "above/1 shop": "aa"})
    assert of_keys(old, renumbered) == []
    swapped = keyed(UDF.format(0), run_by=("above/0 label",), functions={"above/0 label": "bb", "above/1 shop": "aa"})
    assert [each.severity for each in of_keys(old, swapped)] == [Severity.OPAQUE]


def test_any_changed_function_is_opaque_if_the_key_functions_are_not_recorded() -> None:
    """If an earlier version recorded no functions for a column, a change to any function is opaque for the key."""
    run = {"functions": {"above/0 shop": "aa", "above/1 label": "bb"}}
    old = keyed(UDF.format(0), run_by=None, **run)
    new = keyed(UDF.format(0), run_by=("above/0 shop",), **run)
    assert of_keys(old, new) == []
    assert [
        each.severity for each in of_keys(old, changed(new, functions={**new.functions, "above/1 label": "c"}))
    ] == [Severity.OPAQUE]


def test_a_changed_function_only_carried_by_deduplication_is_opaque_for_its_key() -> None:
    """A changed function whose result the deduplication only carries is noted for the state, and opaque for the key
    that it computes.
    """
    old = keyed(UDF.format(0), run_by=("below/0 shop",), functions={"below/0 shop": "aa"}, carried=("below/0 shop",))
    new = changed(old, functions={"below/0 shop": "bb"})
    assert [each.rule for each in find_changes(old, new)] == ["code-beside-state-changed", "sink-key-redefined"]
    assert verdict_of(find_changes(old, new)) is Verdict.BACKUP


def test_a_key_from_unreadable_code_is_opaque_in_a_different_context() -> None:
    """A key from unreadable code is opaque if its context differs, and no finding in the same context."""
    code = {"functions": {"above/0 shop": f"{UNREADABLE}x"}}
    old = keyed(UDF.format(0), run_by=("above/0 shop",), context="c1", **code)
    assert of_keys(old, old) == []
    assert [each.severity for each in of_keys(old, changed(old, context="c2"))] == [Severity.OPAQUE]


def test_a_key_from_a_changed_static_table_is_opaque_or_breaking() -> None:
    """A key looked up in a static table is opaque if the table, its rows or an unrecorded join may differ, and breaking
    if it comes from a different table.
    """
    looked_up = ("left: source 0", "right: LogicalRelation(a)", "join LeftOuter on equalto(source 0.k, static 0.k)")
    old = keyed("static 0.city:string", STATELESS, output_shape=looked_up)
    other = changed(old, output_shape=(looked_up[0], "right: LogicalRelation(b)", looked_up[2]), **OTHER_PLAN)
    assert [each.severity for each in of_keys(old, other)] == [Severity.OPAQUE]
    assert of_keys(old, changed(old, **OTHER_PLAN)) == []
    second = keyed("static 1.city:string", STATELESS, output_shape=looked_up)
    assert [each.severity for each in of_keys(old, second)] == [Severity.BREAKING]
    made = {"functions": {"above/0 rows": "aa"}}
    rows, others = changed(old, **made), changed(old, functions={"above/0 rows": "bb"})
    assert [each.severity for each in of_keys(rows, others)] == [Severity.OPAQUE]
    unrecorded = changed(old, output_shape=None)
    assert [each.severity for each in of_keys(unrecorded, changed(old, **OTHER_PLAN))] == [Severity.OPAQUE]
    assert of_keys(unrecorded, old) == []


def test_a_key_renumbered_by_an_added_source_gives_no_finding() -> None:
    """A key whose source is only renumbered by an added source gives no finding; with the same sources a different
    number is breaking.
    """
    more = msgspec.structs.replace(SOURCE, location="/more")
    old = keyed("source 0.k", STATELESS)
    renumbered = keyed("source 1.k", STATELESS, sources=(more, SOURCE))
    assert of_keys(old, renumbered) == []
    two = changed(old, sources=(SOURCE, more))
    assert [each.severity for each in of_keys(two, keyed("source 1.k", two))] == [Severity.BREAKING]


@pytest.mark.parametrize("base", [STATEFUL, STATELESS], ids=["state", "no state"])
def test_a_changed_time_zone_is_breaking_for_a_time_formatting_key(base: Manifest) -> None:
    """A changed session time zone is breaking for a key that formats a time, and gives no finding for a key without
    times.
    """
    old = keyed(DATED, base)
    new = changed(old, confs={**old.confs, **IN_ZONE})
    assert [each.severity for each in of_keys(old, new)] == [Severity.BREAKING]
    assert of_keys(base, changed(base, confs={**base.confs, **IN_ZONE})) == []


def test_a_changed_setting_is_opaque_for_a_dependent_computed_key() -> None:
    """A changed setting that a computed key may depend on is opaque; a key that is a plain column gives no finding."""
    legacy = {"spark.sql.legacy.timeParserPolicy": "LEGACY"}
    old = keyed("upper(source 0.k)", STATELESS)
    assert [each.severity for each in of_keys(old, changed(old, confs={**old.confs, **legacy}))] == [Severity.OPAQUE]
    assert of_keys(STATELESS, changed(STATELESS, confs={**STATELESS.confs, **legacy})) == []


def test_a_changed_csv_date_pattern_is_opaque_for_a_key_of_dates() -> None:
    """A changed date pattern of a CSV source is opaque for a key of dates, and gives no finding for a key of
    strings.
    """
    csv = with_source(STATELESS, options={"format": "csv"}, schema="k date\nx bigint\nz string")
    by_pattern = with_source(csv, options={"format": "csv", "dateformat": "dd.MM.yyyy"})
    assert [each.severity for each in of_keys(csv, by_pattern)] == [Severity.OPAQUE]
    assert of_keys(keyed("source 0.z", csv), keyed("source 0.z", by_pattern)) == []


def test_a_key_without_recorded_expressions_is_opaque_if_the_plan_differs() -> None:
    """With a stored manifest without recorded expressions, the key is opaque if the plan differs, and no finding if it
    is the same.
    """
    old = changed(STATELESS, columns=(), output_rows=None, output_shape=None)
    assert of_keys(old, STATELESS) == []
    assert [each.severity for each in of_keys(old, keyed("upper(source 0.k)", STATELESS))] == [Severity.OPAQUE]
