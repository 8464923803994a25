"""Drivers whose records are lost: their marks in /proc are all that tells of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from streamkeeper.locations import local_path, same_place, scheme_of
from streamkeeper.model.settings import Settings
from streamkeeper.runners import process_tree
from streamkeeper.runners.machine import FIRST_PID_NAMESPACE, Machine, this_machine
from streamkeeper.runners.process_tree import CHECKPOINTS, INSTALLATION, STORE, Process, ProcessTable, variable

_KILL_S = 30.0
_OF_ONE_MACHINE = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""Kinds of file systems that one kernel alone mounts."""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """One driver instance with living processes; ``installation``: the one that started it, empty where none told."""

    instance: str
    processes: tuple[Process, ...]
    installation: str = ""

    @property
    def sentence(self) -> str:
        """Its processes, for a person."""
        return f"processes {', '.join(str(process.pid) for process in self.processes)}"


def find_leftovers(job: str, settings: Settings, installations: Collection[str] = ()) -> list[Leftover]:
    """Every driver of a job that lives on this machine and is of this store, these checkpoints or one of these
    installations; a copy's, with places of its own, is none of ours."""
    found: dict[str, list[tuple[Process, bytes]]] = {}
    for instance, process, environment in ProcessTable().instances_of(job):
        found.setdefault(instance, []).append((process, environment))
    return [
        Leftover(
            instance=instance,
            processes=tuple(process for process, _ in members),
            installation=next(
                filter(None, (variable(its_environment, INSTALLATION) for _, its_environment in members)), ""
            ),
        )
        for instance, members in sorted(found.items())
        if any(_is_ours(environment, settings, installations) for _, environment in members)
    ]


def end_leftovers(job: str, settings: Settings, installations: Collection[str] = ()) -> list[Leftover]:
    """SIGKILL to all of them, supervisors as well; returns those that are still there when time is over."""

    def find() -> list[Process]:
        return [process for leftover in find_leftovers(job, settings, installations) for process in leftover.processes]

    before = find()
    process_tree.kill_tree(find)
    process_tree.wait_gone([*before, *find()], seconds=_KILL_S)
    return find_leftovers(job, settings, installations)


def why_unseen(checkpoints: Collection[str], *, machine: Machine | None = None) -> str:
    """Why a driver that writes these checkpoints could be where nobody here sees it, as a clause; empty if it cannot.

    One that writes a file system of this machine alone is a process of this kernel; all of those are seen in the first
    pid namespace, and their marks are read by root and by their own user.
    """
    return next(_reasons(checkpoints, machine or this_machine()), "")


def _reasons(checkpoints: Collection[str], here: Machine) -> Iterator[str]:
    if here.pid_namespace != FIRST_PID_NAMESPACE:
        yield f"this is a container ({here.host}), which sees only its own processes"
    for location in checkpoints:
        if scheme_of(location) not in ("", "file"):
            yield f"{location} can be written from any machine"
            continue
        directory = local_path("checkpoint", location)
        kind = _file_system(directory)
        if kind not in _OF_ONE_MACHINE:
            yield f"{directory} is on a file system ({kind or 'unknown'}) that other machines can mount"
        owner = directory.stat().st_uid
        if here.user not in (0, owner):
            yield f"{directory} belongs to user {owner}, whose processes user {here.user} cannot read"


def _file_system(directory: Path) -> str:
    """The kind of file system that a directory lies on, as the kernel calls it; empty where it does not say."""
    path, best, kind = os.path.realpath(directory), "", ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        mounted = before.split()[4].replace("\\040", " ")
        within = path == mounted or path.startswith(mounted.rstrip("/") + "/")
        if within and len(mounted) >= len(best):
            best, kind = mounted, after.split()[0]
    return kind


def _is_ours(environment: bytes, settings: Settings, installations: Collection[str]) -> bool:
    installation = variable(environment, INSTALLATION)
    if installation and installation in installations:
        return True
    places = ((STORE, settings.store), (CHECKPOINTS, settings.checkpoints))
    return any((place := variable(environment, name)) and same_place(place, mine) for name, mine in places)
