"""What the output of a deployed query holds: asked of the output itself, never of what a driver once said."""

from __future__ import annotations

from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.job_state import JobState
from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.redaction import redact
from streamkeeper.model.secret_references import find_references, resolve, substitute
from streamkeeper.operations.sites import Site
from streamkeeper.sinks.asking import TAKES, OutputAnswer, ask_output

TABLE, FILE = "table", "file"


def takes_again(kind: str) -> str:
    """How an output takes rows a second time, as a clause."""
    return TAKES.get(kind, "and your function gets them again")


def ask(site: Site, state: JobState, release: str, query: str, sink: SinkDescription, version: str) -> OutputAnswer:
    """The newest batch of a checkpoint version that the output holds, as far as anybody can tell.

    A table's URL is looked for among the release's params, with their secrets filled in.
    """
    content = state.releases[release].content
    try:
        secrets = resolve(find_references(content.params, content.conf), site.resolvers) if sink.kind == TABLE else {}
    except StreamkeeperError as error:
        return OutputAnswer(unknown=f"its secret is not known here: {error.message}")
    values = substitute(content.params, secrets).values()
    answer = ask_output(sink, f"{state.job}/{query}", version, [each for each in values if isinstance(each, str)])
    return OutputAnswer(batch=answer.batch, unknown=redact(answer.unknown, secrets), down=answer.down)
