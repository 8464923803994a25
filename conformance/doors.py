"""``python -m conformance.doors``: passes the same changes through every door, and compares what each door finds.

Doors: ``streamkeeper check``, a dry run, a warm and a cold deploy, a rollback; the last three only up to their
assessment. Pairs of the matrix are packed into jobs with many queries, which are deployed once by a real driver.

--pairs N       so many, evenly over the matrix; --pack N: queries a job
--results FILE  a JSON line a pair: what each door found, and whether that is the same; pairs that are there are not
                asked again (bench/results/doors.jsonl)
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from conformance.matrix.case import JOB_NAME, Case, Job
from conformance.matrix.cases import CASES
from harness.bed import Bed, fresh_bed
from harness.checkout import read_origin
from harness.places import ROOT
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest, Handover, Rollback, Strategy
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.registry.objects import read_object

JOB = "doors"
_JOB_FILE = """\
from dataclasses import replace

from streamkeeper import Param, streaming_job

{imports}

CASES = {cases!r}
MODULES = {{{modules}}}


@streaming_job(name="{job}", params={{"root": Param(str)}})
def doors(spark, params):
    for name, given in CASES.items():
        places = {{
            "input": f"{{params['root']}}/{{name}}/a",
            "other": f"{{params['root']}}/{{name}}/b",
            "root": f"{{params['root']}}/{{name}}",
            "output": f"{{params['root']}}/{{name}}/out",
        }}
        filled = {{key: each.format(**places) if isinstance(each, str) else each for key, each in given.items()}}
        filled = {{"number": 1, **{{key: each for key, each in places.items() if key != "root"}}, **filled}}
        for query in MODULES[name].matrix.function(spark, filled):
            yield replace(query, name=name)
"""

Found = frozenset[tuple[str, str, str]]
"""Rule, severity and place of every finding about a query."""


class Doors(NamedTuple):
    """What each door found, as door -> query -> findings, and door -> the reason if it has no assessment."""

    found: dict[str, dict[str, Found]]
    failed: dict[str, str]

    def differing(self, query: str) -> dict[str, list[list[str]]]:
        """Return door -> its findings if the doors disagree about the query; empty if they all agree."""
        seen = {door: each.get(query, frozenset()) for door, each in self.found.items()}
        if len(set(seen.values())) <= 1:
            return {}
        return {door: sorted(map(list, each)) for door, each in seen.items()}


def is_packable(case: Case) -> bool:
    """Return whether a case can be one query among others: confs and further files would apply to all of them."""
    plain = not (case.damage or case.declined or case.conf or case.candidate_conf)
    return plain and not (case.old.files or case.new.files)


def write_jobs(folder: Path, cases: Mapping[str, Case], *, new: bool) -> None:
    """Write one job file for all cases and a module for each, of the deployed or of the new side."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, case in cases.items():
        (folder / f"case_{name}.py").write_text(_render(case.new if new else case.old, name))
    given = {name: {**case.params, **(case.candidate_params if new else {})} for name, case in cases.items()}
    text = _JOB_FILE.format(
        imports="\n".join(f"import case_{name}" for name in cases),
        cases=given,
        modules=", ".join(f"{name!r}: case_{name}" for name in cases),
        job=JOB,
    )
    (folder / f"{JOB}.py").write_text(text)


def _render(job: Job, name: str) -> str:
    """Return the job under a name of its own. The deployed side really runs, and the database of its function does not
    exist: both sides write nothing, with the same code.
    """
    text = job.render().replace(f'name="{JOB_NAME}"', f'name="{JOB_NAME}_{name}"')
    text = text.replace("sqlite3.connect(DATABASE)", 'sqlite3.connect(":memory:" if DATABASE else "")')
    return text.replace(" connection.execute(", " context is None and connection.execute(")


def ask_every_door(bed: Bed, cases: Mapping[str, Case]) -> Doors:
    """Deploy the old side of all cases, then present the new side to every door."""
    for name, case in cases.items():
        case.data.place(bed.input / name, after=False)
        (bed.input / name / "out").mkdir()
    write_jobs(bed.jobs, cases, new=False)
    params = {"root": str(bed.input)}
    first = Deploy.open(bed.installation, "first", DeployRequest(job=JOB, params=dict(params), reason="bench")).run()
    if first.outcome is not Outcome.SUCCEEDED:
        raise RuntimeError(f"the deployed side does not serve: {first.sentence}")
    write_jobs(bed.jobs, cases, new=True)
    found: dict[str, dict[str, Found]] = {}
    failed: dict[str, str] = {}
    answer = json.loads(_check(bed))
    if "queries" in answer:
        found["check"] = {query: _shown(each["findings"]) for query, each in answer["queries"].items()}
    else:
        failed["check"] = answer["error"]
    pushed = DeployRequest(job=JOB, params=dict(params), reason="bench", strategy=Strategy.AUTO)
    replace = msgspec.structs.replace
    requests = {
        "dry-run": replace(pushed, dry_run=True),
        "cold": replace(pushed, handover=Handover.COLD),
        "warm": replace(pushed, handover=Handover.WARM),
        "rollback": replace(pushed, params={}, release="r0002").of_kind(Rollback()),
    }
    for door, request in requests.items():
        assessment = assess_with(bed, f"door-{door}", request)
        if isinstance(assessment, str):
            failed[door] = assessment
            continue
        queries = assessment.queries.items()
        found[door] = {name: frozenset((f.rule, f.severity.value, f.where) for f in q.findings) for name, q in queries}
    return Doors(found, failed)


def _check(bed: Bed) -> str:
    done = bed.command("check", "--job", JOB, "--candidate", f"{bed.jobs / f'{JOB}.py'}:{JOB}", "--json")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return lines[-1] if lines else json.dumps({"error": done.stderr[-500:]})


def assess_with(bed: Bed, operation: str, request: DeployRequest) -> Assessment | str:
    """Return the assessment of a deploy that is aborted after it, or the operation's sentence if it has none."""
    deploy = Deploy.open(bed.installation, operation, request)
    deploy.run(until=Step.ASSESS)
    if deploy.state.operations[operation].outcome is None and not deploy.state.operations[operation].fall_back:
        deploy.abort(requested_by="bench", reason="only its assessment was wanted")
    deploy.run()
    state = deploy.state.operations[operation]
    if not state.report:
        return state.sentence
    stored = read_object(bed.installation.store, request.job, "reports", state.report, ".json")
    return from_json(stored, Assessment, where="report")


def _shown(findings: Iterable[Mapping[str, str]]) -> Found:
    return frozenset((each["rule"], each["severity"], each["where"]) for each in findings)


def main() -> int:
    """Run the bench; return 1 if any door found something different, or failed."""
    parser = argparse.ArgumentParser(prog="conformance.doors", description="Every door, and whether it finds the same.")
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--pack", type=int, default=10)
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/doors.jsonl")
    chosen = parser.parse_args()
    packable = [case for case in CASES.values() if is_packable(case)]
    wanted = packable[:: max(1, len(packable) // chosen.pairs)][: chosen.pairs]
    lines = chosen.results.read_text().splitlines() if chosen.results.exists() else []
    known = {json.loads(line)["id"] for line in lines}
    todo = [case for case in wanted if case.id not in known]
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    wrong = sum(not json.loads(line)["same"] for line in lines)
    for start in range(0, len(todo), chosen.pack):
        wrong += _ask_pack(todo[start : start + chosen.pack], chosen.results)
    print(f"{len(known) + len(todo)} pairs, {wrong} not the same by every door")
    return int(wrong > 0)


def _ask_pack(cases: list[Case], results: Path) -> int:
    named = {f"q{number}": case for number, case in enumerate(cases)}
    with (
        tempfile.TemporaryDirectory(prefix="streamkeeper-doors-") as folder,
        fresh_bed(Path(folder) / "bed", []) as bed,
    ):
        doors = ask_every_door(bed, named)
    wrong, origin = 0, read_origin()
    with results.open("a") as file:
        for name, case in named.items():
            differing = doors.differing(name)
            same = not differing and not doors.failed
            wrong += not same
            found = sorted(map(list, next(iter(doors.found.values()), {}).get(name, frozenset())))
            told = {"found": found} if same else {"differing": differing, "failed": doors.failed}
            file.write(json.dumps({**origin, "id": case.id, "same": same, "doors": sorted(doors.found), **told}))
            file.write("\n")
            print(f"{case.id}: {'the same' if same else json.dumps(told)}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
