"""Make the request for the driver from the options of ``check``, or from a line of a batch file."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from streamkeeper.checkpoints.opening import open_tree
from streamkeeper.cli.job_files import read_job_file
from streamkeeper.errors import InvalidInput
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.names import refuse_unknown
from streamkeeper.model.protocol.check_messages import CheckRequest, JobFile
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import deployed_of


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One check, as the command line requests it. The fields are the long option names, with underscores."""

    deployed: str = ""
    """The job as it runs now, ``FILE:NAME``."""
    candidate: str = ""
    """The job as it would be deployed, ``FILE:NAME``."""
    checkpoint: str = ""
    """The query's checkpoint, or the folder with the job's checkpoints."""
    job: str = ""
    """A registered job, in place of ``deployed`` and ``checkpoint``."""
    query: str = ""
    """The only query to check; empty for all."""
    params: dict[str, ParamValue] = {}
    """Params of both jobs."""
    candidate_params: dict[str, ParamValue] = {}
    """Params that differ for the candidate."""
    conf: dict[str, str] = {}
    """Spark confs of both jobs."""
    candidate_conf: dict[str, str] = {}
    """Confs that differ for the candidate."""
    no_rehearsal: bool = False
    """Whether the candidate is not run."""
    json: bool = True
    """Accepted because lines may copy the command's options; without effect."""


def read_request(line: str) -> CheckOptions:
    """Parse a line of a batch file; raises InvalidInput."""
    try:
        found = msgspec.json.decode(line)
        if isinstance(found, dict):
            refuse_unknown("a request's key", found, CheckOptions.__struct_fields__)
        return msgspec.convert(found, CheckOptions)
    except msgspec.MsgspecError as error:
        raise InvalidInput(
            f"not a request: {error}",
            hint="write one JSON object per line. Its keys are long option names with underscores, such as"
            " candidate_params",
        ) from None


def request_of(asked: CheckOptions, open_installation: Callable[[], Installation]) -> CheckRequest:
    """Return the request that a driver answers with the check's result; raises InvalidInput or NotFound.

    ``open_installation``: opens the installation; called only for a registered job.
    """
    if not asked.candidate:
        raise InvalidInput("no candidate is named", hint="add --candidate FILE:NAME")
    if asked.job:
        if asked.deployed or asked.checkpoint:
            raise InvalidInput(
                "--job replaces --deployed and --checkpoint", hint="leave out --deployed and --checkpoint"
            )
        return _registered(asked, open_installation())
    if not asked.deployed or not asked.checkpoint:
        missing = "deployed job" if not asked.deployed else "checkpoint"
        raise InvalidInput(
            f"no {missing} is named", hint="give --deployed FILE:NAME and --checkpoint DIR, or --job NAME"
        )
    return CheckRequest(
        candidate=_candidate(asked, asked.params, asked.conf),
        deployed=read_job_file(asked.deployed, asked.params, asked.conf),
        checkpoints={"": _existing(asked.checkpoint)},
        query=asked.query,
        rehearse=not asked.no_rehearsal,
    )


def _registered(asked: CheckOptions, installation: Installation) -> CheckRequest:
    found = deployed_of(installation, asked.job)
    return CheckRequest(
        candidate=_candidate(asked, {**found.params, **asked.params}, {**found.conf, **asked.conf}),
        manifests=found.manifests,
        checkpoints=found.checkpoints,
        findings=found.findings,
        served=found.served,
        histories=found.histories,
        topics=found.topics,
        first_topics=found.first_topics,
        query=asked.query,
        rehearse=not asked.no_rehearsal,
    )


def _candidate(asked: CheckOptions, params: dict[str, ParamValue], conf: dict[str, str]) -> JobFile:
    """Return the candidate, with the deployed job's params and confs except those given for the candidate."""
    return read_job_file(asked.candidate, {**params, **asked.candidate_params}, {**conf, **asked.candidate_conf})


def _existing(directory: str) -> str:
    return open_tree(directory).spark_path
