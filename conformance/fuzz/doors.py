"""``python -m conformance.fuzz.doors``: drawn pairs through every door: the check, a dry run, a deploy, a pull request.

Each base of a pair is deployed by a real driver, over the same rows and with the same confs, with Kafka from a broker
of this run. Each edit of it is then passed to ``check --job``, to ``check --changed``, to a dry run and to a deploy,
which is aborted once it has its assessment. Pairs come from the results of a campaign, at most two per base, of every
verdict.

--pairs N       so many; --given FILE: the campaign's results
--results FILE  a JSON line a pair; pairs that are there are not asked again (bench/results/fuzz-doors.jsonl)
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from conformance.doors import assess_with
from conformance.fuzz.brokers import BrokerOnDemand
from conformance.fuzz.pairs import Pair, find_pair
from conformance.fuzz.pieces import Servers, on_kafka
from conformance.fuzz.truths import TRUTHS, read_known
from conformance.fuzz.verdicts import Line, Lines, read_lines
from conformance.matrix.case import JOB_NAME, QUERY_NAME, Job, Unit
from conformance.matrix.runs import ENTRY, write_job
from conformance.matrix.truth import Place
from harness.bed import Bed, fresh_bed
from harness.checkout import read_origin
from harness.kafka_broker import KafkaBroker
from harness.places import ROOT
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.requests.request import DeployRequest, Handover
from streamkeeper.model.settings.release_conf import FIXED
from streamkeeper.operations.deploys.deploy import Deploy

A_BASE = 2
"""How many pairs share a deployed job."""


def main() -> int:
    """Check every chosen pair at each door; return 1 if a door reports a different verdict or different rules."""
    chosen = _arguments()
    lines = map(json.loads, chosen.results.read_text().splitlines() if chosen.results.exists() else [])
    # Older lines tell of a dry run only.
    known = {line["id"]: line["same"] for line in lines if "deploy" in line}
    answered = read_lines(chosen.given, read_known(chosen.truths))
    pairs = choose(newest_of(answered), chosen.pairs)
    todo = [(pair, line) for pair, line in pairs if pair.id not in known]
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, BrokerOnDemand(Path(folder) / "broker") as broker:
        for _, found in groupby(todo, key=lambda each: (each[0].seed, each[0].base)):
            with chosen.results.open("a") as stream:
                for told in ask_doors([pair for pair, _ in found], broker.servers):
                    known[str(told["id"])] = bool(told["same"])
                    stream.write(json.dumps(told) + "\n")
                    stream.flush()
                    print(json.dumps(told), flush=True)
    wrong = sum(not same for same in known.values())
    print(f"{len(known)} pairs, {wrong} that got another answer by some door")
    return int(wrong > 0)


def newest_of(answered: Lines) -> list[Line]:
    """Return one line per pair: that of the rules if they answered, otherwise that of a rehearsal."""
    found = {id: line for (id, rehearsed), line in answered.items() if rehearsed}
    return list((found | {id: line for (id, rehearsed), line in answered.items() if not rehearsed}).values())


def choose(lines: Iterable[Line], wanted: int) -> list[tuple[Pair, Line]]:
    """Return pairs that are still drawn as they were measured, one verdict after the other from the rarest on, with at
    most A_BASE pairs per base.
    """
    fit = [each for each in lines if each.answer is not None and each.truth is not None and not each.broken]
    left = {verdict: [each for each in fit if each.answer and each.answer.verdict == verdict] for verdict in _VERDICTS}
    bases: Counter[tuple[int, int]] = Counter()
    kinds: Counter[str] = Counter()
    found: list[tuple[Pair, Line]] = []
    while len(found) < wanted and any(left.values()):
        for waiting in left.values():
            free = [each for each in waiting if bases[each.seed, each.base] < A_BASE]
            waiting[:] = free
            if not free or len(found) == wanted:
                continue
            line = min(free, key=lambda each: (kinds[each.edit], -bases[each.seed, each.base]))
            waiting.remove(line)
            pair = _drawn(line)
            # A pull request has code, and no confs of a release.
            if pair is not None and not pair.case.candidate_conf:
                bases[line.seed, line.base] += 1
                kinds[line.edit] += 1
                found.append((pair, line))
    return sorted(found, key=lambda each: each[0].id)


_VERDICTS = ("REFUSE", "BACKUP", "SWITCH", "RESUME")


def ask_doors(pairs: list[Pair], servers: Servers) -> list[dict[str, object]]:
    """Deploy the base that all of the pairs share, then pass each edit to every door."""
    base = pairs[0]
    deployed = base.case.deployed(base.provider)
    origin = read_origin()
    told: list[dict[str, object]] = []
    with (
        tempfile.TemporaryDirectory(prefix="streamkeeper-doors-") as folder,
        fresh_bed(Path(folder) / "bed", []) as bed,
    ):
        place = Place(bed.root, deployed)
        place.make_input(KafkaBroker(servers()) if on_kafka(base) else None)
        place.output.mkdir()
        params = place.params(deployed.params)
        request = DeployRequest(job=JOB_NAME, params=params, conf=_conf(deployed), reason="bench")
        _write(deployed.job, bed.jobs)
        first = Deploy.open(bed.installation, "first", request).run()
        if first.outcome is not Outcome.SUCCEEDED:
            raise RuntimeError(f"{base.id}: its base does not serve: {first.sentence}")
        for number, pair in enumerate(pairs):
            _write(pair.case.candidate(pair.provider).job, bed.jobs)
            doors = {
                "check": _asked(bed, "check", "--job", JOB_NAME, "--candidate", f"{bed.jobs}/{JOB_NAME}.py:{JOB_NAME}"),
                "pull-request": _asked(bed, "check", "--changed"),
                "dry-run": _assessed(bed, f"dry-{number}", msgspec.structs.replace(request, dry_run=True)),
                "deploy": _assessed(bed, f"cold-{number}", msgspec.structs.replace(request, handover=Handover.COLD)),
            }
            told.append({**origin, "id": pair.id, "same": is_one_answer(doors), **doors})
    return told


Answer = dict[str, object]
"""``verdict`` and ``rules``, or ``error``."""


def is_one_answer(doors: Mapping[str, Answer]) -> bool:
    """Return whether every door reports the same verdict for the same rules, and none fails."""
    found = list(doors.values())
    return all(each == found[0] for each in found) and "error" not in found[0]


def _asked(bed: Bed, *arguments: str) -> Answer:
    """Return what the command reports about the job's query."""
    done = bed.command(*arguments, "--json")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1]) if lines else {"error": done.stderr[-500:]}
    return answer_of(found.get("jobs", {JOB_NAME: found}).get(JOB_NAME, {"error": "the job is not among the changed"}))


def answer_of(told: Mapping[str, Any]) -> Answer:
    """Return verdict and rules of the query, as reported by ``check --json``."""
    if "queries" not in told:
        return {"error": str(told.get("error") or "no answer")}
    query = told["queries"][QUERY_NAME]
    rules = sorted(f"{each['rule']} ({each['severity']})" for each in query["findings"])
    return {"verdict": query["verdict"], "rules": rules}


def _assessed(bed: Bed, operation: str, request: DeployRequest) -> Answer:
    found = assess_with(bed, operation, request)
    if isinstance(found, str):
        return {"error": found}
    query = found.queries[QUERY_NAME]
    rules = sorted(f"{each.rule} ({each.severity.value})" for each in query.findings)
    return {"verdict": query.verdict.name, "rules": rules}


def _write(job: Job, folder: Path) -> None:
    """Write the job under its deployed name into an otherwise empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    write_job(job, folder)
    (folder / ENTRY).rename(folder / f"{JOB_NAME}.py")


def _conf(unit: Unit) -> dict[str, str]:
    """Return a unit's confs without those of the state's format, which a release cannot set."""
    return {key: value for key, value in unit.conf.items() if key not in FIXED}


def _drawn(line: Line) -> Pair | None:
    """Return the pair, or None if the grammar now draws a different pair under its name."""
    with suppress(LookupError):
        pair = find_pair(line.id)
        if line.truth is not None and pair.case.key(pair.provider) == line.truth.key:
            return pair
    return None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance.fuzz.doors", description="Drawn pairs through every door.")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--truths", type=Path, default=TRUTHS)
    parser.add_argument("--given", type=Path, default=ROOT / "bench/results/fuzz.jsonl")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/fuzz-doors.jsonl")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
