"""The command ``streamkeeper``: its subcommands, and how errors are printed."""

from __future__ import annotations

import errno
from importlib.metadata import version
from typing import Annotated, Any

import typer

from streamkeeper.cli.command_table import CommandTable
from streamkeeper.cli.option_names import as_typed
from streamkeeper.cli.terminal import Console, echo
from streamkeeper.errors import StreamkeeperError

_WrongUse: Any = typer.BadParameter.__mro__[1]
"""The error for a wrong option or argument; typer has no public name for it."""

_OF_THE_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE}
)
"""Errors of the machine, not of the program: a full or read-only disk, missing rights, too many open files."""


class Commands(CommandTable):
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


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
