"""Makes what was found smaller: stages are left out as long as the pair comes out the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from bench.fuzz.label import Edit
from bench.fuzz.pairs import Pair, as_pair
from bench.fuzz.pieces import Say, Servers, run_piece
from bench.fuzz.pipeline import Pipeline
from bench.fuzz.stages import Grouped
from bench.fuzz.verdicts import Line, grade


def shrink(pair: Pair, root: Path, say: Say, servers: Servers) -> tuple[Pair, Line]:
    """The smallest pair of the same grade that was found by leaving out one part after another, and its line."""
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
    """Both sides without the same part; the edit must still be one."""
    old, new = pair.pipeline, pair.edit.after
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


def _without_fold(pipeline: Pipeline, name: str) -> Pipeline:
    found = pipeline
    for stage in pipeline.stages:
        if isinstance(stage, Grouped):
            folds = tuple(each for each in stage.folds if each.name != name)
            found = found.put(replace(stage, folds=folds or stage.folds))
    return found
