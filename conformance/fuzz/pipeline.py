"""A pipeline as a value: its source, its stages and its wording, and the job that it renders to. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from conformance.fuzz.code_texts import code_files, code_top, keep_top
from conformance.fuzz.expressions import Columns
from conformance.fuzz.kafka import reader_of, rows_of
from conformance.fuzz.outputs import Output, output_lines, output_text, output_top, reads_of_output
from conformance.fuzz.rows import COLUMNS, FLAT, NESTED
from conformance.fuzz.stage_texts import lines_of
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
    Stage,
    Union,
    Watermark,
    Where,
    With,
    after,
    reads_of,
)
from conformance.matrix.case import Job
from conformance.matrix.data import KAFKA

MASK = "luck"
"""Prefix of columns with random values."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A drawn job. ``form``: the format of the input; ``texts``: names of TEXTS, wordings of the whole; ``dropped``:
    fields that are not read.

    ``read``: further options of the reader; ``conf``: confs of the release; ``swapped``: two fields that swap names.
    """

    form: str
    stages: tuple[Stage, ...]
    mode: str
    texts: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    swapped: tuple[str, ...] = ()
    read: str = ""
    limit: int = 1
    conf: tuple[tuple[str, str], ...] = ()
    output: Output = None

    @property
    def two(self) -> bool:
        """Whether a second stream is read."""
        return any(isinstance(each, Meet | Union) for each in self.stages)

    @property
    def stateful(self) -> bool:
        """Whether the pipeline keeps state."""
        return any(isinstance(each, STATEFUL) for each in self.stages)

    @property
    def flushes(self) -> bool:
        """Whether a watermark closes what is still open."""
        return any(isinstance(each, Watermark) for each in self.stages)

    def columns(self, uid: str = "") -> dict[str, str]:
        """Return the columns before the stage with this uid, or after the last stage without a uid."""
        found = {name: kind for name, kind in COLUMNS.items() if name not in self.dropped}
        for stage in self.stages:
            if stage.uid == uid:
                break
            found = after(stage, found)
        return found

    def given_out(self) -> dict[str, str]:
        """Return the columns of the output; a date is distinguished from a timestamp."""
        days = {each.name for each in self.stages if isinstance(each, Clock) and each.function == "current_date"}
        return {name: "day" if name in days else kind for name, kind in self.columns().items()}

    def put(self, stage: Stage) -> Pipeline:
        """Return the pipeline with the stage of the same uid replaced."""
        return replace(self, stages=tuple(stage if each.uid == stage.uid else each for each in self.stages))

    def without(self, uid: str) -> Pipeline:
        """Return the pipeline without a stage."""
        return replace(self, stages=tuple(each for each in self.stages if each.uid != uid))

    def insert(self, stage: Stage, before: str) -> Pipeline:
        """Return the pipeline with a stage inserted before a different one, or at the end if no stage has that uid."""
        at = next((at for at, each in enumerate(self.stages) if each.uid == before), len(self.stages))
        return replace(self, stages=(*self.stages[:at], stage, *self.stages[at:]))

    def is_whole(self) -> bool:
        """Return whether every stage finds its columns, and none creates one that already exists."""
        found: Columns = self.columns("") if not self.stages else self.columns(self.stages[0].uid)
        for stage in self.stages:
            if not reads_of(stage) <= found.keys():
                return False
            if isinstance(stage, With | Explode | Code | Clock | Luck) and stage.name in found:
                return False
            if isinstance(stage, Union | Meet) and set(found) < {name for name in COLUMNS if name not in self.dropped}:
                return False
            if isinstance(stage, Union) and not found.keys() <= COLUMNS.keys():
                return False
            if isinstance(stage, Meet) and not found.keys() >= set(stage.takes):
                return False
            if isinstance(stage, Lookup) and not found.keys().isdisjoint(stage.take):
                return False
            if isinstance(stage, Select) and not stage.columns:
                return False
            found = after(stage, found)
        return reads_of_output(self.output) <= found.keys()

    @property
    def key(self) -> tuple[str, ...]:
        """The columns for which the pipeline emits one row a batch; empty if no such columns are known."""
        last = next((each for each in reversed(self.stages) if isinstance(each, STATEFUL)), None)
        match last:
            case Grouped(keys=keys, window=window):
                return (*(("begin",) if window else ()), *keys)
            case Keep():
                return ("key",)
            case _:
                return ()


def renamed(value: Any, old: str, new: str) -> Any:
    """Return the value with a name replaced at every occurrence."""
    if isinstance(value, str):
        return new if value == old else value
    if isinstance(value, tuple):
        return tuple(renamed(each, old, new) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: renamed(getattr(value, each.name), old, new) for each in fields(value)})
    return value


@dataclass(frozen=True, slots=True)
class Reach:
    """What a stage's result does to state: its values are kept there, it decides which rows arrive there, or
    neither.
    """

    values: frozenset[str]
    rows: frozenset[str]


def reaches(pipeline: Pipeline) -> dict[str, Reach]:
    """Return uid -> the columns after that stage from which later state is computed, or by which its rows are
    filtered.
    """
    return _followed(pipeline)[0]


def stored(pipeline: Pipeline) -> frozenset[str]:
    """Return the columns that a stream-stream join keeps from both of its sides."""
    return _followed(pipeline)[1]


def _followed(pipeline: Pipeline) -> tuple[dict[str, Reach], frozenset[str]]:
    found: dict[str, Reach] = {}
    joined: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    rows: frozenset[str] = frozenset()
    live = frozenset(pipeline.columns())
    below = False
    for stage in reversed(pipeline.stages):
        found[stage.uid] = Reach(values, rows)
        reads = reads_of(stage)
        match stage:
            case Grouped() | Keep():
                values, rows, live, below = reads, frozenset(), reads, True
            case Dedup():
                values, live, below = values | reads, live | reads, True
            case Meet():
                joined = live | reads
                taken = {f"o_{each}" for each in stage.takes}
                values, live, below = (live - taken) | reads, (live - taken) | reads, True
            case With() | Code():
                if stage.name in values:
                    values = values - {stage.name} | reads
                if stage.name in rows:
                    rows = rows - {stage.name} | reads
                if stage.name in live:
                    live = live - {stage.name} | reads
            case Select():
                live = reads
            case Where() if below:
                rows, live = rows | reads, live | reads
            case Explode() | Lookup() if below:
                made = set(stage.take) if isinstance(stage, Lookup) else {stage.name}
                values, live = (values - made) | reads, (live - made) | reads
            case _:
                live = live | reads
    return found, joined


def render(pipeline: Pipeline) -> Job:
    """Return the job file of a pipeline."""
    frame = "frame" if "frame-renamed" in pipeline.texts else "rows"
    body = [f"{frame} = read_rows(s)"]
    columns = pipeline.columns(pipeline.stages[0].uid) if pipeline.stages else pipeline.columns()
    helped: list[str] = []
    for number, stage in enumerate(pipeline.stages):
        lines = lines_of(stage, columns, frame)
        if "helper-function" in pipeline.texts and number == 0 and isinstance(stage, With | Where):
            helped = [f"def prepared(spark, {frame}):", *(f"    {each}" for each in lines), f"    return {frame}", ""]
            lines = [f"{frame} = prepared(spark, {frame})"]
        if "commented" in pipeline.texts:
            lines = [f"# {type(stage).__name__} of the rows", *lines]
        body += lines
        columns = after(stage, columns)
    if "printed" in pipeline.texts:
        body.append(f"print({frame}.columns)")
    if "aside" in pipeline.texts:
        body.append('yield Query("aside", read_rows(s).select("id"), sink=ForeachBatch(write), output_mode="append")')
    body += output_lines(pipeline.output, frame, pipeline.key)
    sink_top = output_top(pipeline.output, pipeline.texts)
    tops = [_reader(pipeline), "\n".join(helped), *(_top(each) for each in pipeline.stages), sink_top]
    schema, options = _schema(pipeline)
    return Job(
        frame,
        mode=pipeline.mode,
        schema=schema,
        options=options + pipeline.read,
        form=pipeline.form,
        limit=pipeline.limit,
        two=pipeline.two,
        top="\n\n".join(each for each in tops if each),
        lines="\n".join(body),
        sink=output_text(pipeline.output, pipeline.key),
        reader=reader_of(pipeline) if pipeline.form == KAFKA else "",
        params=("servers",) if pipeline.form == KAFKA else (),
        files=tuple(file for each in pipeline.stages if isinstance(each, Code) for file in code_files(each)),
    )


def _top(stage: Stage) -> str:
    match stage:
        case Code():
            return code_top(stage)
        case Keep():
            return keep_top(stage)
        case _:
            return ""


def _fields(pipeline: Pipeline, ddl: str) -> str:
    found = [each for each in _split(ddl) if each.split()[0] not in pipeline.dropped]
    if "fields-reordered" in pipeline.texts:
        found = [*found[1:], found[0]]
    return ", ".join(found)


def _split(ddl: str) -> list[str]:
    found, depth = [""], 0
    for sign in ddl:
        depth += (sign == "<") - (sign == ">")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return [each.strip() for each in found]


def _schema(pipeline: Pipeline) -> tuple[str, str]:
    match pipeline.form:
        case "json" | "kafka" | "parquet":
            return _fields(pipeline, f"{FLAT}, {NESTED}"), ""
        case "csv":
            return f"{FLAT}, nested string", """.option("escape", '"')"""
        case _:
            return "value string", ""


def _reader(pipeline: Pipeline) -> str:
    constant, parsed = _parsed(pipeline)
    if pipeline.swapped:
        one, other = pipeline.swapped
        renames = ((one, "swapped"), (other, one), ("swapped", other))
        parsed += "".join(f'.withColumnRenamed("{old}", "{new}")' for old, new in renames)
    return f"{constant}def read_rows(stream):\n    return {parsed}"


def _parsed(pipeline: Pipeline) -> tuple[str, str]:
    match pipeline.form:
        case "json" | "parquet":
            return "", "stream"
        case "kafka":
            return "", rows_of(pipeline)
        case "csv":
            nested = _fields(pipeline, NESTED)
            gone = "".join(f', "{each}"' for each in pipeline.dropped if f"{each} " in f"{FLAT} ")
            parsed = 'stream.withColumn("parsed", F.from_json("nested", NESTED)).select("*", "parsed.*")'
            return f'NESTED = "{nested}"\n\n\n', f'{parsed}.drop("nested", "parsed"{gone})'
        case _:
            fields = _fields(pipeline, f"{FLAT}, {NESTED}")
            parsed = 'stream.select(F.from_json("value", FIELDS).alias("row")).select("row.*")'
            return f'FIELDS = "{fields}"\n\n\n', parsed
