"""``home``: show the installation, and record that it is a new one or has moved."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from streamkeeper.cli.caller import caller
from streamkeeper.cli.common_options import Json
from streamkeeper.cli.options import asked
from streamkeeper.cli.terminal import echo, echo_json
from streamkeeper.model.coding import to_json
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.model.settings.settings import read_settings
from streamkeeper.registry.installations import begin_anew, find_misplaced, note_moved, read_installation
from streamkeeper.stores.store_urls import open_store

app = typer.Typer(no_args_is_help=True, help="Show the installation, or record that it was copied or moved.")

Reason = Annotated[str, asked("reason", help="Your reason, recorded with the installation")]


@app.command("show")
def show(*, json: Json = False) -> None:
    """Show the installation's id and location. The exit code is 1 if the store or the home is a copy, or was moved."""
    settings = read_settings(os.environ)
    store = open_store(settings.store)
    found = read_installation(store)
    misplaced = find_misplaced(store, found, settings.home)
    if json:
        echo_json(to_json({"home": settings.home, "store": store.url, "installation": found, "misplaced": misplaced}))
    else:
        echo(f"home {settings.home}\nstore {store.url}")
        echo(
            _told(found)
            if found is not None
            else "no installation exists yet. The first command that writes creates it"
        )
        if misplaced:
            echo(misplaced)
    if misplaced:
        raise typer.Exit(1)


@app.command("new")
def new(*, reason: Reason) -> None:
    """Register a copied home or a copied store as a new installation. Drivers, checkpoints and outputs of the original
    do not belong to the new installation."""
    settings = read_settings(os.environ)
    made = begin_anew(open_store(settings.store), settings.home, by=caller(), reason=reason)
    echo(_told(made))
    if made.is_a_copy:
        echo(
            "Its jobs resume from snapshots. For each query, run `streamkeeper snapshot restore JOB/QUERY`. Then deploy"
        )
        echo("each job with separate outputs. Also set separate schedules and a separate STREAMKEEPER_SNAPSHOTS.")


@app.command("moved")
def moved(
    *,
    reason: Reason,
    id: Annotated[
        str,
        typer.Option(
            "--id", help="Id of the installation that was moved here. Without it, the id that the store recorded last"
        ),
    ] = "",
    former_gone: Annotated[
        bool,
        typer.Option(
            "--former-gone",
            help="Declare that the former location no longer exists. Use this if the location cannot be checked",
        ),
    ] = False,
) -> None:
    """Record that the installation was moved to the configured home and store. The command is refused while the
    installation still exists at its former location."""
    settings = read_settings(os.environ)
    store, by = open_store(settings.store), caller()
    made = note_moved(store, settings.home, by=by, reason=reason, id=id, former_gone=former_gone)
    echo(_told(made))


def _told(found: InstallationRecord) -> str:
    return f"installation {found.id}, at {found.place}{' (started as a copy)' if found.is_a_copy else ''}"
