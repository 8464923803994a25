"""The answers of a short-lived driver process to check requests, and the differences between the compared jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import msgspec

from streamkeeper.compatibility.differences import Difference, JobVersion, find_differences
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.check_messages import CheckAnswer, CheckRequest
from streamkeeper.model.redaction import redact, redact_value
from streamkeeper.model.secret_names import literal_secrets
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.job_versions import file_version, released_version
from streamkeeper.operations.jobs.worker_client import DriverDied, ask_driver
from streamkeeper.system.secret_resolvers import built_in_resolvers

EXIT_CODES = {Verdict.RESUME: 0, Verdict.BACKUP: 10, Verdict.SWITCH: 11, Verdict.REFUSE: 12}
ERROR = 2


def ask_check(requests: list[CheckRequest], conf: dict[str, str]) -> Iterator[CheckAnswer]:
    """Start a driver that answers the requests, and yield its answers in the order of the requests.

    If the driver dies, the answer to the request in progress is an error, and a new driver answers the remaining
    requests. ``conf``: the confs with which Spark starts. Raises DriverDied if a driver cannot start.
    """
    todo = list(requests)
    while todo:
        answered = 0
        for request, answer in zip(todo, _ask_one_driver(todo, conf), strict=False):
            answered += 1
            yield _without_secrets(request, answer)
        todo = todo[answered:]


def _without_secrets(request: CheckRequest, answer: CheckAnswer) -> CheckAnswer:
    """Return the answer with every secret masked that params or confs contain literally."""
    settings = (values for job in (request.candidate, request.deployed) if job for values in (job.params, job.conf))
    literal = {secret: secret for values in settings for secret in literal_secrets(values)}
    if not literal:
        return answer
    judged = redact_value(answer.assessment, literal)
    return msgspec.structs.replace(answer, assessment=judged, error=redact(answer.error, literal))


def _ask_one_driver(requests: list[CheckRequest], conf: dict[str, str]) -> Iterator[CheckAnswer]:
    questions = [to_json(request) for request in requests]
    try:
        for line in ask_driver("streamkeeper.driver.check", questions, conf, secrets_of(requests)):
            yield from_json(line, CheckAnswer, where="the driver's answer")
    except DriverDied as died:
        if died.refused:
            raise
        yield CheckAnswer(error=f"the checking driver ended: {died}")


def secrets_of(requests: list[CheckRequest]) -> dict[str, str]:
    """Return reference -> value for all secrets that the requests refer to. Raises InvalidInput if a secret is not
    set.
    """
    found: dict[str, str] = {}
    resolvers = built_in_resolvers(os.environ)
    for request in requests:
        for job in (request.candidate, request.deployed):
            if job is not None:
                found |= resolve(find_references(job.params, job.conf), resolvers)
    return found


def find_request_differences(
    open_installation: Callable[[], Installation], job: str, request: CheckRequest, answer: CheckAnswer
) -> tuple[Difference, ...]:
    """Return the differences between the deployed job and the candidate of a check. If the answer lacks a job's
    manifests, a note replaces the differences between the queries.

    If a job cannot be read, raise no error, but return one difference with the reason: the verdict of the check is
    valid without the differences.
    """
    try:
        return find_differences(*_versions(open_installation, job, request, answer))
    except StreamkeeperError as error:
        return (Difference(title="difference", note=f"not shown: {error}"),)


def _versions(
    open_installation: Callable[[], Installation], job: str, request: CheckRequest, answer: CheckAnswer
) -> tuple[JobVersion, JobVersion]:
    deployed, candidate = (answer.evidence.deployed, answer.evidence.candidate) if answer.evidence else (None, None)
    if request.deployed is not None:
        before = file_version("deployed", request.deployed, deployed)
    else:
        state = open_installation().journal(job, "check").state()
        before = msgspec.structs.replace(
            released_version(open_installation(), state, state.serving_release), manifests=deployed
        )
    return before, file_version("candidate", request.candidate, candidate)
