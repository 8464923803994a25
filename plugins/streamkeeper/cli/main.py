"""The command ``streamkeeper``: its subcommands, and how errors are printed."""

from __future__ import annotations

import errno
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from streamkeeper.cli import (
    approving,
    checking,
    checkpoints,
    deploying,
    describing,
    homes,
    looking,
    metering,
    opening,
    pruning,
    recovering,
    registries,
    releases,
    running,
    snapshots,
    watching,
)
from streamkeeper.cli.option_names import as_typed
from streamkeeper.cli.terminal import Console, echo
from streamkeeper.errors import StreamkeeperError

_WrongUse: Any = typer.BadParameter.__mro__[1]
"""The error for a wrong option or argument; typer has no public name for it."""

_OF_THE_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE}
)
"""Errors of the machine, not of the program: a full or read-only disk, missing rights, too many open files."""


class Commands(TyperGroup):
    """The command group. For every error that Streamkeeper raises, it prints one line and exits with 2."""

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


app.command("jobs")(looking.jobs)
app.command("status")(looking.status)
app.command("history")(looking.history)
app.command("open")(opening.open_)
app.command("metrics")(metering.metrics)
app.command("describe")(describing.describe)
app.command("check")(checking.check)
app.command("deploy")(deploying.deploy)
app.command("rollback")(deploying.rollback)
app.command("stop")(running.stop)
app.command("start")(running.start)
app.command("forget")(running.forget)
app.command("logs")(running.logs)
app.command("recover")(recovering.recover)
app.command("state-dead")(running.state_dead)
app.command("question")(approving.question)
app.command("approve")(approving.approve)
app.command("decline")(approving.decline)
app.command("offsets")(checkpoints.offsets)
app.command("old-input")(looking.old_input)
app.command("fsck")(checkpoints.fsck)
app.command("prune")(pruning.prune_)
app.command("watch")(watching.watch)
app.command("incidents")(watching.incidents)
app.add_typer(homes.app, name="home")
app.add_typer(registries.app, name="registry")
app.add_typer(releases.app, name="release")
app.add_typer(snapshots.app, name="snapshot")


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
