"""Tests that findings can be understood at first reading; each covers a text that was once misleading or unclear."""

from __future__ import annotations

import json

import msgspec
import pytest

from streamkeeper.checkpoints.shapes import damage
from streamkeeper.compatibility import setting_words
from streamkeeper.compatibility.assess import assess, find_changes
from streamkeeper.compatibility.checkpoint_damage import damage_findings
from streamkeeper.compatibility.effects import BREAKING, OPAQUE
from streamkeeper.compatibility.effects_of_notes import NOTES
from streamkeeper.compatibility.observations import row_risks
from streamkeeper.compatibility.plan_changes import lines_change
from streamkeeper.compatibility.plan_lines import plan_line
from streamkeeper.compatibility.rehearsals import not_rehearsed, rehearsal_failed, rehearsed_without_rows
from streamkeeper.compatibility.report import render_text
from streamkeeper.compatibility.session_settings import LENIENT
from streamkeeper.compatibility.shown import expression, expression_change, expressions_change
from streamkeeper.errors import OutputUnfit
from streamkeeper.model.manifests.finding import Finding, Severity, Switch
from streamkeeper.model.manifests.manifest import (
    ABOVE_STATE,
    BELOW_STATE,
    SINK_FUNCTION,
    Manifest,
    Operator,
    SinkDescription,
    StateColumn,
)
from streamkeeper.model.settings.spark_confs import MEANING, PINNED, REFUSED, TUNING
from tests.compatibility.manifests import (
    AGGREGATE,
    JOIN,
    MINUTE_MS,
    STATEFUL,
    STATELESS,
    TEN_MINUTES,
    changed,
    watermarked,
    with_operator,
    with_source,
    with_state,
)

_TABLE = (
    'LogicalRelation(isStreaming=False, relation=hadoopfsrelation(dataSchema={"fields":[{"metadata":{},"name":"open",'
    '"nullable":true,"type":"%s"}],"type":"struct"}, fileFormat=CSVFileFormat, location=[file:/in/places.csv], '
    'options=m[["header", "true"]], partitionSchema={"fields":[],"type":"struct"}))'
)
_FUNCTION = SinkDescription(kind="foreach", output="job:write", options={})
_PARSED = "fromjson(cast(source 1.value, dataType=string), in session).{}:string"


def findings_of(old: Manifest, new: Manifest, *observed: Finding) -> dict[str, Finding]:
    """Return the findings by their rule, as people read them."""
    return {each.rule: each for each in assess({"q": old}, {"q": new}, {"q": observed}).queries["q"].findings}


@pytest.mark.parametrize(
    ("meaning", "text", "former"),
    [
        ("add(hour(source 0.ts), unaryminus(source 0.y))", "hour(ts) + -y", "hour(ts) + unaryminus(y)"),
        ("bitwiseand(source 0.x, 3:integer)", "x & 3", "bit_and(x, 3), which is an aggregate"),
        ("arraycontains(source 0.tags, 1:integer)", "array_contains(tags, 1)", "arraycontains(tags, 1)"),
        ("currentbatchtimestamp(in session, dataType=date, timestampMs=0)", "current_date()", "current_timestamp()"),
        ("first(source 0.nums[*]:integer)", "first(explode(nums))", "first(nums[*])"),
        ("window(source 0.ts; 55f8a544)", "session_window(ts)", "window(ts)"),
        (
            f"join LeftOuter on equalto({_PARSED.format('k')}, static 0.k:string)",
            "left outer join on source 1.k = static 0.k",
            "left outer join on k = k",
        ),
    ],
)
def test_an_expression_is_shown_as_written_in_the_job_code(meaning: str, text: str, former: str) -> None:
    """An expression is shown as in the job's code, with SQL's function names and operators, and with sources where two
    columns have the same name.
    """
    assert expression(meaning) == text
    assert former != text


def test_another_column_type_of_a_static_table_is_shown() -> None:
    """If a static table is read with a changed schema, the evidence shows the field and both types, instead of the same
    text on both sides.
    """
    shown = expressions_change([f"right: {_TABLE % 'string'}"], [f"right: {_TABLE % 'boolean'}"])
    assert shown.endswith("which is read with another schema: field open: `string` → `boolean`")
    # The side is no part of the expression.
    assert shown.startswith("right side of the join: `csv files (/in/places.csv")


def test_current_date_and_current_timestamp_are_shown_as_two_functions() -> None:
    """``current_date()`` and ``current_timestamp()`` are shown as two different functions."""
    today = "currentbatchtimestamp(in session, dataType=date, timestampMs=0)"
    shown = expression_change(today, today.replace("date", "timestamp"))
    assert shown == "`current_date()` → `current_timestamp()`"


def test_another_type_of_join_is_not_shown_as_another_table() -> None:
    """A changed join type is shown as such, although Spark also moves a check for null. Negative control: a filter that
    checks more than null is shown.
    """
    side, on = f"right: {_TABLE % 'string'}", "on equalto(source 0.k, static 0.k)"
    old = with_operator(
        STATEFUL, shape=("left: source 0", f"{side}; where isnotnull(static 0.k)", f"join LeftOuter {on}")
    )
    new = with_operator(old, shape=("left: source 0", side, f"join Inner {on}"))
    found = findings_of(old, new)["upstream-changed"]
    assert found.evidence == ("`left outer join on source 0.k = static 0.k` → `inner join on source 0.k = static 0.k`")
    # Negative control: a filter that checks more than null is shown.
    more = with_operator(
        old, shape=("left: source 0", f"{side}; where lessthan(static 0.k, 3:long)", f"join Inner {on}")
    )
    assert "where k < 3" in findings_of(old, more)["upstream-changed"].evidence


@pytest.mark.parametrize(
    ("operator", "entries"),
    [
        (AGGREGATE, "groups in the state come from"),
        (msgspec.structs.replace(AGGREGATE, kind="deduplicate"), "keys in the state come from"),
        (JOIN, "rows waiting in the join state come from"),
    ],
)
def test_an_effect_names_the_entries_of_the_operators_own_state(operator: Operator, entries: str) -> None:
    """The effect of a change below an operator names the entries of its own state: groups, keys or waiting rows."""
    old = with_state(operator)
    new = with_operator(old, shape=("branch 0: source 0", "branch 1: source 1"))
    assert findings_of(old, new)["upstream-changed"].effect.startswith(entries)


def test_a_column_that_a_join_stores_has_its_side() -> None:
    """A column that is added to a join's state is shown with its side of the join. Negative control: without a side if
    both inputs read the same source.
    """
    old = with_state(JOIN)
    new = with_operator(old, values=(*JOIN.values, StateColumn(meaning="source 1.note", type="string")))
    assert findings_of(old, new)["join-column-added"].evidence == "stored column added: right side of the join: `note`"
    # Negative control: if both inputs read the same source, the sources do not show the side.
    same = with_state(JOIN, values=(StateColumn(meaning="source 0.k", type="string"),) * 2)
    more = with_operator(same, values=(*same.operators[0].values, StateColumn(meaning="source 0.n", type="string")))
    assert findings_of(same, more)["join-column-added"].evidence == "stored column added: `n`"


def test_a_nullable_column_of_a_join_has_its_side() -> None:
    """A finding about a parsed column of a join that became nullable names the side of the join."""
    values = [
        StateColumn(meaning=_PARSED.format("ts").replace("source 1", f"source {side}"), type="t") for side in (0, 1)
    ]
    strict = msgspec.structs.replace(values[1], type="t not null")
    found = findings_of(with_state(JOIN, values=(values[0], strict)), with_state(JOIN, values=tuple(values)))
    assert found["join-column-became-nullable"].where == "join of two streams, right side"


def test_a_column_of_every_branch_of_a_union_is_shown_once() -> None:
    """A column that is the same in every branch of a union is shown once. Negative control: branches that differ are
    shown as a union.
    """
    before = f"max(either({_PARSED.format('k').replace('source 1', 'source 0')}, {_PARSED.format('k')}))"
    assert expression_change(before, before.replace(".k:", ".g:")) == "`max(k)` → `max(g)`"
    # Negative control: branches that differ are shown with their sources.
    assert expression("either(source 0.k, source 1.g)") == "union(k, g)"


def test_an_added_part_of_a_long_line_is_shown_alone() -> None:
    """A field that is added to a long parsed schema is shown alone with its path and type; a short line is shown in
    full.
    """
    fields = "StructField(id,StringType,true),StructField(tier,StringType,true),StructField(age,IntegerType,true){}"
    parsed = f"from_json(StructField(id,StringType,true), StructField(customer,StructType({fields}),true), value)"
    line = f"Project [id#1, {parsed} AS o]"
    more = line.format(",StructField(city,StringType,true)")
    assert lines_change([line.format("")], [more]) == "field customer.city added: `string` (in `select`)"
    short = lines_change(["Project [id]"], ["Project [id, unused]"])
    assert short == "`select [id]` → `select [id, unused]`"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("Project [id, pythonUDF0 AS c1]", "select [id, Python result AS c1]"),
        ("Aggregate [_groupingexpression], [max(x)]", "aggregate [grouping expression], [max(x)]"),
        ("Project [(x % 3) AS _groupingexpression]", "select [(x % 3) AS grouping expression]"),
    ],
)
def test_a_line_of_a_plan_has_no_names_that_spark_made_up(line: str, text: str) -> None:
    """Names that Spark generates, such as ``_groupingexpression`` and ``pythonUDF0``, are replaced by plain words in a
    plan's lines.
    """
    assert str(plan_line(line)) == text


def test_a_field_is_named_with_its_column_and_its_types() -> None:
    """A changed, added or removed field of a struct is shown with its column and its types."""
    struct = "k string\nv struct<a:int,b:int,c:map<string,int>>"
    old = with_source(STATELESS, schema=struct)
    found = [
        findings_of(old, with_source(STATELESS, schema=other))["source-fields-changed"].evidence
        for other in (
            struct.replace("b:int", "b:bigint"),
            struct.replace("b:int", "b:int,d:string"),
            struct.replace("a:int,", ""),
            struct.replace("map<string,int>", "map<string,long>"),
        )
    ]
    assert found == [
        "field b of column v: `int` → `bigint`",
        "field d of column v added: `string`",
        "field a of column v removed: `int`",
        "field c of column v: another type of map",
    ]


def test_a_key_that_is_a_cast_is_shown_as_a_cast() -> None:
    """A grouping key that became a cast to a date is shown as that cast, with both types."""
    day = StateColumn(meaning="cast(source 0.ts, in session, dataType=date)", type="date")
    old = with_operator(STATEFUL, key_columns=(StateColumn(meaning="source 0.ts", type="timestamp"),))
    found = findings_of(old, with_operator(old, key_columns=(day,)))["grouping-key-type-changed"]
    assert found.evidence == "`ts` → `cast(ts as date)`; type: `timestamp` → `date`"


def test_the_hint_for_an_unrehearsed_batch_recommends_to_watch_the_first_batch() -> None:
    """The hint for a batch that was not rehearsed recommends to watch the candidate's first batch."""
    assert not_rehearsed("state is missing", damaged=True).hint.endswith(
        "if the candidate is deployed, watch its first batch"
    )


def test_another_kind_of_sink_is_shown_with_its_outputs() -> None:
    """A changed kind of sink is shown with both outputs, not only with the two kinds."""
    found = findings_of(STATEFUL, of_function(STATEFUL))["sink-kind-changed"]
    assert found.evidence == "`table sqlite:/db#totals` → `foreach job:write`"


def test_changed_columns_for_stateful_code_require_action_only_if_read() -> None:
    """The hint about changed columns for stateful code states that no action is needed if the code reads no removed
    column.
    """
    operator = msgspec.structs.replace(
        AGGREGATE,
        kind="pandas-with-state",
        values=(StateColumn(meaning="source 0.x", type="long", name="x"),),
    )
    new = with_state(operator, values=(StateColumn(meaning="source 0.y", type="long", name="y"),))
    hint = findings_of(with_state(operator), new)["columns-of-stateful-code-changed"].hint
    assert hint.startswith("no action is needed if the code reads no removed column")


def test_a_longer_watermark_of_a_join_is_not_about_groups() -> None:
    """The effect of a longer watermark delay on a join is about missed matches with evicted rows, and that on an
    aggregation is not.
    """
    later = msgspec.structs.replace(TEN_MINUTES, delay_ms=35 * MINUTE_MS)
    found = findings_of(watermarked(JOIN, TEN_MINUTES), watermarked(JOIN, later))["watermark-delay-increased"]
    assert found.effect == "a late row would miss its matches with rows of the other stream that were already evicted"
    groups = findings_of(watermarked(AGGREGATE, TEN_MINUTES), watermarked(AGGREGATE, later))
    assert "miss its matches" not in groups["watermark-delay-increased"].effect


def test_min_partitions_and_max_files_per_trigger_have_different_effects() -> None:
    """The effect of ``minPartitions`` is a different number of tasks, and the effect of ``maxFilesPerTrigger`` is a
    different batch size.
    """
    new = with_source(STATELESS, limits={"maxfilespertrigger": "1", "minpartitions": "3"})
    assert findings_of(STATELESS, new)["rate-limit-changed"].effect == (
        "each batch would be read by another number of tasks; the same rows would be read"
    )
    size = findings_of(STATELESS, with_source(STATELESS, limits={"maxfilespertrigger": "2"}))["rate-limit-changed"]
    assert size.effect.startswith("batches would have another size")


def test_an_option_of_a_sink_is_named_alone() -> None:
    """The effect of a changed sink option names only that option, such as the key."""
    new = changed(STATEFUL, sink=changed(STATEFUL.sink, options={"key": "k,s"}))
    assert findings_of(STATEFUL, new)["sink-option-changed"].effect == (
        "new rows would be written with another key than existing ones"
    )


def test_an_output_that_does_not_fit_names_one_remedy() -> None:
    """The evidence of an output that does not fit contains no remedy, because the hint states it."""
    said = OutputUnfit("table t does not fit the query: its key is (a)", hint=OutputUnfit.REMEDY)
    found = rehearsal_failed("OutputUnfit", str(said), 3, again=True)
    assert found.evidence == "table t does not fit the query: its key is (a)"


def test_the_hint_about_a_first_name_of_a_source_says_to_remove_it() -> None:
    """If no source had a name before, the hint says to remove the name again, because there is no earlier name."""
    named = with_source(STATELESS, name="first")
    assert ": remove the name again, or run" in findings_of(STATELESS, named)["source-naming-changed"].hint
    assert ": name all sources as before, or run" in findings_of(named, STATELESS)["source-naming-changed"].hint


@pytest.mark.parametrize(
    ("columns", "rule", "effect"),
    [
        ("a int", "output-column-added", "new rows would have the new column; rows already written lack it"),
        ("a int\nb int", "output-column-added", "new rows would have the new columns; rows already written lack them"),
        ("a int\nb int", "output-column-removed", "new rows would lack the columns; rows already written keep them"),
    ],
)
def test_the_effect_on_several_columns_is_worded_in_the_plural(columns: str, rule: str, effect: str) -> None:
    """The effect of added or removed columns speaks of columns if there are several, and of one column otherwise."""
    to_files = changed(STATELESS, sink=msgspec.structs.replace(STATELESS.sink, kind="file", options={"format": "json"}))
    more = changed(to_files, output_schema=f"{STATELESS.output_schema}\n{columns}", plan=f"{STATELESS.plan} ")
    sides = (more, to_files) if rule.endswith("removed") else (to_files, more)
    assert findings_of(*sides)[rule].effect == effect


def test_a_join_that_stores_several_columns_less_is_worded_in_the_plural() -> None:
    """The evidence names the side of several added columns once, and the effect does not speak of one column."""
    more = [StateColumn(meaning=f"source 1.{name}", type="string") for name in ("y", "z")]
    old, new = with_state(JOIN, values=(*JOIN.values, *more)), with_state(JOIN)
    found = findings_of(old, new)["join-column-removed"]
    assert found.evidence == "stored columns removed: right side of the join: `y`, `z`"
    assert found.effect.endswith("have several columns more")
    assert findings_of(new, old)["join-column-added"].effect.endswith("lack the new columns")


def test_the_hint_for_a_rehearsal_without_rows_is_conditional_on_a_deploy() -> None:
    """The hint for a rehearsal without rows is conditional on a deploy, and the evidence states how many batches were
    searched at most.
    """
    found = rehearsed_without_rows(2, searched=20)
    assert found.hint == "if this candidate is deployed, watch its first batch with rows"
    assert "at most 20 were searched" in found.evidence


def of_function(manifest: Manifest, digest: str = "a") -> Manifest:
    """Return the query with a sink function that receives whole rows."""
    functions = {**manifest.functions, f"{SINK_FUNCTION}function": digest}
    return changed(manifest, sink=_FUNCTION, functions=functions)


def test_changed_sink_code_with_changed_state_requires_accept_state_loss() -> None:
    """Beside a changed state of a query with a sink function, the hint about changed code states that the deploy is
    refused unless accept_state_loss is given.
    """
    old = of_function(changed(STATEFUL, functions={f"{BELOW_STATE}0 rate": "a"}))
    new = with_operator(old, values=(StateColumn(meaning="max(source 0.x)", type="long"),))
    new = changed(new, functions={**new.functions, f"{BELOW_STATE}0 rate": "b"})
    found = findings_of(old, new)
    assert found["aggregate-function-changed"].hint.startswith("revert the change; or switch with accept_state_loss")
    assert found["code-in-state-changed"].hint == (
        "the deploy is refused because of aggregate-function-changed, unless it has accept_state_loss: then it "
        "switches, without an approval of this finding. If this change is not intended, revert it"
    )


def test_no_finding_recommends_a_switch_that_another_finding_rules_out() -> None:
    """If one finding makes a switch impossible, no other finding recommends accept_state_loss."""
    new = of_function(with_operator(STATEFUL, values=(StateColumn(meaning="max(source 0.x)", type="long"),)))
    hints = {rule: each.hint for rule, each in findings_of(STATEFUL, new).items() if each.severity is not Severity.NOTE}
    assert hints["sink-kind-changed"].startswith("no switch is possible for this change, so the deploy is refused")
    assert not any("accept_state_loss" in hint for hint in hints.values())


def test_the_hint_after_a_failed_rehearsal_recommends_a_revert_before_a_switch() -> None:
    """Beside a failed rehearsal the hint first recommends to revert the change as a possible cause, and then the
    switch. Negative control: a lost checkpoint is not blamed on the change.
    """
    fatal = Finding(
        rule="fails-on-the-last-batch", severity=Severity.FATAL, where="rehearsal", evidence="e", hint="fix"
    )
    new = with_operator(STATEFUL, values=(StateColumn(meaning="max(source 0.x)", type="long"),))
    hint = findings_of(STATEFUL, new, fatal)["aggregate-function-changed"].hint
    assert hint == (
        "the deploy is refused because of fails-on-the-last-batch, and this change may be its cause: revert the "
        "change. To keep the change, follow the hint of fails-on-the-last-batch first. After that: "
        "switch: a new checkpoint version reads the input again from where the current one began, builds the output "
        "anew, and takes over when it has caught up"
    )
    # Negative control: the change is not the cause of another fatal finding.
    lost = msgspec.structs.replace(fatal, rule="checkpoint-lost")
    hint = findings_of(STATEFUL, new, lost)["aggregate-function-changed"].hint
    assert hint.startswith("the deploy is refused because of checkpoint-lost: follow the hint of that finding first")
    assert "After that: switch" in hint
    assert findings_of(STATEFUL, new)["aggregate-function-changed"].hint.startswith("switch")


def test_a_redefined_column_of_a_function_recommends_no_rebuild() -> None:
    """The hints about a redefined column recommend no rebuild if the sink is a function, and recommend it if the sink
    is a table.
    """
    old = changed(of_function(STATEFUL), sink_columns=("s",))
    columns = (old.columns[0], msgspec.structs.replace(old.columns[1], meaning="add(sum(source 0.x), 1:long)"))
    found = findings_of(old, changed(old, columns=columns, plan=f"{old.plan}\nother"))
    assert "a new checkpoint version does not change the rows" in found["sink-column-redefined"].hint
    assert "rebuild" not in found["output-column-redefined"].hint
    table = findings_of(STATEFUL, changed(STATEFUL, columns=columns, plan=f"{old.plan}\nother"))
    assert table["output-column-redefined"].hint.endswith("deploy with `--strategy rebuild`")


def test_the_function_of_a_new_kind_of_sink_is_explained_by_the_kind() -> None:
    """A new sink function is covered by the finding about the changed kind of sink. Negative control: without that
    change it is an unexplained difference.
    """
    assert {each.rule for each in find_changes(STATEFUL, of_function(STATEFUL))} == {"sink-kind-changed"}
    # Negative control: the same difference without another kind of sink is unexplained.
    function = changed(STATEFUL, functions={f"{SINK_FUNCTION}function": "a"})
    assert "unexplained-difference" in {each.rule for each in find_changes(STATEFUL, function)}


def test_a_function_added_before_an_existing_one_is_reported_as_added() -> None:
    """A function that is added before an existing one is reported as added, and the existing one is not reported;
    removing it is reported as a removal.
    """
    old = changed(STATEFUL, functions={f"{BELOW_STATE}0 keep": "a"})
    new = changed(STATEFUL, functions={f"{BELOW_STATE}0 step": "b", f"{BELOW_STATE}1 keep": "a"})
    (added,) = find_changes(old, new)
    assert added.where.startswith("Python function step")
    assert (
        added.evidence
        == "added: the deployed query does not call it; another function of the query may now be called in its place"
    )
    (removed,) = find_changes(new, old)
    assert removed.rule == "code-in-state-changed"
    assert removed.evidence.startswith("removed: the candidate does not call it; ")


def test_an_unchanged_function_moved_above_the_state_is_shown_as_the_same() -> None:
    """An unchanged function that moved from below to above the state is reported as the same function in a different
    place.
    """
    old = changed(STATEFUL, functions={f"{BELOW_STATE}0 step": "a"})
    new = changed(STATEFUL, functions={f"{ABOVE_STATE}0 step": "a"})
    assert {each.evidence for each in find_changes(old, new)} == {
        "the function itself is the same; it ran in or below a stateful operator and now runs outside of all stateful "
        "operators"
    }


def test_an_unchanged_function_moved_out_of_the_state_is_not_worded_as_changed_code() -> None:
    """The effect of an unchanged function that moved out of the state, or into it, states that the state was computed
    with it, or without it. If a query keeps no state, the effect states that the function continues none.
    """
    inside = changed(STATEFUL, functions={f"{BELOW_STATE}0 step": "a"})
    outside = changed(STATEFUL, functions={f"{ABOVE_STATE}0 step": "a"})
    found = findings_of(inside, outside)["code-in-state-changed"]
    assert found.effect.startswith("state that was computed with this function would be continued without it; ")
    back = findings_of(outside, inside)["code-in-state-changed"]
    assert back.effect.startswith("state that was computed without this function would be continued with it; ")
    stateless = changed(STATELESS, functions=outside.functions)
    found = findings_of(inside, stateless)["code-in-state-changed"]
    assert (
        found.effect == "this function would continue no state of the deployed query, because the candidate keeps none"
    )
    back = findings_of(stateless, inside)["code-in-state-changed"]
    assert back.effect.endswith("because the deployed query keeps none")


def test_a_check_for_null_that_spark_adds_is_not_called_a_filter_of_the_author() -> None:
    """The hint about an added check for null states that it may come from Spark, and the hint about a filter in the
    job's code does not.
    """
    new = with_operator(STATEFUL, rows=(*AGGREGATE.rows, "left: isnotnull(source 0.k)"))
    assert "may also come from Spark" in findings_of(STATEFUL, new)["filter-below-state-changed"].hint
    other = with_operator(STATEFUL, rows=("lessthan(4:long, source 0.x)",))
    assert "Spark" not in findings_of(STATEFUL, other)["filter-below-state-changed"].hint


def test_a_setting_is_named_with_its_meaning() -> None:
    """The evidence of a changed setting states what the setting means, beside both values."""
    new = changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.shuffle.partitions": "4"})
    assert findings_of(STATEFUL, new)["setting-pinned"].evidence == (
        "the number of partitions of each shuffle and of the state: `2` → `4`"
    )


def test_every_setting_that_a_checkpoint_fixes_has_a_meaning() -> None:
    """Every setting that a checkpoint fixes, that is refused or that decides about bad rows has a description, and no
    description is of an unknown setting.
    """
    assert [key for key in (PINNED | REFUSED | LENIENT.keys()) if not setting_words.setting_meaning(key)] == []
    assert setting_words._MEANINGS.keys() - (PINNED | REFUSED | TUNING | MEANING) == set()


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ({"0 key": "a", "1 flag": "b"}, {"0 flag": "b"}, True),
        ({"0 key": "a"}, {"0 other": "x", "1 key": "a"}, True),
        ({"0 key": "a"}, {"0 key": "a", "1 other": "x"}, False),
    ],
)
def test_an_added_or_removed_function_names_the_calls_that_others_may_have_taken(
    before: dict[str, str], after: dict[str, str], moved: bool
) -> None:
    """The evidence of an added or removed function states that another function may now be called in its place, if the
    numbers of the other functions changed.
    """
    old, new = (
        changed(STATEFUL, functions={f"{BELOW_STATE}{name}": digest for name, digest in each.items()})
        for each in (before, after)
    )
    evidence = findings_of(old, new)["code-in-state-changed"].evidence
    assert evidence.endswith("another function of the query may now be called in its place") is moved


@pytest.mark.parametrize(
    ("columns", "other", "effect"),
    [
        (("k", "s"), ("k",), "new rows would lack s, which the rows written so far have. If the function"),
        (("k",), ("k", "s"), "new rows would have s, which the rows written so far lack. If the function"),
        (("k", "s"), ("k", "s"), "s of new rows would be computed differently from s of the rows written so far. If"),
    ],
)
def test_added_removed_and_redefined_columns_have_distinct_effects(
    columns: tuple[str, ...], other: tuple[str, ...], effect: str
) -> None:
    """The effect of an added, removed or redefined column that a sink function uses is worded for that kind of
    change.
    """
    kept = {column.name: column for column in STATEFUL.columns}
    old, new = (
        changed(
            of_function(STATEFUL),
            sink_columns=("s",),
            columns=tuple(kept[name] for name in names),
            output_schema="\n".join(f"{name} string" for name in names),
        )
        for names in (columns, other)
    )
    if columns == other:
        new = changed(new, columns=(kept["k"], msgspec.structs.replace(kept["s"], meaning="max(source 0.x)")))
    assert findings_of(old, new)["sink-column-redefined"].effect.startswith(effect)


@pytest.mark.parametrize(
    ("value", "effect"),
    [
        ("read_committed", "records of aborted transactions would be left out from now on"),
        ("read_uncommitted", "records of aborted and of open transactions would be read from now on"),
    ],
)
def test_a_changed_kafka_isolation_level_has_an_effect_about_transactions(value: str, effect: str) -> None:
    """A changed isolation level of a Kafka source has an effect about records of aborted and open transactions, and the
    hint states that no switch is possible.
    """
    kafka = with_source(STATEFUL, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
    levels = [
        with_source(kafka, options={"kafka.isolation.level": level}) for level in ("read_committed", "read_uncommitted")
    ]
    new = next(each for each in levels if each.sources[0].options["kafka.isolation.level"] == value)
    found = findings_of(next(each for each in levels if each != new), new)["source-selection-changed"]
    assert found.effect.startswith(effect)
    assert found.hint.startswith("no switch is possible for this change, so the deploy is refused: revert the change")


def test_the_effect_of_include_headers_names_the_added_column() -> None:
    """The effect of Kafka's ``includeHeaders`` states that the same rows are read with an added column ``headers``."""
    kafka = with_source(STATEFUL, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
    new = with_source(kafka, options={"includeheaders": "true"})
    assert findings_of(kafka, new)["source-upkeep-changed"].effect == (
        "the same rows would be read; new rows also have a column `headers`"
    )


@pytest.mark.parametrize("shape", ["source-offset-ahead", "source-offset-back", "source-offset-before-previous"])
def test_a_damaged_offset_has_a_remedy_that_can_be_carried_out(shape: str) -> None:
    """The hint for a damaged offset recommends a restore of the checkpoint or a switch, and refers to ``streamkeeper
    recover``.
    """
    (finding,) = damage_findings([damage(shape, "sources/0", "seen")])
    assert finding.hint == (
        "restore the checkpoint, or switch the query to a new checkpoint version: streamkeeper recover lists what each "
        "option loses or duplicates"
    )


def test_another_number_of_columns_that_a_join_stores_is_shown_as_removed_and_added() -> None:
    """If a join stores a different number of columns, the evidence lists removed and added columns with their sides."""
    values = [StateColumn(meaning=meaning, type="string") for meaning in ("source 0.g", "source 1.g", "source 1.k")]
    kept = StateColumn(meaning="source 0.k", type="string")
    found = findings_of(with_state(JOIN, values=(kept, *values[:2])), with_state(JOIN, values=(kept, values[2])))
    assert found["join-column-changed"].evidence == (
        "stored columns removed: left side of the join: `g`, right side of the join: `g`; stored column added: right "
        "side of the join: `k`"
    )
    assert found["join-column-changed"].effect.startswith("Spark would reject the state, because rows waiting in the")


def test_a_rewritten_plan_note_refers_to_the_finding_about_the_output() -> None:
    """Beside an added output column, the note about a rewritten plan claims no effect on the state only, and refers to
    the finding about the output.
    """
    columns = (*STATEFUL.columns, StateColumn(meaning="upper(source 0.k)", type="string", name="u", functions=()))
    new = changed(with_operator(STATEFUL), columns=columns, output_schema=f"{STATEFUL.output_schema}\nu string")
    effect = findings_of(STATEFUL, new)["rewritten-below-state"].effect
    assert effect.startswith("no effect on the state:")
    assert effect.endswith("a changed output has its own finding")


def of_options(manifest: Manifest, key: str) -> Manifest:
    """Return the query with a different key of its output, which requires a switch."""
    return changed(manifest, sink=changed(manifest.sink, options={"key": key}))


@pytest.mark.parametrize(
    ("old", "new", "switch", "line"),
    [
        (STATEFUL, of_options(STATEFUL, "k,s"), Switch.POSSIBLE, "SWITCH: the change does not fit this checkpoint, so"),
        (
            of_function(STATEFUL),
            of_function(with_operator(STATEFUL, values=(StateColumn(meaning="max(source 0.x)", type="long"),))),
            Switch.WITHOUT_STATE,
            "SWITCH, only with accept_state_loss: the change does not fit this checkpoint, so a deploy is refused.",
        ),
        (
            STATEFUL,
            of_function(STATEFUL),
            Switch.IMPOSSIBLE,
            "SWITCH, not possible: the change does not fit this checkpoint, and no new checkpoint version could replace"
            " it, so a deploy is refused. Revert the change",
        ),
        (
            STATEFUL,
            changed(of_options(STATEFUL, "k,s"), trigger="availableNow"),
            Switch.IMPOSSIBLE,
            "SWITCH, not possible:",
        ),
    ],
)
def test_the_first_line_says_whether_a_switch_is_possible(
    old: Manifest, new: Manifest, switch: Switch, line: str
) -> None:
    """The report's first line states whether the switch is possible, possible only with accept_state_loss, or
    impossible.
    """
    found = assess({"q": old}, {"q": new})
    assert found.queries["q"].switch is switch
    text = render_text(found)
    assert text.startswith(line)
    assert ("query q: SWITCH\n" in text) is (switch is Switch.POSSIBLE)


def test_the_hint_for_an_output_that_cannot_be_rebuilt_names_the_alternatives() -> None:
    """The hint for an output that cannot be rebuilt states that the deploy is refused, and recommends to revert the
    change or to run a new query.
    """
    hint = findings_of(STATEFUL, of_function(STATEFUL))["sink-kind-changed"].hint
    assert hint.startswith("no switch is possible for this change, so the deploy is refused: a new checkpoint version")
    assert "Revert the change, or run it as a new query with its own output" in hint


def test_a_query_that_ends_before_a_cutover_recommends_no_rebuild() -> None:
    """For an availableNow query the hint recommends no rebuild, because the query terminates before a cutover, and
    states that an interval trigger makes it possible.
    """
    values = (StateColumn(meaning="max(source 0.x)", type="long"),)
    new = changed(with_operator(STATEFUL, values=values), trigger="availableNow")
    hint = findings_of(STATEFUL, new)["aggregate-function-changed"].hint
    assert hint.startswith("revert the change; or switch with accept_state_loss")
    assert hint.endswith(
        "because an availableNow query ends before it could take over. If the candidate has an interval trigger "
        "instead, this switch is possible"
    )


def test_every_finding_of_a_query_names_the_same_switch() -> None:
    """All breaking findings of a query recommend the same switch, the strictest that any of them requires."""
    old = changed(STATELESS, confs={**STATELESS.confs, "spark.sql.streaming.queryEvolution.enableSourceEvolution": "a"})
    new = of_options(changed(old, confs={**old.confs, **dict.fromkeys(old.confs, "b")}), "k,s")
    hints = {each.hint for each in findings_of(old, new).values() if each.severity is Severity.BREAKING}
    assert len(hints) == 1
    assert hints.pop().startswith("switch: a new checkpoint version reads the input again")


def test_a_switch_without_state_does_not_promise_that_evicted_groups_return() -> None:
    """The hint of a switch without state for a longer watermark states that late rows have the same effect after the
    switch.
    """
    later = msgspec.structs.replace(TEN_MINUTES, delay_ms=35 * MINUTE_MS)
    old, new = (of_function(watermarked(AGGREGATE, delay)) for delay in (TEN_MINUTES, later))
    windowed = msgspec.structs.replace(AGGREGATE, key_columns=(StateColumn(meaning="source 0.ts", type="timestamp"),))
    old, new = (changed(each, operators=(windowed,)) for each in (old, new))
    hint = findings_of(old, new)["watermark-delay-increased"].hint
    assert hint.endswith("late rows have the same effect after it")


def parsed(text: str, **types: str) -> str:
    """Return an expression over JSON text that is parsed with these fields; ``{}`` in ``text`` stands for the
    parser.
    """
    fields = [{"metadata": {}, "name": name, "nullable": True, "type": kind} for name, kind in types.items()]
    schema = json.dumps({"fields": fields, "type": "struct"}, separators=(",", ":"))
    return text.replace("{}", f"fromjson(source 0.value, in session, schema={schema}, options=m[])")


@pytest.mark.parametrize(
    ("text", "changed_to", "shown"),
    [
        (
            "max({})",
            {},
            "`max(from_json(value))`, which is read with another schema: field qty: `integer` → `long`",
        ),
        (
            "sum({}.qty:integer)",
            {},
            "`sum(qty)`, which is read with another schema: field qty: `integer` → `long`",
        ),
        (
            "max({})",
            {"qty": "integer", "more": "date"},
            "`max(from_json(value))`, which is read with another schema: field more added: `date`",
        ),
    ],
)
def test_only_the_differing_field_of_a_parser_schema_is_shown(
    text: str, changed_to: dict[str, str], shown: str
) -> None:
    """If only a parser's schema differs, the evidence shows the changed or added field. Negative control: a difference
    outside the schema is shown itself.
    """
    others = {"id": "string", "fee": "double", "placed": "timestamp", "country": "string"}
    before = parsed(text, **others, qty="integer")
    after = parsed(text.replace("integer", "long"), **others, **(changed_to or {"qty": "long"}))
    assert expression_change(before, after) == shown
    # Negative control: a difference outside of the schema is shown itself.
    assert "schema" not in expression_change(parsed("max({}.qty)", qty="integer"), parsed("max({}.fee)", qty="long"))


def test_a_column_that_may_be_null_now_has_the_cause() -> None:
    """The evidence of a column that became nullable names the cause: the join type, a removed filter or the columns of
    a source.
    """
    strict = StateColumn(meaning="source 0.ts", type="timestamp not null")
    loose = msgspec.structs.replace(strict, type="timestamp")
    check = "left: isnotnull(source 0.ts)"
    old = with_state(JOIN, values=(strict, JOIN.values[1]), rows=(check,))
    outer = with_operator(old, values=(loose, JOIN.values[1]), rows=(), detail={**JOIN.detail, "type": "FULL OUTER"})
    kinds = "type of `ts`: `timestamp not null` → `timestamp`"
    assert findings_of(old, outer)["join-column-became-nullable"].evidence == (
        f"{kinds}, because of the join type `INNER` → `FULL OUTER`"
    )
    without = with_operator(old, values=(loose, JOIN.values[1]), rows=())
    assert findings_of(old, without)["join-column-became-nullable"].evidence == (
        f"{kinds}, because rows with a null there are no longer removed: filter removed: left side of the join: `ts is "
        "not null`"
    )
    key = [msgspec.structs.replace(AGGREGATE.key_columns[0], type=kind) for kind in ("string not null", "string")]
    grouped = with_state(AGGREGATE, key_columns=(key[0],))
    found = findings_of(grouped, with_source(with_operator(grouped, key_columns=(key[1],)), schema="k string\nx int"))
    assert found["grouping-key-became-nullable"].evidence.endswith("because of the changed columns of a source")


def test_a_setting_that_puts_rows_at_risk_is_not_called_harmless() -> None:
    """A setting or a Kafka option that puts rows at risk has the same effect and hint as the finding about rows at
    risk; switching it back is described as tuning.
    """
    key = "spark.sql.streaming.stateStore.stateSchemaCheck"
    old, new = (changed(STATEFUL, confs={**STATEFUL.confs, key: value}) for value in ("true", "false"))
    (risk,) = row_risks(new, {key: "false"})
    found = findings_of(old, new, risk)
    assert found["tuning-changed"].effect == found["rows-at-risk"].effect
    assert found["tuning-changed"].hint == found["rows-at-risk"].hint
    assert findings_of(new, old)["tuning-changed"].effect.startswith("batches would run faster")
    kafka = with_source(STATEFUL, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
    risky = with_source(kafka, options={"failondataloss": "false"})
    assert "skipped without an error" in findings_of(kafka, risky)["source-upkeep-changed"].effect


def test_every_changed_line_of_a_plan_is_shown_once() -> None:
    """Every changed line of a plan is shown, and a line that occurs twice is shown once."""
    lines = ["Project [id, x]", "Filter (x > 3)", "Project [id, x]"]
    others = ["Project [id, x, y]", "Filter (x > 4)", "Project [id, x, y]"]
    assert lines_change(lines, others) == "`select [id, x]` → `select [id, x, y]`; `where (x > 3)` → `where (x > 4)`"


def test_several_columns_are_named_in_the_plural() -> None:
    """A finding about several columns is worded in the plural, with each column quoted separately."""
    columns = [StateColumn(meaning=AGGREGATE.values[0].meaning, type="bigint", name=name) for name in ("f1", "c5")]
    old = changed(STATEFUL, columns=tuple(columns))
    new = with_operator(old, values=(StateColumn(meaning="max(source 0.x)", type="long"),))
    new = changed(new, columns=tuple(msgspec.structs.replace(each, meaning="max(source 0.x)") for each in columns))
    found = findings_of(old, new)["aggregate-function-changed"]
    assert found.where == "aggregation, columns f1 and c5"
    assert found.effect.endswith("`f1` and `c5` would be wrong")
    more = with_source(STATELESS, schema=f"{STATELESS.sources[0].schema}\na int\nb int")
    assert findings_of(STATELESS, more)["source-columns-added"].evidence == "columns added: `a`, `b`"


def test_the_cause_of_a_failure_is_named_once() -> None:
    """The evidence of a failed rehearsal names its cause once."""
    refused = rehearsal_failed("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "seen", 1, again=True)
    new = with_operator(STATEFUL, values=(*AGGREGATE.values, StateColumn(meaning="count(source 0.x)", type="long")))
    evidence = findings_of(STATEFUL, new, refused)["refused-by-spark"].evidence
    assert evidence.startswith("aggregation: aggregate added: `count(x)` (batch 1 succeeded")


def test_the_effect_of_a_fixed_partition_list_mentions_unread_later_partitions() -> None:
    """Subscribing to a fixed list of partitions has the effect that later partitions are not read; a pattern only
    continues every partition at its offset.
    """
    kafka = with_source(STATEFUL, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
    fixed = with_source(kafka, location='assign {"orders": [0]}@a:9092', catches_up=True)
    found = findings_of(kafka, fixed)["topics-named-otherwise"]
    assert "a partition or topic that is added later would not be read" in found.effect
    pattern = with_source(kafka, location="subscribepattern ord.*@a:9092", catches_up=True)
    assert findings_of(kafka, pattern)["topics-named-otherwise"].effect == (
        "every partition read so far would continue at its offset"
    )


def test_every_request_for_an_approval_says_when_to_approve() -> None:
    """Each of these opaque findings states in its hint when to approve it."""
    unknown = with_state(msgspec.structs.replace(AGGREGATE, kind="unknown Novelty"))
    jars = "spark.jars"
    cases = [
        (unknown, unknown, "unknown-operator", "Approve if nothing changed in or below this operator"),
        (STATEFUL, changed(STATEFUL, spark_version="4.3.0"), "spark-version-not-measured", "Approve if you have tried"),
        (STATEFUL, changed(STATEFUL, confs={**STATEFUL.confs, jars: "a.jar"}), "added-code-changed", "Approve if the"),
        (
            changed(STATELESS, confs={**STATELESS.confs, "spark.sql.ansi.enabled": "false"}),
            changed(STATELESS, confs={**STATELESS.confs, "spark.sql.ansi.enabled": "true"}),
            "ansi-mode-changed",
            "Approve if such rows do not occur",
        ),
    ]
    for old, new, rule, told in cases:
        assert told in findings_of(old, new)[rule].hint


def test_a_longer_watermark_without_evictions_has_consistent_effect_and_hint() -> None:
    """For a longer watermark over state without evictions, the effect states when more late rows are accepted, and the
    hint why no action is needed.
    """
    later = msgspec.structs.replace(TEN_MINUTES, delay_ms=35 * MINUTE_MS)
    kept = msgspec.structs.replace(
        AGGREGATE, key_columns=(StateColumn(meaning="source 0.ts", type="timestamp"),), may_have_evicted=False
    )
    found = findings_of(watermarked(kept, TEN_MINUTES), watermarked(kept, later))["watermark-delay-increased"]
    assert found.effect.startswith("as soon as the watermark moves on, rows up to the longer delay would be accepted")
    assert found.hint == "no action is needed: no group has been evicted so far, so no late row can restart one"


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        ("5 seconds", "1 second", "batches would start at other times"),
        ("5 seconds", "availableNow", "the query would read all available input and then end"),
        ("availableNow", "5 seconds", "the query would keep running and read new input at this interval"),
    ],
)
def test_a_change_to_available_now_states_that_the_query_terminates(before: str, after: str, effect: str) -> None:
    """A change to or from ``availableNow`` states that the query terminates or keeps running; a changed interval states
    other batch times.
    """
    old, new = (changed(STATEFUL, trigger=trigger) for trigger in (before, after))
    assert findings_of(old, new)["trigger-changed"].effect.startswith(effect)


@pytest.mark.parametrize(
    ("trigger", "fits", "hint"),
    [
        ("5 seconds", True, "no action is needed if this is intended; to recompute the rows already written, deploy"),
        ("5 seconds", False, "no action is needed for this change alone: the new checkpoint version computes all rows"),
        ("availableNow", True, "no action is needed if this is intended: a deploy cannot recompute the rows already"),
        ("availableNow", False, "no action is needed for this change alone if this is intended: a deploy does not"),
    ],
)
def test_a_redefined_column_recommends_a_rebuild_only_if_one_is_possible(trigger: str, fits: bool, hint: str) -> None:
    """The hint about a redefined column recommends a rebuild only if the trigger and the other findings make one
    possible.
    """
    columns = (STATEFUL.columns[0], msgspec.structs.replace(STATEFUL.columns[1], meaning="add(sum(source 0.x), 1)"))
    new = changed(STATEFUL, columns=columns, plan=f"{STATEFUL.plan}\nother", trigger=trigger)
    found = findings_of(STATEFUL, new if fits else changed(new, output_schema=f"{new.output_schema}\nmore int"))
    assert found["output-column-redefined"].hint.startswith(hint)


def test_a_limit_is_shown_as_a_number() -> None:
    """A changed limit is shown as two numbers without their type."""
    limits = [
        with_state(msgspec.structs.replace(AGGREGATE, kind="limit", expressions=(f"{count} int not null",)))
        for count in (3, 6)
    ]
    assert findings_of(*limits)["limit-changed"].evidence == "limit: `3` → `6`"


def test_only_effects_about_renamed_things_begin_with_a_condition() -> None:
    """Only sentences about renamed things begin with a condition, so that the added condition of a failed rehearsal is
    the only one.
    """
    sentences = [text for table in (NOTES, OPAQUE, BREAKING) for rule, text in table.items() if "renamed" not in rule]
    assert [text for text in sentences if text.startswith("if ")] == []


@pytest.mark.parametrize("shape", ["metadata-missing", "last-commit-missing", "checksum-mismatch", "commits-behind"])
def test_a_lost_file_of_a_checkpoint_names_the_command_that_lists_what_is_possible(shape: str) -> None:
    """The hint for a lost checkpoint file refers to ``streamkeeper recover`` for the case that there is no copy."""
    (finding,) = damage_findings([damage(shape, "commits", "seen")])
    assert finding.hint.endswith("If you have no copy, streamkeeper recover lists what each option loses or duplicates")


def test_a_changed_sink_function_says_when_a_batch_is_repeated_and_what_to_do() -> None:
    """The effect of a changed sink function states that only a driver killed during a batch leads to a repeated one,
    and the hint what to do if the function does not tolerate that.
    """
    old, new = (
        changed(of_function(STATEFUL, digest), sink_routing={f"{SINK_FUNCTION}function": "same"}) for digest in "ab"
    )
    found = findings_of(old, new)["sink-function-changed"]
    assert "a deploy repeats no batch; only if the old driver is killed during a batch, the new code" in found.effect
    assert found.hint.startswith("no action is needed if the function tolerates a repeated batch; otherwise let it")


def test_a_note_refers_to_the_finding_that_blocks_the_same_change_of_a_column() -> None:
    """A note about a changed column refers to the stricter finding about the same column. Negative control: not to a
    finding about a different column.
    """
    old = changed(of_function(STATEFUL), sink_columns=("s",))
    columns = (old.columns[0], msgspec.structs.replace(old.columns[1], meaning="add(sum(source 0.x), 1:long)"))
    new = changed(old, columns=columns, plan=f"{old.plan}\nother")
    hint = findings_of(old, new)["output-column-redefined"].hint
    assert hint == "follow the hint of sink-column-redefined, which reports the change of s"
    lines = [
        changed(old, plan=f"Project [{text} AS s]", columns=each.columns) for text, each in (("x", old), ("y", new))
    ]
    lines = [changed(each, operators=(), output_mode="append") for each in lines]
    assert findings_of(*lines)["stateless-change"].hint == hint
    schema = f"{STATEFUL.output_schema}\no int"
    more = changed(STATEFUL, plan=f"{STATEFUL.plan}\nProject [x AS o]", output_schema=schema)
    assert findings_of(STATEFUL, more)["above-state-changed"].hint == (
        "follow the hint of output-column-added, which reports the change of o"
    )
    # Negative control: a finding about another column.
    others = findings_of(*(changed(each, sink_columns=("k",)) for each in (old, new)))
    assert "follow the hint" not in others["output-column-redefined"].hint


@pytest.mark.parametrize(
    ("before", "after", "mode", "lost"),
    [
        ("aggregate", "deduplicate", "update", "rows that the query has read before are written if they come again"),
        (
            "aggregate",
            "deduplicate",
            "append",
            "rows that the query has read before are written if they come again, results that are not written yet are "
            "lost",
        ),
        ("deduplicate", "aggregate", "append", "every group starts without earlier rows"),
        ("deduplicate", "deduplicate-within-watermark", "append", "rows already seen are written again if they come"),
        ("deduplicate", "", "append", "the keys of rows already seen are given up, so that these rows are"),
        ("aggregate", "", "update", "the groups are given up, and their last results stay in the output"),
        ("limit", "", "append", "the row count is given up"),
        ("join", "", "append", "rows waiting for a match are lost"),
    ],
)
def test_the_cost_of_a_switch_names_what_the_candidate_operator_starts_without(
    before: str, after: str, mode: str, lost: str
) -> None:
    """The cost of a switch to a different operator names what the candidate's operator starts without, or what is lost
    if it keeps no state.
    """
    old, new = (
        changed(
            of_function(STATEFUL),
            output_mode=mode,
            operators=(msgspec.structs.replace(AGGREGATE, kind=kind),) if kind else (),
        )
        for kind in (before, after)
    )
    (finding,) = (each for each in findings_of(old, new).values() if each.rule.startswith("stateful-operator-"))
    assert f"with empty state: {lost}" in finding.hint


def test_added_and_removed_functions_are_not_worded_as_changed_code() -> None:
    """The effect of an added or removed function states that state computed with it or without it is continued, also
    beside a failed rehearsal; changed code has its own wording.
    """
    old = changed(STATEFUL, functions={f"{BELOW_STATE}0 step": "a"})
    new = changed(STATEFUL, functions={})
    found = findings_of(old, new)["code-in-state-changed"]
    assert found.effect.startswith("state that was computed with this function would be continued without it; no check")
    assert "computed with this function and values computed without it" in found.hint
    assert findings_of(new, old)["code-in-state-changed"].effect.startswith("state that was computed without")
    refused = rehearsal_failed("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "seen", 1, again=True)
    assert findings_of(old, new, refused)["code-in-state-changed"].effect == (
        "if the query did not fail, state that was computed with this function would be continued without it, and "
        "results might become wrong"
    )
    other = changed(STATEFUL, functions={f"{BELOW_STATE}0 step": "b"})
    assert findings_of(old, other)["code-in-state-changed"].effect.startswith("the changed code would continue")


def test_the_hint_for_changed_table_columns_names_a_possible_interval_trigger() -> None:
    """The hint for changed columns of a table names the trigger as the reason if an interval trigger makes the switch
    possible, and states that changing the table by hand does not help.
    """
    new = changed(STATEFUL, output_schema=f"{STATEFUL.output_schema}\nmore int", trigger="availableNow")
    hint = findings_of(STATEFUL, new)["output-column-added"].hint
    assert hint.startswith("no switch is possible with the availableNow trigger, so the deploy is refused: ")
    assert "ends before it could take over. If the candidate has an interval trigger instead, the deploy can" in hint
    assert "Otherwise revert the change, or run it as a new query" in hint
    assert "Changing the table by hand does not help: the deploy is refused all the same, and the deployed" in hint
    # It is true that the interval makes the switch possible, unless another reason prevents it.
    assert findings_of(STATEFUL, changed(new, trigger="5 seconds"))["output-column-added"].hint.startswith("switch: ")
    cleaned = with_source(new, options={**new.sources[0].options, "cleansource": "delete"})
    assert "interval trigger" not in findings_of(STATEFUL, cleaned)["output-column-added"].hint


def test_the_hint_for_changed_files_names_the_new_directory_and_read_serving() -> None:
    """The hint of a switch that changes files names the new directory and ``read_serving``, which reads both. Negative
    control: a change of state alone does not mention a directory.
    """
    files = SinkDescription(kind="file", output="/out", options={"format": "orc"})
    old = changed(STATEFUL, sink=files, trigger="availableNow", output_mode="append")
    new = changed(old, sink=changed(files, options={"format": "parquet"}))
    where = "writes to a new directory of the output, which read_serving reads together with the old one"
    assert f"its earlier rows. The new version {where}" in findings_of(old, new)["sink-option-changed"].hint
    more = changed(old, output_schema=f"{old.output_schema}\nmore int")
    assert where in findings_of(old, more)["output-column-added"].hint
    stateless = [changed(STATELESS, sink=each.sink) for each in (old, new)]
    assert where in findings_of(*stateless)["sink-option-changed"].hint
    # Negative control: a change of the state alone.
    state = with_operator(old, values=(StateColumn(meaning="max(source 0.x)", type="long"),))
    assert "directory" not in findings_of(old, state)["aggregate-function-changed"].hint


def test_a_changed_plan_line_is_placed_relative_to_an_added_one() -> None:
    """A changed line of a plan beside an added one is shown as below or above it. Negative control: not in a plan with
    branches.
    """
    made = "Generate explode(array(x#1, y#2)), [1, 2], false, [x#5]"
    reads = "   +- StreamingRelation FileSource, [k#0]\nstructure {}"
    old = changed(STATELESS, plan=f"Project [k#0, x#1]\n{reads.format(1)}")
    new = changed(STATELESS, plan=f"{made}\n+- Project [k#0, x#1, y#2]\n{reads.format(2)}")
    shown = "`select [k, x]` → `select [k, x, y]`"
    assert findings_of(old, new)["stateless-change"].evidence == (
        f"added: `explode(array(x, y)) as x`; below it: {shown}"
    )
    above = changed(new, plan=f"Project [k#0, x#1, y#2]\n+- {made}\n{reads.format(2)}")
    assert findings_of(old, above)["stateless-change"].evidence.endswith(f"; above it: {shown}")
    # Negative control: in a plan with branches, a later line may belong to another branch.
    union = changed(new, plan=f"Union\n:- {made}\n+- Project [k#0, x#1, y#2]\n{reads.format(2)}")
    assert "below" not in findings_of(changed(old, plan=f"Union\n:- {old.plan}"), union)["stateless-change"].evidence


def test_a_filter_added_after_a_long_table_description_is_shown() -> None:
    """A filter that is added after a long description of a table is shown, beside a changed join."""
    side = f"right: {_TABLE % 'string'}".replace("/in/", "/in/a/long/way/to/the/static/tables/of/this/job/")
    checks = "where isnotnull(static 0.fee) and isnotnull(static 0.k) and lessthan(2:integer, static 0.fee)"
    joins = [f"join {kind} on equalto(source 0.k, static 0.k)" for kind in ("Inner", "LeftOuter")]
    shown = expressions_change([side, joins[0]], [f"{side}; {checks}", joins[1]])
    assert "right side of the join: `…; where fee is not null and k is not null and fee > 2`, `left outer join" in shown


def test_two_columns_of_one_aggregate_are_quoted_apart() -> None:
    """Two columns of one aggregate are quoted separately in the evidence."""
    sums = [StateColumn(meaning=f"sum(source 0.{name})", type="long") for name in ("x", "y")]
    columns = tuple(
        msgspec.structs.replace(sums[number], name=name) for name, number in (("f1", 0), ("f2", 0), ("f3", 1))
    )
    old = changed(with_state(AGGREGATE, values=tuple(sums)), columns=columns)
    found = findings_of(old, with_operator(old, values=tuple(reversed(sums))))["aggregates-reordered"]
    assert found.evidence.endswith(": `f1` and `f2`, `f3` → `f3`, `f1` and `f2`")
