"""Shrinks a pair that was found: parts are left out as long as the pair gets the same grade."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from conformance.fuzz.kafka import WAYS
from conformance.fuzz.label import Edit
from conformance.fuzz.pairs import Pair, as_pair
from conformance.fuzz.pieces import Say, Servers, run_piece
from conformance.fuzz.pipeline import Pipeline
from conformance.fuzz.stages import Grouped
from conformance.fuzz.verdicts import Line, grade
from conformance.matrix.data import KAFKA


def shrink(pair: Pair, root: Path, say: Say, servers: Servers) -> tuple[Pair, Line]:
    """Return the smallest pair of the same grade that was found by leaving out one part after the other, and its
    line.
    """
    [line] = run_piece([pair], root, {}, say, until=math.inf, servers=servers)
    wanted = grade(line)
    say(f"{pair.id}: {wanted.value}")
    for number in count():
        smaller = [_pair(pair, number, at, each) for at, each in enumerate(_smaller(pair))]
        lines = run_piece(smaller, root, {}, say, until=math.inf, servers=servers) if smaller else []
        same = {each.id: each for each in lines if grade(each) is wanted}
        chosen = next((each for each in smaller if each.id in same), None)
        if chosen is None:
            break
        pair, line = chosen, same[chosen.id]
        say(f"{len(pair.pipeline.stages)} stages are left")
    return pair, line


def _pair(pair: Pair, number: int, at: int, sides: tuple[Pipeline, Pipeline]) -> Pair:
    edit = replace(pair.edit, after=sides[1])
    made: Edit = replace(edit, name=f"shrunk{number}x{at:02d}")
    return as_pair(pair.seed, pair.base, "00", sides[0], made, pair.provider)


def _smaller(pair: Pair) -> Iterator[tuple[Pipeline, Pipeline]]:
    """Yield both sides without the same part, as long as they still differ."""
    old, new = pair.pipeline, pair.edit.after
    for sides in _plainer(old, new):
        if sides[0] != sides[1] and sides[0] != old and all(each.is_whole() for each in sides):
            yield sides
    for stage in old.stages:
        sides = old.without(stage.uid), new.without(stage.uid)
        if sides[0] != sides[1] and sides[0].stages and all(each.is_whole() for each in sides):
            yield sides
    for stage in old.stages:
        if isinstance(stage, Grouped) and len(stage.folds) > 1:
            for fold in stage.folds:
                sides = _without_fold(old, fold.name), _without_fold(new, fold.name)
                if sides[0] != sides[1] and all(each.is_whole() for each in sides):
                    yield sides


def _plainer(old: Pipeline, new: Pipeline) -> Iterator[tuple[Pipeline, Pipeline]]:
    """Yield both sides without a wording or a reader option that they share; the difference of the edit stays.

    Rows in topics become rows in files: a pair with the same grade then needs no broker.
    """
    if old.form == new.form == KAFKA and _reads_of_topics(old) == _reads_of_topics(new):
        yield _from_files(old), _from_files(new)
    if old.output == new.output is not None:
        yield replace(old, output=None), replace(new, output=None)
    for text in old.texts:
        if text in new.texts:
            yield _without_text(old, text), _without_text(new, text)
    if old.read and old.read == new.read:
        yield replace(old, read=""), replace(new, read="")


def _reads_of_topics(pipeline: Pipeline) -> tuple[object, ...]:
    return (pipeline.read, *(each for each in pipeline.texts if each in WAYS))


def _from_files(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, form="json", read="", texts=tuple(each for each in pipeline.texts if each not in WAYS))


def _without_text(pipeline: Pipeline, text: str) -> Pipeline:
    return replace(pipeline, texts=tuple(each for each in pipeline.texts if each != text))


def _without_fold(pipeline: Pipeline, name: str) -> Pipeline:
    found = pipeline
    for stage in pipeline.stages:
        if isinstance(stage, Grouped):
            folds = tuple(each for each in stage.folds if each.name != name)
            found = found.put(replace(stage, folds=folds or stage.folds))
    return found
