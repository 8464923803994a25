"""``python -m conformance.fuzz``: draw realistic jobs and edits, measure Spark, run the check, keep the score.

--seeds 1,2       whose pairs; --pairs N: so many of all of them; --only a,b: these ids or kinds of edits
--truths FILE     what Spark did, by pair and version of Spark (bench/results/fuzz-truths.jsonl); never measured again
--results FILE    what the check answered, by pair and state of plugins/ (bench/results/fuzz.jsonl)
--rehearse N      the rules answer about all pairs; N of them, drawn by seed, are rehearsed as well (none)
--verdicts        measure nothing, and check every pair of the results whose truth is known
--workers N       so many processes share the bases (1)
--minutes M       begin no further piece after so long
--keep DIR        where deployed jobs and their checkpoints are kept for the next answer (build/fuzz)
--no-kafka        leave out the jobs that read Kafka, as without its jars (make connectors)
--score           only print the score
--shrink ID       the smallest pipeline with which a pair has the same grade
--show ID         the job file before and after
--kinds           how the kinds of edits spread over the pairs that would be drawn
"""

from __future__ import annotations

import argparse
import difflib
import signal
from collections import Counter
from itertools import islice
from pathlib import Path

from conformance.fuzz.brokers import BrokerOnDemand
from conformance.fuzz.campaign import run_campaign
from conformance.fuzz.pairs import Pair, draw_pairs, find_pair
from conformance.fuzz.pieces import say_now
from conformance.fuzz.plugins_state import plugins_state
from conformance.fuzz.shrinking import shrink
from conformance.fuzz.truths import TRUTHS, read_known
from conformance.fuzz.verdicts import grade, read_lines, render_scores
from harness.places import ROOT

RESULTS = ROOT / "bench/results/fuzz.jsonl"


def main() -> int:
    """Run what the command line requests; return 1 if an unsafe change was let through or a pair is in error."""
    chosen = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if chosen.score:
        lines = read_lines(chosen.results, read_known(chosen.truths))
        print(render_scores(lines.values(), plugins_state()))
        return 0
    if chosen.show:
        show(find_pair(chosen.show))
        return 0
    if chosen.kinds:
        kinds = Counter(f"{pair.edit.label.value}: {pair.edit.name}" for pair in _pairs(chosen))
        print("\n".join(f"{count:5} {kind}" for kind, count in sorted(kinds.items(), key=lambda each: -each[1])))
        return 0
    if not chosen.shrink:
        return run_campaign(chosen, _wanted(chosen))
    root = chosen.keep.resolve() / "shrinking"
    root.mkdir(parents=True, exist_ok=True)
    with BrokerOnDemand(root / "broker") as broker:
        smallest, line = shrink(find_pair(chosen.shrink), root, say_now, broker.servers)
    show(smallest)
    print(grade(line).value, line.truth, line.answer, sep="\n")
    return 0


def _pairs(chosen: argparse.Namespace) -> list[Pair]:
    """Return the pairs of the seeds, equally many of each."""
    seeds = [int(each) for each in chosen.seeds.split(",")]
    each_seed = -(-chosen.pairs // len(seeds))
    return [pair for seed in seeds for pair in islice(draw_pairs(seed), each_seed)]


def _wanted(chosen: argparse.Namespace) -> list[Pair]:
    """Return the chosen pairs, of the seeds or of earlier answers."""
    if chosen.verdicts:
        ids = list(dict.fromkeys(id for id, _ in read_lines(chosen.results, {})))
        drawn = [pair for pair in map(_drawn, ids) if pair is not None]
        if not chosen.share:
            say_now(f"{len(ids) - len(drawn)} pairs are not drawn any more")
    else:
        drawn = _pairs(chosen)
    only = frozenset(filter(None, chosen.only.split(",")))
    return [pair for pair in drawn if not only or pair.id in only or pair.edit.name in only]


def show(pair: Pair) -> None:
    """Print a pair's job file and its edit."""
    old, new = pair.case.old, pair.case.new
    print(pair.id, pair.provider, pair.edit.label.value, pair.edit.where)
    print(old.render())
    one, other = ([job.render(), *(text for _, text in job.files), str(pair.case.candidate_conf)] for job in (old, new))
    print("\n".join(difflib.unified_diff("\n".join(one).split("\n"), "\n".join(other).split("\n"), n=0, lineterm="")))


def _drawn(id: str) -> Pair | None:
    try:
        return find_pair(id)
    except LookupError:
        return None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance.fuzz", description="Drawn jobs and edits against the check.")
    parser.add_argument("--seeds", default="1,2,3,4")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--only", default="")
    parser.add_argument("--truths", type=Path, default=TRUTHS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--rehearse", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--share", default="", help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=115)
    parser.add_argument("--keep", type=Path, default=ROOT / "build/fuzz")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--verdicts", action="store_true")
    parser.add_argument("--score", action="store_true")
    parser.add_argument("--shrink", default="")
    parser.add_argument("--show", default="")
    parser.add_argument("--kinds", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
