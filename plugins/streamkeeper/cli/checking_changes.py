"""``check --changed``: check every job whose code differs from its current release, and report them together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from streamkeeper.cli.change_pages import CheckedJob, changes_json, render_changes, render_comment
from streamkeeper.cli.check_answers import ERROR, EXIT_CODES, ask_check, find_request_differences, secrets_of
from streamkeeper.cli.check_requests import CheckOptions, request_of
from streamkeeper.cli.common_options import load_read_only
from streamkeeper.cli.difference_pages import show_differences, write_page
from streamkeeper.cli.terminal import Console, echo_json
from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.report import told_way
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.coding import to_json
from streamkeeper.model.protocol.check_messages import CheckAnswer, CheckRequest
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.assessing import find_transitions, told_cost
from streamkeeper.operations.deploys.changed_jobs import (
    ChangeKind,
    JobChange,
    checkpoints_must_be_here,
    find_changed_jobs,
)
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.worker_client import DriverDied


def check_changed(*, rehearse: bool, as_json: bool, comment: Path | None, shown: bool, page: Path | None) -> int:
    """Check and report all changed jobs. Return the exit code of the strictest verdict, or ERROR if a check failed.

    ``rehearse``: whether each check runs the candidate in a rehearsal.
    ``as_json``: whether to print JSON.
    ``comment``: the file for a pull request's comment, None without one.
    ``shown``: whether to print the differences.
    ``page``: the file for the differences, None without one.
    """
    installation = load_read_only(empty=True)
    found = list(
        _check_all(
            installation, find_changed_jobs(installation), rehearse=rehearse, differences=shown or page is not None
        )
    )
    if comment is not None:
        write_page(comment, render_comment(found, differences=shown))
    differences = [
        msgspec.structs.replace(difference, title=f"{checked.change.job}: {difference.title}")
        for checked in found
        for difference in checked.differences
    ]
    if shown or page is not None:
        show_differences("Current release -> this change", differences, shown=shown, file=page)
    if as_json:
        echo_json(json.dumps(changes_json(found), ensure_ascii=False))
    else:
        Console(soft_wrap=True, highlight=False).print(render_changes(found), markup=False, end="")
    if any(job.error for job in found):
        return ERROR
    return EXIT_CODES[max((job.verdict for job in found if job.verdict is not None), default=next(iter(EXIT_CODES)))]


def _check_all(
    installation: Installation, changes: list[JobChange], *, rehearse: bool, differences: bool
) -> Iterator[CheckedJob]:
    """Yield each job with its result, in order. An error of one job is reported for that job only."""
    requests: dict[str, CheckRequest] = {}
    failed: dict[str, CheckAnswer] = {}
    for change in changes:
        if change.kind is ChangeKind.CHANGED:
            try:
                requests[change.job] = _request(installation, change.job, rehearse=rehearse)
            except StreamkeeperError as error:
                failed[change.job] = CheckAnswer(error=str(error))
    answers = _ask_together(requests) | failed
    for change in changes:
        checked = CheckedJob(change=change, answer=answers.get(change.job))
        if change.job in requests:
            try:
                checked = _with_ways(installation, checked, requests[change.job])
            except StreamkeeperError as error:
                checked = msgspec.structs.replace(checked, refusal=f"unknown: {error}")
            if differences:
                found = find_request_differences(
                    lambda: installation, change.job, requests[change.job], answers[change.job]
                )
                checked = msgspec.structs.replace(checked, differences=found)
        yield checked


def _request(installation: Installation, job: str, *, rehearse: bool) -> CheckRequest:
    checkpoints_must_be_here(installation, job)
    file = Path(installation.settings.jobs) / f"{job}.py"
    request = request_of(
        CheckOptions(candidate=f"{file}:{job}", job=job, no_rehearsal=not rehearse), lambda: installation
    )
    # A missing secret of one job must not fail the others.
    secrets_of([request])
    return request


def _ask_together(requests: dict[str, CheckRequest]) -> dict[str, CheckAnswer]:
    """Return job -> answer. Jobs with equal confs share a session, because Spark reads some confs only at its start."""

    def conf_of(job: str) -> bytes:
        return to_json(requests[job].candidate.conf)

    answers: dict[str, CheckAnswer] = {}
    for _, group in groupby(sorted(requests, key=conf_of), key=conf_of):
        jobs = list(group)
        try:
            asked = [requests[name] for name in jobs]
            answers |= zip(jobs, ask_check(asked, asked[0].candidate.conf), strict=False)
        except DriverDied as died:
            answers |= {name: CheckAnswer(error=f"no Spark session started: {died}") for name in jobs}
    return answers


def _with_ways(installation: Installation, checked: CheckedJob, request: CheckRequest) -> CheckedJob:
    """Return the job with the transitions that a deploy with default options would make, and their costs."""
    answer = checked.answer
    if answer is None or answer.assessment is None or answer.evidence is None:
        return checked
    job, deployed, candidate = checked.change.job, answer.evidence.deployed, answer.evidence.candidate
    state = installation.journal(job, writer="check").state()
    backward = assess(candidate, deployed)
    chosen, refusal = find_transitions(
        installation, state, DeployRequest(job=job), "", deployed, candidate, answer.assessment, backward
    )
    transitions = {
        query: (way.way.value, told_way(way), told_cost(installation, state, query, way, request.candidate.conf))
        for query, way in chosen.items()
    }
    return msgspec.structs.replace(checked, transitions=transitions, refusal=refusal)
