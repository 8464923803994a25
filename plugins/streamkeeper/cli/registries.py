"""``registry``: rebuild the records after the loss of their store."""

from __future__ import annotations

import os
from typing import Annotated

import pendulum
import typer

from streamkeeper.cli import options
from streamkeeper.cli.caller import caller
from streamkeeper.cli.common_options import load_read_only
from streamkeeper.cli.terminal import echo
from streamkeeper.errors import InvalidInput
from streamkeeper.lifecycle.rebuilding import RebuildRequest
from streamkeeper.model.names import check_version
from streamkeeper.model.settings.settings import read_settings
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.recovery.lost_journals import (
    Rebuild,
    checkpoint_root,
    end_drivers,
    plan_rebuild,
    record_rebuild,
)
from streamkeeper.sinks.kinds.known_kinds import places_of_outputs
from streamkeeper.system import clock

app = typer.Typer(no_args_is_help=True, help="Rebuild the journals of jobs after the loss of the store.")

Outputs = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        metavar="PLACE",
        help=f"Output whose records are used to rebuild the journals: {places_of_outputs()}. Repeatable",
    ),
]
Unfenced = Annotated[
    list[str] | None,
    typer.Option(
        "--unfenced",
        metavar="JOB/QUERY",
        help="A query whose sink is a topic or your own function, so that its output records no epoch. Without this"
        " option, the journal of the query's job is not rebuilt. Repeatable",
    ),
]
Gone = Annotated[
    list[str] | None,
    typer.Option(
        "--gone",
        metavar="JOB/QUERY",
        help="Declare that the job no longer has this query. The missing checkpoint of the query then does not"
        " prevent the rebuild of the journal."
        " Repeatable",
    ),
]
Versions = Annotated[
    list[str] | None,
    typer.Option(
        "--version",
        metavar="JOB/QUERY=v0002",
        help="Current checkpoint version of a query, if no output records it. Repeatable",
    ),
]
OnlyJob = Annotated[
    str, typer.Argument(metavar="[JOB]", help="Name of the only job to rebuild. Without it, all jobs that are found")
]
EndDrivers = Annotated[
    bool,
    typer.Option(
        "--end-drivers",
        help="Before the rebuild, end every driver that still runs on this machine and belongs to a job to rebuild",
    ),
]
NoDriverElsewhere = Annotated[
    bool,
    typer.Option(
        "--no-driver-elsewhere",
        help="Declare that no driver runs where this command cannot look: on another machine, in another container or"
        " as another user",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print which journals would be rebuilt, and why the others would not, and record nothing"
    ),
]


@app.command("rebuild")
def rebuild(
    job: OnlyJob = "",
    *,
    output: Outputs = None,
    unfenced: Unfenced = None,
    missing: Gone = None,
    version: Versions = None,
    end_drivers_: EndDrivers = False,
    no_driver_elsewhere: NoDriverElsewhere = False,
    reason: Annotated[str, options.asked("reason", help="Your reason for the rebuild, recorded in the journals")] = "",
    dry_run: DryRun = False,
) -> None:
    """Rebuild the journals of a lost store from checkpoints, outputs and snapshots. Existing journals are never
    replaced.

    After an interruption, run the same command again to continue with the remaining jobs. The exit code is 1 if the
    journal of a job could not be rebuilt. With --dry-run, it is 1 if the journal of a job would not be rebuilt.
    """
    if not dry_run and not reason:
        raise InvalidInput(
            "a rebuild requires a reason", hint='add `--reason "the bucket was deleted"`, or preview with --dry-run'
        )
    by, versions = caller(), _read_versions(version)
    # Checked first, because opening the store creates it: a mistyped home must not be changed.
    checkpoint_root(read_settings(os.environ))
    installation = load_read_only(empty=True)
    now = pendulum.instance(clock.now())
    asked = RebuildRequest(
        requested_by=by,
        reason=reason,
        asked_at=now.to_iso8601_string(),
        seconds=now.int_timestamp,
        no_driver_elsewhere=no_driver_elsewhere,
    )

    def look() -> Rebuild:
        return plan_rebuild(
            installation,
            asked,
            job=job,
            outputs=output or (),
            unfenced=unfenced or (),
            missing=missing or (),
            versions=versions,
        )

    found = look()
    if end_drivers_ and not dry_run:
        _end(installation, found)
        found = look()
    _show(found)
    if not dry_run:
        for made in record_rebuild(installation, found, by=by, reason=reason):
            echo(
                f"{made}: rebuilt. No driver runs until you deploy the job: run `streamkeeper deploy {made} --params …`"
            )
    if any(plan.refusals for plan in found.plans):
        raise typer.Exit(1)


def _end(installation: Installation, found: Rebuild) -> None:
    for line in end_drivers(installation, [plan.job for plan in found.plans]):
        echo(line)


def _show(found: Rebuild) -> None:
    if found.installation:
        echo(f"installation {found.installation}, as recorded in outputs and snapshots")
    for line in found.known:
        echo(line)
    for plan in found.plans:
        for line in plan.lines:
            echo(f"{plan.job}: {line}")
        for line in plan.refusals:
            echo(f"{plan.job}: NOT rebuilt: {line}")
    if not found.plans and not found.known:
        echo("no job was found. Check STREAMKEEPER_CHECKPOINTS, and name outputs with --output")


def _read_versions(pairs: list[str] | None) -> dict[str, str]:
    """Parse ``["sales/totals=v0002"]`` into query -> version; raises InvalidInput."""
    found: dict[str, str] = {}
    for pair in pairs or []:
        query, separator, name = pair.partition("=")
        if not separator or "/" not in query:
            raise InvalidInput(
                f"--version {pair!r} is not JOB/QUERY=VERSION",
                hint="write the option as in `--version sales/totals=v0002`",
            )
        found[query] = check_version(name)
    return found
