"""Every edit that a pipeline can have: of its stages, of the whole, of its source and of its output. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.fuzz.expressions import Expr
from conformance.fuzz.kafka import kafka_edits
from conformance.fuzz.label import Edit, Label
from conformance.fuzz.outputs import Files, Table, output_edits, takes
from conformance.fuzz.pipeline import Pipeline, reaches, renamed, render, stored
from conformance.fuzz.stage_edits import filter_label, is_below_state, kind_of, stage_edits, stages_from
from conformance.fuzz.stages import (
    STATEFUL,
    Clock,
    Code,
    Dedup,
    Explode,
    Grouped,
    Keep,
    Lookup,
    Luck,
    Meet,
    Select,
    Union,
    Watermark,
    Where,
    With,
    reads_of,
)


def edits_of(pipeline: Pipeline) -> Iterator[Edit]:
    """Yield every edit that a pipeline can have."""
    reach = reaches(pipeline)
    found = [
        Edit(name, label, pipeline.put(other), stage.uid, opaque)
        for stage in pipeline.stages
        for name, label, other, opaque in stage_edits(pipeline, stage, reach[stage.uid])
    ]
    found += [Edit(name, Label(label), after) for name, label, after in kafka_edits(pipeline)]
    found += [*_whole(pipeline), *_orders(pipeline), *_names(pipeline), *_stages(pipeline), *_outputs(pipeline)]
    for each in found:
        if each.after != pipeline and each.after.is_whole():
            changing = _stores_other_columns(pipeline, each) or not _fits_output(pipeline, each)
            yield replace(each, label=Label.CHANGING) if changing else each


def changes_job(pipeline: Pipeline, edit: Edit) -> bool:
    """Return whether the edit changes the job's text or its settings: some wordings have nothing to apply to."""
    return edit.after.conf != pipeline.conf or render(edit.after) != render(pipeline)


def _fits_output(pipeline: Pipeline, edit: Edit) -> bool:
    if not isinstance(pipeline.output, Files | Table):
        return True
    return takes(pipeline.output, pipeline.given_out(), edit.after.given_out())


_REORDERING = frozenset({"fields-reordered", "stages-swapped"})


def _stores_other_columns(pipeline: Pipeline, edit: Edit) -> bool:
    """Return whether a join would keep different columns than before, or the same columns in a different order."""
    if edit.label is not Label.EQUIVALENT or not any(isinstance(each, Meet) for each in pipeline.stages):
        return False
    if edit.name in _REORDERING:
        return True
    return not edit.name.endswith("-renamed") and stored(pipeline) != stored(edit.after)


_TEXTS = ("frame-renamed", "helper-function", "commented", "printed", "sink-logs", "sink-renamed", "aside")
_TUNING = (
    ("spark.sql.shuffle.partitions", "3"),
    ("spark.sql.adaptive.coalescePartitions.minPartitionSize", "2MB"),
    ("spark.sql.files.maxPartitionBytes", "64MB"),
    ("spark.sql.autoBroadcastJoinThreshold", "-1"),
)


def _whole(pipeline: Pipeline) -> Iterator[Edit]:
    """Yield edits of how the whole pipeline is written, read and run."""
    for text in _TEXTS:
        yield Edit(text, Label.EQUIVALENT, replace(pipeline, texts=(*pipeline.texts, text)))
    if pipeline.form != "csv":
        yield Edit("fields-reordered", Label.EQUIVALENT, replace(pipeline, texts=(*pipeline.texts, "fields-reordered")))
    # Another kind of join hands rows on in another order, which counts for some aggregates.
    for setting in _TUNING[: 3 if any(isinstance(each, Lookup) for each in pipeline.stages) else 4]:
        yield Edit("tuning", Label.EQUIVALENT, replace(pipeline, conf=(*pipeline.conf, setting)))
    label = Label.FROM_NOW_ON if pipeline.stateful else Label.EQUIVALENT
    yield Edit("rate-limit", label, replace(pipeline, limit=2))
    if pipeline.form == "json":
        yield Edit("option-spelled-out", Label.EQUIVALENT, replace(pipeline, read='.option("mode", "PERMISSIVE")'))
    if pipeline.form == "csv":
        yield Edit("option-spelled-out", Label.EQUIVALENT, replace(pipeline, read='.option("sep", ",")'))
    if pipeline.form == "parquet":
        yield Edit("option-spelled-out", Label.EQUIVALENT, replace(pipeline, read='.option("mergeSchema", False)'))
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
            # A window that is open and gets no further row would never be written.
            windows = any(isinstance(each, Grouped) for each in pipeline.stages)
            label = Label.FROM_NOW_ON if pipeline.mode == "append" and not windows else Label.CHANGING
            if not isinstance(pipeline.output, Files):
                yield Edit("output-mode", label, replace(pipeline, mode=other))


def _sessions(pipeline: Pipeline) -> bool:
    return any(isinstance(each, Meet) or (isinstance(each, Grouped) and each.session) for each in pipeline.stages)


def _orders(pipeline: Pipeline) -> Iterator[Edit]:
    """Yield edits that swap two neighbouring stages; these are equivalent if neither stage needs the other."""
    free = (With, Where, Code, Clock, Lookup)
    for one, other in zip(pipeline.stages, pipeline.stages[1:], strict=False):
        if not (isinstance(one, free) and isinstance(other, free)):
            continue
        if isinstance(one, Lookup) and isinstance(other, Lookup):
            continue
        stages = tuple({one.uid: other, other.uid: one}.get(each.uid, each) for each in pipeline.stages)
        yield Edit("stages-swapped", Label.EQUIVALENT, replace(pipeline, stages=stages), one.uid)


def _names(pipeline: Pipeline) -> Iterator[Edit]:
    """Yield edits that rename a column."""
    for stage in pipeline.stages:
        if isinstance(stage, With | Code | Explode | Clock):
            new = f"{stage.name}_new"
            yield Edit("column-renamed", Label.EQUIVALENT, renamed(pipeline, stage.name, new), stage.uid)
        if isinstance(stage, Grouped):
            new = f"{stage.folds[0].name}_new"
            yield Edit("aggregate-renamed", Label.EQUIVALENT, renamed(pipeline, stage.folds[0].name, new), stage.uid)


def _stages(pipeline: Pipeline) -> Iterator[Edit]:
    """Yield edits that add or remove a stage."""
    last = pipeline.stages[-1].uid
    for stage in pipeline.stages:
        below = is_below_state(pipeline, stage)
        columns = pipeline.columns(stage.uid)
        unused = With(
            f"{stage.uid}n", "unused", Expr("add", "int", (Expr("col", "int", value="x"), Expr("lit", "int", value=1)))
        )
        needs_all = any(isinstance(each, Select) for each in stages_from(pipeline, stage)) or any(
            isinstance(each, Grouped | Keep) for each in stages_from(pipeline, stage)
        )
        if "x" in columns and (needs_all or not below):
            yield Edit("column-added", Label.EQUIVALENT, pipeline.insert(unused, stage.uid), stage.uid)
        if isinstance(stage, Where):
            yield Edit("filter-removed", filter_label(pipeline, stage), pipeline.without(stage.uid), stage.uid)
        if isinstance(stage, Explode | Lookup | Union | Dedup):
            label = Label.CHANGING if below or isinstance(stage, Dedup) else Label.EQUIVALENT
            yield Edit(f"{kind_of(stage)}-removed", label, pipeline.without(stage.uid), stage.uid)
        if isinstance(stage, Watermark) and not _sessions(pipeline) and pipeline.mode != "append":
            yield Edit("watermark-removed", Label.CHANGING, pipeline.without(stage.uid), stage.uid)
        if isinstance(stage, Grouped) and "k" in columns:
            kept = Where(f"{stage.uid}n", Expr("there", "bool", (Expr("col", "string", value="k"),)))
            yield Edit("filter-added", filter_label(pipeline, stage), pipeline.insert(kept, stage.uid), stage.uid)
            first = Dedup(f"{stage.uid}n", ("id",))
            if "id" in columns and not stage.window and pipeline.mode != "complete":
                yield Edit("dedup-added", Label.CHANGING, pipeline.insert(first, stage.uid), stage.uid)
    clock = Clock("sclock", "written_at")
    if "written_at" not in pipeline.columns():
        yield Edit("clock-added", Label.EQUIVALENT, pipeline.insert(clock, ""), last)


def _outputs(pipeline: Pipeline) -> Iterator[Edit]:
    """Yield edits of where rows go, and of which columns a sink of the project receives."""
    columns = pipeline.given_out()
    for name, value, output, opaque in output_edits(pipeline.output, columns, pipeline.key):
        yield Edit(name, Label(value), replace(pipeline, output=output), "output", opaque)
    if isinstance(pipeline.output, Files | Table):
        last = pipeline.stages[-1]
        reordered = Select("sout", tuple(columns)[::-1])
        if not isinstance(last, Select):
            # Spark writes a selection right above an aggregate into it: then its state gets that order.
            grouped = any(isinstance(each, Grouped) for each in pipeline.stages)
            label = Label.CHANGING if grouped else Label.EQUIVALENT
            yield Edit("output-reordered", label, pipeline.insert(reordered, ""), "output")
            fewer = Select("sout", tuple(columns)[:-1])
            yield Edit("output-column-removed", label, pipeline.insert(fewer, ""), "output")
        more = With("sout", "origin", Expr("lit", "string", value="web"))
        yield Edit("output-column-added", Label.EQUIVALENT, pipeline.insert(more, ""), "output")
