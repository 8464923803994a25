"""``snapshot take|list|show|verify|drill|restore|pin|export``, for deployed queries and for any Spark checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.text import Text

from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.cli.common_options import Conf, Json, Params, read_conf, read_params
from streamkeeper.cli.job_files import read_job_file
from streamkeeper.cli.progress_bar import progress_bar
from streamkeeper.cli.snapshot_changes import pin, restore_
from streamkeeper.cli.snapshot_list import described, print_json, show_snapshots
from streamkeeper.cli.snapshot_places import (
    AnySeries,
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
from streamkeeper.cli.terminal import Console, echo, echo_json
from streamkeeper.errors import InvalidInput, NotFound, StreamkeeperError
from streamkeeper.locations import local_path
from streamkeeper.model.coding import to_json
from streamkeeper.model.records.snapshot import Snapshot, snapshot_number
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.backups.drills import TIMEOUT_S, DrillPlace, drill, released_job
from streamkeeper.operations.backups.exporting import export_state
from streamkeeper.operations.backups.snapshot_rows import list_snapshots, said_of
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.operations.recovery.restoring import plan_restore
from streamkeeper.snapshots.capture import CaptureProgress
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.verify import verify
from streamkeeper.system import clock
from streamkeeper.system.secret_resolvers import built_in_resolvers

app = typer.Typer(
    no_args_is_help=True, help="Take, list, verify, drill, restore, pin and export snapshots of checkpoints."
)

OneId = Annotated[
    str, typer.Option("--id", metavar="ID", help="Verify only this snapshot, like s0007. Without it, all snapshots")
]
_ONLY_LOCAL = "write to a local directory, then copy it"


@app.command("take")
def take(
    series: AnySeries = "",
    *,
    checkpoint: CheckpointOption = "",
    store: StoreOption = "",
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            metavar="N",
            help="Number of the batch to take a snapshot of. Without it, the last committed batch",
        ),
    ] = None,
    without_open_batch: Annotated[
        bool,
        typer.Option(
            "--without-open-batch",
            help="Leave the plan of the open batch out of the snapshot. Use this if the input of that batch is"
            " missing or unreadable. A restore then plans the batch again",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Take snapshots of one query, of all queries of one job or of every job, or of any checkpoint. The exit code is 1
    if a snapshot failed."""
    place = read_place(series, checkpoint, store, begins=True)
    where, failed = place.store(), False
    for target in place.targets():
        try:
            with progress_bar(target.series) as show:
                captured = back_up(where, target, batch=batch, pending=not without_open_batch, show=_bytes(show))
        except StreamkeeperError as error:
            if place.adopted or "/" in series:
                raise
            failed = True
            Console(stderr=True, soft_wrap=True, highlight=False).print(
                f"error: {target.series}: {error}", style="red", markup=False
            )
            continue
        echo_json(to_json(described(captured.snapshot)) if json else captured.sentence)
    if failed:
        raise typer.Exit(1)


@app.command("list")
def list_(
    series: AnySeries = "", *, checkpoint: CheckpointOption = "", store: StoreOption = "", json: Json = False
) -> None:
    """List snapshots, oldest first, with batch, age, size, whether a drill has verified it, and why it is kept."""
    place = read_place(series, checkpoint, store, read_only=True)
    found = place.catalogues()
    listed = [snapshot for catalogue in found for snapshot in list_snapshots(catalogue, place.policy())]
    if json:
        print_json(listed)
    elif listed:
        show_snapshots(listed, now=clock.now())
    else:
        if series and not store and (installation := site_of(series, read_only=True)) is not None:
            read_job(installation, series.partition("/")[0])
        about = series or checkpoint
        echo(
            f"there is no snapshot{f' of {about}' if about else ''} yet. To take one, run `{_take(series, checkpoint)}`"
        )


@app.command("show")
def show_(
    series: Series = "",
    *,
    checkpoint: CheckpointOption = "",
    store: StoreOption = "",
    id: Id = "",
    batch: Batch = None,
    moment: At = "",
    files: Annotated[bool, typer.Option("--files", help="Also print every file in the snapshot")] = False,
    json: Json = False,
) -> None:
    """Show one snapshot with its release, source offsets and drills, and how many batches the sink is ahead of it."""
    catalogue, snapshot = read_snapshot(read_place(series, checkpoint, store, read_only=True), id, batch, moment)
    if json:
        echo_json(to_json({**described(snapshot), "files": [file.path for file in snapshot.files]}))
        return
    for line in _told(catalogue, snapshot):
        echo(line)
    installation = site_of(catalogue.series, read_only=True)
    if installation is not None:
        job, _, query = catalogue.series.partition("/")
        try:
            echo(f"sink: {plan_restore(installation, job, query, snapshot).sentence}")
        except StreamkeeperError as error:
            echo(f"sink: {error}")
    for file in snapshot.files if files else ():
        echo(f"  {file.path}  {file.stamp.size:,} bytes")


@app.command("verify")
def verify_(
    series: AnySeries = "",
    *,
    checkpoint: CheckpointOption = "",
    store: StoreOption = "",
    id: OneId = "",
    json: Json = False,
) -> None:
    """Read every object of the snapshots and compare it with its hash. The exit code is 1 if an object is damaged."""
    damaged = False
    place = read_place(series, checkpoint, store, read_only=True)
    catalogues = place.catalogues()
    if series and not catalogues:
        raise NotFound(f"{series} has no snapshots", hint=place.hint())
    for catalogue in catalogues:
        with progress_bar(catalogue.series) as show:
            found = verify(catalogue, [_there(catalogue, id)] if id else None, show=show)
        damaged = damaged or bool(found.damaged)
        if json:
            echo_json(to_json({"series": catalogue.series, "found": found}))
            continue
        for damage in found.damaged:
            lost = ", ".join(damage.snapshots)
            Console(soft_wrap=True, highlight=False).print(
                Text(f"damage {damage.key}: {damage.why}; cannot be restored: {lost}", style="red")
            )
        state = f"{len(found.damaged)} objects are damaged" if found.damaged else "all objects are intact"
        echo(
            f"{catalogue.series}: {found.snapshots} snapshots, {found.packs} packs, {found.bytes:,} bytes read: {state}"
        )
    if damaged:
        raise typer.Exit(1)


@app.command("drill")
def drill_(
    series: Series = "",
    *,
    checkpoint: CheckpointOption = "",
    store: StoreOption = "",
    id: Id = "",
    batch: Batch = None,
    moment: At = "",
    job_file: Annotated[
        str,
        typer.Option(
            "--job-file",
            metavar="FILE:NAME",
            help="File and name of the job whose code resumes the query. Without"
            " it, the release that wrote the snapshot",
        ),
    ] = "",
    query: Annotated[
        str, typer.Option("--query", metavar="NAME", help="With --job-file, name of the query to resume")
    ] = "",
    params: Params = "{}",
    conf: Conf = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="S", min=1, help="Longest duration of one batch of the drill, in seconds"),
    ] = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Restore a snapshot to scratch space and resume its query there, with its output diverted. The exit code is 1 if
    the drill failed."""
    catalogue, snapshot = read_snapshot(read_place(series, checkpoint, store), id, batch, moment)
    installation = site_of(catalogue.series)
    with TemporaryDirectory(prefix="streamkeeper-drill-") as scratch:
        if job_file:
            job = read_job_file(job_file, read_params(params), read_conf(conf))
            named = query or (catalogue.series.rpartition("/")[2] if installation is not None else "")
            if not named:
                raise InvalidInput("the query is not named", hint="add --query NAME")
            where = DrillPlace(job=job, query=named, scratch=Path(scratch))
        elif installation is not None:
            where = released_job(installation, snapshot)
        else:
            raise InvalidInput("the job's code is not recorded here", hint="add --job-file FILE:NAME --query NAME")
        resolvers = installation.resolvers if installation is not None else built_in_resolvers(os.environ)
        result = drill(catalogue, snapshot, where, resolvers, timeout_s=timeout)
    if json:
        echo_json(to_json({"snapshot": snapshot.name, "result": result}))
    else:
        echo(f"{snapshot.series} {snapshot.name}: {result.sentence}")
    if not result.ok:
        raise typer.Exit(1)


app.command("restore")(restore_)
app.command("pin")(pin)


@app.command("export")
def export(
    series: Series = "",
    *,
    checkpoint: CheckpointOption = "",
    store: StoreOption = "",
    id: Id = "",
    batch: Batch = None,
    moment: At = "",
    to: Annotated[
        str,
        typer.Option("--to", metavar="DIR", help="Directory to write the Parquet files into. It must not exist yet"),
    ],
    json: Json = False,
) -> None:
    """Write the state of a snapshot as Parquet files, one per state store."""
    target = local_path("--to", to, hint=_ONLY_LOCAL)
    if target.exists():
        raise InvalidInput(f"{target} exists already", hint="export into a directory that does not exist")
    catalogue, snapshot = read_snapshot(read_place(series, checkpoint, store), id, batch, moment)
    with TemporaryDirectory(prefix="streamkeeper-export-") as scratch:
        restore(catalogue, snapshot, LocalTree(Path(scratch) / "checkpoint", lasting=False))
        answer = export_state(Path(scratch) / "checkpoint", target, batch=snapshot.batch)
    if json:
        echo_json(to_json(answer))
        return
    for exported in answer.stores:
        outcome = exported.unsupported or f"{exported.rows:,} rows in {exported.path}"
        echo(f"operator {exported.operator} {exported.name}, store {exported.store}: {outcome}")
    echo(f"the state after batch {answer.batch} is in {target}")


def _there(catalogue: Catalogue, id: str) -> int:
    """Return the number of a snapshot; raises NotFound if the series does not list it, because that is not damage."""
    number = snapshot_number(id)
    if number not in catalogue.numbers():
        raise NotFound(
            f"series {catalogue.series} has no snapshot {id}",
            hint="run `streamkeeper snapshot list` to see the snapshots",
        )
    return number


def _take(series: str, checkpoint: str) -> str:
    of = f" {series}" if series else f" --checkpoint {checkpoint}" if checkpoint else ""
    return f"streamkeeper snapshot take{of}"


def _told(catalogue: Catalogue, snapshot: Snapshot) -> Iterator[str]:
    yield f"{snapshot.series} {snapshot.name}, taken {snapshot.taken_at}"
    yield f"of {snapshot.checkpoint}"
    yield f"written by release {snapshot.release or '-'}, checkpoint version {snapshot.version or '-'}"
    after = f", and the plan of batch {snapshot.open_batch}" if snapshot.pending else ""
    yield f"batch {snapshot.batch}{after}; query id {snapshot.query_id}"
    for source, offset in snapshot.offsets.items():
        yield f"source {source}: {offset}"
    size = f"{snapshot.bytes:,} bytes in {len(snapshot.packs)} packs, {snapshot.stored:,} of them new"
    yield f"{len(snapshot.files)} files, {size}"
    for last_drill in catalogue.drills(snapshot.number):
        yield f"drill {last_drill.at}: {'ok' if last_drill.ok else 'FAILED'}: {last_drill.message}"
    number = snapshot.number
    yield from said_of(catalogue.drills(number), catalogue.pin_of(number), catalogue.holds(number))


def _bytes(show: Callable[[int, int], None]) -> Callable[[CaptureProgress], None]:
    return lambda progress: show(progress.bytes, progress.of_bytes)
