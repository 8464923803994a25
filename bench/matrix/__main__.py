"""``python -m bench.matrix``: measure what Spark does with every change, ask the check about it, keep the score.

--only a,b        only these cases or groups; --spread N: so many, evenly over all of them
--keep DIR        where checkpoints, job files and measured outcomes are kept, and taken from next time (build/matrix)
--results FILE    a JSON line per case: outcome, verdict, grade
--measure         stop before the check is asked
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
from pathlib import Path

import msgspec
from rich.console import Console

from bench.bed import ROOT
from bench.matrix.case import Case
from bench.matrix.cases import pairs, read_recorded
from bench.matrix.checking import Check, check_with_command
from bench.matrix.report import print_differences, print_score
from bench.matrix.runs import open_session
from bench.matrix.score import Score, read_answer, score
from bench.matrix.truth import Bench, Truth, read_truths, request_of

Pair = tuple[Case, str]
Truths = dict[tuple[str, str], Truth]


def main() -> int:
    """Run the bench; 1 when an unsafe change was let through."""
    chosen = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(width=200) if not Console().is_terminal else Console()
    wanted = list(pairs(frozenset(filter(None, chosen.only.split(","))), chosen.spread))
    truths = measure(wanted, chosen.keep, console)
    requests = write_requests(wanted, chosen.keep)
    print_differences(console, truths.values(), read_recorded())
    if chosen.measure:
        return 0
    found = ask(wanted, truths, requests, check_with_command)
    _write_results(chosen.results, found)
    print_score(console, found)
    return 1 if found.failed else 0


def measure(wanted: list[Pair], root: Path, console: Console) -> Truths:
    """Every outcome, from the kept lines where they still hold, else from Spark."""
    root = root.resolve()
    root.mkdir(parents=True, exist_ok=True)
    kept = read_truths(root / "truth.jsonl")
    found: Truths = {}
    missing = []
    for case, provider in wanted:
        known = kept.get((case.id, provider))
        if known is not None and known.key == case.key(provider) and (root / "cases").is_dir():
            found[case.id, provider] = known
        else:
            missing.append((case, provider))
    if not missing:
        return found
    scratch = root / "spark"
    try:
        with open_session(scratch) as spark, (root / "truth.jsonl").open("a") as file:
            bench = Bench(spark, root)
            for number, (case, provider) in enumerate(missing, 1):
                truth = bench.measure(case, provider)
                found[case.id, provider] = truth
                file.write(msgspec.json.encode(truth).decode() + "\n")
                file.flush()
                told = f"{number}/{len(missing)} {case.id} {provider}: {truth.outcome.value} {truth.seconds:.1f} s"
                console.print(told, highlight=False)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return found


def write_requests(wanted: list[Pair], root: Path) -> Path:
    """The file of requests, in the order of ``wanted``."""
    file = root.resolve() / "requests.jsonl"
    lines = [json.dumps(request_of(root.resolve(), case, provider)) for case, provider in wanted]
    file.write_text("\n".join(lines) + "\n")
    return file


def ask(wanted: list[Pair], truths: Truths, requests: Path, check: Check) -> Score:
    """The score of a check's answers."""
    answers = [read_answer(line) for line in check(requests)]
    return score(
        (case, truths[case.id, provider], answer) for (case, provider), answer in zip(wanted, answers, strict=True)
    )


def _write_results(file: Path, found: Score) -> None:
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"commit": run.stdout.strip(), **msgspec.to_builtins(each)}) for each in found.graded]
    file.write_text("\n".join(lines) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.matrix", description="Verdicts against what Spark really does.")
    parser.add_argument("--only", default="")
    parser.add_argument("--spread", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=ROOT / "build/matrix")
    parser.add_argument("--results", type=Path, default=ROOT / "build/matrix.jsonl")
    parser.add_argument("--measure", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
