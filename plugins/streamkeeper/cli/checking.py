"""``check``: would a candidate go on from a checkpoint? Asked of a short-lived driver process; nothing is touched."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from streamkeeper.cli.check_requests import Asked, read_request, request_of
from streamkeeper.cli.difference_pages import Diff, DiffTo, page_file, show_differences
from streamkeeper.cli.given import Json, open_to_look, read_conf, read_params
from streamkeeper.compatibility.differences import Difference, find_differences
from streamkeeper.compatibility.report import render_text
from streamkeeper.errors import InvalidInput, JobUnusable, StreamkeeperError
from streamkeeper.locations import local_path
from streamkeeper.model.check import CheckAnswer, CheckRequest, answer_json
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.finding import Verdict
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.operations.asking import DriverDied, ask_driver
from streamkeeper.operations.job_versions import file_version, released_version
from streamkeeper.operations.secret_resolvers import built_in_resolvers
from streamkeeper.operations.sites import Site

EXIT_CODES = {Verdict.RESUME: 0, Verdict.BACKUP: 10, Verdict.SWITCH: 11, Verdict.REFUSE: 12}
ERROR = 2

_Deployed = Annotated[str, typer.Option("--deployed", metavar="FILE:NAME", help="The job as it runs now")]
_Candidate = Annotated[str, typer.Option("--candidate", metavar="FILE:NAME", help="The job as it would run")]
_Checkpoint = Annotated[
    str,
    typer.Option("--checkpoint", metavar="DIR", help="The query's checkpoint, or the folder of the job's; only read"),
]
_Job = Annotated[str, typer.Option("--job", metavar="NAME", help="A registered job, for --deployed and --checkpoint")]
_Query = Annotated[str, typer.Option("--query", metavar="NAME", help="Look at this query only")]
_Params = Annotated[str, typer.Option("--params", metavar="JSON", help="Params of both jobs")]
_NewParams = Annotated[str, typer.Option("--candidate-params", metavar="JSON", help="What differs for the candidate")]
_Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark conf of both")]
_NewConf = Annotated[
    list[str] | None, typer.Option("--candidate-conf", metavar="KEY=VALUE", help="What differs for the candidate")
]
_NoRehearsal = Annotated[bool, typer.Option("--no-rehearsal", help="Compare and read only; run nothing")]
_Batch = Annotated[str, typer.Option("--batch", metavar="FILE", help="Requests as JSON lines, one answer a line")]


def check(
    *,
    deployed: _Deployed = "",
    candidate: _Candidate = "",
    checkpoint: _Checkpoint = "",
    job: _Job = "",
    query: _Query = "",
    params: _Params = "{}",
    candidate_params: _NewParams = "{}",
    conf: _Conf = None,
    candidate_conf: _NewConf = None,
    no_rehearsal: _NoRehearsal = False,
    as_json: Json = False,
    batch: _Batch = "",
    diff: Diff = False,
    diff_to: DiffTo = "",
) -> None:
    """Say whether a candidate can go on from a checkpoint, and why; exit code 0 RESUME, 10 BACKUP, 11 SWITCH,
    12 REFUSE, 2 for an error."""
    if batch:
        if candidate or deployed or checkpoint or job or diff or diff_to:
            raise InvalidInput("--batch takes its requests from the file alone", hint="leave the other options out")
        _answer_batch(local_path("--batch", batch))
        return
    page = page_file("--diff-to", diff_to, ".md", ".html")
    if as_json and diff:
        raise InvalidInput("--json prints one object and nothing else", hint="--diff-to FILE writes a page beside it")
    asked = Asked(
        deployed=deployed,
        candidate=candidate,
        checkpoint=checkpoint,
        job=job,
        query=query,
        params=read_params(params),
        candidate_params=read_params(candidate_params),
        conf=read_conf(conf),
        candidate_conf=read_conf(candidate_conf),
        no_rehearsal=no_rehearsal,
    )
    site = cache(open_to_look)
    request = request_of(asked, site)
    answer = next(ask_check([request], request.candidate.conf))
    if diff or page:
        differences = find_request_differences(site, job, request, answer)
        show_differences(f"{request.candidate.name}: deployed -> candidate", differences, shown=diff, file=page)
    if as_json:
        typer.echo(json.dumps(answer_json(answer), ensure_ascii=False))
    if answer.assessment is None:
        if as_json:
            raise typer.Exit(ERROR)
        raise InvalidInput(answer.error)
    if not as_json:
        Console(soft_wrap=True, highlight=False).print(render_text(answer.assessment), markup=False, end="")
    raise typer.Exit(EXIT_CODES[answer.assessment.verdict])


def find_request_differences(
    site: Callable[[], Site], job: str, request: CheckRequest, answer: CheckAnswer
) -> tuple[Difference, ...]:
    """Between the two jobs that were compared; of a candidate that could not be described, what can be read of it."""
    deployed, candidate = (answer.evidence.deployed, answer.evidence.candidate) if answer.evidence else (None, None)
    if request.deployed is not None:
        before = file_version("deployed", request.deployed, deployed)
    else:
        state = site().journal(job, "check").state()
        before = msgspec.structs.replace(released_version(site(), state, state.serving_release), manifests=deployed)
    try:
        after = file_version("candidate", request.candidate, candidate)
    except JobUnusable as error:
        return (Difference(title=f"file {request.candidate.entry}", note=f"not shown: {error}"),)
    return find_differences(before, after)


def _answer_batch(file: Path) -> None:
    """Answer each line on a line, in the same order; one that fails answers ``error`` and the rest go on."""
    try:
        lines = [line for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--batch {file} cannot be read: {error}") from None
    prepared: list[CheckRequest | str] = []
    for line in lines:
        try:
            prepared.append(request_of(read_request(line), open_to_look))
        except StreamkeeperError as error:
            prepared.append(str(error))
    answers = ask_check([each for each in prepared if isinstance(each, CheckRequest)], {})
    for each in prepared:
        answer = CheckAnswer(error=each) if isinstance(each, str) else next(answers)
        typer.echo(json.dumps(answer_json(answer), ensure_ascii=False))
        sys.stdout.flush()


def ask_check(requests: list[CheckRequest], conf: dict[str, str]) -> Iterator[CheckAnswer]:
    """The answers, one by one; a driver that dies is told as the error of what it was asked, and started anew."""
    todo = list(requests)
    while todo:
        answered = 0
        for answer in _ask_one_driver(todo, conf):
            answered += 1
            yield answer
        todo = todo[answered:]


def _ask_one_driver(requests: list[CheckRequest], conf: dict[str, str]) -> Iterator[CheckAnswer]:
    questions = [to_json(each) for each in requests]
    try:
        for line in ask_driver("streamkeeper.driver.check", questions, conf, _secrets_of(requests)):
            yield from_json(line, CheckAnswer, where="the driver's answer")
    except DriverDied as died:
        if died.refused:
            raise
        yield CheckAnswer(error=f"the checking driver ended: {died}")


def _secrets_of(requests: list[CheckRequest]) -> dict[str, str]:
    found: dict[str, str] = {}
    resolvers = built_in_resolvers(os.environ)
    for each in requests:
        for job in (each.candidate, each.deployed):
            if job is not None:
                found |= resolve(find_references(job.params, job.conf), resolvers)
    return found
