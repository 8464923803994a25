"""``prune``: remove snapshots and leftovers that no rule keeps, or only list them."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkeeper.cli.common_options import Json, load_installation
from streamkeeper.cli.snapshot_places import AnySeries, CheckpointOption, StoreOption, read_place
from streamkeeper.cli.terminal import echo, echo_json
from streamkeeper.model.coding import to_json
from streamkeeper.operations.backups.pruning import plan_prune, plan_series, prune, read_policy, tell_run
from streamkeeper.snapshots.sweep import GRACE_S, check_grace


def prune_(
    series: AnySeries = "",
    *,
    checkpoint: CheckpointOption = "",
    store: StoreOption = "",
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="RULES",
            help="Retention rules that decide which snapshots are kept, like"
            " last=3,hourly=24,daily=7,weekly=4,monthly=6. Without them, the configured rules",
        ),
    ] = "",
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            metavar="S",
            help="Seconds for which snapshot data stays in the store after the last snapshot that uses the data was"
            " removed. Use 0 only while no snapshot is being taken",
        ),
    ] = GRACE_S,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report what would be removed and why, and remove nothing")
    ] = False,
    json: Json = False,
) -> None:
    """Remove snapshots that no retention rule keeps, and leftovers of the checkpoints and drivers of deployed jobs. The
    exit code is 1 if something could not be removed."""
    check_grace(grace)
    place = read_place(series, checkpoint, store)
    policy = read_policy(keep) if keep else None
    if place.adopted or store or "/" in series:
        run, where, installation = (
            plan_series(place.catalogues(), policy or place.policy(), grace_s=grace),
            place.store(),
            None,
        )
    else:
        installation = load_installation()
        run, where = plan_prune(installation, job=series, policy=policy, grace_s=grace), installation.snapshots
    for line in () if json else tell_run(run):
        echo(line)
    if dry_run:
        if json:
            echo_json(to_json(run))
        return
    report = prune(where, run, installation)
    if json:
        echo_json(to_json(report))
    else:
        echo(report.sentence)
        for failed in report.failed:
            echo(f"failed: {failed}", err=True)
    if report.failed:
        raise typer.Exit(1)
