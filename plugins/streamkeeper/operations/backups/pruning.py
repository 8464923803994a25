"""Prune snapshots without a reason to keep them, unreferenced packs, old batches of checkpoints that are not in use,
and leftovers of terminated drivers.

Each series and each checkpoint has its own plan. The displayed plan is the one that is carried out. If a part cannot be
planned, it is reported and kept, and the other parts are still pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

import msgspec

from streamkeeper.checkpoints.growth import Growth, checkpoint_growth, sink_log_growth
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.prune_plan import Extent, PrunePlan
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.removal import carry_out, is_being_removed
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.checkpoints.unneeded_files import plan_live, plan_retired, plan_unpublished
from streamkeeper.errors import CheckpointLost, InvalidInput, StreamkeeperError
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.secret_references import MASK
from streamkeeper.model.watch.fleet_index import PruneRecord
from streamkeeper.operations.backups.ended_drivers import (
    EndedDriver,
    Removed,
    Unused,
    plan_ended,
    plan_unused,
    release_ended,
    remove_ended,
    sharing_instances,
    tell_ended,
)
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import read_job, recorded_jobs
from streamkeeper.operations.jobs.outdated import must_not_be_outdated
from streamkeeper.operations.jobs.placement import find_disk, told_disk
from streamkeeper.operations.jobs.registered import (
    find_foreign,
    find_version_loss,
    stored_manifests,
)
from streamkeeper.registry.fleet import write_prune
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.snapshots.catalogue import Catalogue, list_series
from streamkeeper.snapshots.retention import Policy
from streamkeeper.snapshots.sweep import GRACE_S, SweepPlan, plan_sweep, sweep, tell
from streamkeeper.stores.contract import Store
from streamkeeper.system import clock

RETIRED_BATCHES = 1
"""Number of batches that a retired checkpoint version keeps until its removal; a rollback needs its last batch."""
STALE_S = 24 * 3600.0
"""Age in seconds from which the remains of an unfinished restore or write are removed."""
_RULES = {"last": "keep_last"} | {name: name for name in ("hourly", "daily", "weekly", "monthly")}


class CheckpointGrowth(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a checkpoint version, or of the log of a file sink's output."""

    directory: str
    growth: Growth


class PruneRun(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a prune."""

    sweeps: tuple[SweepPlan, ...] = ()
    """Snapshots and packs, per series."""
    directories: tuple[PrunePlan, ...] = ()
    """Files of checkpoints, per directory."""
    growth: tuple[CheckpointGrowth, ...] = ()
    """Sizes of checkpoints and sink logs, for display."""
    drivers: tuple[EndedDriver, ...] = ()
    """Leftovers of terminated drivers."""
    unused: tuple[Unused, ...] = ()
    """Unused directories on this machine."""
    untold: tuple[str, ...] = ()
    """Parts that could not be planned, one sentence each."""
    jobs: tuple[str, ...] = ()
    """The inspected jobs."""
    everything: bool = False
    """Whether ``jobs`` are all jobs."""


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a prune."""

    snapshots: int = 0
    """Removed snapshots."""
    packs: int = 0
    """Removed packs."""
    files: int = 0
    """Removed files of checkpoints and drivers."""
    bytes: int = 0
    """Size of everything removed."""
    records: int = 0
    """Removed records of terminated drivers."""
    failed: tuple[str, ...] = ()
    """Failed removals and plans, one sentence each."""

    @property
    def sentence(self) -> str:
        """The result in words."""
        records = f", {self.records} records of terminated drivers" if self.records else ""
        return (
            f"pruned {self.snapshots} snapshots, {self.packs} packs, {self.files} files{records}: {self.bytes:,} bytes"
        )


def read_policy(text: str) -> Policy:
    """Parse ``last=3,hourly=24,daily=7,weekly=4,monthly=6``; missing rules have their default. Raises InvalidInput."""
    found: dict[str, int] = {}
    for rule in filter(None, (part.strip() for part in text.split(","))):
        name, separator, count = rule.partition("=")
        if name not in _RULES or not separator or not count.isdecimal():
            raise InvalidInput(
                f"{rule!r} is not a rule of a retention policy", hint="write rules such as last=3,hourly=24,daily=7"
            )
        found[_RULES[name]] = int(count)
    return Policy(**found)


def plan_prune(
    installation: Installation,
    *,
    job: str = "",
    policy: Policy | None = None,
    grace_s: float = GRACE_S,
    now: datetime | None = None,
) -> PruneRun:
    """Plan the prune of one job, or of everything in the stores; removes no file.

    ``installation``: the installation; ``job``: empty for all; ``policy``: the retention policy of snapshots, None for
    the installation's;
    ``grace_s``: minimum age of a removed pack, seconds; ``now``: None for the current time.
    """
    moment = now or clock.now()
    chosen = policy or read_policy(installation.settings.keep)
    sweeps: list[SweepPlan] = []
    directories: list[PrunePlan] = []
    untold: list[str] = []
    growth: list[CheckpointGrowth] = []
    drivers: list[EndedDriver] = []
    unused: list[Unused] = []
    states: list[JobState] = []
    for series in list_series(installation.snapshots):
        if not job or series.startswith(f"{job}/"):
            with _telling(untold, series):
                sweeps.append(
                    plan_sweep(Catalogue(installation.snapshots, series), chosen, now=moment, grace_s=grace_s)
                )
    sharing: set[str] = set()
    with _telling(untold, "scratch space"):
        sharing = sharing_instances(installation)
    for name in [job] if job else recorded_jobs(installation):
        with _telling(untold, name):
            state = read_job(installation, name)
            must_not_be_outdated(installation, state)
            states.append(state)
            drivers += plan_ended(installation, state, moment, sharing)
            for query in sorted(state.versions):
                with _telling(untold, f"the output of {name}/{query}"):
                    growth += _sink_logs(installation, state, query)
                for tree, plan in _versions(installation, state, query, moment):
                    if is_published(tree):
                        growth.append(CheckpointGrowth(directory=tree.where(""), growth=checkpoint_growth(tree)))
                    directories.append(plan)
    # The needed bundles are known only if every job could be read.
    if not job and len(states) == len(recorded_jobs(installation)):
        with _telling(untold, "bundles"):
            unused += plan_unused(installation, states, moment)
    return PruneRun(
        sweeps=tuple(sweeps),
        directories=tuple(directories),
        growth=tuple(growth),
        drivers=tuple(drivers),
        unused=tuple(unused),
        untold=tuple(untold),
        jobs=tuple(state.job for state in states),
        everything=not job,
    )


def plan_series(catalogues: Iterable[Catalogue], policy: Policy, *, grace_s: float = GRACE_S) -> PruneRun:
    """Plan the prune of series in any store; raises the errors of ``plan_sweep``."""
    now = clock.now()
    return PruneRun(sweeps=tuple(plan_sweep(catalogue, policy, now=now, grace_s=grace_s) for catalogue in catalogues))


def prune(store: Store, run: PruneRun, installation: Installation | None = None) -> PruneReport:
    """Carry out a plan. After an interruption, plan and prune again. Raises StoreUnavailable.

    ``store``: contains the snapshots; ``installation``: the installation of the drivers in the plan, None if the plan
    has no drivers.
    """
    now = clock.now()
    snapshots = packs = files = size = 0
    failed = list(run.untold)
    for plan in run.sweeps:
        sweep(Catalogue(store, plan.series), plan, now=now)
        store.clear_unfinished(f"snapshots/{plan.series}/", older_than_s=STALE_S)
        snapshots += len(plan.dropped)
        packs += len(plan.packs)
        size += plan.freed
    for directory in run.directories:
        pruned = carry_out(tree_at(directory.directory), directory)
        files += pruned.files
        size += pruned.bytes
        failed += pruned.failed
        failed += pruned.left if directory.extent is not Extent.LEFTOVERS else ()
    ended = remove_ended(installation, run.drivers, run.unused) if installation is not None else Removed()
    if installation is not None:
        failed += release_ended(installation, run.jobs)
    failed += ended.failed
    if run.everything:
        write_prune(store, PruneRecord(at=now.timestamp(), failed=tuple(failed)))
    return PruneReport(
        snapshots=snapshots,
        packs=packs,
        files=files + ended.files,
        bytes=size + ended.bytes,
        records=ended.records,
        failed=tuple(failed),
    )


def tell_run(run: PruneRun) -> Iterator[str]:
    """Yield the plan: a line for each kept or removed item and for each directory."""
    for plan in run.sweeps:
        yield from tell(plan)
    for removal in run.directories:
        if removal.kept_whole:
            yield f"keep {removal.directory}: {removal.kept_whole}"
        elif removal.files:
            size = sum(file.size for file in removal.files)
            yield f"delete {len(removal.files)} files ({size:,} bytes) of {removal.directory}: {removal.extent.value}"
            yield from (f"  {file.path}: {file.reason}" for file in removal.files)
        yield from (f"keep {removal.directory}: {why}" for why in removal.left)
    yield from tell_ended(run.drivers, run.unused)
    for grown in run.growth:
        found = grown.growth
        largest = f", its largest compacted entry {found.largest_compact:,}" if found.largest_compact else ""
        checksums = f"{found.crc_files:,} of them checksums"
        yield f"size {grown.directory}: {found.files:,} files ({checksums}), {found.bytes:,} bytes{largest}"
    yield from (f"cannot plan {failure}" for failure in run.untold)


@contextmanager
def _telling(errors: list[str], about: str) -> Iterator[None]:
    """Catch an error and append it to ``errors`` as a sentence that starts with ``about``."""
    try:
        yield
    except (StreamkeeperError, OSError) as error:
        errors.append(f"{about}: {error}")


def _sink_logs(installation: Installation, state: JobState, query: str) -> Iterator[CheckpointGrowth]:
    """Yield the logs of a file sink, one for each version that it wrote. Spark compacts these logs, but drops
    no line.
    """
    release = state.serving_release
    manifest = stored_manifests(installation, state, release).get(query) if release in state.described else None
    folder = capabilities_of(manifest.sink.kind).log_folder if manifest is not None else ""
    if manifest is None or not folder or MASK in manifest.sink.output:
        return
    for version in state.versions[query]:
        log = tree_at(f"{manifest.sink.output}/{version.version}/{folder}")
        if not log.absence():
            yield CheckpointGrowth(directory=log.where(""), growth=sink_log_growth(log))


def _versions(
    installation: Installation, state: JobState, query: str, now: datetime
) -> Iterator[tuple[Tree, PrunePlan]]:
    """Yield the plans for the existing checkpoint versions of a query.

    The age of a retired version counts up to the last commit of the current version. If it counted up to now, a clock
    that is ahead, or an idle job, would remove the rollback path.
    """
    current = state.current_version(query)
    serving = installation.checkpoint(state, query, current.version) if current is not None else None
    epoch = state.epochs.get(query)
    for version in state.versions[query]:
        if find_foreign(installation, state, query, version.version):
            continue
        tree = installation.checkpoint(state, query, version.version)
        if tree.absence():
            if host := find_disk(installation, state.job, version, tree):
                kept = f"{told_disk(tree, host)}; a prune on that machine covers it"
                yield tree, PrunePlan(directory=tree.where(""), extent=Extent.LEFTOVERS, kept_whole=kept)
            continue
        serves = current is not None and version.version == current.version
        unpublished = not serves and not is_published(tree)
        goes_on = unpublished and is_being_removed(tree, version.query_id)
        # A restore records its batch before it creates files; until a driver opens the version, no data can be lost.
        never_opened = unpublished and not (version.serves or version.claimed_by)
        inherited = version.committed if never_opened else None
        loss = "" if goes_on or never_opened else find_version_loss(installation, state, query, version.version)
        if loss:
            # The owner of the directory is unknown, so none of its files is removed.
            raise CheckpointLost(
                f"checkpoint {version.version} of {state.job}/{query} is not what was recorded: {loss}"
            )
        if serves:
            yield tree, plan_live(tree, now=now.timestamp())
        # Until a driver has claimed the newer version, the one before it may still be written.
        elif state.open_operation is not None or epoch is None or epoch.version == version.version:
            continue
        # A version with its own commit has lost its metadata, so a person must inspect it.
        elif unpublished and (goes_on or last_committed(tree) in (None, version.batch, inherited)):
            # The writer of the directory may only be slow.
            if goes_on or now.timestamp() - _last_changed(tree) > STALE_S:
                yield tree, plan_unpublished(tree)
        else:
            retired_s = installation.settings.retired_days * 24 * 3600
            since = _last_written(serving) if serving is not None else 0.0
            over = not unpublished and _last_written(tree) < since - retired_s
            yield tree, plan_retired(tree, 0 if over else RETIRED_BATCHES)


def _last_written(tree: Tree) -> float:
    """Return the time of a checkpoint's last commit, from commit files, which a prune never changes; s since 1970."""
    commits = [tree.stamp(f"commits/{name}").modified for name in tree.files("commits")]
    return max(commits) / 1e9 if commits else _last_changed(tree)


def _last_changed(tree: Tree) -> float:
    """Return the time of the newest file, seconds since 1970."""
    return max((found.modified for found in tree.look().files.values()), default=0) / 1e9
