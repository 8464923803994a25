"""Tests of drawn jobs with computed ids and with code in packages: what is drawn, how edits are labelled, and when the
rows in the output are a wrong outcome.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.fuzz.identified import EXPRESSIONS, PLACES, Identified
from conformance.fuzz.label import Edit, Label
from conformance.fuzz.layouts import VARIANTS, layout_files
from conformance.fuzz.pairs import EDITS, draw_base, find_pair
from conformance.fuzz.pipeline import Pipeline, render
from conformance.fuzz.rows import COLUMNS
from conformance.fuzz.stages import Code, Folded, Grouped, Select, Watermark
from conformance.fuzz.written import FIRST, draw_written, written_edits
from conformance.matrix.case import Outcome
from conformance.matrix.outcome import judge
from conformance.matrix.runs import Run, UnitRun

CODE = Code("s1", "c1", ("x", "y"), "wrapped")
TOTALS = Pipeline(
    "json",
    (CODE, Watermark("s2", 20), Grouped("s3", ("g",), (Folded("sum", ("c1",), "f1"),), (10,))),
    "update",
    output=Identified("table", "begin", "ts", "minute", more=("g",)),
)


def edits(pipeline: Pipeline, name: str) -> list[Edit]:
    """Return the edits of a pipeline that have this name."""
    return [each for each in written_edits(pipeline) if each.name == name]


@pytest.mark.parametrize("base", range(12))
def test_every_drawn_job_and_edit_renders_to_valid_python(base: int) -> None:
    """Every drawn job and every edit of it renders to valid Python, and the pipeline refers only to existing
    columns.
    """
    pipeline = draw_written(f"test/{base}")
    assert pipeline.is_whole()
    for job in (render(pipeline), *(render(each.after) for each in written_edits(pipeline))):
        for text in (job.render(), *(text for _, text in job.files)):
            ast.parse(text)


def test_a_pair_with_computed_ids_is_found_by_its_id() -> None:
    """A pair with computed ids is found by its id with the same key, and belongs to the group ``sinks`` whose ids are
    compared.
    """
    pairs = list(draw_base(FIRST + 1, 0))
    assert len(pairs) == EDITS
    assert find_pair(pairs[-1].id).case.key(pairs[-1].provider) == pairs[-1].case.key(pairs[-1].provider)
    assert {each.case.group for each in pairs} == {"sinks"}
    assert {each.case.group for each in draw_base(1, 0)} == {""}


def test_an_id_that_is_computed_otherwise_is_changing_and_another_spelling_is_not() -> None:
    """Changing how an id is computed is labelled as changing in every place that can compute it; another spelling, or
    moving the computation to a different place, is equivalent.
    """
    assert {each.label for each in edits(TOTALS, "id-in-query")} == {Label.CHANGING}
    assert {each.label for each in edits(TOTALS, "id-respelled-in-query")} == {Label.EQUIVALENT}
    [edge] = edits(TOTALS, "window-edge")
    assert 'F.col("window.end").alias("begin")' in render(edge.after).render()
    for at in PLACES:
        function = replace(TOTALS, output=Identified("function", "g", "string", "md5", at=at, route="f1"))
        found = {each.name: each for each in written_edits(function)}
        assert found[f"id-in-{at}"].label is found[f"route-limit-in-{at}"].label is Label.CHANGING
        assert found[f"id-respelled-in-{at}"].opaque is (at != "query")
        assert {found[f"id-moved-to-{other}"].label for other in PLACES if other != at} == {Label.EQUIVALENT}


def test_code_that_moves_rows_without_state_is_changing() -> None:
    """A code change in a stateless pipeline is equivalent while its column is only written, and changing if the column
    decides where a row is written or goes into state.
    """
    stateless = replace(
        TOTALS,
        stages=(CODE, Select("s2", ("id", "g", "c1"))),
        mode="append",
        output=Identified("function", "g", "string", "md5"),
    )
    assert {each.label for each in edits(stateless, "code-constant")} == {Label.EQUIVALENT}
    routed = replace(stateless, output=Identified("function", "g", "string", "md5", route="c1"))
    assert {each.label for each in edits(routed, "code-constant")} == {Label.CHANGING}
    assert {each.label for each in edits(TOTALS, "code-constant")} == {Label.CHANGING}
    [plain], [asked] = (edits(each, "decorator-renamed") for each in (stateless, routed))
    assert (plain.label, asked.label, plain.opaque, asked.opaque) == (*[Label.EQUIVALENT] * 2, False, True)


@pytest.mark.parametrize(("form", "variant"), [(form, each) for form in VARIANTS for each in ("", *VARIANTS[form])])
def test_code_computes_the_same_in_each_layout(
    form: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each package layout of the code computes the same value; only the variants ``decorator-adds`` and
    ``plugin-replaced`` return a different one.
    """
    stage = replace(CODE, form=form, uid=f"{form}{len(variant)}", variant=(variant,) if variant else ())
    for name, text in layout_files(stage):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    try:
        namespace: dict[str, object] = {}
        package = f"shop_{stage.uid}"
        line = (
            f"from {package} import STEPS; step = STEPS['net']" if form == "plugins" else f"from {package} import step"
        )
        if form == "package":
            line = f"from {package}.steps import step"
        exec(line, namespace)
        step = namespace["step"]
        assert callable(step)
        assert step(2, 1) - 22 == (1 if variant in ("decorator-adds", "plugin-replaced") else 0)
    finally:
        for name in set(sys.modules) - before:
            del sys.modules[name]


def test_every_id_expression_has_at_least_two_spellings_of_the_same_column() -> None:
    """Every id expression has at least two spellings, and each spelling reads the column that it is given."""
    for kind, found in EXPRESSIONS.items():
        assert kind in COLUMNS.values()
        assert all(len(each) > 1 and all("{c}" in one for one in each) for each in found.values())


def test_a_row_id_that_a_run_from_scratch_never_produces_is_wrong() -> None:
    """A row with an id that a run from scratch does not produce is not a correct outcome, for a function and for files;
    rows without computed ids are not compared.
    """
    pair = next(draw_base(FIRST + 1, 0)).case

    def outcome(kind: str, name: str, had: str, has: str) -> Outcome:
        def run(*ids: str) -> Run:
            held = [{"its place": "all", name: each} for each in ids]
            return Run(columns=(name,), kind=kind, held=held, batches={at: [(each,)] for at, each in enumerate(ids)})

        before, got = Run(columns=(name,), kind=kind, batches={0: [(had,)]}), run(had, "new")
        return judge(pair, before=before, got=got, scratch=UnitRun(head=before, tail=run(has, "new"))).outcome

    for kind in ("foreach", "file"):
        assert outcome(kind, "out_id", "a", "a") is Outcome.CORRECT
        assert outcome(kind, "out_id", "a", "A") is not Outcome.CORRECT
    assert outcome("foreach", "x", "a", "a") is Outcome.CORRECT
