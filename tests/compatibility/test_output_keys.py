"""What becomes of the columns by which an output finds a row's place."""

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
    """The manifest with another meaning of the column ``k``, which is the table's key; its plan shows the change."""
    functions = fields.pop("run_by", ())
    column = StateColumn(meaning=meaning, type="string", name="k", functions=functions)
    structure = f"structure {abs(hash(meaning))}"
    plan = f"{manifest.plan}\n{structure}" if meaning != manifest.columns[0].meaning else manifest.plan
    return changed(manifest, **{"columns": (column, *manifest.columns[1:]), "plan": plan, **fields})


def of_keys(old: Manifest, new: Manifest) -> list[Finding]:
    """The findings about keys and partitions."""
    return [each for each in find_changes(old, new) if each.rule in ("sink-key-redefined", "sink-partition-redefined")]


def into(sink: SinkDescription, manifest: Manifest) -> Manifest:
    """The manifest with another output."""
    return changed(manifest, sink=sink, output_mode="append")


@pytest.mark.parametrize("base", [STATEFUL, STATELESS], ids=["state", "no state"])
@pytest.mark.parametrize("mode", ["update", "append"])
def test_another_expression_of_a_tables_key_is_a_switch(base: Manifest, mode: str) -> None:
    """The rows that are there keep the old key, whether groups or single rows are written."""
    old = changed(base, output_mode=mode)
    (finding,) = of_keys(old, keyed("upper(source 0.k)", old))
    assert (finding.severity, finding.where) == (Severity.BREAKING, "sink, key column k")
    assert (finding.evidence, concern_of(finding)) == ("`k` → `upper(k)`", Concern.OUTPUT)
    judged = assess({"q": old}, {"q": keyed("upper(source 0.k)", old)}).queries["q"]
    assert judged.verdict is Verdict.SWITCH
    assert "nothing would change" not in " ".join(each.effect for each in judged.findings)
    assert "reads the input again" in judged.findings[-1].hint


def test_the_same_key_written_otherwise_is_none() -> None:
    """Control: the plan differs, and the key is made of the same."""
    assert of_keys(STATEFUL, changed(STATEFUL, **OTHER_PLAN)) == []
    assert of_keys(STATEFUL, changed(STATEFUL, columns=STATEFUL.columns[::-1], **OTHER_PLAN)) == []


def test_another_value_beside_the_key_is_none() -> None:
    """Control: the row is found, and updated."""
    value = msgspec.structs.replace(STATEFUL.columns[1], meaning="multiply(sum(source 0.x), 100:integer)")
    assert of_keys(STATEFUL, changed(STATEFUL, columns=(STATEFUL.columns[0], value), **OTHER_PLAN)) == []


def test_a_table_that_each_batch_replaces_keeps_no_old_key() -> None:
    """In complete mode the old rows go; update mode keeps those that complete mode has written."""
    whole = changed(STATEFUL, output_mode="complete")
    assert of_keys(whole, keyed("upper(source 0.k)", whole)) == []
    assert verdict_of(find_changes(whole, keyed("upper(source 0.k)", whole))) is Verdict.RESUME
    assert [each.severity for each in of_keys(whole, keyed("upper(source 0.k)"))] == [Severity.BREAKING]


def test_a_partition_of_files_is_a_place_too() -> None:
    """A reader of one partition would find a part of its rows; without partitions there are none to be in."""
    old = into(TO_FILES, STATELESS)
    (finding,) = of_keys(old, keyed("upper(source 0.k)", old))
    assert (finding.rule, finding.severity) == ("sink-partition-redefined", Severity.BREAKING)
    whole = into(SinkDescription(kind="file", output="/out", options={"format": "json", "partition_by": ""}), STATELESS)
    assert of_keys(whole, keyed("upper(source 0.k)", whole)) == []


def test_a_function_has_no_column_that_is_known_to_place_rows() -> None:
    """What a function makes of a column is compared with the function."""
    old = into(SinkDescription(kind="foreach", output="jobs:write", options={}), STATELESS)
    assert placing_columns(old) == ()
    assert of_keys(old, keyed("upper(source 0.k)", old)) == []


def test_of_an_unknown_kind_of_sink_every_list_of_columns_counts() -> None:
    """A kind that is added later is not let through in silence."""
    old = into(SinkDescription(kind="novel", output="x", options={"route": "k", "form": "csv"}), STATELESS)
    assert placing_columns(old) == ("k",)
    assert [each.severity for each in of_keys(old, keyed("upper(source 0.k)", old))] == [Severity.BREAKING]


def test_a_comma_in_a_name_makes_every_column_a_key() -> None:
    """Which columns are listed cannot be told apart then."""
    sink = msgspec.structs.replace(STATEFUL.sink, options={"key": "k,of it"})
    assert placing_columns(changed(STATEFUL, sink=sink)) == ("k", "s")


def test_a_grouping_key_that_changed_is_told_once() -> None:
    """The state's own rule asks for the switch; a second change above it is told beside that."""
    raised = with_operator(STATEFUL, key_columns=(StateColumn(meaning="upper(source 0.k)", type="string"),))
    new = keyed("upper(source 0.k)", raised)
    assert [each.rule for each in find_changes(STATEFUL, new) if each.severity is Severity.BREAKING] == [
        "grouping-key-changed"
    ]
    both = keyed("md5(upper(source 0.k))", raised)
    assert [each.severity for each in of_keys(STATEFUL, both)] == [Severity.BREAKING]


def test_a_key_that_stateful_code_returns_shows_its_other_groups_whole() -> None:
    """The whole expression would be cut where both sides differ."""
    of_code = "FlatMapGroupsInPandasWithState(groupingAttributes=[{}], outputMode=Update)[0]"
    old = keyed(of_code.format("source 0.site, source 0.sensor"))
    (finding,) = of_keys(old, keyed(of_code.format("source 0.sensor, source 0.site")))
    assert finding.evidence == "groups of the stateful code: `site`, `sensor` → `sensor`, `site`"
    (computed,) = of_keys(old, keyed(of_code.format("upper(source 0.site), source 0.sensor")))
    assert computed.evidence.startswith("result of the stateful code: ")


def test_a_key_that_stateful_code_returns_shows_the_codes_other_setting() -> None:
    """Its expression contains the setting somewhere in the middle, where it would be cut."""
    code = "FlatMapGroupsInPandasWithState(outputMode=Update, timeout={})[0]"
    keeps = {"kind": "pandas-with-state"}
    old = keyed(code.format("none"), with_operator(STATEFUL, **keeps, detail={"timeout": "none"}))
    new = keyed(code.format("event-time"), with_operator(STATEFUL, **keeps, detail={"timeout": "event-time"}))
    (finding,) = of_keys(old, new)
    assert finding.evidence.startswith("the stateful code that returns it has a changed setting or state: timeout")


def test_a_constant_for_a_null_key_changes_no_row_of_a_table() -> None:
    """A table refuses a row without a key, so that none is there; files have a partition for such rows."""
    filled = "coalesce(source 0.k, 1:string)"
    assert of_keys(STATEFUL, keyed(filled)) == []
    files = into(TO_FILES, STATELESS)
    assert [each.severity for each in of_keys(files, keyed(filled, files))] == [Severity.BREAKING]


@pytest.mark.parametrize("meaning", ["", "?x", "concat(source 0.k, ?total)"])
def test_a_key_of_which_nothing_is_known_asks_for_a_person(meaning: str) -> None:
    """Neither the same nor another can be proven; where the plan is the same, so is the key."""
    old, new = keyed(meaning), keyed(meaning, **OTHER_PLAN)
    assert [each.severity for each in of_keys(old, new)] == [Severity.OPAQUE]
    assert [each.severity for each in of_keys(STATEFUL, new)] == [Severity.OPAQUE]
    assert of_keys(old, old) == []


def test_a_question_mark_in_a_text_is_known() -> None:
    """Only what stands outside of quotes says that something is not known."""
    text = 'regexpreplace(source 0.k, "a?b":string)'
    assert of_keys(keyed(text), keyed(text, **OTHER_PLAN)) == []
    (finding,) = of_keys(keyed(text), keyed(text.replace("a?b", "a?c")))
    assert finding.severity is Severity.BREAKING


def test_a_key_that_a_function_computes_goes_by_its_code() -> None:
    """Its meaning names the function only; another digest asks for a person, that of another column's does not."""
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


def test_of_a_manifest_that_names_no_functions_of_a_column_all_count() -> None:
    """As an earlier version recorded it: where all are the same, so is the key."""
    run = {"functions": {"above/0 shop": "aa", "above/1 label": "bb"}}
    old = keyed(UDF.format(0), run_by=None, **run)
    new = keyed(UDF.format(0), run_by=("above/0 shop",), **run)
    assert of_keys(old, new) == []
    assert [
        each.severity for each in of_keys(old, changed(new, functions={**new.functions, "above/1 label": "c"}))
    ] == [Severity.OPAQUE]


def test_a_function_that_deduplication_only_carries_may_compute_a_key() -> None:
    """No state is made of what it returns, and rows are found by it."""
    old = keyed(UDF.format(0), run_by=("below/0 shop",), functions={"below/0 shop": "aa"}, carried=("below/0 shop",))
    new = changed(old, functions={"below/0 shop": "bb"})
    assert [each.rule for each in find_changes(old, new)] == ["code-beside-state-changed", "sink-key-redefined"]
    assert verdict_of(find_changes(old, new)) is Verdict.BACKUP


def test_code_that_cannot_be_looked_into_asks_in_another_context() -> None:
    """Made from the same in the same, it is the same."""
    code = {"functions": {"above/0 shop": f"{UNREADABLE}x"}}
    old = keyed(UDF.format(0), run_by=("above/0 shop",), context="c1", **code)
    assert of_keys(old, old) == []
    assert [each.severity for each in of_keys(old, changed(old, context="c2"))] == [Severity.OPAQUE]


def test_a_key_from_another_static_table_asks_for_a_person() -> None:
    """Its meaning has a number for the table; which it is, and how it is joined, is in the output's shape."""
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


def test_a_source_that_came_renumbers_a_key_and_redefines_none() -> None:
    """With the same sources another number is another source's column."""
    more = msgspec.structs.replace(SOURCE, location="/more")
    old = keyed("source 0.k", STATELESS)
    renumbered = keyed("source 1.k", STATELESS, sources=(more, SOURCE))
    assert of_keys(old, renumbered) == []
    two = changed(old, sources=(SOURCE, more))
    assert [each.severity for each in of_keys(two, keyed("source 1.k", two))] == [Severity.BREAKING]


@pytest.mark.parametrize("base", [STATEFUL, STATELESS], ids=["state", "no state"])
def test_a_time_zone_that_a_key_is_spelled_in_is_a_switch(base: Manifest) -> None:
    """The same moment has another date there; a key without times stays as it is."""
    old = keyed(DATED, base)
    new = changed(old, confs={**old.confs, **IN_ZONE})
    assert [each.severity for each in of_keys(old, new)] == [Severity.BREAKING]
    assert of_keys(base, changed(base, confs={**base.confs, **IN_ZONE})) == []


def test_a_setting_that_a_computed_key_may_depend_on_asks_for_a_person() -> None:
    """A bare column is what was read."""
    legacy = {"spark.sql.legacy.timeParserPolicy": "LEGACY"}
    old = keyed("upper(source 0.k)", STATELESS)
    assert [each.severity for each in of_keys(old, changed(old, confs={**old.confs, **legacy}))] == [Severity.OPAQUE]
    assert of_keys(STATELESS, changed(STATELESS, confs={**STATELESS.confs, **legacy})) == []


def test_how_a_key_is_read_from_a_file_counts() -> None:
    """A pattern for dates reads a key of dates otherwise, and no other column."""
    csv = with_source(STATELESS, options={"format": "csv"}, schema="k date\nx bigint\nz string")
    by_pattern = with_source(csv, options={"format": "csv", "dateformat": "dd.MM.yyyy"})
    assert [each.severity for each in of_keys(csv, by_pattern)] == [Severity.OPAQUE]
    assert of_keys(keyed("source 0.z", csv), keyed("source 0.z", by_pattern)) == []


def test_an_old_manifest_without_meanings_asks_where_the_plan_differs() -> None:
    """Once: the release is described anew with its deploy."""
    old = changed(STATELESS, columns=(), output_rows=None, output_shape=None)
    assert of_keys(old, STATELESS) == []
    assert [each.severity for each in of_keys(old, keyed("upper(source 0.k)", STATELESS))] == [Severity.OPAQUE]
