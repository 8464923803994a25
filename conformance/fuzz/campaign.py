"""A campaign: measures the pairs without a known truth, lets the rules answer about all pairs, and rehearses a share of
them.

It has three passes, each in pieces that share a warm session: an interrupted run continues with the first missing pair.
Workers are processes of this command, each with a share of the bases and its own folder; they append lines to the same
files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from conformance.fuzz.brokers import BrokerOnDemand
from conformance.fuzz.pairs import Pair
from conformance.fuzz.pieces import Servers, answer_pairs, broken_line, drop_units, measure, on_kafka, say_now
from conformance.fuzz.plugins_state import plugins_state
from conformance.fuzz.truths import key_of, read_known, tidy_known, truth_of
from conformance.fuzz.verdicts import Lines, append_lines, never_ends, read_lines, render_scores, write_lines
from conformance.matrix.case import Outcome
from harness.kafka_broker import has_jars

PIECE = 60
"""How many pairs share a session that measures: five bases."""
ANSWERS = 240
"""How many pairs share a session in which the rules answer."""
_HARD = (Outcome.REFUSED, Outcome.NEVER_ENDS)


def run_campaign(chosen: argparse.Namespace, pairs: Sequence[Pair]) -> int:
    """Run one share of the pairs, or all of them with the given number of workers; return 1 if a pair is unsafe or in
    error.
    """
    pairs = _runnable(pairs, chosen)
    if chosen.share:
        run_share(chosen, pairs)
        return 0
    if chosen.workers > 1:
        _run_workers(chosen.workers)
    else:
        run_share(chosen, pairs)
    if chosen.truths.exists():
        tidy_known(chosen.truths)
    lines = read_lines(chosen.results, read_known(chosen.truths))
    write_lines(chosen.results, lines.values())
    score = render_scores(lines.values(), plugins_state())
    print(score)
    return 1 if "unsafe:" in score or "error:" in score else 0


def _run_workers(count: int) -> None:
    """Run the same command once for each share; all workers terminate with this process."""
    given = [sys.executable, "-m", "conformance.fuzz", *sys.argv[1:]]
    running = [subprocess.Popen([*given, "--share", f"{at}/{count}"]) for at in range(count)]
    try:
        codes = [each.wait() for each in running]
    finally:
        for each in running:
            if each.poll() is None:
                each.terminate()
        for each in running:
            each.wait()
    if any(codes):
        raise RuntimeError(f"workers ended with exit codes {codes}")


def run_share(chosen: argparse.Namespace, pairs: Sequence[Pair]) -> None:
    """Measure and check the pairs of one share until they are done or the time is up."""
    at, count = (int(each) for each in (chosen.share or "0/1").split("/"))
    root = chosen.keep.resolve() / f"w{at}"
    root.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * chosen.minutes
    mine = [each for each in pairs if _share_of(each, count) == at]
    with BrokerOnDemand(root / "broker") as broker:
        if not chosen.verdicts:
            _measure_all(mine, chosen, root, broker.servers, until)
        known = read_known(chosen.truths)
        measured = [each for each in mine if truth_of(each, known) is not None]
        _answer_all(measured, chosen, root, broker.servers, until, rehearse=False)
        lines = read_lines(chosen.results, known)
        drawn = to_rehearse(pairs, chosen.rehearse, lines)
        _answer_all([each for each in measured if each.id in drawn], chosen, root, broker.servers, until, rehearse=True)


def to_rehearse(pairs: Sequence[Pair], wanted: int, lines: Lines) -> frozenset[str]:
    """Return the ids of ``wanted`` pairs, drawn by their ids alone, and of those that Spark refuses although the rules
    let them through.

    Only a rehearsal can find what Spark refuses without a rule that covers it.
    """
    if not wanted:
        return frozenset()
    ids = sorted(each.id for each in pairs)
    drawn = Random("rehearsed").sample(ids, min(wanted, len(ids)))
    refused = {id for (id, rehearsed), line in lines.items() if not rehearsed and _is_left(line)}
    return frozenset(drawn) | (refused & set(ids))


def _is_left(line: object) -> bool:
    truth, answer = getattr(line, "truth", None), getattr(line, "answer", None)
    return bool(truth and answer and truth.outcome in _HARD and answer.verdict == "RESUME")


def _measure_all(pairs: Sequence[Pair], chosen: argparse.Namespace, root: Path, servers: Servers, until: float) -> None:
    known = read_known(chosen.truths)
    lines = read_lines(chosen.results, known)
    todo = [each for each in pairs if truth_of(each, known) is None and not _is_hopeless(each, lines)]

    def do(piece: Sequence[Pair]) -> int:
        truths, broken = measure(piece, root, known, say_now, until=until, servers=servers, record=chosen.truths)
        if broken:
            lost = [each for each in piece if each.id in broken]
            append_lines(chosen.results, [broken_line(each, broken[each.id], rehearsed=False) for each in lost])
        drop_units(root, [each for each in pairs if not on_kafka(each)], servers)
        return len(truths) + len(broken)

    _in_pieces("measured", todo, PIECE, do, until)


def _is_hopeless(pair: Pair, lines: Lines) -> bool:
    line = lines.get((pair.id, False))
    return line is not None and line.key == key_of(pair) and never_ends(line)


def _answer_all(
    pairs: Sequence[Pair], chosen: argparse.Namespace, root: Path, servers: Servers, until: float, *, rehearse: bool
) -> None:
    known = read_known(chosen.truths)
    answered = read_lines(chosen.results, known)
    todo = [each for each in pairs if not is_answered(each, answered, rehearse=rehearse)]

    def do(piece: Sequence[Pair]) -> int:
        truths, _ = measure(piece, root, known, say_now, until=until, servers=servers, record=chosen.truths)
        count = 0
        for line in answer_pairs([each for each in piece if each.id in truths], truths, root, rehearse=rehearse):
            append_lines(chosen.results, [line])
            count += 1
            if count % 20 == 0:
                say_now(f"{count} of this piece are answered")
        drop_units(root, [each for each in pairs if not on_kafka(each)], servers)
        return count

    title = "rehearsed" if rehearse else "answered by rules"
    _in_pieces(title, todo, PIECE if rehearse else ANSWERS, do, until)


def is_answered(pair: Pair, lines: Lines, *, rehearse: bool) -> bool:
    """Return whether the present state of the check has already answered about exactly this pair."""
    line = lines.get((pair.id, rehearse))
    return line is not None and line.answer is not None and (line.key, line.plugins) == (key_of(pair), plugins_state())


def _in_pieces(title: str, todo: Sequence[Pair], size: int, do: Callable[[Sequence[Pair]], int], until: float) -> None:
    started, count = time.monotonic(), 0
    for at in range(0, len(todo), size):
        if time.monotonic() > until:
            break
        count += do(todo[at : at + size])
        seconds = time.monotonic() - started
        say_now(f"{title}: {count}/{len(todo)} pairs, {seconds / max(count, 1):.2f} s a pair")


def _share_of(pair: Pair, count: int) -> int:
    return zlib.crc32(f"{pair.seed}/{pair.base}".encode()) % count


def _runnable(pairs: Sequence[Pair], chosen: argparse.Namespace) -> list[Pair]:
    if not (chosen.no_kafka or not has_jars()):
        return list(pairs)
    why = "--no-kafka" if chosen.no_kafka else "its jars are not there: make connectors"
    runnable = [each for each in pairs if not on_kafka(each)]
    if not chosen.share:
        say_now(f"{len(pairs) - len(runnable)} pairs on Kafka are skipped ({why})")
    return runnable
