"""The content of a deployed query's output: read from the output itself, never from a driver's last status."""

from __future__ import annotations

from msgspec import structs

from streamkeeper.errors import StreamkeeperError
from streamkeeper.locations import scheme_of
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.manifests.sink_capabilities import Reconciliation
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.snapshot import Snapshot
from streamkeeper.model.redaction import redact
from streamkeeper.model.secret_references import MASK, find_references, resolve, substitute
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.sinks.output_lookup import ask_output, reconcile

_OF_FILES = ("", "file", "s3", "s3a", "hdfs")
"""URL schemes of outputs that are read with the credentials of this process."""


def takes_again(kind: str, *, read_once: bool = True) -> str:
    """Return how an output handles rows that are written a second time, as a phrase.

    ``read_once``: whether the version that writes them continues the version that wrote them first. Otherwise no reader
    can tell them from new ones.
    """
    can = capabilities_of(kind)
    once = f"; {can.read_once_by}" if can.read_once_by and read_once else ""
    return can.takes_again or f"and {can.receiver} receives them a second time{once}"


def ask(
    installation: Installation, state: JobState, release: str, query: str, sink: SinkDescription, version: str
) -> OutputAnswer:
    """Return the newest batch of a checkpoint version that the output contains, or why that batch is unknown.

    ``installation``: the installation; ``state``: the job's state; ``release``: the release whose params contain the
    output's URL or directory, possibly as a secret; ``query``: the query that writes the output; ``sink``: the output;
    ``version``: the checkpoint version.
    """
    try:
        question = _question(installation, state, release, query, sink, version)
    except StreamkeeperError as error:
        return OutputAnswer(unknown=f"the secret of the output cannot be resolved here: {error.message}")
    answer = ask_output(question)
    return structs.replace(answer, unknown=question.mask(answer.unknown))


def why_not_cut_back(
    installation: Installation, state: JobState, release: str, query: str, sink: SinkDescription, snapshot: Snapshot
) -> str:
    """Return why readers of an output cannot be limited to the batches of a snapshot, as a sentence; empty if they can,
    or if the output's kind does not limit them.

    ``installation``, ``state``, ``release``, ``query`` and ``sink``: as in ``ask``; ``snapshot``: the snapshot.
    """
    if capabilities_of(sink.kind).reconciles is not Reconciliation.CUT_BACK:
        return ""
    try:
        question = _question(installation, state, release, query, sink, snapshot.version)
    except StreamkeeperError as error:
        return f"the secret of the output cannot be resolved here: {error.message}"
    return question.mask(reconcile(question, snapshot.batch).refusal)


def _question(
    installation: Installation, state: JobState, release: str, query: str, sink: SinkDescription, version: str
) -> OutputQuestion:
    """Return the question about a version's batches in an output, with the release's secrets; see ``ask``."""
    content, secrets = state.releases[release].content, {}
    # A database needs its password; files need a secret only if their path is masked.
    of_database = capabilities_of(sink.kind).one_place and scheme_of(sink.output) not in _OF_FILES
    if of_database or MASK in sink.output:
        secrets = resolve(find_references(content.params, content.conf), installation.resolvers)
    return OutputQuestion(
        sink=sink,
        owner=f"{state.job}/{query}",
        version=version,
        places=[value for value in substitute(content.params, secrets).values() if isinstance(value, str)],
        mask=lambda text: redact(text, secrets),
    )
