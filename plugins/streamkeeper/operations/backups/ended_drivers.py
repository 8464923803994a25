"""Leftovers of terminated drivers: records in the store; logs, scratch space and unpacked bundles on this machine.

Only instances with a proven termination are covered, and never one that the job's current state depends on: the current
or last driver, the last one to claim a checkpoint version (its commits reveal a lost directory), and every instance of
an open operation.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.protocol.driver_messages import control_key
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.checkpoint_version import scratch_location
from streamkeeper.model.records.job_state import InstanceState, JobState
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import DriverObservation, observe_instances, read_job, recorded_jobs
from streamkeeper.system.crash_points import crash_point

_DAY_S = 24 * 3600.0
_REMOVED = re.compile(r"\.removed-.+-[0-9a-f]{32}")
_UNPACKING = ".unpacking-"
_CUT_OFF = re.compile(r"drill-[0-9a-f]{32}|\.removed-drill-.+|dry-run-[a-z0-9_]{8}|\.removed-dry-run-.+")


class EndedDriver(msgspec.Struct, frozen=True, kw_only=True):
    """A terminated instance and its leftovers."""

    job: str
    """The job of the instance."""
    instance: str
    """The name of the instance."""
    keys: tuple[str, ...] = ()
    """Its records' keys, in the order of their removal."""
    files: tuple[str, ...] = ()
    """Its files and directories on this machine."""
    shared: str = ""
    """The location of data that the instance shared with remote executors; empty if there is none."""
    reason: str
    """Why these leftovers are removed."""


class Unused(msgspec.Struct, frozen=True, kw_only=True):
    """An unused directory: an unpacked bundle, which the next driver would unpack a second time, or the leftovers of a
    drill.

    ``used``: time of the last use, ns since 1970.
    """

    directory: str
    used: int
    reason: str


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a removal."""

    records: int = 0
    """Removed records."""
    files: int = 0
    """Removed files."""
    bytes: int = 0
    """Size of the removed files."""
    failed: tuple[str, ...] = ()
    """Failed removals, one sentence each."""


def sharing_instances(installation: Installation) -> set[str]:
    """Return the instances, of any job, that left data in the space shared with remote executors."""
    return set(tree_at(scratch_location(installation.settings.checkpoints)).folders(""))


def plan_ended(
    installation: Installation, state: JobState, now: datetime, sharing: Collection[str] = ()
) -> Iterator[EndedDriver]:
    """Yield the leftovers of terminated instances that can be removed: scratch space at once, records and logs after
    ``ended_days``.

    The days count from the instance's last report. ``sharing``: the result of ``sharing_instances``.
    """
    recorded = set(installation.store.folders(control_key(state.job, "")))
    for driver in _dead(installation, state):
        if driver.instance in _needed(state):
            continue
        log = installation.settings.log(state.job, driver.instance)
        logs = tuple(str(path) for path in (log, log.with_name(f"{log.name}.1")) if path.is_file())
        scratch = installation.settings.scratch / driver.instance
        left = (str(scratch),) if scratch.is_dir() and not scratch.is_symlink() else ()
        shared = (
            scratch_location(installation.settings.checkpoints, driver.instance) if driver.instance in sharing else ""
        )
        if not (logs or left or shared or driver.instance in recorded):
            continue
        last = _last_sign(installation, state, driver)
        if now.timestamp() - last > installation.settings.ended_days * _DAY_S:
            keys = tuple(sorted(installation.store.list(control_key(state.job, driver.instance, "")), key=_going))
            day = datetime.fromtimestamp(last, UTC).date()
            reason = (
                f"it has terminated, and its last report ({day}) is older than"
                f" {installation.settings.ended_days:g} days"
            )
            files = (*logs, *left)
        elif left or shared:
            keys, files, reason = (), left, "scratch space of a terminated driver"
        else:
            continue
        yield EndedDriver(job=state.job, instance=driver.instance, keys=keys, files=files, shared=shared, reason=reason)


def plan_unused(installation: Installation, states: Iterable[JobState], now: datetime) -> Iterator[Unused]:
    """Yield unpacked bundles on this machine that were not used for ``ended_days``.

    Also yield two kinds of leftovers once they are older than a day: bundles whose unpacking or removal was
    interrupted, and scratch space of drills and dry runs. ``states``: of all jobs.
    """
    needed = _bundles(installation, states)
    for bundle in _folders(installation.settings.bundles):
        unfinished = bool(_REMOVED.fullmatch(bundle.name)) or bundle.name.startswith(_UNPACKING)
        reason = "its unpacking or removal was interrupted" if unfinished else "no driver runs it"
        if bundle.name not in needed and _age_s(bundle, now) > _DAY_S * (
            1 if unfinished else installation.settings.ended_days
        ):
            yield Unused(directory=str(bundle), used=_used(bundle), reason=reason)
    for folder in _folders(installation.settings.scratch):
        if _CUT_OFF.fullmatch(folder.name) and _age_s(folder, now) > _DAY_S:
            yield Unused(directory=str(folder), used=_used(folder), reason="a drill or a dry run was interrupted")


def remove_ended(installation: Installation, drivers: Iterable[EndedDriver], unused: Iterable[Unused]) -> Removed:
    """Remove the planned leftovers that are still not needed. An interruption at any point does no harm.

    ``drivers`` and ``unused``: from ``plan_ended`` and ``plan_unused``. Raises StoreUnavailable.
    """
    records = files = size = 0
    failed: list[str] = []
    folders: list[Path] = []
    for driver in drivers:
        if driver.instance in _needed(read_job(installation, driver.job)):
            continue
        try:
            if driver.keys:
                installation.runner.release_resources(driver.job, driver.instance, with_log=True)
        except StreamkeeperError as error:
            failed.append(f"driver {driver.instance} of {driver.job}: {error}")
            continue
        for key in driver.keys:
            crash_point("prune.record.before")
            installation.store.delete(key)
            records += 1
        folders += map(Path, driver.files)
        if driver.shared:
            emptied = tree_at(driver.shared).empty().values()
            files, size = files + len(emptied), size + sum(stamp.size for stamp in emptied)
    for path in (*folders, *_set_aside(installation, unused)):
        found = (
            [path.lstat().st_size]
            if path.is_file()
            else [stamp.size for stamp in LocalTree(path).look().files.values()]
        )
        try:
            path.unlink() if path.is_file() else shutil.rmtree(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
            continue
        files += len(found)
        size += sum(found)
    return Removed(records=records, files=files, bytes=size, failed=tuple(failed))


def release_ended(installation: Installation, jobs: Iterable[str]) -> list[str]:
    """Free resources that were not freed when their instance ended, and return failures, one sentence each.

    Such resources are left if freeing them was interrupted, or had to wait for a proof of the end. This function covers
    only the instances on which a job's current state depends, because their records stay. The resources of all other
    instances are freed with the records of these instances.
    """
    failed = []
    for job in jobs:
        state = read_job(installation, job)
        for name in sorted(_needed(state) & state.instances.keys()):
            try:
                if state.instances[name].ended:
                    installation.runner.release_resources(job, name)
            except StreamkeeperError as error:
                failed.append(f"driver {name} of {job}: {error}")
    return failed


def tell_ended(drivers: Iterable[EndedDriver], unused: Iterable[Unused]) -> Iterator[str]:
    """Yield a line for each driver and each directory."""
    for driver in drivers:
        what = [f"{len(driver.keys)} records"] if driver.keys else []
        shared = [driver.shared] if driver.shared else []
        left = ", ".join([*what, *driver.files, *shared])
        yield f"delete {left} of driver {driver.instance} of {driver.job}: {driver.reason}"
    for directory in unused:
        yield f"delete {directory.directory}: {directory.reason}"


def _needed(state: JobState) -> set[str]:
    """Return the instances that the job's current state depends on."""
    opened = state.open_operation
    return {
        *(state.serving_instance, state.appointed, state.shadow),
        *(epoch.instance for epoch in state.epochs.values()),
        *(version.claimed_by for versions in state.versions.values() for version in versions),
        *(
            instance.instance
            for instance in state.instances.values()
            if opened and instance.operation == opened.operation
        ),
    }


def _dead(installation: Installation, state: JobState) -> list[InstanceState]:
    """Return the instances that have terminated: their end is recorded, or is proven now."""
    seen = observe_instances(installation, state, state.instances)
    terminated = {name for name, liveness in seen.items() if liveness.life in (Life.DEAD, Life.ABSENT)}
    return [instance for name, instance in state.instances.items() if name in terminated]


def _last_sign(installation: Installation, state: JobState, instance: InstanceState) -> float:
    """Return the time of an instance's last status; without a status, the start of its operation. In seconds since
    1970.
    """
    status = DriverObservation.of(installation, state, instance.instance).status
    if status is not None and status.at:
        return datetime.fromisoformat(status.at).timestamp()
    began = installation.journal(state.job, "prune").entry(state.operations[instance.operation].started)
    return datetime.fromisoformat(began.at).timestamp()


def _going(key: str) -> tuple[bool, bool, str]:
    """Return a key that sorts records for removal: the launch first, so that no process starts the instance, and the
    proofs of its end last.
    """
    name = key.rpartition("/")[2]
    return name != "launch.json", name.startswith("process-"), key


def _bundles(installation: Installation, states: Iterable[JobState]) -> set[str]:
    """Return the bundles of current releases, of releases in deployment, and of processes that may be running."""
    needed: set[str] = set()
    for state in states:
        dead = {instance.instance for instance in _dead(installation, state)} - _needed(state)
        releases = {instance.release for instance in state.instances.values() if instance.instance not in dead}
        needed |= {
            state.releases[release].content.bundle for release in {state.serving_release, *releases} & {*state.releases}
        }
    return needed


def _set_aside(installation: Installation, unused: Iterable[Unused]) -> Iterator[Path]:
    """Yield directories that are still unused, renamed so that no driver finds them.

    A driver is recorded long before it unpacks its bundle, and it marks an existing bundle as used. A bundle that is
    marked during the renaming is renamed back.
    """
    planned = list(unused)
    needed = (
        _bundles(installation, [read_job(installation, job) for job in recorded_jobs(installation)])
        if planned
        else set()
    )
    for entry in planned:
        path = Path(entry.directory)
        target = path.with_name(f".removed-{path.name.lstrip('.')}-{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):
            if path.name in needed or _used(path) != entry.used:
                continue
            path.rename(target)
            if _used(target) == entry.used:
                yield target
            elif not path.exists():
                target.rename(path)


def _folders(parent: Path) -> list[Path]:
    """Return the directories in a directory, without links; none if it does not exist."""
    return (
        sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()) if parent.is_dir() else []
    )


def _used(directory: Path) -> int:
    """Return the time of the last change in a directory, ns since 1970. Raises FileNotFoundError."""
    return max(
        [directory.stat().st_mtime_ns, *(stamp.modified for stamp in LocalTree(directory).look().files.values())]
    )


def _age_s(directory: Path, now: datetime) -> float:
    return now.timestamp() - _used(directory) / 1e9
