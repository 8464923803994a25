"""The command ``streamkeeper``: its subcommands, and how an error is told."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
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
    pruning,
    recovering,
    registries,
    releases,
    running,
    snapshots,
    watching,
)
from streamkeeper.errors import StreamkeeperError


class Commands(TyperGroup):
    """A group whose commands end with one line and exit code 2 for anything that Streamkeeper refuses."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; a StreamkeeperError becomes ``error: …`` on stderr."""
        try:
            return super().invoke(ctx)
        except StreamkeeperError as error:
            print_error(str(error))
            raise typer.Exit(2) from None


def print_error(line: str) -> None:
    """``error: …`` on stderr, on one line however long it is."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"error: {' '.join(line.split())}", style="red", markup=False)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Runs the life of Spark Structured Streaming jobs.",
)
app.command("jobs")(looking.jobs)
app.command("status")(looking.status)
app.command("history")(looking.history)
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
app.command("question")(approving.question)
app.command("approve")(approving.approve)
app.command("decline")(approving.decline)
app.command("offsets")(checkpoints.offsets)
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
