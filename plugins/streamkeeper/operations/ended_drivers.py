"""What ended drivers have left: their records in the store; logs, scratch space and unpacked bundles on this machine.

Only of instances that are proven dead, and never of one that a job's present rests on: whoever serves or did last,
whoever claimed a checkpoint version last (what it committed tells a lost directory), and all of an open operation.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.prune_plan import REMOVED, look_at, removed_path
from streamkeeper.crash_points import crash_point
from streamkeeper.model.control import control_key
from streamkeeper.model.job_state import InstanceState, JobState
from streamkeeper.model.liveness import Life
from streamkeeper.operations.overview import read_job, recorded_jobs
from streamkeeper.operations.sites import Site
from streamkeeper.registry.control import Control
from streamkeeper.runners.driver_log import log_path

_DAY_S = 24 * 3600.0
_UNPACKING = ".unpacking-"
_CUT_OFF = re.compile(r"drill-[0-9a-f]{32}|\.removed-drill-.+|dry-run-[a-z0-9_]{8}|\.removed-dry-run-.+")


class EndedDriver(msgspec.Struct, frozen=True, kw_only=True):
    """A dead instance: its records by their keys, in the order in which they go, and its files on this machine."""

    job: str
    instance: str
    keys: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    reason: str


class Unused(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that nobody needs: an unpacked bundle, which the next driver that does unpacks again, or what a drill
    has left. ``used``: when last, ns since 1970.
    """

    directory: str
    used: int
    reason: str


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """What went. ``failed``: what could not be removed, one sentence each."""

    records: int = 0
    files: int = 0
    bytes: int = 0
    failed: tuple[str, ...] = ()


def plan_ended(site: Site, state: JobState, now: datetime) -> Iterator[EndedDriver]:
    """Of each dead instance its scratch space at once, its records and logs ``ended_days`` after its last sign."""
    recorded = set(site.store.folders(control_key(state.job, "")))
    for each in _dead(site, state):
        if each.instance in _needed(state):
            continue
        log = log_path(site.settings.home, state.job, each.instance)
        logs = tuple(str(path) for path in (log, log.with_name(f"{log.name}.1")) if path.is_file())
        scratch = Path(site.settings.home) / "scratch" / each.instance
        left = (str(scratch),) if scratch.is_dir() and not scratch.is_symlink() else ()
        if not (logs or left or each.instance in recorded):
            continue
        last = _last_sign(site, state, each)
        if now.timestamp() - last > site.settings.ended_days * _DAY_S:
            keys = tuple(sorted(site.store.list(control_key(state.job, each.instance, "")), key=_going))
            day = datetime.fromtimestamp(last, UTC).date()
            reason = f"it is dead, and its last sign of {day} is older than {site.settings.ended_days:g} days"
            yield EndedDriver(job=state.job, instance=each.instance, keys=keys, files=(*logs, *left), reason=reason)
        elif left:
            yield EndedDriver(job=state.job, instance=each.instance, files=left, reason="the scratch space of the dead")


def plan_unused(site: Site, states: Iterable[JobState], now: datetime) -> Iterator[Unused]:
    """Unpacked bundles on this machine that nobody has used for ``ended_days``, and scratch space of drills and
    dry runs of before yesterday; ``states``: of all jobs there are.
    """
    home = Path(site.settings.home)
    needed = _bundles(site, states)
    for each in _folders(home / "bundles"):
        unfinished = bool(REMOVED.fullmatch(each.name)) or each.name.startswith(_UNPACKING)
        reason = "its unpacking or removal was cut off" if unfinished else "no driver runs it"
        if each.name not in needed and _age_s(each, now) > _DAY_S * (1 if unfinished else site.settings.ended_days):
            yield Unused(directory=str(each), used=_used(each), reason=reason)
    for each in _folders(home / "scratch"):
        if _CUT_OFF.fullmatch(each.name) and _age_s(each, now) > _DAY_S:
            yield Unused(directory=str(each), used=_used(each), reason="a drill or a dry run was cut off")


def remove_ended(site: Site, drivers: Iterable[EndedDriver], unused: Iterable[Unused]) -> Removed:
    """Carry a plan out, as far as it still holds; may be cut off anywhere. Raises StoreUnavailable."""
    records = files = size = 0
    failed: list[str] = []
    folders: list[Path] = []
    for driver in drivers:
        if driver.instance in _needed(read_job(site, driver.job)):
            continue
        for key in driver.keys:
            crash_point("prune.record.before")
            site.store.delete(key)
            records += 1
        folders += map(Path, driver.files)
    for path in (*folders, *_set_aside(site, unused)):
        found = [path.lstat()] if path.is_file() else list(look_at(path).files.values())
        try:
            path.unlink() if path.is_file() else shutil.rmtree(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
            continue
        files += len(found)
        size += sum(each.st_size for each in found)
    return Removed(records=records, files=files, bytes=size, failed=tuple(failed))


def tell_ended(drivers: Iterable[EndedDriver], unused: Iterable[Unused]) -> Iterator[str]:
    """A line for each driver and each directory."""
    for each in drivers:
        what = [f"{len(each.keys)} records"] if each.keys else []
        yield f"delete {', '.join([*what, *each.files])} of driver {each.instance} of {each.job}: {each.reason}"
    for directory in unused:
        yield f"delete {directory.directory}: {directory.reason}"


def _needed(state: JobState) -> set[str]:
    """Instances that the job's present rests on."""
    opened = state.open_operation
    return {
        *(state.serving_instance, state.appointed, state.shadow),
        *(each.instance for each in state.epochs.values()),
        *(version.claimed_by for versions in state.versions.values() for version in versions),
        *(each.instance for each in state.instances.values() if opened and each.operation == opened.operation),
    }


def _dead(site: Site, state: JobState) -> list[InstanceState]:
    """Those whose end is on record, and those that a look proves dead now."""
    open_ends = [(state.job, each.instance) for each in state.instances.values() if not each.ended]
    seen = site.runner.observe_many(open_ends)
    gone = {name for (_, name), each in seen.items() if each.life in (Life.DEAD, Life.ABSENT)}
    return [each for each in state.instances.values() if each.ended or each.instance in gone]


def _last_sign(site: Site, state: JobState, instance: InstanceState) -> float:
    """When it told its last status; where it never told one, when its operation began. Seconds since 1970."""
    status = Control(site.store, state.job, instance.instance).read_status()
    if status is not None and status.at:
        return datetime.fromisoformat(status.at).timestamp()
    began = site.journal(state.job, "prune").entry(state.operations[instance.operation].started)
    return datetime.fromisoformat(began.at).timestamp()


def _going(key: str) -> tuple[bool, bool, str]:
    """The launch first, so that nobody starts it, and last what proves its death."""
    name = key.rpartition("/")[2]
    return name != "launch.json", name.startswith("process-"), key


def _bundles(site: Site, states: Iterable[JobState]) -> set[str]:
    """Bundles of releases that serve, are being deployed, or run in a process that is not proven dead."""
    needed: set[str] = set()
    for state in states:
        dead = {each.instance for each in _dead(site, state)} - _needed(state)
        releases = {each.release for each in state.instances.values() if each.instance not in dead}
        needed |= {
            state.releases[each].content.bundle for each in {state.serving_release, *releases} & {*state.releases}
        }
    return needed


def _set_aside(site: Site, unused: Iterable[Unused]) -> Iterator[Path]:
    """Directories that are still unused, under names that nobody looks for.

    A driver is recorded long before it unpacks its bundle, and marks one that it finds as used: one that does so just
    now gets it back.
    """
    planned = list(unused)
    needed = _bundles(site, [read_job(site, job) for job in recorded_jobs(site)]) if planned else set()
    for each in planned:
        path = Path(each.directory)
        target = removed_path(path)
        with suppress(FileNotFoundError):
            if path.name in needed or _used(path) != each.used:
                continue
            path.rename(target)
            if _used(target) == each.used:
                yield target
            elif not path.exists():
                target.rename(path)


def _folders(parent: Path) -> list[Path]:
    """The directories in a directory, without links; none where it is not there."""
    return (
        sorted(each for each in parent.iterdir() if each.is_dir() and not each.is_symlink()) if parent.is_dir() else []
    )


def _used(directory: Path) -> int:
    """When it, or a file in it, was changed last; ns since 1970. Raises FileNotFoundError."""
    return max([directory.stat().st_mtime_ns, *(each.st_mtime_ns for each in look_at(directory).files.values())])


def _age_s(directory: Path, now: datetime) -> float:
    return now.timestamp() - _used(directory) / 1e9
