"""Edits that engineers make, each with its label by construction. Pure.

*equivalent*: from the checkpoint on, the job does what it would do from scratch. *changing*: the state means something
else. *from-now-on*: the state was made of other rows, and by `docs/compatibility.md` that counts as going on: a filter
below an aggregate, how late rows may be, a limit of rows. It is neither held against RESUME nor against a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from bench.fuzz.expressions import Expr, changed, same
from bench.fuzz.kafka import kafka_edits
from bench.fuzz.pipeline import Pipeline, Reach, reaches, renamed, stored
from bench.fuzz.stages import (
    AGGREGATES,
    STATEFUL,
    STYLES,
    Clock,
    Code,
    Columns,
    Dedup,
    Explode,
    Folded,
    Grouped,
    Keep,
    Lookup,
    Luck,
    Meet,
    Select,
    Stage,
    Union,
    Watermark,
    Where,
    With,
    reads_of,
)


class Label(Enum):
    """What an edit is by construction."""

    EQUIVALENT = "equivalent"
    CHANGING = "changing"
    FROM_NOW_ON = "from-now-on"


@dataclass(frozen=True, slots=True)
class Edit:
    """``old`` -> ``new``: the parts of a pipeline that are replaced; ``opaque``: Python in or below state.

    ``name``: the kind of edit, of which a pipeline may have several; ``where``: the uid of its stage.
    """

    name: str
    label: Label
    after: Pipeline
    where: str = ""
    opaque: bool = False


def edits_of(pipeline: Pipeline) -> Iterator[Edit]:
    """Every edit that a pipeline can have."""
    reach = reaches(pipeline)
    found = [
        Edit(name, label, pipeline.put(other), stage.uid, opaque)
        for stage in pipeline.stages
        for name, label, other, opaque in _stage_edits(pipeline, stage, reach[stage.uid])
    ]
    found += [Edit(name, Label(label), after) for name, label, after in kafka_edits(pipeline)]
    found += [*_whole(pipeline), *_orders(pipeline), *_names(pipeline), *_stages(pipeline)]
    for each in found:
        if each.after != pipeline and each.after.is_whole():
            yield replace(each, label=Label.CHANGING) if _stores_other_columns(pipeline, each) else each


_REORDERING = frozenset({"fields-reordered", "stages-swapped"})


def _stores_other_columns(pipeline: Pipeline, edit: Edit) -> bool:
    """Whether a join would keep other columns than it has kept, or the same in another order."""
    if edit.label is not Label.EQUIVALENT or not any(isinstance(each, Meet) for each in pipeline.stages):
        return False
    if edit.name in _REORDERING:
        return True
    return not edit.name.endswith("-renamed") and stored(pipeline) != stored(edit.after)


_StageEdit = tuple[str, Label, Stage, bool]


def _stage_edits(pipeline: Pipeline, stage: Stage, reach: Reach) -> Iterator[_StageEdit]:
    columns = pipeline.columns(stage.uid)
    below = _below_state(pipeline, stage)
    if isinstance(stage, With | Where):
        label = _label(reach, stage.name) if isinstance(stage, With) else _filter_label(pipeline, stage)
        for name, expr in changed(stage.expr, _simple(columns)):
            yield f"{_kind(stage)}-{name}", label, replace(stage, expr=expr), False
        for name, expr in same(stage.expr):
            yield f"{_kind(stage)}-{name}", Label.EQUIVALENT, replace(stage, expr=expr), False
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
            yield from _lookup_edits(stage, below)
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
            yield "watermark-longer", Label.FROM_NOW_ON, replace(stage, minutes=stage.minutes + 15), False
            yield "watermark-shorter", Label.FROM_NOW_ON, replace(stage, minutes=stage.minutes - 10), False
        case Dedup():
            yield from _dedup_edits(stage, columns)
        case Grouped():
            yield from _grouped_edits(stage, columns)
        case Meet():
            yield from _meet_edits(stage, columns)
        case Keep():
            yield from _keep_edits(stage, columns)


def _code_edits(stage: Code, columns: Columns, label: Label) -> Iterator[_StageEdit]:
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


def _lookup_edits(stage: Lookup, below: bool) -> Iterator[_StageEdit]:
    label = Label.CHANGING if below else Label.EQUIVALENT
    yield "lookup-broadcast", Label.EQUIVALENT, replace(stage, broadcast=not stage.broadcast), False
    yield "lookup-table", label, replace(stage, table="places_2.csv"), False
    yield "lookup-type", label, replace(stage, how="inner" if stage.how == "left" else "left"), False
    yield "lookup-columns-reordered", Label.EQUIVALENT, replace(stage, take=stage.take[::-1]), False
    if "open" not in stage.take:
        yield "lookup-column-added", Label.EQUIVALENT, replace(stage, take=(*stage.take, "open")), False


def _dedup_edits(stage: Dedup, columns: Columns) -> Iterator[_StageEdit]:
    for other in columns:
        if other not in stage.keys and columns[other] in ("string", "int"):
            yield "dedup-key-added", Label.CHANGING, replace(stage, keys=(*stage.keys, other)), False
            yield "dedup-key-replaced", Label.CHANGING, replace(stage, keys=(*stage.keys[:-1], other)), False
    if len(stage.keys) > 1:
        yield "dedup-key-removed", Label.CHANGING, replace(stage, keys=stage.keys[:-1]), False
        yield "dedup-keys-reordered", Label.CHANGING, replace(stage, keys=stage.keys[::-1]), False


def _grouped_edits(stage: Grouped, columns: Columns) -> Iterator[_StageEdit]:
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
                label = Label.FROM_NOW_ON if {function, fold.function} <= {"first", "last"} else Label.CHANGING
                if {function, fold.function} == {"list", "set"}:
                    label = Label.FROM_NOW_ON
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


def _meet_edits(stage: Meet, columns: Columns) -> Iterator[_StageEdit]:
    style = "api" if stage.style == "expr" else "expr"
    yield f"join-written-as-{style}", Label.EQUIVALENT, replace(stage, style=style), False
    yield "join-type", Label.CHANGING, replace(stage, how="left" if stage.how == "inner" else "inner"), False
    yield "join-range-longer", Label.CHANGING, replace(stage, minutes=stage.minutes + 10), False
    yield "join-key", Label.CHANGING, replace(stage, key="g" if stage.key == "k" else "k"), False
    yield "join-columns-reordered", Label.CHANGING, replace(stage, takes=stage.takes[::-1]), False
    yield "join-watermark", Label.FROM_NOW_ON, replace(stage, delay=stage.delay + 20), False
    unused = [each for each in ("y", "x", "note") if each not in stage.takes and each in columns]
    for other in unused:
        yield "join-column-added-unused", Label.EQUIVALENT, replace(stage, takes=(*stage.takes, other)), False


def _keep_edits(stage: Keep, columns: Columns) -> Iterator[_StageEdit]:
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


_TEXTS = ("frame-renamed", "helper-function", "commented", "printed", "sink-logs", "sink-renamed", "aside")
_TUNING = (
    ("spark.sql.shuffle.partitions", "3"),
    ("spark.sql.adaptive.coalescePartitions.minPartitionSize", "2MB"),
    ("spark.sql.files.maxPartitionBytes", "64MB"),
    ("spark.sql.autoBroadcastJoinThreshold", "-1"),
)


def _whole(pipeline: Pipeline) -> Iterator[Edit]:
    """Edits of how the whole is written, read and run."""
    for text in _TEXTS:
        yield Edit(text, Label.EQUIVALENT, replace(pipeline, texts=(*pipeline.texts, text)))
    if pipeline.form != "csv":
        yield Edit("fields-reordered", Label.EQUIVALENT, replace(pipeline, texts=(*pipeline.texts, "fields-reordered")))
    # Another kind of join hands rows on in another order, which counts for some aggregates.
    for setting in _TUNING[: 3 if any(isinstance(each, Lookup) for each in pipeline.stages) else 4]:
        yield Edit("tuning", Label.EQUIVALENT, replace(pipeline, conf=(*pipeline.conf, setting)))
    yield Edit("rate-limit", Label.FROM_NOW_ON, replace(pipeline, limit=2))
    if pipeline.form == "json":
        yield Edit("option-spelled-out", Label.EQUIVALENT, replace(pipeline, read='.option("mode", "PERMISSIVE")'))
    if pipeline.form == "csv":
        yield Edit("option-spelled-out", Label.EQUIVALENT, replace(pipeline, read='.option("sep", ",")'))
    used = frozenset().union(*(reads_of(each) for each in pipeline.stages))
    for field in ("words", "attrs", "items", "who", "note", "y"):
        if field not in used and (not isinstance(pipeline.stages[0], Union) or field != "y"):
            gone = replace(pipeline, dropped=(*pipeline.dropped, field))
            if field not in pipeline.columns() or not pipeline.stateful:
                yield Edit("field-not-read", Label.EQUIVALENT, gone)
    reach = reaches(pipeline.insert(Luck("top", "top"), pipeline.stages[0].uid))["top"]
    if pipeline.form != "csv" and reach.values & {"x", "y"}:
        yield Edit("fields-swapped", Label.CHANGING, replace(pipeline, swapped=("x", "y")))
    other = {"update": "complete", "complete": "update"}.get(pipeline.mode)
    grouped = any(isinstance(each, Grouped) for each in pipeline.stages) and not pipeline.flushes
    if other and grouped and not any(isinstance(each, Where | Luck) for each in pipeline.stages[-2:]):
        yield Edit("output-mode", Label.EQUIVALENT, replace(pipeline, mode=other))
    if pipeline.flushes and pipeline.mode in ("append", "update") and not _sessions(pipeline):
        other = "update" if pipeline.mode == "append" else "append"
        if (
            isinstance(pipeline.stages[1], Watermark)
            or sum(isinstance(each, STATEFUL) for each in pipeline.stages) == 1
        ):
            yield Edit("output-mode", Label.FROM_NOW_ON, replace(pipeline, mode=other))


def _sessions(pipeline: Pipeline) -> bool:
    return any(isinstance(each, Meet) or (isinstance(each, Grouped) and each.session) for each in pipeline.stages)


def _orders(pipeline: Pipeline) -> Iterator[Edit]:
    """Stages that trade places: the same where neither needs the other."""
    free = (With, Where, Code, Clock, Lookup)
    for one, other in zip(pipeline.stages, pipeline.stages[1:], strict=False):
        if not (isinstance(one, free) and isinstance(other, free)):
            continue
        if isinstance(one, Lookup) and isinstance(other, Lookup):
            continue
        stages = tuple({one.uid: other, other.uid: one}.get(each.uid, each) for each in pipeline.stages)
        yield Edit("stages-swapped", Label.EQUIVALENT, replace(pipeline, stages=stages), one.uid)


def _names(pipeline: Pipeline) -> Iterator[Edit]:
    """Columns under another name."""
    for stage in pipeline.stages:
        if isinstance(stage, With | Code | Explode | Clock):
            new = f"{stage.name}_new"
            yield Edit("column-renamed", Label.EQUIVALENT, renamed(pipeline, stage.name, new), stage.uid)
        if isinstance(stage, Grouped):
            new = f"{stage.folds[0].name}_new"
            yield Edit("aggregate-renamed", Label.EQUIVALENT, renamed(pipeline, stage.folds[0].name, new), stage.uid)


def _stages(pipeline: Pipeline) -> Iterator[Edit]:
    """Stages that come and go."""
    last = pipeline.stages[-1].uid
    for stage in pipeline.stages:
        below = _below_state(pipeline, stage)
        columns = pipeline.columns(stage.uid)
        unused = With(
            f"{stage.uid}n", "unused", Expr("add", "int", (Expr("col", "int", value="x"), Expr("lit", "int", value=1)))
        )
        needs_all = any(isinstance(each, Select) for each in _from(pipeline, stage)) or any(
            isinstance(each, Grouped | Keep) for each in _from(pipeline, stage)
        )
        if "x" in columns and (needs_all or not below):
            yield Edit("column-added", Label.EQUIVALENT, pipeline.insert(unused, stage.uid), stage.uid)
        if isinstance(stage, Where):
            yield Edit("filter-removed", _filter_label(pipeline, stage), pipeline.without(stage.uid), stage.uid)
        if isinstance(stage, Explode | Lookup | Union | Dedup):
            label = Label.CHANGING if below or isinstance(stage, Dedup) else Label.EQUIVALENT
            yield Edit(f"{_kind(stage)}-removed", label, pipeline.without(stage.uid), stage.uid)
        if isinstance(stage, Watermark) and not _sessions(pipeline) and pipeline.mode != "append":
            yield Edit("watermark-removed", Label.FROM_NOW_ON, pipeline.without(stage.uid), stage.uid)
        if isinstance(stage, Grouped) and "k" in columns:
            kept = Where(f"{stage.uid}n", Expr("there", "bool", (Expr("col", "string", value="k"),)))
            yield Edit("filter-added", _filter_label(pipeline, stage), pipeline.insert(kept, stage.uid), stage.uid)
            first = Dedup(f"{stage.uid}n", ("id",))
            if "id" in columns and not stage.window and pipeline.mode != "complete":
                yield Edit("dedup-added", Label.CHANGING, pipeline.insert(first, stage.uid), stage.uid)
    clock = Clock("sclock", "written_at")
    if "written_at" not in pipeline.columns():
        yield Edit("clock-added", Label.EQUIVALENT, pipeline.insert(clock, ""), last)


def _kind(stage: Stage) -> str:
    return {With: "column", Where: "filter"}.get(type(stage), type(stage).__name__.lower())


def _from(pipeline: Pipeline, stage: Stage) -> tuple[Stage, ...]:
    return pipeline.stages[pipeline.stages.index(stage) :]


def _below_state(pipeline: Pipeline, stage: Stage) -> bool:
    return any(isinstance(each, STATEFUL) for each in _from(pipeline, stage)[1:])


def _label(reach: Reach, name: str) -> Label:
    if name in reach.values:
        return Label.CHANGING
    return Label.FROM_NOW_ON if name in reach.rows else Label.EQUIVALENT


def _filter_label(pipeline: Pipeline, stage: Stage) -> Label:
    """By the first operator with state that the rows come to: a join keeps them, the others make something of them."""
    later = [each for each in _from(pipeline, stage) if isinstance(each, STATEFUL)]
    if not later:
        return Label.EQUIVALENT
    return Label.CHANGING if any(isinstance(each, Meet | Keep) for each in later) else Label.FROM_NOW_ON


def _simple(columns: Columns) -> dict[str, str]:
    return {name: kind for name, kind in columns.items() if kind not in ("clock", "luck")}
