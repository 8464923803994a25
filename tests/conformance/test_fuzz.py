"""Tests of the fuzzer that need no Spark: drawn jobs are complete, labels follow from how an edit is constructed, and
every kind of mistake of the check is graded.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from random import Random

import msgspec
import pyarrow.parquet as pq
import pytest

from conformance.fuzz.control import BLINDED
from conformance.fuzz.drawing import draw_pipeline
from conformance.fuzz.edits import edits_of
from conformance.fuzz.expressions import OPS, Expr, changed, same, text_of
from conformance.fuzz.label import Edit, Label
from conformance.fuzz.outputs import Files, Route, Table
from conformance.fuzz.pairs import EDITS, SAME, draw_base, draw_edits, find_pair
from conformance.fuzz.pipeline import Pipeline, reaches, renamed, render
from conformance.fuzz.rows import FORMS, draw_rows
from conformance.fuzz.stages import STATEFUL, Dedup, Folded, Grouped, Lookup, Meet, Select, Watermark, Where, With
from conformance.fuzz.verdicts import Grade, Line, append_lines, grade, read_lines, render_score
from conformance.matrix.case import Outcome
from conformance.matrix.outcome import judge
from conformance.matrix.record import Truth
from conformance.matrix.runs import Run, UnitRun
from conformance.matrix.score import Answer

X, Y = (Expr("col", "int", value=name) for name in "xy")
SUM = Folded("sum", ("c1",), "f1")
TOTALS = Pipeline(
    "json",
    (With("s1", "c1", Expr("sub", "int", (X, Y))), Grouped("s2", ("k",), (SUM,))),
    "update",
)

COLUMN_EDITS = ("column-added", "column-removed", "reordered")


def line(label: Label, outcome: Outcome, verdict: str, *, opaque: bool = False) -> Line:
    """Return a pair's result line with this label, measured outcome and verdict."""
    truth = Truth(
        id="f1-000-00-e", provider="hdfs", key="k", outcome=outcome, measured=outcome, spark=version("pyspark")
    )
    return Line(
        id="f1-000-00-e",
        seed=1,
        base=0,
        edit="e",
        label=label,
        opaque=opaque,
        provider="hdfs",
        commit="c",
        key="k",
        rehearsed=True,
        truth=truth,
        answer=Answer(verdict=verdict),
    )


def edits(pipeline: Pipeline, name: str) -> list[Edit]:
    """Return the edits of a pipeline that have this name."""
    return [each for each in edits_of(pipeline) if each.name == name]


@pytest.mark.parametrize("base", range(40))
def test_every_drawn_pipeline_and_edit_renders_to_valid_python(base: int) -> None:
    """Every drawn pipeline and every edit of it refers only to existing columns and renders to valid Python."""
    pipeline = draw_pipeline(f"test/{base}")
    assert pipeline.is_whole()
    for job in (render(pipeline), *(render(each.after) for each in edits_of(pipeline))):
        ast.parse(job.render())
        for _, text in job.files:
            ast.parse(text)


def test_a_pair_found_by_its_id_has_the_same_key() -> None:
    """A pair can be found by its id and then has the same key as when it was first drawn; an unknown id raises
    ``LookupError``.
    """
    pairs = [pair for base in range(3) for pair in draw_base(5, base)]
    assert len(pairs) == len({each.id for each in pairs}) == 3 * EDITS
    assert [find_pair(each.id).case.key(each.provider) for each in pairs] == [
        each.case.key(each.provider) for each in pairs
    ]
    with pytest.raises(LookupError):
        find_pair("f5-000-99-nothing")


def test_many_kinds_of_edits_are_drawn() -> None:
    """120 pipelines contain every stateful stage, watermarks, filters and computed columns, and at least 80 kinds of
    edits that cover every label.
    """
    drawn = [draw_pipeline(f"1/{base}") for base in range(120)]
    found = {each.name for pipeline in drawn for each in edits_of(pipeline)}
    labels = {each.label for pipeline in drawn for each in edits_of(pipeline)}
    assert len(found) >= 80
    assert labels == set(Label)
    assert {type(stage) for each in drawn for stage in each.stages} >= {*STATEFUL, Watermark, Where, With}


def test_an_edit_below_state_changes_and_one_above_does_not() -> None:
    """A changed expression is labelled as changing when its column goes into the state, and as equivalent when the
    state does not use it.
    """
    labels = {each.where: each.label for each in edits(TOTALS, "column-operation")}
    assert labels == {"s1": Label.CHANGING}
    unused = TOTALS.put(Grouped("s2", ("k",), (Folded("sum", ("x",), "f1"),)))
    assert {each.label for each in edits(unused, "column-operation")} == {Label.EQUIVALENT}


def test_a_window_in_another_output_mode_changes_what_is_written() -> None:
    """Changing the output mode of a windowed aggregate is labelled as changing, because an open window may never be
    written; for a deduplication, which holds no rows back, it only affects rows from now on.
    """
    sums = (Folded("sum", ("x",), "f1"),)
    windowed = Pipeline("json", (Watermark("s0", 30), Grouped("s1", ("k",), sums, window=(10,))), "append")
    assert {each.label for each in edits(windowed, "output-mode")} == {Label.CHANGING}
    once = Pipeline("json", (Watermark("s0", 30), Dedup("s1", ("k",))), "append")
    assert {each.label for each in edits(once, "output-mode")} == {Label.FROM_NOW_ON}


def test_a_filter_below_an_aggregate_counts_from_now_on() -> None:
    """A changed filter below an aggregate only affects rows from now on, because the meaning of the state stays the
    same; below a join it is labelled as changing.
    """
    kept = Where("s0", Expr("gt", "bool", (X, Y)))
    grouped = TOTALS.insert(kept, "s1")
    assert {each.label for each in edits(grouped, "filter-operation")} == {Label.FROM_NOW_ON}
    joined = Pipeline(
        "json", (kept, Watermark("s1", 30), Meet("s2", "inner", 10, ("x",)), Select("s3", ("id",))), "append"
    )
    assert {each.label for each in edits(joined, "filter-operation")} == {Label.CHANGING}


def test_a_column_that_only_filters_is_followed_to_its_filter() -> None:
    """A column that decides which rows reach the state, without being stored in it, is recorded as reaching the state
    through a filter and not as a value.
    """
    pipeline = TOTALS.insert(With("s0", "c0", X), "s1").insert(
        Where("s9", Expr("gt", "bool", (Expr("col", "int", value="c0"), Y))), "s2"
    )
    reach = reaches(pipeline)["s0"]
    assert "c0" in reach.rows
    assert "c0" not in reach.values


def test_a_join_stores_what_is_read_above_it() -> None:
    """An edit above a join is labelled as changing if it reads a column that the join did not store before; other edits
    of the same expression stay equivalent.
    """
    stages = (Watermark("s1", 30), Meet("s2", "inner", 10, ("x",)), With("s3", "c3", Expr("abs", "int", (X,))))
    joined = Pipeline("json", (*stages, Select("s4", ("id", "c3"))), "append")
    assert {each.label for each in edits(joined, "column-column")} == {Label.CHANGING}
    assert {each.label for each in edits(joined, "column-operation")} == {Label.EQUIVALENT}


def test_a_renamed_column_is_renamed_in_every_later_stage() -> None:
    """Renaming a column renames it in every later stage that reads it."""
    found = renamed(TOTALS, "c1", "c1_new")
    assert found.is_whole()
    assert "c1_new" in render(found).render()


def test_one_expression_renders_as_python_api_calls_and_as_sql() -> None:
    """The same expression, its equivalent spellings and its changed variants can be rendered both as Python API calls
    and as SQL.
    """
    expr = Expr(
        "exists",
        "bool",
        (Expr("col", "ints", value="nums"), Expr("gt", "bool", (Expr("var", "int", value="v"), X))),
        "v",
    )
    assert text_of(expr, "api") == 'F.exists(F.col("nums"), lambda v: (v > F.col("x")))'
    assert text_of(expr, "sql") == "exists(nums, v -> (v > x))"
    assert [text_of(each, "sql") for _, each in same(expr)] == [
        "exists(nums, element -> (element > x))",
        "exists(nums, v -> (x < v))",
    ]
    assert "exists(nums, v -> (v >= x))" in [text_of(each, "sql") for _, each in changed(expr, {"x": "int"})]


def test_the_same_seed_draws_the_same_input_rows() -> None:
    """The same seed draws the same input rows in each form and a different seed draws different ones, with two files
    for each part of the input.
    """
    for form in FORMS:
        data = draw_rows(1, form, two=True, flush=True)
        assert data == draw_rows(1, form, two=True, flush=True)
        assert data != draw_rows(2, form, two=True, flush=True)
        assert (len(data.before), len(data.after), len(data.other_before)) == (2, 2, 2)


@pytest.mark.parametrize(
    ("label", "outcome", "verdict", "opaque", "wanted"),
    [
        (Label.CHANGING, Outcome.WRONG, "RESUME", False, Grade.UNSAFE),
        (Label.CHANGING, Outcome.WRONG, "SWITCH", False, Grade.RIGHT),
        (Label.CHANGING, Outcome.WRONG, "BACKUP", True, Grade.RIGHT),
        (Label.CHANGING, Outcome.CORRECT, "SWITCH", False, Grade.UNSEEN),
        (Label.EQUIVALENT, Outcome.CORRECT, "RESUME", False, Grade.RIGHT),
        (Label.EQUIVALENT, Outcome.CORRECT, "SWITCH", False, Grade.FALSE_ALARM),
        (Label.EQUIVALENT, Outcome.CORRECT, "BACKUP", False, Grade.FALSE_ALARM),
        (Label.EQUIVALENT, Outcome.CORRECT, "BACKUP", True, Grade.ASKED),
        (Label.EQUIVALENT, Outcome.WRONG, "SWITCH", False, Grade.ERROR),
        (Label.FROM_NOW_ON, Outcome.WRONG, "RESUME", False, Grade.BY_RULE),
        (Label.FROM_NOW_ON, Outcome.CORRECT, "RESUME", False, Grade.RIGHT),
        (Label.FROM_NOW_ON, Outcome.WRONG, "SWITCH", False, Grade.FALSE_ALARM),
        (Label.FROM_NOW_ON, Outcome.REFUSED, "RESUME", False, Grade.UNSAFE),
        (Label.CHANGING, Outcome.WRONG, "ERROR", False, Grade.ERROR),
    ],
)
def test_each_mistake_has_its_grade(label: Label, outcome: Outcome, verdict: str, opaque: bool, wanted: Grade) -> None:
    """The grade of a result distinguishes an unsafe verdict, a false alarm, a justified question and an error of the
    grammar.
    """
    assert grade(line(label, outcome, verdict, opaque=opaque)) is wanted


def test_backup_for_rewritten_code_is_accepted_only_for_a_finding_about_code() -> None:
    """For an equivalent rewrite of Python code, ``BACKUP`` is accepted only if the finding is about that code;
    ``BACKUP`` for any other reason is graded as a false alarm.
    """
    asked = line(Label.EQUIVALENT, Outcome.CORRECT, "BACKUP", opaque=True)
    code = Answer(verdict="BACKUP", rules=("code-in-state-changed (opaque)", "tuning-changed (note)"))
    assert grade(msgspec.structs.replace(asked, answer=code)) is Grade.ASKED
    other = Answer(verdict="BACKUP", rules=("not-looked (opaque)",))
    assert grade(msgspec.structs.replace(asked, answer=other)) is Grade.FALSE_ALARM


def test_at_most_two_edits_of_a_kind_are_drawn_per_pipeline() -> None:
    """At most two edits of the same kind are drawn for a pipeline, and every edit changes the pipeline's code or its
    settings.
    """
    for base in range(30):
        pipeline = draw_pipeline(f"cap/{base}")
        found = draw_edits(pipeline, Random(base))
        assert max(Counter(each.name for each in found).values()) <= SAME
        old = render(pipeline)
        assert all(render(each.after) != old or each.after.conf != pipeline.conf for each in found)


def test_rows_are_written_as_parquet_with_their_types(tmp_path: Path) -> None:
    """Rows written as Parquet store nested fields as structs, lists and maps, and hold the same values as the same rows
    in JSON.
    """
    data, as_json = (draw_rows(1, form, two=False, flush=False) for form in ("parquet", "json"))
    data.place(tmp_path, after=False)
    found = pq.read_table(tmp_path / "a" / "a0.parquet")
    kinds = {each.name: str(each.type) for each in found.schema}
    assert (kinds["x"], kinds["ts"], kinds["nums"]) == ("int32", "timestamp[us, tz=UTC]", "list<element: int32>")
    assert kinds["who"].startswith("struct<")
    assert kinds["attrs"].startswith("map<")
    rows = [json.loads(str(each)) for each in as_json.before[0].rows]
    written = [
        {**row, "attrs": dict(row["attrs"]), "ts": f"{row['ts']:%Y-%m-%dT%H:%M:%SZ}"} for row in found.to_pylist()
    ]
    assert written == rows


def test_a_routing_edit_is_labelled_changing_only_if_it_moves_rows() -> None:
    """Edits of a routing function's condition, constant or targets are labelled as changing; rewriting its code without
    moving rows is equivalent.
    """
    routed = replace(TOTALS, output=Route("f1", "over", 2))
    found = {each.name: each for each in edits_of(routed) if each.name.startswith("route-")}
    changing = {name for name, each in found.items() if each.label is Label.CHANGING}
    assert changing == {"route-condition", "route-constant", "route-target", "route-targets-swapped"}
    assert {name for name, each in found.items() if each.label is Label.EQUIVALENT and each.opaque} == {
        "route-guarded",
        "route-inlined",
        "route-tuned",
    }
    assert 'ForeachBatch(routed(params["output"]))' in render(routed).render()


def test_labels_of_column_edits_depend_on_the_kind_of_output() -> None:
    """The labels of column edits depend on the output: an added column fits JSON but neither Parquet nor a table,
    another order fits every output of a stateless pipeline, and a removed column does not fit a table.
    """
    one, other = Label.EQUIVALENT, Label.CHANGING
    plain = replace(TOTALS, stages=TOTALS.stages[:1], mode="append")

    def labels(pipeline: Pipeline, output: Files | Table) -> tuple[Label, ...]:
        return tuple(edits(replace(pipeline, output=output), f"output-{name}")[0].label for name in COLUMN_EDITS)

    assert [labels(plain, each) for each in (Files(), Files("json"))] == [(other, one, one), (one, one, one)]
    # Right above an aggregate the order of the output is that of the state, and a column less is an aggregate less.
    assert [labels(TOTALS, each) for each in (Files("json"), Table())] == [(one, other, other), (other, other, other)]


def test_an_edited_static_table_is_labelled_changing_if_state_uses_its_columns() -> None:
    """Editing the filter or a column type of a static lookup table is labelled as changing if the state uses the
    table's columns, and as equivalent if it does not.
    """
    names = ("lookup-filter-added", "lookup-column-retyped")
    fees = Grouped("s2", ("k",), (Folded("max", ("fee",), "f1"),))
    below = Pipeline("json", (Lookup("s1"), fees), "update")
    above = Pipeline("json", (Lookup("s1"),), "append")
    assert {each.label for name in names for each in edits(below, name)} == {Label.CHANGING}
    assert {each.label for name in names for each in edits(above, name)} == {Label.EQUIVALENT}
    inner = Pipeline("json", (Lookup("s1", how="inner"), fees), "update")
    assert {each.label for each in edits(inner, "lookup-filter-added")} == {Label.FROM_NOW_ON}


def test_equal_earlier_rows_written_to_different_places_are_a_wrong_outcome() -> None:
    """If both jobs wrote the same earlier rows, but to different places, the outcome is wrong; if their earlier rows
    differ, the places are not compared.
    """
    pair = next(draw_base(1, 0)).case

    def run(place: str, row: str = "1") -> Run:
        return Run(columns=("x",), batches={0: [(row,)]}, held=[{"its place": place, "x": row}])

    def outcome(before: Run, head: Run) -> Outcome:
        return judge(pair, before=before, got=Run(columns=("x",)), scratch=UnitRun(head=head, tail=Run())).outcome

    assert outcome(run("main"), run("main")) is Outcome.CORRECT
    assert outcome(run("main"), run("rest")) is Outcome.WRONG
    assert outcome(run("main"), run("rest", "2")) is Outcome.CORRECT


def test_the_score_uses_the_newest_answer_and_the_truth_of_each_pair(tmp_path: Path) -> None:
    """The newest answer about a pair counts, its truth is read from a separate file, and the score names the pair that
    was graded unsafe.
    """
    file = tmp_path / "fuzz.jsonl"
    written = [line(Label.CHANGING, Outcome.WRONG, verdict) for verdict in ("SWITCH", "RESUME")]
    append_lines(file, written)
    assert b"truth" not in file.read_bytes()
    truth = written[0].truth
    assert truth is not None
    found = read_lines(file, {(truth.key, truth.spark): truth})
    assert [grade(each) for each in found.values()] == [Grade.UNSAFE]
    assert "unsafe: f1-000-00-e hdfs" in render_score(found.values())
    assert [grade(each) for each in read_lines(file, {}).values()] == [Grade.ERROR]


def test_a_state_that_differs_is_no_correct_outcome() -> None:
    """Equal output rows with a different state are a wrong outcome; a column of random values is not compared."""
    pair = next(draw_base(1, 0)).case

    def run(state: list[str], chance: str) -> Run:
        return Run(columns=("k", "luck"), batches={2: [("a", chance)]}, state=state)

    def outcome(got: Run, wanted: Run) -> Outcome:
        return judge(pair, before=Run(), got=got, scratch=UnitRun(head=Run(), tail=wanted)).outcome

    assert outcome(run(["1"], "0.1"), run(["1"], "0.2")) is Outcome.CORRECT
    assert outcome(run(["1"], "0.1"), run(["2"], "0.1")) is Outcome.WRONG


def test_every_argument_blinded_by_the_negative_control_can_be_drawn() -> None:
    """The negative control names ten arguments, and each belongs to an operation that the grammar can draw."""
    assert len(BLINDED) == 10
    assert all(place < len(OPS[name].args) for name, place in BLINDED.values())


def test_every_edit_of_deduplication_keys_is_labelled_changing() -> None:
    """A deduplication has four kinds of edits of its keys, and all of them are labelled as changing."""
    pipeline = Pipeline("json", (Dedup("s1", ("k", "g")), Select("s2", ("id", "k"))), "append")
    found = [each for each in edits_of(pipeline) if each.name.startswith("dedup-key")]
    assert {each.label for each in found} == {Label.CHANGING}
    assert len({each.name for each in found}) == 4
