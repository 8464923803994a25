"""Tests that evidence is worded as the job's author would write it."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkeeper.compatibility.function_names import Named
from streamkeeper.compatibility.parser_schemas import changed_schema
from streamkeeper.compatibility.plan_changes import SAME_WORDS, lines_change
from streamkeeper.compatibility.shown import (
    ARROW,
    expression,
    expression_change,
    expressions_change,
    parts_change,
    schema_change,
)
from streamkeeper.compatibility.sql_words import duration
from streamkeeper.compatibility.state_keys import window_change
from streamkeeper.compatibility.user_terms import Detail, term_of

OPTIONS = 'options=m[["timestampFormat", "dd/MM/yyyy HH:mm:ss"]], variantAllowDuplicateKeys=False'
ORDER = f"fromjson(source 0.value, in session, {OPTIONS})"
SPLIT = r'getarrayitem(stringsplit(source 0.value, "\\|":string, 5:integer), 1:integer)'
COUNTRIES = '"AT", "BE", "CH", "DE", "DK", "ES", "FR", "IT", "LU", "NL", "PL", "PT"'


def market(countries: str) -> str:
    """Return a key that distinguishes countries."""
    inset = f"inset({ORDER}.country:string, hset=s[{countries}])"
    return f'casewhen("abroad":string, branches=[tuple2({inset}, "europe":string)])'


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            f"sum(multiply({ORDER}.gift:integer, static 0.fee:integer))",
            f"sum(multiply({ORDER}.qty:integer, static 0.fee:integer))",
            "`sum(gift * fee)` → `sum(qty * fee)`",
        ),
        (
            market(COUNTRIES),
            market(f'{COUNTRIES}, "US"'),
            '`case when country in (…) then "europe" else "abroad" end` → '
            '`case when country in (…, "US") then "europe" else "abroad" end` (added: `"US"`)',
        ),
        (
            f"sum({ORDER}.qty:integer)",
            f"sum({ORDER.replace('dd/MM', 'MM/dd')}.qty:integer)",
            '`sum(from_json(value, timestampFormat="dd/MM/yyyy HH:mm:ss").qty)` → '
            '`sum(from_json(value, timestampFormat="MM/dd/yyyy HH:mm:ss").qty)`',
        ),
        (
            f'max(regexpextract({SPLIT}, "/([a-z]+)":string, 1:integer))',
            f'max(regexpextract({SPLIT}, "/([a-z]{{1,3}})":string, 1:integer))',
            r'`max(regexp_extract(split(value, "\\|", 5)[1], "/([a-z]+)", 1))` → '
            r'`max(regexp_extract(split(value, "\\|", 5)[1], "/([a-z]{1,3})", 1))`',
        ),
        (
            "window(source 0.ts, 600000000; e178cb9c)",
            "window(source 0.ts, 300000000; 28525c19)",
            "`window(ts, 10 minutes)` → `window(ts, 5 minutes)`",
        ),
        (
            "sum(source 0.x)",
            "sum(either(source 0.x, source 1.x))",
            "`sum(source 0.x)` → `sum(union(source 0.x, source 1.x))`",
        ),
        ("generate Explode(source 0.tags)", "generate Explode(source 0.marks)", "`explode tags` → `explode marks`"),
        (
            "generate outer Explode(source 0.tags)",
            "generate outer PosExplode(source 0.tags)",
            "`explode outer tags` → `generate outer posexplode(tags)`",
        ),
        (
            "window(source 0.ts; 943bd054)",
            "window(source 0.ts; 0a3bd054)",
            "`session_window(ts)` → `session_window(ts)` (another gap, offset or time column)",
        ),
        (
            "lessthanorequal(source 1.ts, timestampaddinterval(source 0.ts, 60000000:interval minute, in session))",
            "lessthanorequal(source 1.ts, timestampaddinterval(source 0.ts, 300000000:interval minute, in session))",
            "`source 1.ts <= source 0.ts + interval 1 minute` → `source 1.ts <= source 0.ts + interval 5 minutes`",
        ),
        ("lessthan(3:long, source 0.x)", "lessthan(4:long, source 0.x)", "`x > 3` → `x > 4`"),
        (
            "sum(cast(source 0.x, dataType=decimal(10,2)))",
            "sum(cast(source 0.x, dataType=decimal(10,4)))",
            "`sum(cast(x as decimal(10,2)))` → `sum(cast(x as decimal(10,4)))`",
        ),
        (
            f"first({ORDER}.note:string, ignoreNulls=False)",
            f"last({ORDER}.note:string, ignoreNulls=True)",
            "`first(note)` → `last(note, ignoring nulls)`",
        ),
        ("source 0.k", "source 0.k2", "`k` → `k2`"),
        ("count(1:integer)", "count(source 0.k)", "`count(*)` → `count(k)`"),
    ],
)
def test_a_changed_expression_is_shown_as_sql_cut_to_the_difference(before: str, after: str, told: str) -> None:
    """A changed expression is shown with column names and SQL functions and operators, cut to the part that differs."""
    assert expression_change(before, after) == told


def test_changed_rows_made_in_job_code_are_shown_without_digests() -> None:
    """Different rows made in the job's code are shown as other rows, without their digests."""
    rows = "right: LocalRelation(data=r {}, isStreaming=False)"
    told = expression_change(rows.format("f7" * 32), rows.format("55" * 32))
    rows = "rows made in the job's code`"
    assert told == f"right side of the join: `{rows} → right side of the join: `other {rows}"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"f": "a", "g": "b"}, {"f": "a", "g": "c"}, "`g: b` → `g: c`"),
        ({}, {"sink/0 save": "ab" * 32}, "added: `sink/0 save: …`"),
        ({"f": "ab" * 32}, {"f": "cd" * 32}, "`f: …` → `f: …` (defined differently)"),
        (("a", "b"), ("a",), "removed: `b`"),
        (
            [{"upstream": "~Aggregate [k#0]", "may_have_evicted": True, "rows": ["lessthan(3:long, source 0.x)"]}],
            [{"upstream": "~Aggregate [k#0]", "may_have_evicted": False, "rows": ["lessthan(4:long, source 0.x)"]}],
            "`may have evicted: yes, x > 3` → `may have evicted: no, x > 4`",
        ),
        (
            [{"values": [{"meaning": "sum(source 0.x)", "type": "long"}]}],
            [{"values": []}],
            "removed: `sum(x), type: long`",
        ),
    ],
)
def test_only_the_differing_parts_of_two_nested_values_are_shown(before: object, after: object, told: str) -> None:
    """Of two nested values only the differing parts are shown, with their names, and expressions in SQL."""
    assert parts_change(before, after) == told


def test_a_list_of_expressions_is_cut_after_a_few() -> None:
    """Of ten added filters the first three are shown, with the number of the rest."""
    rows = [f"lessthan({number}:long, source 0.x)" for number in range(10)]
    assert expressions_change([], rows) == "added: `x > 0`, `x > 1`, `x > 2` and 7 more"


def test_a_null_check_is_shown_only_without_other_added_conditions() -> None:
    """A check for null is shown only if no other condition was added, because Spark adds one beside each condition."""
    check, written = "left: isnotnull(source 0.x)", "left: lessthan(source 0.x, 5:long)"
    assert expressions_change([], [check, written]) == "added: left side of the join: `x < 5`"
    assert expressions_change([], [check]) == "added: left side of the join: `x is not null`"


def test_a_schema_is_shown_only_where_nothing_else_differs() -> None:
    """A parser's schema is shown only if nothing else on the line differs, and then only its differing field; equal
    lines are reported as such.
    """
    line = "~Project [from_json(StructField(a,StringType,true){}, value, Some(UTC)) AS {}]"
    field = ", StructField(b,ArrayType(StructType(StructField(c,DecimalType(10,2),true)),true),true)"
    assert lines_change([line.format("", "o")], [line.format(field, "p")]).count("string") == 0
    assert lines_change([line.format("", "o")], [line.format(field, "o")]) == (
        "`select [from_json(…) AS o]` → `select [from_json(…, b array<struct<c decimal(10,2)>>, …) AS o]`"
        " (added: `b array<struct<c decimal(10,2)>>`)"
    )
    assert lines_change([line.format("", "o")], [line.format("", "o")]) == SAME_WORDS


def test_a_schema_with_the_same_fields_in_another_order_is_shown_as_an_order() -> None:
    """If a parser's schema lists the same fields in another order, the evidence shows the order, not a change of each
    field. Negative control: a retyped field among moved ones is shown alone.
    """
    types = {"id": "String", "k": "String", "price": "Decimal", "who": "Struct", "x": "Integer"}

    def line(*names: str, **other: str) -> str:
        inner = {"Decimal": "DecimalType(10,2)", "Struct": "StructType(StructField(age,IntegerType,true))"}
        kinds = {name: (types | other)[name] for name in names}
        fields = [f"StructField({name},{inner.get(kind, f'{kind}Type')},true)" for name, kind in kinds.items()]
        return f"~Project [from_json({', '.join(fields)}, value, Some(UTC), false) AS row]"

    old, first = line(*types), line("k", "price", "who", "x", "id")
    assert lines_change([old], [first]) == (
        "order of the parsed fields: `id`, `k`, `price` and 2 more → `k`, `price`, `who` and 2 more (in `select`)"
    )
    swapped = line("k", "id", "price", "who", "x")
    assert lines_change([old], [swapped]) == "order of the parsed fields: `id`, `k` → `k`, `id` (in `select`)"
    retyped = line("k", "price", "who", "x", "id", x="Long")
    assert lines_change([old], [retyped]) == "field x: `integer` → `long` (in `select`)"
    nested = "StructField(a,ArrayType(StructType(StructField(b,LongType,true)),true),true)"
    flat = "StructField(a,StructType(StructField(b,LongType,true)),true)"
    lines = [f"~Project [from_json({fields}, value, Some(UTC), false) AS row]" for fields in (nested, flat)]
    assert "order" not in lines_change(lines[:1], lines[1:])


def test_a_literal_that_resembles_a_schema_is_no_changed_schema() -> None:
    """A literal that contains the text of a schema is another expression, not another schema."""
    assert changed_schema('concat("schema=":string)', 'concat("schema={}":string)') == ""


def test_an_added_long_plan_line_shows_only_its_computed_columns() -> None:
    """An added long line of a plan shows the computed columns and omits those that it only passes on."""
    columns = ", ".join(f"column_{number}" for number in range(12))
    line = f"~Project [{columns}, current_batch_timestamp(0, TimestampType, Some(UTC)) AS written_at]"
    assert lines_change([], [line]) == "added: `select […, current_timestamp() AS written_at]`"
    assert lines_change([], ["~Union false, false"]) == "added: `union`"


def test_a_source_name_is_shown_only_for_ambiguous_columns() -> None:
    """A named source is shown by its name only if columns of that name come from several sources."""
    first, second = (f'source "name="{name}"".k' for name in ("first", "second"))
    assert expression_change(f"upper({first})", f"lower({first})") == "`upper(k)` → `lower(k)`"
    assert expression_change(first, f"either({first}, {second})") == (
        '`source "first".k` → `union(source "first".k, source "second".k)`'
    )


def test_the_schema_of_stored_state_reads_as_sql() -> None:
    """The schema of stored state, which Spark records as JSON, is shown as an SQL type."""
    field = '{{"metadata":{{}},"name":"{}","nullable":true,"type":"long"}}'
    call = 'kept(source 0.k, stateType={{"fields":[{}],"type":"struct"}}, timeout=None)[0]'
    one, other = call.format(field.format("n")), call.format(f"{field.format('n')},{field.format('m')}")
    before, after = expression_change(one, other).split(ARROW)
    assert "stateType=struct<n:long>" in before
    assert "stateType=struct<n:long,m:long>" in after


def test_a_changed_python_evaluation_mode_is_stated_on_both_sides() -> None:
    """If only a Python function's evaluation mode differs, both sides state the mode: through Arrow or row by row."""
    call = "sum(pythonudf(source 0.x, dataType=integer, evalType={}, func=0))"
    assert expression_change(call.format(101), call.format(100)) == (
        "`sum(python_function(x)) run through Arrow` → `sum(python_function(x)) run row by row`"
    )


def test_python_functions_are_shown_by_their_names() -> None:
    """Python functions are shown by their names, and without recorded names as ``python_function``; a changed return
    type is shown for its function.
    """
    inner = "pythonudf(source 0.x, dataType={}, evalType=200, func=1, udfDeterministic=True)"
    outer = f"pythonudf({inner}, dataType=string, evalType=200, func=0, udfDeterministic=True)"
    named = Named({0: "bucket", 1: "to_euro"}, {0: "bucket", 1: "to_euro"})
    assert expression_change(outer.format("double"), outer.format("long"), named=named) == (
        "`bucket(to_euro(x)), where to_euro returns double` → `bucket(to_euro(x)), where to_euro returns long`"
    )
    keys = [inner.format("double"), "source 0.k"]
    assert expressions_change(keys, keys[::-1], named=named) == "`to_euro(x)`, `k` → `k`, `to_euro(x)`"
    assert expressions_change(keys, keys[::-1]) == "`python_function(x)`, `k` → `k`, `python_function(x)`"


def test_groupings_read_as_sql() -> None:
    """A grouping is shown as an SQL list of columns."""
    assert (
        expression('group by (coalesce(static 0.a:string, "b":string), source 0.c)') == 'group by coalesce(a, "b"), c'
    )


def test_expanded_windows_of_a_row_are_shown_as_one_sliding_window() -> None:
    """The windows into which Spark expands each row are shown as one sliding window."""
    each = "each(window(source 0.ts, 300000000, 600000000; 0b), window(source 0.ts, 300000000, 600000000; fc))"
    same = each.replace("0b", "0bd8fcd3").replace("fc)", "fc00b631)")
    assert expression(same) == "window(ts, 10 minutes, 5 minutes)"
    assert expression("each(source 0.a, source 0.b)") == "each(a, b)"


def converted(time: str) -> str:
    """Return a time as it appears in Spark's window expressions."""
    return f"precisetimestampconversion({time}, TimestampType, LongType)"


SESSION = (
    f"~Project [named_struct(start, precisetimestampconversion({converted('ts#4-T600000ms')}, LongType, TimestampType)"
    f", end, precisetimestampconversion({converted('ts#4-T600000ms + {}')}, LongType, TimestampType)) AS window#0]"
)
FIXED = (
    f"~Project [named_struct(start, precisetimestampconversion((({converted('{0}')} - CASE WHEN ((("
    f"{converted('{0}')} - {{1}}) % 600000000) < 0) THEN 1 END) - 0), LongType, TimestampType)) AS window#0]"
)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            SESSION.format("3 minutes"),
            SESSION.format("20 minutes"),
            "`session_window(ts, 3 minutes)` → `session_window(ts, 20 minutes)`",
        ),
        (
            FIXED.format("ts#4", "0"),
            FIXED.format("t2#5", "0"),
            "`window(ts, every 10 minutes)` → `window(t2, every 10 minutes)`",
        ),
        (
            FIXED.format("ts#4", "0"),
            FIXED.format("ts#4", "120000000"),
            "`window(ts, every 10 minutes)` → `window(ts, every 10 minutes, start 2 minutes)`",
        ),
        ("~Project [k#0]", "~Project [k#1]", ""),
    ],
    ids=["gap", "time column", "start", "no window"],
)
def test_changed_window_gaps_offsets_and_time_columns_are_shown(before: str, after: str, told: str) -> None:
    """A changed session gap, offset or time column of a window is read from the plan and shown."""
    assert window_change(before, after) == told


def test_two_columns_of_one_name_keep_their_sources() -> None:
    """Columns of the same name from two sources are shown with their sources; columns with different names are not."""
    assert expression("equalto(source 0.k, source 1.k)") == "source 0.k = source 1.k"
    assert expression("equalto(source 0.id, source 1.paid_id)") == "id = paid_id"


def test_lines_of_a_plan_show_the_expression_that_differs() -> None:
    """A changed line of a plan shows only the expression that differs."""
    now = "current_batch_timestamp(0, TimestampType, Some(UTC))"
    line = f"~Project [order_id, shop, qty AS pieces, {{}} AS units, paid_at, customer, {now} AS at]"
    told = lines_change([line.format("units")], [line.format("(units * 2)")])
    assert told == "`select […, units AS units, …]` → `select […, (units * 2) AS units, …]`"


@pytest.mark.parametrize(
    ("microseconds", "told"),
    [
        (600_000_000, "10 minutes"),
        (3_600_000_000, "1 hour"),
        (5_400_000_000, "1 hour 30 minutes"),
        (-60_000_000, "-1 minute"),
        (1_500_000, "1 second 500 milliseconds"),
        (0, "0 seconds"),
    ],
)
def test_durations_are_shown_in_the_largest_exact_units(microseconds: int, told: str) -> None:
    """A duration in microseconds is shown in the largest units that express it exactly."""
    assert duration(microseconds) == told


WORDS = (
    'sum(|(|)|[|]|, |"|source 0.k|:long|static 1|casewhen(|branches=[|tuple2(|window(source 0.ts, 600000000; 0a0b0c0d)'
    '|inset(|hset=s[|lambda(x0: |.g|and | or |in |cast(|dataType=|scalarsubquery(plan=plan(|<"k">|\\|not(|{|}'
    "|long(0123456789abcdef; source 0.k)|1:interval day|99999999999999999999:date|LogicalRelation(|join Inner on "
)
PARTS = st.lists(st.sampled_from([*WORDS.split("|"), "ab" * 32]), max_size=14).map("".join)


@given(PARTS)
@example("in()")
@example("inset()")
@example("isnull()")
@example("not()")
@example("casewhen()")
@example("cast()")
@example("lambda()")
@example("pythonudf()")
def test_any_text_is_shown_without_digests_or_errors(meaning: str) -> None:
    """Any text, also one that is not an expression, is shown without digests and without an error."""
    for detail in Detail:
        assert not re.search(r"\b[0-9a-f]{32,}\b", str(term_of(meaning, detail)))


@given(PARTS, PARTS)
def test_different_expressions_never_have_the_same_text(before: str, after: str) -> None:
    """Two different expressions never have the same text on both sides."""
    left, right = expression_change(f"f({before})", f"f({after})").rsplit(ARROW, 1)
    assert before == after or left != right


def test_schemas_of_state_read_as_sql_types() -> None:
    """Schemas of state, which consist of types without field names, are shown as SQL types."""
    before, after = '{"struct":[["long",true]]}', '{"struct":[["long",true],[{"struct":[["string",false]]},true]]}'
    assert schema_change(before, after) == "`struct<long>` → `struct<long, struct<string not null>>`"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            ["Generate explode(array(x, y)), [1, 2], false, [x]", "Project [k, x, y]"],
            ["Project [k, x]"],
            "removed: `explode(array(x, y)) as x`; `select [k, x, y]` → `select [k, x]`",
        ),
        ([], ["Generate explode(tags), [0], true, a, [tag]"], "added: `outer explode(tags) as tag`"),
        ([], ["Sort [x ASC NULLS FIRST], false"], "added: `sort within partitions by [x ASC NULLS FIRST]`"),
        (["Project [k, x]"], ["Filter (x > 1)"], "`select [k, x]` → `where (x > 1)`"),
    ],
)
def test_plans_of_different_length_are_compared_node_by_node(before: list[str], after: list[str], told: str) -> None:
    """Plans of different length are compared line by line; generators and sorts are shown as in SQL without Spark's own
    arguments.
    """
    assert lines_change(before, after) == told
