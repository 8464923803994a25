"""``python -m conformance.matrix``: measure what Spark does with every change, run the check on it, keep the score.

--only a,b        only these cases or groups; --spread N: so many, evenly over all of them
--keep DIR        where checkpoints and job files are kept, and taken from next time (build/matrix)
--truth FILE      measured outcomes; a case whose line still holds is not measured again
--results FILE    a JSON line per case: outcome, verdict, grade
--measure         stop before the check is asked; --again: measure all cases, whatever the lines contain
--first           one case and no more, measured again; everything that it writes goes to build/first/
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from conformance.matrix.cases import pairs, read_recorded
from conformance.matrix.checking import Check, check_with_command
from conformance.matrix.record import TRUTH, Pair, Truths, append_truth, read_truths, still_true, tidy_truths
from conformance.matrix.report import print_differences, print_score
from conformance.matrix.runs import open_session
from conformance.matrix.score import Score, read_answer, score
from conformance.matrix.truth import Bench, CaseBroken, is_deployed, request_of
from harness.checkout import read_origin
from harness.places import ROOT


def main() -> int:
    """Run the bench; return 1 if an unsafe change was let through, or a case does not even run."""
    chosen = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(width=200) if not Console().is_terminal else Console()
    wanted = list(pairs(frozenset(filter(None, chosen.only.split(","))), chosen.spread))
    root = chosen.keep.resolve()
    truths = measure(wanted, root, chosen.truth, console, again=chosen.again)
    broken = [(case, provider) for case, provider in wanted if (case.id, provider) not in truths]
    wanted = [pair for pair in wanted if pair not in broken]
    requests = write_requests(wanted, root)
    print_differences(console, truths.values(), read_recorded())
    if chosen.measure:
        return 1 if broken else 0
    found = ask(wanted, truths, requests, check_with_command)
    _write_results(chosen.results, found)
    print_score(console, found)
    return 1 if found.failed or broken else 0


def measure(wanted: list[Pair], root: Path, record: Path, console: Console, *, again: bool = False) -> Truths:
    """Return every outcome, from its line if that is still valid, otherwise measured with Spark; every checkpoint
    exists afterwards.

    Lines are written as they arrive: what was measured before a Ctrl-C is not measured a second time.
    """
    kept = read_truths(record)
    found = {} if again else {pair: kept[pair] for pair in kept.keys() & still_true(wanted, kept)}
    todo = [(case, provider) for case, provider in wanted if (case.id, provider) not in found]
    bare = [
        (case, provider)
        for case, provider in wanted
        if (case.id, provider) in found and not is_deployed(root, case, provider)
    ]
    if not todo and not bare:
        return found
    scratch = root / "spark"
    try:
        with open_session(scratch) as spark:
            bench = Bench(spark, root)
            for number, (case, provider) in enumerate(bare, 1):
                bench.deploy(case, provider)
                console.print(f"{number}/{len(bare)} {case.id} {provider}: deployed", highlight=False)
            for number, (case, provider) in enumerate(todo, 1):
                try:
                    truth = bench.measure(case, provider)
                except CaseBroken as broken:
                    console.print(f"[red]{escape(str(broken))}[/red]")
                    continue
                found[case.id, provider] = truth
                append_truth(record, truth)
                told = f"{number}/{len(todo)} {case.id} {provider}: {truth.outcome.value} {truth.seconds:.1f} s"
                console.print(told, highlight=False)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    tidy_truths(record, list(pairs()))
    return found


def write_requests(wanted: list[Pair], root: Path) -> Path:
    """Write the file of requests, in the order of ``wanted``."""
    file = root / "requests.jsonl"
    lines = [json.dumps(request_of(root, case, provider)) for case, provider in wanted]
    file.write_text("\n".join(lines) + "\n")
    return file


def ask(wanted: list[Pair], truths: Truths, requests: Path, check: Check) -> Score:
    """Return the score of the check's answers."""
    answers = [read_answer(line) for line in check(requests)]
    return score(
        (case, truths[case.id, provider], answer) for (case, provider), answer in zip(wanted, answers, strict=True)
    )


def _write_results(file: Path, found: Score) -> None:
    origin = read_origin()
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({**origin, **msgspec.to_builtins(each)}) for each in found.graded]
    file.write_text("\n".join(lines) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance.matrix", description="Verdicts against what Spark really does.")
    parser.add_argument("--only", default="")
    parser.add_argument("--spread", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=ROOT / "build/matrix")
    parser.add_argument("--truth", type=Path, default=TRUTH)
    parser.add_argument("--results", type=Path, default=ROOT / "build/matrix.jsonl")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--first", action="store_true")
    chosen = parser.parse_args()
    if chosen.first:
        place = ROOT / "build/first"
        chosen.spread, chosen.again, chosen.keep = 1, True, place / "matrix"
        chosen.truth, chosen.results = place / "matrix-truth.jsonl", place / "matrix.jsonl"
    return chosen


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
