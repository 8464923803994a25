"""Find the snapshots that a command names: those of a deployed query, or of any checkpoint, in any store."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer

from streamkeeper.cli.common_options import load_installation, load_read_only
from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.snapshot import Snapshot, check_series
from streamkeeper.model.settings.settings import read_settings
from streamkeeper.operations.backups.pruning import read_policy
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.targets import Target, adopted_target, all_targets, query_target
from streamkeeper.snapshots.catalogue import Catalogue, list_series
from streamkeeper.snapshots.choice import find_snapshot, read_choice
from streamkeeper.snapshots.retention import Policy
from streamkeeper.stores.contract import Store
from streamkeeper.stores.store_urls import open_store

Series = Annotated[
    str,
    typer.Argument(
        metavar="[JOB[/QUERY]]",
        help="A deployed job or query, or a series as `streamkeeper snapshot list` prints it",
    ),
]
AnySeries = Annotated[
    str,
    typer.Argument(
        metavar="[JOB[/QUERY]]",
        help="A deployed job or query, or a series as `streamkeeper snapshot list` prints it. Without it, all of them",
    ),
]
CheckpointOption = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Use this Spark checkpoint instead of JOB/QUERY, whether its query is deployed or not: a local directory,"
        " s3a://… or hdfs://…",
    ),
]
StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help="URL of the store with the snapshots. Without it, the snapshot store of the installation",
    ),
]
Id = Annotated[
    str,
    typer.Option(
        "--id", metavar="ID", help="Use this snapshot, like s0007. Without --id, --batch and --at, the latest"
    ),
]
Batch = Annotated[int | None, typer.Option("--batch", metavar="N", help="Use the newest snapshot of this batch")]
At = Annotated[
    str,
    typer.Option(
        "--at", metavar="TIME", help="Use the newest snapshot taken at or before this time, like 2026-11-21T10:00:00Z"
    ),
]


class SnapshotPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The series or checkpoint that the user names on the command line, and the store with its snapshots."""

    series: str
    """A job, ``JOB/QUERY``, or a listed series; empty for all."""
    checkpoint: str
    """Any Spark checkpoint; empty unless named."""
    store_url: str
    """The store with the snapshots; empty for the installation's."""
    read_only: bool = False
    """Whether the command changes nothing."""
    begins: bool = False
    """Whether the command may create the store's directory."""

    @property
    def adopted(self) -> bool:
        """Whether the user gave a checkpoint (``--checkpoint``) in place of a job or query that was deployed here."""
        return bool(self.checkpoint)

    def store(self) -> Store:
        """Open the store with the snapshots; raises InvalidInput if no store is named, NotFound if the store does not
        exist.
        """
        if self.store_url:
            return open_store(self.store_url, begins=self.begins)
        if self.adopted and not os.environ.get("STREAMKEEPER_HOME"):
            raise InvalidInput("the location of the snapshots is not given", hint="add --store URL")
        return (load_read_only() if self.read_only else load_installation(begins=self.adopted)).snapshots

    def policy(self) -> Policy:
        """Return the installation's configured retention policy; raises InvalidInput.

        Return the default policy if the user gave a store or a checkpoint, or if STREAMKEEPER_HOME is not set.
        """
        of_a_site = not self.store_url and os.environ.get("STREAMKEEPER_HOME")
        return read_policy(read_settings(os.environ).keep) if of_a_site and not self.adopted else Policy()

    def targets(self) -> list[Target]:
        """Return the checkpoints to take snapshots of."""
        if self.adopted:
            return [adopted_target(self.checkpoint)]
        installation = load_installation()
        job, _, query = self.series.partition("/")
        return [query_target(installation, job, query)] if query else all_targets(installation, job=job)

    def catalogues(self) -> list[Catalogue]:
        """Return the selected series: the one of a query, those of a job, or all."""
        store = self.store()
        if self.adopted:
            return [Catalogue(store, adopted_target(self.checkpoint).series)]
        if "/" in self.series:
            return [Catalogue(store, self.series)]
        found = [name for name in list_series(store) if not self.series or name.startswith(f"{self.series}/")]
        return [Catalogue(store, series) for series in found]

    def hint(self) -> str:
        """Return a hint with the names of the known series."""
        return f"name one of the known series: {', '.join(list_series(self.store())) or 'none yet'}"

    def catalogue(self) -> Catalogue:
        """Return the one selected series. Raises InvalidInput, with the names of the known series, unless exactly one
        is selected.
        """
        found = self.catalogues()
        if len(found) == 1:
            return found[0]
        known = ", ".join(catalogue.series for catalogue in found) or "none yet"
        what = f"{self.series} does not name exactly one series" if self.series else "no series is named"
        raise InvalidInput(what, hint=f"name one of the known series: {known}")


def read_place(
    series: str, checkpoint: str, store: str, *, read_only: bool = False, begins: bool = False
) -> SnapshotPlace:
    """Return the series or checkpoint that the options name. Raises InvalidInput for an invalid name, or if both a
    series and a checkpoint are given.

    ``series``: a job, a query or a listed series; empty for all.
    ``checkpoint``: any Spark checkpoint; empty without one.
    ``store``: the store's URL; empty for the installation's store.
    ``read_only``: whether the command changes nothing.
    ``begins``: whether the command may create the store's directory.
    """
    if series and checkpoint:
        raise InvalidInput("both a series and a checkpoint are named", hint="name only one of them")
    if "/" in series:
        check_series(series)
    return SnapshotPlace(series=series, checkpoint=checkpoint, store_url=store, read_only=read_only, begins=begins)


def read_snapshot(place: SnapshotPlace, id: str, batch: int | None, moment: str) -> tuple[Catalogue, Snapshot]:
    """Return the selected series and the selected snapshot of that series; raises InvalidInput, NotFound,
    SnapshotDamaged.
    """
    catalogue = place.catalogue()
    return catalogue, find_snapshot(catalogue, read_choice(name=id, batch=batch, moment=moment))


def site_of(series: str, *, read_only: bool = False) -> Installation | None:
    """Return the installation; None for a series named ``adopted/…``, or if STREAMKEEPER_HOME is not set."""
    if series.startswith("adopted/") or not os.environ.get("STREAMKEEPER_HOME"):
        return None
    return load_read_only() if read_only else load_installation()
