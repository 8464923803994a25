"""Errors for the command line, in which names of request fields are replaced by the options that the user types."""

from __future__ import annotations

import re
from functools import cache

from streamkeeper.errors import OperationOpen, OperationRefused, StreamkeeperError
from streamkeeper.model.requests.asked_fields import asked_fields
from streamkeeper.model.requests.request import DeployRequest


def as_typed(error: StreamkeeperError) -> StreamkeeperError:
    """Return the error with request fields replaced by options, such as ``on_open=continue`` by ``--on-open
    continue``."""
    if isinstance(error, OperationOpen):
        deploy = f"streamkeeper deploy {error.job} --on-open"
        return OperationRefused(
            error.message,
            hint=f"to continue that operation, run `{deploy} continue`. To end it and then deploy, run `{deploy}"
            " abort`",
        )
    message, hint = spelled(error.message), spelled(error.hint)
    return error if (message, hint) == (error.message, error.hint) else StreamkeeperError(message, hint=hint)


def spelled(text: str) -> str:
    """Return the text with names of request fields replaced by options, such as ``accept_loss`` by
    ``--accept-loss``."""
    return _names().sub(lambda found: f"--{found[1].replace('_', '-')}{f' {found[2]}' if found[2] else ''}", text)


@cache
def _names() -> re.Pattern[str]:
    """Return the pattern of field names. Only names with an underscore, because the others are also ordinary words."""
    names = sorted(name for name in (*asked_fields(DeployRequest), "on_open") if "_" in name)
    return re.compile(rf"(?<![\w-])({'|'.join(names)})(?![\w-])(?:=(\w+))?")
