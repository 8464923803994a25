"""Errors for the command line: fields of a request are spelled as the options that the user types."""

from __future__ import annotations

import re
from functools import cache

from streamkeeper.errors import OperationOpen, OperationRefused, StreamkeeperError
from streamkeeper.model.asked_fields import asked_fields
from streamkeeper.model.request import DeployRequest


def as_typed(error: StreamkeeperError) -> StreamkeeperError:
    """The same error with ``--on-open continue`` in place of ``on_open=continue``, and so on for every option."""
    if isinstance(error, OperationOpen):
        deploy = f"streamkeeper deploy {error.job} --on-open"
        return OperationRefused(
            error.message, hint=f"continue it: {deploy} continue; end it, then deploy: {deploy} abort"
        )
    message, hint = spelled(error.message), spelled(error.hint)
    return error if (message, hint) == (error.message, error.hint) else StreamkeeperError(message, hint=hint)


def spelled(text: str) -> str:
    """A text in which names of request fields are replaced by the options: ``accept_loss`` by ``--accept-loss``."""
    return _names().sub(lambda found: f"--{found[1].replace('_', '-')}{f' {found[2]}' if found[2] else ''}", text)


@cache
def _names() -> re.Pattern[str]:
    """Only names with an underscore: all others are ordinary words, too."""
    names = sorted(name for name in (*asked_fields(DeployRequest), "on_open") if "_" in name)
    return re.compile(rf"(?<![\w-])({'|'.join(names)})(?![\w-])(?:=(\w+))?")
