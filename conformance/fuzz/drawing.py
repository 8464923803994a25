"""Draws pipelines from a seed. Pure."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from conformance.fuzz.expressions import Columns, draw, draw_filter
from conformance.fuzz.kafka import draw_texts, is_on_kafka
from conformance.fuzz.outputs import draw_output
from conformance.fuzz.pipeline import Pipeline
from conformance.fuzz.rows import FORMS
from conformance.fuzz.stages import (
    AGGREGATES,
    IN_ORDER,
    Clock,
    Code,
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
)
from conformance.matrix.data import KAFKA

SHAPES = (
    "stateless",
    "grouped",
    "grouped",
    "tumbling",
    "sliding",
    "session",
    "dedup",
    "dedup-within",
    "dedup-grouped",
    "met",
    "met-grouped",
    "union-grouped",
    "kept",
)
_KINDS = ("int", "int", "int", "string", "string", "double", "bool", "ts", "ints")
_CODE_STEPS = ("a * 10 + factor - b", "a * factor + b", "a - b * factor", "max(a, b) + factor")
_SIZES = (10, 15, 20, 30)


class Drawing:
    """A pipeline under construction."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.pipeline = Pipeline(rng.choice(FORMS), (), "append")

    def add(self, make: type[Stage], *args: object, **more: object) -> None:
        """Append a stage."""
        uid = f"s{len(self.pipeline.stages) + 1}"
        stage = make(uid, *args, **more)  # type: ignore[arg-type]
        self.pipeline = replace(self.pipeline, stages=(*self.pipeline.stages, stage))

    @property
    def columns(self) -> dict[str, str]:
        """The columns after the last stage."""
        return self.pipeline.columns()

    def of(self, *kinds: str, but: tuple[str, ...] = ()) -> list[str]:
        """Return the columns of these types, the newest first."""
        return [name for name, kind in reversed(self.columns.items()) if kind in kinds and name not in but]

    def pick(self, *kinds: str, count: int = 1, but: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Draw some of the columns of these types, newer ones more often."""
        found = self.of(*kinds, but=but)
        chosen: list[str] = []
        while found and len(chosen) < count:
            chosen.append(found.pop(min(self.rng.randrange(len(found)), self.rng.randrange(len(found)))))
        return tuple(chosen)


def draw_pipeline(seed: str) -> Pipeline:
    """Return the pipeline of a seed."""
    rng = Random(seed)
    drawing = Drawing(rng)
    if is_on_kafka(seed):
        drawing.pipeline = replace(drawing.pipeline, form=KAFKA, texts=draw_texts(seed))
    shape = rng.choice(SHAPES)
    if shape == "union-grouped":
        drawing.add(Union)
    _draw_below(drawing, lookups=not shape.startswith(("met", "union")), columns_stay=shape.startswith("met"))
    _SHAPES[shape](drawing)
    pipeline = drawing.pipeline
    output = draw_output(rng, pipeline.columns(), pipeline.mode, pipeline.key)
    return replace(pipeline, output=output)


def _draw_below(drawing: Drawing, *, lookups: bool, columns_stay: bool) -> None:
    for _ in range(drawing.rng.randint(2, 5)):
        draw_step(drawing, lookups=lookups)
    if columns_stay:
        return


def draw_step(drawing: Drawing, *, lookups: bool) -> None:
    """Draw and append one stage without state."""
    rng, columns = drawing.rng, drawing.columns
    name = f"c{len(drawing.pipeline.stages) + 1}"
    match rng.choice(("with", "with", "with", "with", "where", "explode", "code", "lookup")):
        case "where" if sum(isinstance(each, Where) for each in drawing.pipeline.stages) < 2:
            drawing.add(Where, draw_filter(rng, columns), rng.choice(("api", "expr", "view")))
        case "explode" if drawing.of("ints") and not any(isinstance(each, Explode) for each in drawing.pipeline.stages):
            drawing.add(Explode, name, drawing.of("ints")[0], rng.random() < 0.5)
        case "code" if len(drawing.of("int")) > 1:
            one, other = drawing.pick("int", count=2)
            form = rng.choice(("plain", "closure", "helper", "pandas"))
            steps = _CODE_STEPS[:3] if form == "pandas" else _CODE_STEPS
            drawing.add(Code, name, (one, other), form, rng.choice((2, 3, 7)), rng.choice(steps))
        case "lookup" if lookups and "fee" not in columns:
            take = rng.choice((("region", "fee"), ("fee", "open"), ("region", "fee", "open")))
            kept = rng.choice(("", "", "fee > 2"))
            drawing.add(Lookup, take, "places.csv", rng.choice(("left", "inner")), kept=kept)
        case _:
            expr = draw(rng, rng.choice(_KINDS), columns, rng.choice((1, 2, 3)), plain=True)
            drawing.add(With, name, expr, rng.choice(("api", "api", "expr", "view")))


def draw_folds(rng: Random, columns: Columns, *, ordered: bool, count: int) -> tuple[Folded, ...]:
    """Draw aggregates over the columns."""
    found: list[Folded] = []
    names = [each for each in AGGREGATES if ordered or each not in IN_ORDER]
    made = [name for name in columns if name.startswith("c")]
    while len(found) < count:
        function = rng.choice(names)
        inputs: list[str] = []
        for kind in AGGREGATES[function][0]:
            fit = [name for name in columns if columns[name] == kind and name not in inputs]
            new = [name for name in fit if name in made]
            if fit:
                inputs.append(rng.choice(new if new and rng.random() < 0.7 else fit))
        if len(inputs) == len(AGGREGATES[function][0]):
            found.append(Folded(function, tuple(inputs), f"f{len(found) + 1}"))
    return tuple(found)


def _grouped(
    drawing: Drawing, window: tuple[int, ...] = (), *, session: bool = False, ordered: bool = True, mode: str = ""
) -> None:
    rng = drawing.rng
    keys = drawing.pick("string", "string", "bool", count=rng.choice((1, 1, 2)), but=("id",))
    folds = draw_folds(rng, drawing.columns, ordered=ordered, count=rng.randint(2, 4))
    drawing.add(Grouped, keys, folds, window, session, rng.choice(("api", "api", "view")))
    modes: tuple[str, ...] = ("append", "update") if window else ("update", "update", "complete")
    if session:
        modes = ("append",)
    drawing.pipeline = replace(drawing.pipeline, mode=mode or rng.choice(modes))


def _above(drawing: Drawing) -> None:
    rng = drawing.rng
    if rng.random() < 0.5:
        name = f"c{len(drawing.pipeline.stages) + 1}"
        expr = draw(rng, rng.choice(("int", "string")), _plain(drawing.columns), 1, plain=True)
        drawing.add(With, name, expr)
    if rng.random() < 0.4:
        drawing.add(Clock, "made_at", rng.choice(("current_timestamp", "now", "current_date")))
    if rng.random() < 0.15:
        drawing.add(Luck, "luck")


def _plain(columns: Columns) -> dict[str, str]:
    return {name: kind for name, kind in columns.items() if kind in ("int", "string", "double", "ts", "ints", "words")}


def _narrow(drawing: Drawing) -> None:
    """Append a selection of some of the columns, including the newest."""
    made = [name for name in drawing.columns if name not in _plain(drawing.columns) or name[0] in "cof"]
    kept = [name for name in ("id", "k", "x", "note") if name in drawing.columns]
    chosen = [*kept[: drawing.rng.randint(2, 4)], *(name for name in made if name not in ("who", "items", "attrs"))]
    drawing.add(Select, tuple(dict.fromkeys(chosen)))


def _watermark(drawing: Drawing) -> None:
    drawing.add(Watermark, drawing.rng.choice((20, 30, 45)))


def _stateless(drawing: Drawing) -> None:
    _above(drawing)


def _plain_grouped(drawing: Drawing) -> None:
    _grouped(drawing)
    _above(drawing)


def _tumbling(drawing: Drawing) -> None:
    _watermark(drawing)
    _grouped(drawing, (drawing.rng.choice(_SIZES),))
    _above(drawing)


def _sliding(drawing: Drawing) -> None:
    _watermark(drawing)
    _grouped(drawing, drawing.rng.choice(((20, 10), (30, 10), (30, 15))))
    _above(drawing)


def _session(drawing: Drawing) -> None:
    _watermark(drawing)
    _grouped(drawing, (drawing.rng.choice((4, 6, 10)),), session=True, ordered=False)
    _above(drawing)


def _dedup(drawing: Drawing) -> None:
    keys = drawing.pick("string", "int", count=drawing.rng.choice((1, 2)))
    drawing.add(Dedup, keys)
    _above(drawing)
    _narrow(drawing)


def _dedup_within(drawing: Drawing) -> None:
    _watermark(drawing)
    drawing.add(Dedup, drawing.pick("string", "int", count=2), True)
    _above(drawing)
    _narrow(drawing)


def _dedup_grouped(drawing: Drawing) -> None:
    _watermark(drawing)
    drawing.add(Dedup, ("id", *drawing.pick("string", but=("id",))), True)
    if drawing.rng.random() < 0.5:
        draw_step(drawing, lookups=True)
    _grouped(drawing, (drawing.rng.choice(_SIZES),), ordered=False, mode="append")
    _above(drawing)


def _met(drawing: Drawing) -> None:
    rng = drawing.rng
    _watermark(drawing)
    takes = tuple(rng.sample(("x", "y", "d", "note"), rng.randint(2, 3)))
    drawing.add(Meet, rng.choice(("inner", "left")), rng.choice((10, 15, 25)), takes, rng.choice(("k", "g")))
    _narrow(drawing)
    _above(drawing)


def _met_grouped(drawing: Drawing) -> None:
    rng = drawing.rng
    _watermark(drawing)
    takes = tuple(rng.sample(("x", "y", "note"), 2))
    drawing.add(Meet, "inner", rng.choice((10, 15)), takes, rng.choice(("k", "g")))
    _grouped(drawing, (rng.choice(_SIZES),), ordered=False, mode="append")
    _above(drawing)


def _union_grouped(drawing: Drawing) -> None:
    _grouped(drawing, ordered=False)
    _above(drawing)


def _kept(drawing: Drawing) -> None:
    rng = drawing.rng
    drawing.pipeline = replace(drawing.pipeline, mode="update")
    drawing.add(Keep, rng.choice(drawing.of("string")[:3]), drawing.pick("int")[0], rng.choice(("row", "frame")))
    _above(drawing)


_SHAPES = {
    "stateless": _stateless,
    "grouped": _plain_grouped,
    "tumbling": _tumbling,
    "sliding": _sliding,
    "session": _session,
    "dedup": _dedup,
    "dedup-within": _dedup_within,
    "dedup-grouped": _dedup_grouped,
    "met": _met,
    "met-grouped": _met_grouped,
    "union-grouped": _union_grouped,
    "kept": _kept,
}
