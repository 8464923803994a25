"""Measures and checks pairs piece by piece; what was measured before an interruption is kept.

``root/units`` keeps the deployed jobs and their checkpoints between pieces and runs: an answer of the check needs
nothing else.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from conformance.fuzz.label import Label
from conformance.fuzz.pairs import Pair
from conformance.fuzz.plugins_state import plugins_state
from conformance.fuzz.truths import Known, keep_truth, key_of, read_known, truth_of
from conformance.fuzz.verdicts import Grade, Line, grade
from conformance.matrix.checking import check_with_command, stream_answers
from conformance.matrix.data import KAFKA
from conformance.matrix.record import Truth
from conformance.matrix.runs import open_session
from conformance.matrix.score import read_answer
from conformance.matrix.topics import delete_topics_of, units_elsewhere
from conformance.matrix.truth import Bench, CaseBroken, request_of, write_candidate
from harness.checkout import read_origin
from harness.kafka_broker import KafkaBroker

Say = Callable[[str], None]
Check = Callable[[Path], Iterable[dict[str, Any]]]
Servers = Callable[[], str]
"""Returns the address of a running broker; called only if a pair is on Kafka."""

_NOT_REHEARSED = ("not-looked", "no rehearsal was wanted")
_VERDICT_OF = {"fatal": "REFUSE", "breaking": "SWITCH", "opaque": "BACKUP", "note": "RESUME"}


def say_now(text: str) -> None:
    """Print a line and flush it."""
    print(text, flush=True)


def run_piece(
    pairs: Sequence[Pair],
    root: Path,
    known: Known,
    say: Say,
    *,
    until: float,
    servers: Servers,
    check: Check | None = None,
) -> list[Line]:
    """Measure the pairs that are reached before ``until`` (of time.monotonic), and check them with a rehearsal.

    The checkpoints and the topics are deleted afterwards.
    """
    truths, broken = measure(pairs, root, known, say, until=until, servers=servers)
    lines = [broken_line(each, broken[each.id]) for each in pairs if each.id in broken]
    asked = [each for each in pairs if each.id in truths]
    told = check or check_with_command
    lines = [*answer_pairs(asked, truths, root, rehearse=True, check=told), *lines] if asked else lines
    drop_units(root, [], servers)
    return lines


def on_kafka(pair: Pair) -> bool:
    """Return whether a pair needs a broker."""
    return pair.case.data.form == KAFKA


def measure(
    pairs: Sequence[Pair],
    root: Path,
    known: Known,
    say: Say,
    *,
    until: float,
    servers: Servers | None = None,
    record: Path | None = None,
) -> tuple[dict[str, Truth], dict[str, str]]:
    """Return id -> what Spark did, and id -> why it could not be measured; the checkpoints exist afterwards.

    This runs in a separate process, and only if Spark is needed: a Python process has one JVM, which terminates with
    the session. New truths are appended to ``record`` as they arrive.
    """
    address = servers() if servers and any(map(on_kafka, pairs)) else ""
    record = record or root / "truth.jsonl"
    _forget_lost_topics(root, address)
    found: dict[str, Truth] = {}
    todo: list[Pair] = []
    known = known | read_known(record)
    for pair in pairs:
        truth = truth_of(pair, known)
        if truth is not None and write_candidate(root, pair.case, pair.provider):
            found[pair.id] = truth
        else:
            todo.append(pair)
    if not todo:
        return found, {}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        truths, broken = pool.apply(_measure, (todo, root, known, say, until, address, record))
    return found | truths, broken


def _measure(
    pairs: Sequence[Pair], root: Path, known: Known, say: Say, until: float, servers: str, record: Path
) -> tuple[dict[str, Truth], dict[str, str]]:
    found: dict[str, Truth] = {}
    broken: dict[str, str] = {}
    scratch = root / "spark"
    try:
        with open_session(scratch) as spark:
            broker = KafkaBroker(servers) if servers else None
            bench = Bench(spark, root, with_state=True, broker=broker)
            for pair in pairs:
                if time.monotonic() > until:
                    break
                truth = truth_of(pair, known)
                try:
                    if truth is not None:
                        bench.deploy(pair.case, pair.provider)
                        found[pair.id] = truth
                        continue
                    truth = _short(bench.measure(pair.case, pair.provider))
                except CaseBroken as error:
                    broken[pair.id] = str(error)[:600]
                    say(f"{pair.id} {pair.provider}: broken: {broken[pair.id]}")
                    continue
                found[pair.id] = truth
                known[truth.key, truth.spark] = truth
                keep_truth(record, truth)
                odd = " !" if pair.edit.label is Label.EQUIVALENT and not truth.outcome.safe else ""
                say(f"{pair.id} {pair.provider}: {truth.outcome.value} {truth.seconds:.1f} s{odd}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return found, broken


def _forget_lost_topics(root: Path, servers: str) -> None:
    """Remove units whose topics were lost with the broker of an interrupted run."""
    for unit in units_elsewhere(root / "units", KafkaBroker(servers) if servers else None):
        shutil.rmtree(unit)


def drop_units(root: Path, kept: Iterable[Pair], servers: Servers | None) -> None:
    """Remove the candidates, and every unit except the deployed units of these pairs."""
    names = {each.case.deployed(each.provider).key for each in kept}
    units = root / "units"
    for unit in units.iterdir() if units.exists() else ():
        if unit.name in names:
            continue
        if servers and (unit / "in" / "topics.json").exists():
            delete_topics_of(unit, KafkaBroker(servers()))
        shutil.rmtree(unit, ignore_errors=True)
    shutil.rmtree(root / "cases", ignore_errors=True)


def answer_pairs(
    pairs: Sequence[Pair], truths: dict[str, Truth], root: Path, *, rehearse: bool, check: Check = stream_answers
) -> Iterator[Line]:
    """Yield a line with the check's answer about each deployed pair, as the answers arrive."""
    origin = read_origin()
    for pair, told in zip(pairs, ask(pairs, root, check, rehearse=rehearse), strict=True):
        yield _line(pair, origin, truths[pair.id], told, rehearsed=rehearse)


def ask(
    pairs: Sequence[Pair], root: Path, check: Check = check_with_command, *, rehearse: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield the check's answer about each pair, as it arrives; without a rehearsal, the answer of its rules alone."""
    file = root / "requests.jsonl"
    more = {} if rehearse else {"no_rehearsal": True}
    requests = [{**request_of(root, each.case, each.provider), **more} for each in pairs]
    file.write_text("".join(json.dumps(each) + "\n" for each in requests))
    with ExitStack() as stack:
        answers = check(file)
        close = getattr(answers, "close", None)
        if close is not None:
            stack.callback(close)
        for told in answers:
            yield told if rehearse else by_rules(told)


def by_rules(told: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without the finding that no rehearsal was wanted, with the verdict of the remaining
    findings.
    """
    if "queries" not in told:
        return told
    queries = {}
    for name, query in told["queries"].items():
        findings = [each for each in query["findings"] if (each["rule"], each.get("evidence", "")) != _NOT_REHEARSED]
        queries[name] = {"verdict": strictest(each["severity"] for each in findings), "findings": findings}
    found = {each["severity"] for query in queries.values() for each in query["findings"]}
    return {**told, "queries": queries, "verdict": strictest(found)}


def strictest(severities: Iterable[str]) -> str:
    """Return the verdict of findings with these severities."""
    found = set(severities)
    return next((verdict for severity, verdict in _VERDICT_OF.items() if severity in found), "RESUME")


def broken_line(pair: Pair, why: str, *, rehearsed: bool = True) -> Line:
    """Return the line of a pair that could not be measured."""
    return _line(pair, read_origin(), broken=why, rehearsed=rehearsed)


def _line(
    pair: Pair,
    origin: dict[str, str],
    truth: Truth | None = None,
    told: dict[str, Any] | None = None,
    broken: str = "",
    *,
    rehearsed: bool,
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
        commit=origin["commit"],
        code=origin["code"],
        key=key_of(pair),
        plugins=plugins_state(),
        rehearsed=rehearsed,
        truth=truth,
        answer=answer,
        broken=broken,
    )
    odd = told and grade(line) in (Grade.UNSAFE, Grade.FALSE_ALARM, Grade.ERROR)
    return msgspec.structs.replace(line, findings=findings_of(told)) if odd and told else line


def findings_of(told: dict[str, Any]) -> tuple[str, ...]:
    """Return rule, place and evidence of each finding of an answer."""
    found = [each for query in told.get("queries", {}).values() for each in query.get("findings", ())]
    return tuple(f"{each['rule']} at {each.get('where')}: {each.get('evidence')}"[:400] for each in found)


def _short(truth: Truth) -> Truth:
    evidence = "" if truth.outcome.safe else truth.evidence[:600]
    return msgspec.structs.replace(truth, evidence=evidence)
