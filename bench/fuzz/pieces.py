"""Measures pairs and asks about them, piece by piece; what was measured before an interruption stays measured."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.fuzz.label import Label
from bench.fuzz.pairs import Pair
from bench.fuzz.verdicts import Grade, Line, grade
from bench.matrix.checking import check_with_command
from bench.matrix.data import KAFKA
from bench.matrix.record import Truth, append_truth, read_commit, read_truths, still_true
from bench.matrix.runs import open_session
from bench.matrix.score import read_answer
from bench.matrix.topics import delete_topics, units_elsewhere
from bench.matrix.truth import Bench, CaseBroken, is_deployed, request_of
from harness.kafka_broker import KafkaBroker

PIECE = 36
"""How many pairs share a session: three bases."""

Say = Callable[[str], None]
Check = Callable[[Path], list[dict[str, Any]]]
Servers = Callable[[], str]
"""Gives the address of a broker that runs; asked only where a pair is on Kafka."""


def say_now(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def run_piece(
    pairs: Sequence[Pair],
    root: Path,
    known: dict[str, Truth],
    say: Say,
    *,
    until: float,
    servers: Servers,
    check: Check | None = None,
) -> list[Line]:
    """The lines of the pairs that were reached before ``until`` (of time.monotonic).

    ``known``: truths of earlier runs, by id. The checkpoints are gone afterwards.
    """
    address = servers() if any(on_kafka(each) for each in pairs) else ""
    truths, broken = measure(pairs, root, known, say, until=until, servers=address)
    asked = [each for each in pairs if each.id in truths]
    answers = ask(asked, root, check or check_with_command) if asked else []
    commit = read_commit()
    lines = [_line(each, commit, truths[each.id], answer) for each, answer in zip(asked, answers, strict=True)]
    lines += [_line(each, commit, broken=broken[each.id]) for each in pairs if each.id in broken]
    if address:
        delete_topics(root / "units", KafkaBroker(address))
    for folder in ("units", "cases"):
        shutil.rmtree(root / folder, ignore_errors=True)
    return lines


def on_kafka(pair: Pair) -> bool:
    """Whether a pair needs a broker."""
    return pair.case.data.form == KAFKA


def measure(
    pairs: Sequence[Pair], root: Path, known: dict[str, Truth], say: Say, *, until: float, servers: str = ""
) -> tuple[dict[str, Truth], dict[str, str]]:
    """Id -> what Spark did, and id -> why it could not be told; the checkpoints are there afterwards.

    In a process of its own: a Python process has one JVM, and it ends with the session.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (list(pairs), root, known, say, until, servers))


def _measure(
    pairs: Sequence[Pair], root: Path, known: dict[str, Truth], say: Say, until: float, servers: str
) -> tuple[dict[str, Truth], dict[str, str]]:
    record = root / "truth.jsonl"
    kept = {(id, each.provider): each for id, each in known.items()} | read_truths(record)
    valid = still_true([(each.case, each.provider) for each in pairs], kept)
    found: dict[str, Truth] = {}
    broken: dict[str, str] = {}
    scratch = root / "spark"
    broker = KafkaBroker(servers) if servers else None
    # An interrupted run's topics went with its broker.
    for unit in units_elsewhere(root / "units", broker):
        shutil.rmtree(unit)
    try:
        with open_session(scratch) as spark:
            bench = Bench(spark, root, with_state=True, broker=broker)
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


def ask(pairs: Sequence[Pair], root: Path, check: Check = check_with_command) -> list[dict[str, Any]]:
    """What the check answers about each pair, as it says it."""
    file = root / "requests.jsonl"
    file.write_text("".join(json.dumps(request_of(root, each.case, each.provider)) + "\n" for each in pairs))
    return check(file)


def _line(
    pair: Pair, commit: str, truth: Truth | None = None, told: dict[str, Any] | None = None, broken: str = ""
) -> Line:
    answer = read_answer(told) if told else None
    line = Line(
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
    odd = told and grade(line) in (Grade.UNSAFE, Grade.FALSE_ALARM, Grade.ERROR)
    return msgspec.structs.replace(line, findings=findings_of(told)) if odd and told else line


def findings_of(told: dict[str, Any]) -> tuple[str, ...]:
    """Rule, place and evidence of each finding of an answer."""
    found = [each for query in told.get("queries", {}).values() for each in query.get("findings", ())]
    return tuple(f"{each['rule']} at {each.get('where')}: {each.get('evidence')}"[:400] for each in found)


def _short(truth: Truth) -> Truth:
    evidence = "" if truth.outcome.safe else truth.evidence[:600]
    return msgspec.structs.replace(truth, evidence=evidence)
