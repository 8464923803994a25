"""``check``: find out in a short-lived driver process whether a candidate can resume from a checkpoint."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from streamkeeper.cli.check_answers import ERROR, EXIT_CODES, ask_check, find_request_differences
from streamkeeper.cli.check_requests import CheckOptions, read_request, request_of
from streamkeeper.cli.checking_changes import check_changed
from streamkeeper.cli.common_options import Json, load_read_only, read_conf, read_params
from streamkeeper.cli.difference_pages import Diff, DiffTo, page_file, show_differences
from streamkeeper.cli.terminal import Console, echo_json
from streamkeeper.compatibility.report import render_text
from streamkeeper.errors import InvalidInput, StreamkeeperError
from streamkeeper.locations import local_path
from streamkeeper.model.protocol.check_messages import CheckAnswer, CheckRequest, answer_json

_Deployed = Annotated[
    str, typer.Option("--deployed", metavar="FILE:NAME", help="File and name of the job as it runs now")
]
_Candidate = Annotated[
    str, typer.Option("--candidate", metavar="FILE:NAME", help="File and name of the job as it would be deployed")
]
_Checkpoint = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Checkpoint of the query, or the folder with the checkpoints of all queries of the job. The check never"
        " writes there",
    ),
]
_Job = Annotated[
    str,
    typer.Option(
        "--job",
        metavar="NAME",
        help="Name of a registered job. The check uses its current release and its checkpoints, instead of --deployed"
        " and --checkpoint",
    ),
]
_Query = Annotated[str, typer.Option("--query", metavar="NAME", help="Name of the only query to check")]
_Params = Annotated[
    str,
    typer.Option(
        "--params", metavar="JSON", help="Params of both the deployed job and the candidate, as a JSON object"
    ),
]
_NewParams = Annotated[
    str,
    typer.Option(
        "--candidate-params",
        metavar="JSON",
        help="Params of the candidate that differ from those of the deployed job, as a JSON object",
    ),
]
_Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A Spark conf to set for both the deployed job and the candidate. Repeatable",
    ),
]
_NewConf = Annotated[
    list[str] | None,
    typer.Option(
        "--candidate-conf",
        metavar="KEY=VALUE",
        help="A Spark conf of the candidate that differs from that of the deployed job. Repeatable",
    ),
]
_NoRehearsal = Annotated[
    bool,
    typer.Option(
        "--no-rehearsal",
        help="Do not run the candidate on a copy of the checkpoint (the rehearsal). Only compare the two jobs and read"
        " the checkpoint",
    ),
]
_Changed = Annotated[
    bool,
    typer.Option(
        "--changed",
        help="Check every job in the jobs root (STREAMKEEPER_JOBS) whose code differs from its current release",
    ),
]
_Markdown = Annotated[
    str,
    typer.Option(
        "--markdown",
        metavar="FILE",
        help="With --changed, write the result to this file, as a pull request comment in Markdown",
    ),
]
_Batch = Annotated[
    str,
    typer.Option(
        "--batch", metavar="FILE", help="File with one check request per line, as JSON. One answer per line is printed"
    ),
]


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
    changed: _Changed = False,
    markdown: _Markdown = "",
    diff: Diff = False,
    diff_to: DiffTo = "",
) -> None:
    """Check whether a candidate can resume from a checkpoint, and report why. The exit code shows the verdict: 0
    RESUME, 10 BACKUP, 11 SWITCH, 12 REFUSE. Exit code 2 means an error."""
    page = _page_of(batch=batch, changed=changed, markdown=markdown, as_json=as_json, diff=diff, diff_to=diff_to)
    if batch or changed:
        alone = "--batch takes its requests only from the file" if batch else "--changed finds its jobs itself"
        if any((candidate, deployed, checkpoint, job, query, conf, candidate_conf, params != "{}")):
            raise InvalidInput(alone, hint="leave out the other options")
        if batch:
            _answer_batch(local_path("--batch", batch))
            return
        comment = page_file("--markdown", markdown, ".md")
        raise typer.Exit(
            check_changed(rehearse=not no_rehearsal, as_json=as_json, comment=comment, shown=diff, page=page)
        )
    asked = CheckOptions(
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
    open_installation = cache(load_read_only)
    request = request_of(asked, open_installation)
    answer = next(ask_check([request], request.candidate.conf))
    if diff or page:
        differences = find_request_differences(open_installation, job, request, answer)
        show_differences(f"{request.candidate.name}: deployed -> candidate", differences, shown=diff, file=page)
    if as_json:
        echo_json(json.dumps(answer_json(answer), ensure_ascii=False))
    if answer.assessment is None:
        if as_json:
            raise typer.Exit(ERROR)
        raise InvalidInput(answer.error)
    if not as_json:
        Console(soft_wrap=True, highlight=False).print(render_text(answer.assessment), markup=False, end="")
    raise typer.Exit(EXIT_CODES[answer.assessment.verdict])


def _page_of(*, batch: str, changed: bool, markdown: str, as_json: bool, diff: bool, diff_to: str) -> Path | None:
    """Return the file for the differences, None without one; raises InvalidInput for options that exclude each
    other."""
    if batch and (changed or diff or diff_to):
        raise InvalidInput(
            "--batch prints one JSON object per line, and cannot be used with --changed, --diff or --diff-to",
            hint="leave out --changed, --diff and --diff-to",
        )
    if markdown and not changed:
        raise InvalidInput("--markdown reports all changed jobs", hint="add --changed")
    if as_json and diff:
        raise InvalidInput(
            "--json prints one JSON object, so --diff cannot print too",
            hint="write the differences to a file with --diff-to FILE",
        )
    return page_file("--diff-to", diff_to, ".md", ".html")


def _answer_batch(file: Path) -> None:
    """Print one answer per request, in the same order. The answer to a request that fails has the field ``error``."""
    try:
        lines = [line for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--batch {file} cannot be read: {error}") from None
    prepared: list[CheckRequest | str] = []
    for line in lines:
        try:
            prepared.append(request_of(read_request(line), load_read_only))
        except StreamkeeperError as error:
            prepared.append(str(error))
    answers = ask_check([request for request in prepared if isinstance(request, CheckRequest)], {})
    for request in prepared:
        answer = CheckAnswer(error=request) if isinstance(request, str) else next(answers)
        echo_json(json.dumps(answer_json(answer), ensure_ascii=False))
        sys.stdout.flush()
