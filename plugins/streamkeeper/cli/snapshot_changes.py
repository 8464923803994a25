"""``snapshot restore`` and ``snapshot pin``: commands that write a checkpoint, or change which snapshots are kept."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.cli.caller import caller
from streamkeeper.cli.command_results import JsonResult, Report, reporting
from streamkeeper.cli.options import asked
from streamkeeper.cli.progress_bar import progress_bar
from streamkeeper.cli.snapshot_places import (
    At,
    Batch,
    CheckpointOption,
    Id,
    Series,
    StoreOption,
    read_place,
    read_snapshot,
    site_of,
)
from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.snapshot import Pin, Snapshot, snapshot_number
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.operations.jobs.outdated import must_not_be_outdated_as_far_as_seen
from streamkeeper.operations.recovery.restoring import plan_restore, restore_version
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.system import clock
from streamkeeper.system.system_user import user_name

_ADOPTED = "adopted/"
"""Prefix of the series of checkpoints that no job of this installation wrote."""


def restore_(
    series: Series = "",
    *,
    checkpoint: CheckpointOption = "",
    store: StoreOption = "",
    id: Id = "",
    batch: Batch = None,
    moment: At = "",
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="DIR",
            help="Restore into this directory or s3a://… prefix, which must not exist yet. Without it, restore as the"
            " query's next checkpoint version",
        ),
    ] = "",
    accept_replay: Annotated[
        bool,
        typer.Option(
            "--accept-replay",
            help="Accept that the topic or the sink's function receives batches that it has already received",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Accept that this restore may lose rows, because some of their input is missing"
        ),
    ] = False,
    reason: Annotated[
        str, asked("reason", help="Your reason for accepting the loss, recorded in the job's journal")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be restored and where, and change nothing")
    ] = False,
    json: JsonResult = False,
) -> None:
    """Restore a snapshot as the next checkpoint version of a deployed query, or into a directory or a bucket."""
    with reporting("snapshot restore", as_json=json) as report:
        if accept_loss and not reason:
            raise InvalidInput("--accept-loss: a reason is required", hint='add `--reason "the files were test data"`')
        target = tree_at(to) if to else None
        place = read_place(series, checkpoint, store)
        if target is None:
            _must_be_current(series)
        catalogue, snapshot = read_snapshot(place, id, batch, moment)
        _name(report, catalogue)
        report.describe("", snapshot=snapshot.name, batch=snapshot.batch)
        if dry_run:
            report.result.outcome = Outcome.DRY_RUN.value
        if target is not None:
            _restore_into(report, catalogue, snapshot, target, dry_run=dry_run)
            return
        accepted_by = caller() if accept_loss else ""
        _restore_version(
            report, catalogue, snapshot, accept_replay=accept_replay, loss_accepted_by=accepted_by, reason=reason,
            dry_run=dry_run,
        )  # fmt: skip


def _restore_into(report: Report, catalogue: Catalogue, snapshot: Snapshot, target: Tree, *, dry_run: bool) -> None:
    named = f"{snapshot.name} (batch {snapshot.batch}"
    if dry_run:
        report.end(f"would write {named}, {snapshot.bytes:,} bytes) to {target}", target=str(target))
        return
    with progress_bar(snapshot.name) as show:
        restored = restore(catalogue, snapshot, target, show=show)
    message = f"{named}) is restored to {restored.target}: {restored.files} files"
    report.end(message, target=restored.target, files=restored.files)


def _restore_version(
    report: Report,
    catalogue: Catalogue,
    snapshot: Snapshot,
    *,
    accept_replay: bool,
    loss_accepted_by: str,
    reason: str,
    dry_run: bool,
) -> None:
    installation = site_of(catalogue.series)
    if installation is None:
        raise InvalidInput(
            f"the snapshots of series {catalogue.series} belong to no job of this installation",
            hint="add --to DIR, with a directory that does not exist yet",
        )
    job, _, query = catalogue.series.partition("/")
    plan = plan_restore(installation, job, query, snapshot)
    report.line(plan.sentence)
    report.describe("", replay=plan.sentence, replayed_batches=plan.replayed)
    if dry_run:
        report.end(
            f"would write {snapshot.name} (batch {plan.batch}) as {plan.version} of {job}/{query}: {plan.target}",
            version=plan.version,
            target=plan.target,
            release=plan.release,
        )
        return
    with progress_bar(snapshot.name) as show:
        done = restore_version(
            installation,
            job,
            query,
            snapshot,
            catalogue=catalogue,
            accept_replay=accept_replay,
            loss_accepted_by=loss_accepted_by,
            reason=reason,
            show=show,
        )
    restored = f"{snapshot.name} (batch {done.batch}) is {done.version} of {job}/{query}"
    report.end(
        f"{restored}. Deploy {done.release} to resume from it",
        version=done.version,
        target=done.target,
        release=done.release,
    )


def _must_be_current(series: str) -> None:
    """Raise JournalOutdated before the snapshot is looked up, because an older copy of the store may also lack it."""
    installation, job = site_of(series), series.partition("/")[0]
    if installation is not None and job in list_jobs(installation.store):
        must_not_be_outdated_as_far_as_seen(installation, read_job(installation, job))


def pin(
    series: Series,
    id: Annotated[str, typer.Argument(metavar="ID", help="Snapshot to pin or unpin, like s0007")],
    *,
    store: StoreOption = "",
    reason: Annotated[str, asked("reason", help="Why the snapshot must be kept, recorded with the pin")] = "",
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the pin, so that the retention rules apply to the snapshot again")
    ] = False,
    json: JsonResult = False,
) -> None:
    """Pin a snapshot, so that it is kept regardless of the retention rules. With --remove, unpin it."""
    with reporting("snapshot pin", as_json=json) as report:
        catalogue = read_place(series, "", store).catalogue()
        _name(report, catalogue)
        number = snapshot_number(id)
        if remove:
            catalogue.unpin(number)
            report.end(f"{catalogue.series} {id} is unpinned", snapshot=id, pinned=False)
            return
        if not reason:
            raise InvalidInput("a pin needs a reason", hint='add `--reason "before the migration"`')
        moment = clock.now().isoformat(timespec="seconds")
        catalogue.pin(number, Pin(reason=reason, by=user_name(), at=moment))
        report.end(f"{catalogue.series} {id} is pinned: {reason}", snapshot=id, pinned=True, reason=reason)


def _name(report: Report, catalogue: Catalogue) -> None:
    """Put the series, and the job that it belongs to, into the result."""
    if not catalogue.series.startswith(_ADOPTED):
        report.result.job = catalogue.series.partition("/")[0]
    report.describe("", series=catalogue.series)
