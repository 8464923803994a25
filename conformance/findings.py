"""``python -m conformance.findings``: findings drawn by seed, as ``streamkeeper check`` prints them.

Each finding stands in the report on its query. The pairs are those of the matrix and of the fuzzer; the jobs run with
local Spark, and the check is asked about each.

--seed N --count M  which findings, and how many; each is of another kind (rule and severity)
--no-kafka          draw no pair that reads Kafka
--keep DIR          where deployed jobs and their checkpoints are kept for the next time (build/findings)
--jobs              after the findings, how each job file differs
"""

from __future__ import annotations

import argparse
import difflib
import json
import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from conformance.fuzz.brokers import BrokerOnDemand
from conformance.fuzz.pairs import find_pair
from conformance.matrix.case import Case
from conformance.matrix.cases import CASES
from conformance.matrix.checking import stream_answers
from conformance.matrix.data import KAFKA
from conformance.matrix.runs import open_session
from conformance.matrix.topics import units_elsewhere
from conformance.matrix.truth import Bench, request_of
from harness.kafka_broker import KafkaBroker, has_jars
from harness.places import ROOT
from streamkeeper.compatibility.report import render_text
from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Severity, Switch, Verdict

RECORDS = (ROOT / "bench/results/fuzz.jsonl", ROOT / "bench/results/matrix.jsonl")


class Recorded(NamedTuple):
    """A finding that the check reported earlier about a pair: the pair's id and provider, and the rule with its
    severity.
    """

    id: str
    provider: str
    kind: str


class Drawn(NamedTuple):
    """A recorded finding with its pair."""

    recorded: Recorded
    case: Case


def main() -> int:
    """Print the drawn findings."""
    chosen = _arguments()
    root = chosen.keep.resolve()
    root.mkdir(parents=True, exist_ok=True)
    kafka = has_jars() and not chosen.no_kafka
    drawn = draw(read_recorded(), chosen.seed, chosen.count, kafka=kafka)
    with BrokerOnDemand(root / "broker") as broker:
        address = broker.servers() if any(each.case.data.form == KAFKA for each in drawn) else ""
        # A Python process has one JVM, and it ends with the session.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(_deploy, (drawn, root, address))
        requests = root / "requests.jsonl"
        asked = [request_of(root, each.case, each.recorded.provider) for each in drawn]
        requests.write_text("".join(json.dumps(each) + "\n" for each in asked))
        answers = list(stream_answers(requests))
    for number, (each, answer) in enumerate(zip(drawn, answers, strict=True), 1):
        heading = f"===== {number} of {len(drawn)}: {kind_of(each.recorded, answer)}"
        print(heading, render_answer(answer), sep="\n", flush=True)
    if chosen.jobs:
        for number, each in enumerate(drawn, 1):
            print(f"===== job {number}: {each.recorded.id} {each.recorded.provider}", *_changes(each.case), sep="\n")
    return 0


def read_recorded() -> list[Recorded]:
    """Return every finding of the recorded answers, in their order."""
    found: list[Recorded] = []
    for file in RECORDS:
        for line in map(json.loads, file.read_text().splitlines()):
            rules = (line.get("answer") or {}).get("rules", ())
            found += [Recorded(line["id"], line["provider"], kind) for kind in rules]
    return found


def draw(recorded: list[Recorded], seed: int, count: int, *, kafka: bool) -> list[Drawn]:
    """Return ``count`` findings, each of a different kind; a pair that the grammar no longer draws is skipped."""
    left = list(recorded)
    Random(seed).shuffle(left)
    found: dict[str, Drawn] = {}
    for each in left:
        if len(found) == count:
            break
        case = None if each.kind in found else _case(each.id)
        if case is not None and (kafka or case.data.form != KAFKA):
            found[each.kind] = Drawn(each, case)
    return list(found.values())


def _case(id: str) -> Case | None:
    if id in CASES:
        return CASES[id]
    try:
        return find_pair(id).case
    except (LookupError, ValueError):
        return None


def _deploy(drawn: list[Drawn], root: Path, servers: str) -> None:
    broker = KafkaBroker(servers) if servers else None
    for unit in units_elsewhere(root / "units", broker):
        shutil.rmtree(unit)
    with open_session(root / "spark") as spark:
        bench = Bench(spark, root, broker=broker)
        for each in drawn:
            bench.deploy(each.case, each.recorded.provider)


def render_answer(answer: dict[str, Any]) -> str:
    """Return an answer of ``check --batch`` in the form that ``check`` prints, or the error of a check without a
    verdict.
    """
    if "queries" not in answer:
        return str(answer.get("error", answer))
    queries = {
        name: QueryAssessment(
            verdict=Verdict[query["verdict"]],
            switch=Switch(query.get("switch", Switch.POSSIBLE.value)),
            findings=tuple(msgspec.convert(finding, Finding) for finding in query["findings"]),
        )
        for name, query in answer["queries"].items()
    }
    return render_text(Assessment(verdict=Verdict[answer["verdict"]], queries=queries))


def kind_of(recorded: Recorded, answer: dict[str, Any]) -> str:
    """Return the drawn kind of finding or, if the answer no longer contains it, the kind of its strictest finding."""
    found = [finding for query in answer.get("queries", {}).values() for finding in query["findings"]]
    strictest = max(found, key=lambda each: list(Severity).index(Severity(each["severity"])), default=None)
    kinds = [f"{finding['rule']} ({finding['severity']})" for finding in (strictest, *found) if finding]
    return recorded.kind if recorded.kind in kinds or not kinds else kinds[0]


def _changes(case: Case) -> Iterator[str]:
    sides = [[*job.render().split("\n"), *(text for _, text in job.files)] for job in (case.old, case.new)]
    yield from difflib.unified_diff(sides[0], sides[1], lineterm="")
    yield f"conf: {dict(case.candidate_conf)}, params: {dict(case.candidate_params)}, damage: {case.damage or 'none'}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance.findings", description="Findings drawn by seed, for a reader.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--keep", type=Path, default=ROOT / "build/findings")
    parser.add_argument("--jobs", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
