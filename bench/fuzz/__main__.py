"""``python -m bench.fuzz``: draw realistic jobs and edits, measure what Spark does, ask the check, keep the score.

--seeds 1,2       whose pairs; --pairs N: so many of all of them; --only a,b: these ids or kinds of edits
--results FILE    a JSON line per pair (bench/results/fuzz.jsonl); what is there and still holds is not done again
--minutes M       begin no further pair after so long
--keep DIR        where checkpoints and job files are while they are needed, and measured outcomes (build/fuzz)
--no-kafka        leave out the jobs that read Kafka, as without its jars (make connectors)
--verdicts        ask the check again about every pair of the results; nothing is measured again
--score FILE      only tell the score
--shrink ID       the smallest pipeline with which a pair comes out as it does
--show ID         the job file before and after
--kinds           how the kinds of edits spread over the pairs that would be drawn
"""

from __future__ import annotations

import argparse
import difflib
import signal
import time
from collections import Counter
from itertools import islice
from pathlib import Path

from bench.fuzz.brokers import BrokerOnDemand
from bench.fuzz.pairs import Pair, draw_pairs, find_pair
from bench.fuzz.pieces import PIECE, Servers, on_kafka, run_piece, say_now
from bench.fuzz.shrinking import shrink
from bench.fuzz.verdicts import Line, append_lines, grade, read_lines, render_score, write_lines
from harness.kafka_broker import has_jars
from harness.places import ROOT

RESULTS = ROOT / "bench/results/fuzz.jsonl"


def main() -> int:
    """Run what was asked for; 1 when an unsafe change was let through or a pair is in error."""
    chosen = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = chosen.keep.resolve()
    root.mkdir(parents=True, exist_ok=True)
    if chosen.score:
        print(render_score(read_lines(chosen.score).values()))
        return 0
    if chosen.show:
        show(find_pair(chosen.show))
        return 0
    if chosen.kinds:
        kinds = Counter(f"{pair.edit.label.value}: {pair.edit.name}" for pair in _pairs(chosen))
        print("\n".join(f"{count:5} {kind}" for kind, count in sorted(kinds.items(), key=lambda each: -each[1])))
        return 0
    with BrokerOnDemand(root / "broker") as broker:
        if not chosen.shrink:
            return campaign(chosen, root, broker.servers)
        smallest, line = shrink(find_pair(chosen.shrink), root, say_now, broker.servers)
        show(smallest)
        print(grade(line).value, line.truth, line.answer, sep="\n")
        return 0


def _pairs(chosen: argparse.Namespace) -> list[Pair]:
    """As many of each seed."""
    seeds = [int(each) for each in chosen.seeds.split(",")]
    each_seed = -(-chosen.pairs // len(seeds))
    return [pair for seed in seeds for pair in islice(draw_pairs(seed), each_seed)]


def campaign(chosen: argparse.Namespace, root: Path, servers: Servers) -> int:
    """Run pairs until they are done or time is up."""
    known = read_lines(chosen.results)
    if chosen.verdicts:
        drawn = [pair for pair in map(_drawn, known) if pair is not None]
        print(f"{len(known) - len(drawn)} pairs are not drawn any more", flush=True)
    else:
        drawn = _pairs(chosen)
    only = frozenset(filter(None, chosen.only.split(",")))
    wanted = [pair for pair in drawn if not only or pair.id in only or pair.edit.name in only]
    todo = [pair for pair in wanted if chosen.verdicts or not _is_done(pair, known.get(pair.id))]
    if chosen.no_kafka or not has_jars():
        why = "--no-kafka" if chosen.no_kafka else "its jars are not there: make connectors"
        runnable = [pair for pair in todo if not on_kafka(pair)]
        say_now(f"{len(todo) - len(runnable)} pairs on Kafka are skipped ({why})")
        todo = runnable
    truths = {id: line.truth for id, line in known.items() if line.truth is not None}
    started, until = time.monotonic(), time.monotonic() + 60 * chosen.minutes
    count = 0
    for at in range(0, len(todo), PIECE):
        if time.monotonic() > until:
            break
        lines = run_piece(todo[at : at + PIECE], root, truths, say_now, until=until, servers=servers)
        append_lines(chosen.results, lines)
        count += len(lines)
        pace = count / (time.monotonic() - started) * 60
        say_now(f"{count}/{len(todo)} pairs, {pace:.1f} a minute")
    write_lines(chosen.results, read_lines(chosen.results).values())
    score = render_score(read_lines(chosen.results).values())
    print(score)
    return 1 if "unsafe:" in score or "error:" in score else 0


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


def _is_done(pair: Pair, line: Line | None) -> bool:
    return line is not None and line.truth is not None and line.truth.key == pair.case.key(pair.provider)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.fuzz", description="Drawn jobs and edits against the check.")
    parser.add_argument("--seeds", default="1,2,3,4")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--only", default="")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=115)
    parser.add_argument("--keep", type=Path, default=ROOT / "build/fuzz")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--verdicts", action="store_true")
    parser.add_argument("--score", type=Path)
    parser.add_argument("--shrink", default="")
    parser.add_argument("--show", default="")
    parser.add_argument("--kinds", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
