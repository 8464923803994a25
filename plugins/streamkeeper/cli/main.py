"""The command ``streamkeeper``: every subcommand with its line in ``--help``, and how errors are printed.

A command's module is imported only when the command runs. Importing all modules takes longer than printing the help.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from streamkeeper.cli.option_names import as_typed
from streamkeeper.cli.terminal import Console, echo
from streamkeeper.errors import StreamkeeperError


class ListedCommand(NamedTuple):
    """A command in the help."""

    target: str
    """``module.name`` in this package, of a function or of the typer application of a group of commands."""
    help: str
    """The first paragraph of the command's own help."""


COMMANDS = {
    "jobs": ListedCommand(
        "status_commands.jobs", "List every job: status, lag, newest commit, newest verified backup, and problems."
    ),
    "status": ListedCommand(
        "status_commands.status", "Show the current release, the driver's last report, and the operation in progress."
    ),
    "history": ListedCommand(
        "status_commands.history", "Print a job's journal, oldest entry first, with times in UTC."
    ),
    "open": ListedCommand("open_page.open_", "Print the address of a job's page in Airflow."),
    "metrics": ListedCommand("metering.metrics", "Serve the metrics of all jobs for Prometheus."),
    "describe": ListedCommand(
        "describing.describe",
        "Print the manifest of every query of a job as JSON. No release is registered, and no query is started.",
    ),
    "check": ListedCommand(
        "check_command.check",
        "Check whether a candidate can resume from a checkpoint, and report why. The exit code shows the "
        "verdict: 0 RESUME, 10 BACKUP, 11 SWITCH, 12 REFUSE. Exit code 2 means an error.",
    ),
    "deploy": ListedCommand(
        "deploying.deploy",
        "Deploy the code in the jobs root, or a pushed release. The same command continues an interrupted deploy.",
    ),
    "rollback": ListedCommand(
        "deploying.rollback",
        "Make an older release of a job current again. With --dry-run, only print what would be read and "
        "written again.",
    ),
    "stop": ListedCommand(
        "running.stop",
        "Stop the driver of a job between two batches. The job stays stopped until a person starts, deploys or rolls"
        " it back.",
    ),
    "start": ListedCommand(
        "running.start",
        "Start the current release of a job that has no running driver. The release resumes from its checkpoints.",
    ),
    "forget": ListedCommand(
        "running.forget",
        "Retire a stopped job, which is then no longer listed, watched or backed up. Its checkpoints, "
        "snapshots, outputs and records stay.",
    ),
    "logs": ListedCommand("running.logs", "Print the log of a job's driver, with secrets masked."),
    "recover": ListedCommand(
        "recover_command.recover",
        "Diagnose a job, or recover it with --action. A diagnosis changes nothing, and its exit code is 1 if "
        "something is wrong. The same command continues an interrupted recovery.",
    ),
    "state-dead": ListedCommand(
        "running.state_dead",
        "State that a driver has terminated, if its machine will not come back and its termination cannot be "
        "proven. A copy of its checkpoints can then be restored.",
    ),
    "question": ListedCommand(
        "approving.question",
        "Show the question that a waiting operation asks a person: findings, snapshots taken, differing rows,"
        " rollback cost.",
    ),
    "approve": ListedCommand(
        "approving.approve",
        "Approve the question of a waiting operation, which then continues. Depending on the question, the new "
        "release takes over the state despite an opaque change, or the rebuilt output replaces the current one.",
    ),
    "decline": ListedCommand(
        "approving.decline",
        "Decline the question of a waiting operation, which then ends. The current release stays current.",
    ),
    "offsets": ListedCommand(
        "checkpoints.offsets",
        "Print the position of every source after a batch. The position of a Kafka source can be used as "
        "startingOffsets.",
    ),
    "old-input": ListedCommand(
        "status_commands.old_input",
        "List the input files that Spark never reads because maxFileAge excludes them, one path per line.",
    ),
    "fsck": ListedCommand(
        "checkpoints.fsck",
        "Report the damage in a checkpoint, and what a query that starts there would do. The exit code is 1 "
        "if a start is unsafe.",
    ),
    "prune": ListedCommand(
        "prune_command.prune_",
        "Remove snapshots that no retention rule keeps, and leftovers of the checkpoints and drivers of "
        "deployed jobs. The exit code is 1 if something could not be removed.",
    ),
    "watch": ListedCommand(
        "watch_commands.watch",
        "Check every job each minute until Ctrl-C, report problems with their causes, and take actions that "
        "are safe without a person.",
    ),
    "incidents": ListedCommand(
        "watch_commands.incidents",
        "Show the open incidents of all jobs, or every incident of one job with its actions and its end.",
    ),
    "home": ListedCommand("homes.app", "Show the installation, or record that it was copied or moved."),
    "registry": ListedCommand("registries.app", "Rebuild the journals of jobs after the loss of the store."),
    "release": ListedCommand("release_commands.app", "Releases: immutable, numbered versions of a job."),
    "snapshot": ListedCommand(
        "snapshots.app", "Take, list, verify, drill, restore, pin and export snapshots of checkpoints."
    ),
}


class _Imported(Mapping[str, Any]):
    """Name -> command."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = _import_command(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _import_command(name: str) -> Any:
    module, _, attribute = COMMANDS[name].target.partition(".")
    found = getattr(import_module(f"streamkeeper.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
        command.name = name
        return command
    single = typer.Typer(add_completion=False)
    single.command(name)(found)
    return get_command(single)


_WrongUse: Any = typer.BadParameter.__mro__[1]
"""The error for a wrong option or argument; typer has no public name for it."""

_OF_THE_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE}
)
"""Errors of the machine, not of the program: a full or read-only disk, missing rights, too many open files."""


class Commands(TyperGroup):
    """The group of the commands of ``COMMANDS``, each of which is imported when it is first used. For every error that
    Streamkeeper raises, the group prints one line and exits with 2.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Imported()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a stand-in for a command, with only its name and help, for the list of commands and shell completion.

        Return None for an unknown command.
        """
        listed = COMMANDS.get(cmd_name)
        return None if listed is None else TyperCommand(name=cmd_name, help=listed.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that ``args`` names. Return its name, the command, and the words of ``args`` after the
        name.
        """
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else self.commands[name], rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command. A StreamkeeperError or a wrong option is printed as ``error: …`` on stderr."""
        try:
            return super().invoke(ctx)
        except StreamkeeperError as error:
            print_error(str(as_typed(error)))
            raise typer.Exit(2) from None
        except OSError as error:
            if error.errno not in _OF_THE_MACHINE:
                raise
            print_error(f"{error.strerror}: {error.filename or 'unknown file'} (the command stopped there)")
            raise typer.Exit(2) from None
        except _WrongUse as error:
            wrong = error.format_message().replace("Value error, ", "").rstrip(".")
            if error.ctx is None or not wrong or "\n" in wrong:  # without any argument typer prints the help
                raise
            print_error(f"{wrong} (run `{error.ctx.command_path} --help`)")
            raise typer.Exit(2) from None


def print_error(line: str) -> None:
    """Print ``error: …`` on one line of stderr, however long it is."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"error: {' '.join(line.split())}", style="red", markup=False)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Deploy, watch, back up and recover Spark Structured Streaming jobs.",
)


def _print_version(requested: bool) -> None:
    if requested:
        echo(f"streamkeeper {version('streamkeeper')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit"),
    ] = False,
) -> None:
    """Deploy, watch, back up and recover Spark Structured Streaming jobs."""


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
