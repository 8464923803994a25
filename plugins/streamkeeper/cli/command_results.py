"""The option ``--json`` of commands that act. It prints one object on stdout, also after an error.

Progress goes to stderr. The object has the same seven keys for every command (docs/guides/scripts.md):

- ``command``: the words typed, such as ``release push``
- ``job``: the job's name, null if the command names none
- ``operation``: the operation's id, null without one
- ``outcome``: ``succeeded``, ``dry-run``, ``refused``, ``aborted``, ``fell-back`` or ``failed`` as in the journal;
  ``error`` if the command ended before it had an outcome; ``interrupted`` after Ctrl-C
- ``message``: one sentence
- ``hint``: the remedy, empty without one
- ``details``: the fields that only this command has

Commands that only read (``jobs``, ``status`` and others) print their own objects instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from streamkeeper.cli.option_names import as_typed
from streamkeeper.cli.terminal import Console, echo, echo_json
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.coding import to_json
from streamkeeper.model.records.journal_records import Outcome

JsonResult = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object at the end, and the progress on stderr")
]

ERROR = "error"
INTERRUPTED = "interrupted"


class CommandResult(msgspec.Struct, kw_only=True):
    """The object that ``--json`` prints."""

    command: str
    """The words typed, such as ``release push``."""
    job: str | None = None
    """The job's name; None if the command names none."""
    operation: str | None = None
    """The operation's id; None without one."""
    outcome: str = Outcome.SUCCEEDED.value
    """The outcome as in the journal, ``error`` or ``interrupted``."""
    message: str = ""
    """One sentence."""
    hint: str = ""
    """The remedy; empty without one."""
    details: dict[str, Any] = {}
    """The fields that only this command has."""


class Report:
    """Prints the progress of one command, and collects its result.

    ``result``: the object that ``--json`` prints at the end. ``as_json``: whether ``--json`` was given; progress then
    goes to stderr.
    """

    def __init__(self, result: CommandResult, *, as_json: bool) -> None:
        self.result = result
        self.as_json = as_json

    def line(self, text: str) -> None:
        """Print one line of progress, without wrapping it."""
        self.console(whole_lines=True).print(Text(text))

    def end(self, message: str, **details: Any) -> None:
        """Set the message and the details of the command's result. Without ``--json``, print the message as the last
        line.
        """
        self.describe(message, **details)
        if not self.as_json:
            echo(message)

    def describe(self, message: str, **details: Any) -> None:
        """Set the message and the details of the command's result, and print nothing."""
        self.result.message = message
        self.result.details = {**self.result.details, **details}

    def console(self, *, whole_lines: bool = False) -> Console:
        """Return the console for progress: stdout, or stderr with ``--json``. ``whole_lines``: do not wrap lines."""
        return Console(stderr=self.as_json, soft_wrap=whole_lines, highlight=False)


@contextmanager
def reporting(command: str, *, job: str | None = None, as_json: bool = False) -> Iterator[Report]:
    """Yield the report of a command. If ``as_json`` is set, print the command's result when the command ends, whether
    it succeeds or fails.
    """
    report = Report(CommandResult(command=command, job=job), as_json=as_json)
    try:
        yield report
    except StreamkeeperError as error:
        shown = as_typed(error)
        _fail(report.result, shown.message, shown.hint)
        _print(report)
        raise
    except OSError as error:
        _fail(report.result, str(error), "")
        _print(report)
        raise
    except typer.Exit:
        _print(report)
        raise
    _print(report)


def _fail(result: CommandResult, message: str, hint: str) -> None:
    """Put an error into the result; the outcome of an operation that has ended stays."""
    if result.outcome == Outcome.SUCCEEDED.value:
        result.outcome = ERROR
    result.message, result.hint = message, hint


def _print(report: Report) -> None:
    if report.as_json:
        echo_json(to_json(report.result))
