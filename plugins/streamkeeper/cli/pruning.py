"""``prune``: remove what nothing keeps, or print the very list."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkeeper.cli.given import Json, open_site
from streamkeeper.cli.snapshot_places import CheckpointOption, Series, StoreOption, read_place
from streamkeeper.errors import InvalidInput
from streamkeeper.model.coding import to_json
from streamkeeper.operations.pruning import PruneRun, plan_prune, plan_store, prune, read_policy, tell_run
from streamkeeper.snapshots.sweep import GRACE_S


def prune_(
    series: Series = "",
    *,
    checkpoint: CheckpointOption = "",
    store: StoreOption = "",
    keep: Annotated[
        str, typer.Option("--keep", metavar="RULES", help="last=3,hourly=24,daily=7,weekly=4,monthly=6")
    ] = "",
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="S", help="How long an unreferenced pack stays; 0: nobody captures"),
    ] = GRACE_S,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go and why, and remove nothing")] = False,
    json: Json = False,
) -> None:
    """Prune snapshots, and the checkpoints of deployed jobs; exit code 1 when something could not be pruned."""
    if grace < 0:
        raise InvalidInput(f"a grace period of {grace:g} s is negative")
    place = read_place(series, checkpoint, store)
    policy = read_policy(keep) if keep else None
    if place.adopted or store or "/" in series:
        run = PruneRun(
            sweeps=tuple(
                plan
                for each in place.catalogues()
                for plan in plan_store(each.store, each.series, policy or read_policy(""), grace_s=grace).sweeps
            )
        )
        where = place.store()
    else:
        site = open_site()
        run, where = plan_prune(site, job=series, policy=policy, grace_s=grace), site.snapshots
    for line in () if json else tell_run(run):
        typer.echo(line)
    if dry_run:
        if json:
            typer.echo(to_json(run))
        return
    report = prune(where, run)
    if json:
        typer.echo(to_json(report))
    else:
        typer.echo(report.sentence)
        for failed in report.failed:
            typer.echo(f"failed: {failed}", err=True)
    if report.failed:
        raise typer.Exit(1)
