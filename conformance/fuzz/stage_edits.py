"""Edits of a single stage, each with its label by construction. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from conformance.fuzz.expressions import Columns, changed, same
from conformance.fuzz.label import Label
from conformance.fuzz.pipeline import Pipeline, Reach
from conformance.fuzz.stages import (
    AGGREGATES,
    STATEFUL,
    STYLES,
    Clock,
    Code,
    Dedup,
    Explode,
    Folded,
    Grouped,
    Keep,
    Lookup,
    Meet,
    Select,
    Stage,
    Watermark,
    Where,
    With,
    reads_of,
)

StageEdit: TypeAlias = tuple[str, Label, Stage, bool]
"""A kind of edit, its label, the stage after it, and whether it is Python in or below state."""


def stage_edits(pipeline: Pipeline, stage: Stage, reach: Reach) -> Iterator[StageEdit]:
    """Yield every edit of a single stage."""
    columns = pipeline.columns(stage.uid)
    below = is_below_state(pipeline, stage)
    if isinstance(stage, With | Where):
        label = _label(reach, stage.name) if isinstance(stage, With) else filter_label(pipeline, stage)
        for name, expr in changed(stage.expr, _simple(columns)):
            yield f"{kind_of(stage)}-{name}", label, replace(stage, expr=expr), False
        for name, expr in same(stage.expr):
            yield f"{kind_of(stage)}-{name}", Label.EQUIVALENT, replace(stage, expr=expr), False
    if isinstance(stage, With | Where | Grouped):
        for style in STYLES if not isinstance(stage, Grouped) else ("api", "view"):
            yield f"written-as-{style}", Label.EQUIVALENT, replace(stage, style=style), False
    match stage:
        case Where() if stage.expr.op == "and":
            yield "filter-split", Label.EQUIVALENT, replace(stage, split=not stage.split), False
        case Explode():
            label = Label.CHANGING if below else Label.EQUIVALENT
            yield "explode-outer", label, replace(stage, outer=not stage.outer), False
        case Code():
            yield from _code_edits(stage, columns, _label(reach, stage.name))
        case Lookup():
            yield from _lookup_edits(pipeline, stage, reach, below)
        case Select():
            yield "output-reordered", Label.EQUIVALENT, replace(stage, columns=stage.columns[::-1]), False
            if len(stage.columns) > 2:
                yield "output-column-removed", Label.EQUIVALENT, replace(stage, columns=stage.columns[:-1]), False
        case Clock():
            other = "now" if stage.function == "current_timestamp" else "current_timestamp"
            yield "clock-function", Label.EQUIVALENT, replace(stage, function=other), False
        case Watermark():
            unit = "seconds" if stage.unit == "minutes" else "minutes"
            yield "watermark-respelled", Label.EQUIVALENT, replace(stage, unit=unit), False
            yield "watermark-longer", Label.CHANGING, replace(stage, minutes=stage.minutes + 15), False
            within = any(isinstance(each, Dedup) and each.within for each in pipeline.stages)
            label = Label.CHANGING if within else Label.FROM_NOW_ON
            yield "watermark-shorter", label, replace(stage, minutes=stage.minutes - 10), False
        case Dedup():
            yield from _dedup_edits(stage, columns)
        case Grouped():
            yield from _grouped_edits(stage, columns, at_once=pipeline.mode != "append")
        case Meet():
            yield from _meet_edits(stage, columns)
        case Keep():
            yield from _keep_edits(stage, columns)


def _code_edits(stage: Code, columns: Columns, label: Label) -> Iterator[StageEdit]:
    opaque = label is not Label.EQUIVALENT
    yield "code-constant", label, replace(stage, constant=stage.constant + 1), opaque
    yield "code-step", label, replace(stage, step="a * 10 - factor + b"), opaque
    yield "code-inputs", label, replace(stage, reads=stage.reads[::-1]), opaque
    for other in columns:
        if columns[other] == "int" and other not in stage.reads:
            yield "code-input", label, replace(stage, reads=(stage.reads[0], other)), opaque
    for wording in ("documented", "renamed", "typed"):
        yield f"code-{wording}", Label.EQUIVALENT, replace(stage, wording=wording), opaque and wording != "documented"
    if stage.form in ("plain", "helper"):
        form = "helper" if stage.form == "plain" else "plain"
        yield "code-moved", Label.EQUIVALENT, replace(stage, form=form), opaque


def _lookup_edits(pipeline: Pipeline, stage: Lookup, reach: Reach, below: bool) -> Iterator[StageEdit]:
    label = Label.CHANGING if below else Label.EQUIVALENT
    yield "lookup-broadcast", Label.EQUIVALENT, replace(stage, broadcast=not stage.broadcast), False
    yield "lookup-table", label, replace(stage, table="places_2.csv"), False
    yield "lookup-type", label, replace(stage, how="inner" if stage.how == "left" else "left"), False
    yield "lookup-columns-reordered", Label.EQUIVALENT, replace(stage, take=stage.take[::-1]), False
    if "open" not in stage.take:
        yield "lookup-column-added", Label.EQUIVALENT, replace(stage, take=(*stage.take, "open")), False
    # Which rows of the table an inner join takes is a filter of the stream's rows; of an outer one, it changes values.
    filtered = filter_label(pipeline, stage) if stage.how == "inner" else label
    for kept in ("fee > 2", "fee > 4", "fee >= 5", ""):
        if kept != stage.kept:
            name = "changed" if kept and stage.kept else "added" if kept else "removed"
            yield f"lookup-filter-{name}", filtered, replace(stage, kept=kept), False
    if stage.kept:
        style = "sql" if stage.style == "api" else "api"
        yield f"lookup-filter-as-{style}", Label.EQUIVALENT, replace(stage, style=style), False
    # An expression over a column of another type may mean something else, or nothing.
    expressions = [each for each in pipeline.stages if isinstance(each, With | Where | Code)]
    read = frozenset().union(*(reads_of(each) for each in expressions))
    for name, types in (("fee", ("string", "bigint", "string")), ("open", ("string", "int", "boolean"))):
        if name not in read and name in stage.take:
            yield "lookup-column-retyped", _label(reach, name), replace(stage, types=types), False


def _dedup_edits(stage: Dedup, columns: Columns) -> Iterator[StageEdit]:
    for other in columns:
        if other not in stage.keys and columns[other] in ("string", "int"):
            yield "dedup-key-added", Label.CHANGING, replace(stage, keys=(*stage.keys, other)), False
            yield "dedup-key-replaced", Label.CHANGING, replace(stage, keys=(*stage.keys[:-1], other)), False
    if len(stage.keys) > 1:
        yield "dedup-key-removed", Label.CHANGING, replace(stage, keys=stage.keys[:-1]), False
        yield "dedup-keys-reordered", Label.CHANGING, replace(stage, keys=stage.keys[::-1]), False


def _grouped_edits(stage: Grouped, columns: Columns, *, at_once: bool) -> Iterator[StageEdit]:
    """Yield the edits of an aggregation; ``at_once``: whether a group is emitted with each new row of it instead of
    once it is closed.
    """
    folds, keys = stage.folds, stage.keys
    for other in columns:
        if other not in keys and columns[other] in ("string", "bool"):
            yield "key-added", Label.CHANGING, replace(stage, keys=(*keys, other)), False
            yield "key-replaced", Label.CHANGING, replace(stage, keys=(*keys[:-1], other)), False
    if len(keys) > 1:
        yield "key-removed", Label.CHANGING, replace(stage, keys=keys[:-1]), False
        yield "keys-reordered", Label.CHANGING, replace(stage, keys=keys[::-1]), False
    for at, fold in enumerate(folds):
        for other in columns:
            if other not in fold.inputs and columns[other] == columns[fold.inputs[0]]:
                new = replace(fold, inputs=(other, *fold.inputs[1:]))
                yield "aggregate-input", Label.CHANGING, replace(stage, folds=_with(folds, at, new)), False
        for function, (inputs, _, _) in AGGREGATES.items():
            if function != fold.function and inputs == AGGREGATES[fold.function][0]:
                new = replace(fold, function=function)
                resumes = (fold.function, function) == ("list", "set")
                resumes = resumes or (at_once and (fold.function, function) == ("first", "last"))
                label = Label.FROM_NOW_ON if resumes else Label.CHANGING
                yield "aggregate-function", label, replace(stage, folds=_with(folds, at, new)), False
    if len(folds) > 1:
        yield "aggregate-removed", Label.CHANGING, replace(stage, folds=folds[:-1]), False
        yield "aggregates-reordered", Label.CHANGING, replace(stage, folds=folds[::-1]), False
    yield "aggregate-added", Label.CHANGING, replace(stage, folds=(*folds, Folded("count", ("x",), "more"))), False
    if stage.window:
        unit = "seconds" if stage.unit == "minutes" else "minutes"
        yield "window-respelled", Label.EQUIVALENT, replace(stage, unit=unit), False
        longer = tuple(each * 2 for each in stage.window)
        yield "window-size", Label.CHANGING, replace(stage, window=longer), False
        if not stage.session:
            slide = (stage.window[0], 5) if len(stage.window) == 1 or stage.window[1] != 5 else stage.window[:1]
            yield "window-slide", Label.CHANGING, replace(stage, window=slide), False


def _with(folds: tuple[Folded, ...], at: int, fold: Folded) -> tuple[Folded, ...]:
    return (*folds[:at], fold, *folds[at + 1 :])


def _meet_edits(stage: Meet, columns: Columns) -> Iterator[StageEdit]:
    style = "api" if stage.style == "expr" else "expr"
    yield f"join-written-as-{style}", Label.EQUIVALENT, replace(stage, style=style), False
    yield "join-type", Label.CHANGING, replace(stage, how="left" if stage.how == "inner" else "inner"), False
    yield "join-range-longer", Label.CHANGING, replace(stage, minutes=stage.minutes + 10), False
    yield "join-key", Label.CHANGING, replace(stage, key="g" if stage.key == "k" else "k"), False
    yield "join-columns-reordered", Label.CHANGING, replace(stage, takes=stage.takes[::-1]), False
    yield "join-watermark", Label.CHANGING, replace(stage, delay=stage.delay + 20), False
    unused = [each for each in ("y", "x", "note") if each not in stage.takes and each in columns]
    for other in unused:
        yield "join-column-added-unused", Label.EQUIVALENT, replace(stage, takes=(*stage.takes, other)), False


def _keep_edits(stage: Keep, columns: Columns) -> Iterator[StageEdit]:
    for step in ("max(total, value)", "total + value + 1", "total - value", "total * 2 + value"):
        yield "state-step", Label.CHANGING, replace(stage, step=step), True
    yield "state-name", Label.CHANGING, replace(stage, variable="amounts"), True
    for wording in ("renamed", "documented"):
        yield f"state-code-{wording}", Label.EQUIVALENT, replace(stage, wording=wording), wording == "renamed"
    for other in columns:
        if columns[other] == "int" and other != stage.reads:
            yield "state-input", Label.CHANGING, replace(stage, reads=other), True
        if columns[other] == "string" and other != stage.key:
            yield "state-key", Label.CHANGING, replace(stage, key=other), True


def kind_of(stage: Stage) -> str:
    """Return the name under which edits of a stage are listed."""
    return {With: "column", Where: "filter"}.get(type(stage), type(stage).__name__.lower())


def stages_from(pipeline: Pipeline, stage: Stage) -> tuple[Stage, ...]:
    """Return the stage and all that follow it."""
    return pipeline.stages[pipeline.stages.index(stage) :]


def is_below_state(pipeline: Pipeline, stage: Stage) -> bool:
    """Return whether rows of the stage reach an operator with state."""
    return any(isinstance(each, STATEFUL) for each in stages_from(pipeline, stage)[1:])


def _label(reach: Reach, name: str) -> Label:
    if name in reach.values:
        return Label.CHANGING
    return Label.FROM_NOW_ON if name in reach.rows else Label.EQUIVALENT


def filter_label(pipeline: Pipeline, stage: Stage) -> Label:
    """Return the label of a filter's edit: equivalent without a later operator with state, changing if one of them is a
    join or Python state, from-now-on otherwise.
    """
    later = [each for each in stages_from(pipeline, stage) if isinstance(each, STATEFUL)]
    if not later:
        return Label.EQUIVALENT
    return Label.CHANGING if any(isinstance(each, Meet | Keep) for each in later) else Label.FROM_NOW_ON


def _simple(columns: Columns) -> dict[str, str]:
    return {name: kind for name, kind in columns.items() if kind not in ("clock", "luck")}
