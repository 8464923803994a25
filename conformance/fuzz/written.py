"""Jobs of the seeds from FIRST on: their output is identified by computed ids, and their code is laid out in packages.
Pure.

Lower seeds draw the same jobs as ever, so that what was measured of them stays valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from conformance.fuzz.drawing import Drawing, draw_folds, draw_step
from conformance.fuzz.identified import EXPRESSIONS, LIMITS, PLACES, Identified, identified_edits
from conformance.fuzz.label import Edit, Label
from conformance.fuzz.layouts import CHANGING_VARIANTS, REWRITING_VARIANTS, VARIANTS
from conformance.fuzz.outputs import NUMBERS
from conformance.fuzz.pipeline import Pipeline, reaches
from conformance.fuzz.rows import FORMS
from conformance.fuzz.stage_edits import stage_edits, stages_from
from conformance.fuzz.stages import STATEFUL, Code, Explode, Grouped, Select, Watermark, Where, With, reads_of

FIRST = 100
"""The first seed that draws such jobs."""

_SIMPLE = NUMBERS | {"string", "ts"}
_STEPS = ("a * 10 + factor - b", "a * factor + b", "a - b * factor")
_MOVING = ("code-constant", "code-step")
_OF_CODE = ("code-constant", "code-step", "code-documented", "code-typed")


def draws_written(seed: int) -> bool:
    """Return whether a seed draws jobs of this kind."""
    return seed >= FIRST


def draw_written(seed: str) -> Pipeline:
    """Return the pipeline of a seed."""
    rng = Random(f"written {seed}")
    drawing = Drawing(rng)
    drawing.pipeline = Pipeline(rng.choice(FORMS), (), "append")
    draw_step(drawing, lookups=True)
    _draw_code(drawing)
    if rng.random() < 0.4:
        draw_step(drawing, lookups=False)
    shape = rng.choice(("tumbling", "tumbling", "grouped", "stateless"))
    if shape == "stateless":
        made = [name for name in drawing.columns if name[0] == "c"]
        simple = [name for name in made if drawing.columns[name] in _SIMPLE]
        drawing.add(Select, tuple(dict.fromkeys(("id", "g", "x", "ts", *simple))))
    else:
        _draw_totals(drawing, windowed=shape == "tumbling")
    return replace(drawing.pipeline, output=_draw_output(rng, drawing.pipeline, shape))


def _draw_code(drawing: Drawing) -> None:
    rng = drawing.rng
    name = f"c{len(drawing.pipeline.stages) + 1}"
    form = rng.choice(tuple(VARIANTS))
    one, other = drawing.pick("int", count=2)
    drawing.add(Code, name, (one, other), form, rng.choice((2, 3, 7)), rng.choice(_STEPS))


def _draw_totals(drawing: Drawing, *, windowed: bool) -> None:
    rng = drawing.rng
    if windowed:
        drawing.add(Watermark, rng.choice((20, 30)))
    simple = {name: kind for name, kind in drawing.columns.items() if kind in ("int", "double")}
    code = [each.name for each in drawing.pipeline.stages if isinstance(each, Code)]
    folds = draw_folds(rng, {name: simple[name] for name in (*code, "x", "d")}, ordered=False, count=2)
    drawing.add(Grouped, ("g",), folds, (rng.choice((10, 15, 20)),) if windowed else ())
    mode = rng.choice(("append", "update")) if windowed else "update"
    drawing.pipeline = replace(drawing.pipeline, mode=mode)


def _draw_output(rng: Random, pipeline: Pipeline, shape: str) -> Identified:
    sinks = {"stateless": ("function", "files"), "grouped": ("table", "function"), "tumbling": ("table", "function")}
    sink = rng.choice(sinks[shape])
    kind = "ts" if shape == "tumbling" and rng.random() < 0.6 else "string"
    source = {"ts": "begin", "string": "g"}[kind]
    more = tuple(each for each in pipeline.key if each != source) if sink == "table" else ()
    columns = pipeline.columns()
    numbers = [name for name, type in columns.items() if type in NUMBERS]
    route = rng.choice(numbers) if sink == "function" and rng.random() < 0.6 else ""
    at = rng.choice(PLACES) if sink == "function" else "query"
    made = rng.choice(tuple(EXPRESSIONS[kind]))
    return Identified(sink, source, kind, made, at=at, more=more, route=route, limit=rng.choice(LIMITS[:3]))


def written_edits(pipeline: Pipeline) -> Iterator[Edit]:
    """Yield every edit of the output and of the code of such a pipeline."""
    output = pipeline.output
    assert isinstance(output, Identified)
    found = [
        Edit(name, Label(label), replace(pipeline, output=after), "output", opaque)
        for name, label, after, opaque in identified_edits(output, pipeline.given_out())
        if after.sink != "files" or pipeline.mode == "append"
    ]
    reach = reaches(pipeline)
    for stage in pipeline.stages:
        if isinstance(stage, Grouped) and stage.window:
            found.append(Edit("window-edge", Label.CHANGING, pipeline.put(replace(stage, edge="end")), stage.uid))
        if isinstance(stage, Code):
            used = _use_above_state(pipeline, stage)
            found += _code_edits(pipeline, stage)
            found += [
                Edit(
                    name,
                    _stricter(label, used) if name in _MOVING else label,
                    pipeline.put(other),
                    stage.uid,
                    opaque or (used is not Label.EQUIVALENT and name != "code-documented"),
                )
                for name, label, other, opaque in stage_edits(pipeline, stage, reach[stage.uid])
                if name in _OF_CODE
            ]
    yield from (each for each in found if each.after != pipeline and each.after.is_whole())


def _code_edits(pipeline: Pipeline, stage: Code) -> Iterator[Edit]:
    """Yield variants of the code; a changed value matters if state, an id or a route is computed from it."""
    reach = reaches(pipeline)[stage.uid]
    label = Label.FROM_NOW_ON if stage.name in reach.rows else Label.EQUIVALENT
    label = Label.CHANGING if stage.name in reach.values else _stricter(label, _use_above_state(pipeline, stage))
    for variant in VARIANTS.get(stage.form, ()):
        changing = variant in CHANGING_VARIANTS
        opaque = label is not Label.EQUIVALENT and variant in (*CHANGING_VARIANTS, *REWRITING_VARIANTS)
        yield Edit(
            variant,
            label if changing else Label.EQUIVALENT,
            pipeline.put(replace(stage, variant=(variant,))),
            stage.uid,
            opaque,
        )


def _use_above_state(pipeline: Pipeline, stage: Code) -> Label:
    """Return what a different value of the column does to rows that are written without any state: it moves them,
    filters them, or neither.
    """
    output = pipeline.output
    assert isinstance(output, Identified)
    if any(isinstance(each, STATEFUL) for each in pipeline.stages):
        return Label.EQUIVALENT
    names, filtered = {stage.name}, False
    for each in stages_from(pipeline, stage)[1:]:
        if isinstance(each, Where):
            filtered = filtered or not names.isdisjoint(reads_of(each))
        elif isinstance(each, With | Code | Explode) and not names.isdisjoint(reads_of(each)):
            names.add(each.name)
    if not names.isdisjoint({output.source, output.route}):
        return Label.CHANGING
    return Label.FROM_NOW_ON if filtered else Label.EQUIVALENT


def _stricter(one: Label, other: Label) -> Label:
    return min(one, other, key=(Label.CHANGING, Label.FROM_NOW_ON, Label.EQUIVALENT).index)
