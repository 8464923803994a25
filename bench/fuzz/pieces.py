"""Measures pairs and asks about them, piece by piece; what was measured before an interruption stays measured."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.fuzz.edits import Label
from bench.fuzz.pairs import Pair
from bench.fuzz.verdicts import Line
from bench.matrix.checking import check_with_command
from bench.matrix.record import Truth, append_truth, read_commit, read_truths, still_true
from bench.matrix.runs import open_session
from bench.matrix.score import Answer, read_answer
from bench.matrix.truth import Bench, CaseBroken, is_deployed, request_of

PIECE = 48
"""How many pairs share a session: four bases."""

Say = Callable[[str], None]
Answers = list[Answer]
Check = Callable[[Path], list[dict[str, object]]]


def run_piece(
    pairs: Sequence[Pair], root: Path, known: dict[str, Truth], say: Say, *, until: float, check: Check | None = None
) -> list[Line]:
    """The lines of the pairs that were reached before ``until`` (of time.monotonic).

    ``known``: truths of earlier runs, by id. The checkpoints are gone afterwards.
    """
    truths, broken = measure(pairs, root, known, say, until=until)
    asked = [each for each in pairs if each.id in truths]
    answers = ask(asked, root, check or check_with_command) if asked else []
    commit = read_commit()
    lines = [_line(each, commit, truths[each.id], answer) for each, answer in zip(asked, answers, strict=True)]
    lines += [_line(each, commit, broken=broken[each.id]) for each in pairs if each.id in broken]
    for folder in ("units", "cases"):
        shutil.rmtree(root / folder, ignore_errors=True)
    return lines


def measure(
    pairs: Sequence[Pair], root: Path, known: dict[str, Truth], say: Say, *, until: float
) -> tuple[dict[str, Truth], dict[str, str]]:
    """Id -> what Spark did, and id -> why it could not be told; the checkpoints are there afterwards."""
    record = root / "truth.jsonl"
    kept = {(id, each.provider): each for id, each in known.items()} | read_truths(record)
    valid = still_true([(each.case, each.provider) for each in pairs], kept)
    found: dict[str, Truth] = {}
    broken: dict[str, str] = {}
    scratch = root / "spark"
    try:
        with open_session(scratch) as spark:
            bench = Bench(spark, root, with_state=True)
            for pair in pairs:
                name = (pair.case.id, pair.provider)
                if time.monotonic() > until:
                    break
                try:
                    if name in valid:
                        if not is_deployed(root, pair.case, pair.provider):
                            bench.deploy(pair.case, pair.provider)
                        found[pair.id] = kept[name]
                        continue
                    truth = bench.measure(pair.case, pair.provider)
                except CaseBroken as error:
                    broken[pair.id] = str(error)[:600]
                    say(f"{pair.id} {pair.provider}: broken: {broken[pair.id]}")
                    continue
                found[pair.id] = _short(truth)
                append_truth(record, found[pair.id])
                odd = " !" if pair.edit.label is Label.EQUIVALENT and not truth.outcome.safe else ""
                say(f"{pair.id} {pair.provider}: {truth.outcome.value} {truth.seconds:.1f} s{odd}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return found, broken


def ask(pairs: Sequence[Pair], root: Path, check: Check = check_with_command) -> Answers:
    """What the check says of each pair."""
    file = root / "requests.jsonl"
    file.write_text("".join(json.dumps(request_of(root, each.case, each.provider)) + "\n" for each in pairs))
    return [read_answer(line) for line in check(file)]


def _line(pair: Pair, commit: str, truth: Truth | None = None, answer: Answer | None = None, broken: str = "") -> Line:
    return Line(
        id=pair.id,
        seed=pair.seed,
        base=pair.base,
        edit=pair.edit.name,
        label=pair.edit.label,
        opaque=pair.edit.opaque,
        provider=pair.provider,
        commit=commit,
        truth=truth,
        answer=answer,
        broken=broken,
    )


def _short(truth: Truth) -> Truth:
    import msgspec

    evidence = "" if truth.outcome.safe else truth.evidence[:600]
    return msgspec.structs.replace(truth, evidence=evidence)
