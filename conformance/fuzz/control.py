"""``python -m conformance.fuzz.control``: blinds the check to one argument at a time; the fuzzer must notice.

Negative control: for each argument in BLINDED, pairs are drawn whose edit changes exactly that argument. What Spark
does is measured as usual, and the check runs with that argument removed from its comparison. A pair that the check then
lets through counts as found. The exit code is 1 if any argument goes unnoticed. Jobs that read files are sufficient.
``--pairs``: how many for each argument; ``--results``: a JSON line each.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from conformance.fuzz.expressions import Expr
from conformance.fuzz.label import Label
from conformance.fuzz.pairs import Pair, as_pair
from conformance.fuzz.pieces import ask, findings_of, measure, say_now
from conformance.fuzz.stages import Grouped, With
from conformance.matrix.checking import check_with_command
from conformance.matrix.data import KAFKA
from harness.checkout import read_origin
from harness.places import ROOT

BLINDED: dict[str, tuple[str, int]] = {
    "DateFormatClass.right": ("date_format", 1),
    "RegExpExtract.regexp": ("extract", 1),
    "RegExpReplace.regexp": ("replaced", 1),
    "StringSplit.regex": ("part", 1),
    "Substring.pos": ("substring", 1),
    "Pmod.right": ("pmod", 1),
    "TruncTimestamp.format": ("hours", 0),
    "ArrayTransform.function": ("transform", 1),
    "ArrayFilter.function": ("filter", 1),
    "ArrayAggregate.merge": ("sum_up", 1),
}
"""Class and argument -> the operation of the grammar and the index of the corresponding argument."""

_PATCH = """
from streamkeeper.inspection import spark_classes

spark_classes.UNSTABLE_ARGUMENTS |= {{({node!r}, {argument!r})}}
"""


def main() -> int:
    """Blind the check, measure and compare; return 1 if an argument goes unnoticed."""
    chosen = _arguments()
    root = chosen.keep.resolve()
    root.mkdir(parents=True, exist_ok=True)
    pairs = {name: _pairs_for(name, chosen.pairs) for name in BLINDED if not chosen.only or name in chosen.only}
    truths, _ = measure([pair for each in pairs.values() for pair in each], root, {}, say_now, until=math.inf)
    missed = 0
    with chosen.results.open("w") as stream:
        for name, wanted in pairs.items():
            differ = [each for each in wanted if each.id in truths and not truths[each.id].outcome.safe]
            blinded = partial(check_with_command, first=_blind(root, name))
            answers = list(ask(differ, root, blinded)) if differ else []
            found = [pair.id for pair, told in zip(differ, answers, strict=True) if told.get("verdict") == "RESUME"]
            missed += not found
            line = {
                "argument": name,
                **read_origin(),
                "drawn": len(wanted),
                "differ": len(differ),
                "found": found,
                "stopped": {
                    pair.id: findings_of(told)
                    for pair, told in zip(differ, answers, strict=True)
                    if pair.id not in found
                },
            }
            stream.write(json.dumps(line) + "\n")
            print(line, flush=True)
    return 1 if missed else 0


def _pairs_for(name: str, wanted: int) -> list[Pair]:
    """Return changing edits of that argument, drawn as in a campaign but from separate seeds."""
    operation, place = BLINDED[name]
    found: list[Pair] = []
    for base in count():
        for pair in _edits_of_base(base):
            if _touches(pair, operation, place):
                found.append(pair)
                break
        if len(found) == wanted or base > 20_000:
            return found
    return found


def _edits_of_base(base: int) -> Iterator[Pair]:
    from conformance.fuzz.drawing import draw_pipeline
    from conformance.fuzz.edits import edits_of

    pipeline = draw_pipeline(f"control/{base}")
    if pipeline.form == KAFKA or not any(isinstance(each, Grouped) for each in pipeline.stages):
        return
    for number, edit in enumerate(edits_of(pipeline)):
        if edit.label is Label.CHANGING and edit.name.startswith("column-"):
            yield as_pair(0, base, f"{number:03d}", pipeline, edit, "rocksdb" if base % 2 else "hdfs")


def _touches(pair: Pair, operation: str, place: int) -> bool:
    for one, other in zip(pair.pipeline.stages, pair.edit.after.stages, strict=False):
        if isinstance(one, With) and isinstance(other, With) and one != other:
            return _differs_below(one.expr, other.expr, operation, place)
    return False


def _differs_below(one: Expr, other: Expr, operation: str, place: int) -> bool:
    """Return whether the only difference is inside that argument of that operation."""
    if (one.op, one.value, len(one.args)) != (other.op, other.value, len(other.args)):
        return False
    differing = [at for at, each in enumerate(one.args) if each != other.args[at]]
    if len(differing) != 1:
        return False
    [at] = differing
    if one.op == operation and at == place:
        return True
    return _differs_below(one.args[at], other.args[at], operation, place)


def _blind(root: Path, name: str) -> Path:
    """Create a folder whose ``sitecustomize`` removes the argument from the comparison in every process of the
    check.
    """
    node, argument = name.split(".")
    folder = root / "blind" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_PATCH.format(node=node, argument=argument))
    return folder


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance.fuzz.control", description="A blinded check must be caught.")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--keep", type=Path, default=ROOT / "build/fuzz-control")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/fuzz-controls.jsonl")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
