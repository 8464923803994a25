"""Finds drivers whose records were lost, by their marks in /proc."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from streamkeeper.locations import local_path, same_place, scheme_of
from streamkeeper.model.settings.settings import Settings
from streamkeeper.runners import process_tree
from streamkeeper.runners.machine import FIRST_PID_NAMESPACE, Machine, this_machine
from streamkeeper.runners.process_tree import CHECKPOINTS, INSTALLATION, STORE, Process, ProcessTable, variable

_KILL_S = 30.0
_OF_ONE_MACHINE = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""Kinds of file systems that only one kernel mounts."""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """A driver instance with living processes. ``installation``: the installation that started it, empty if unknown."""

    instance: str
    processes: tuple[Process, ...]
    installation: str = ""

    @property
    def sentence(self) -> str:
        """The instance's processes as text, such as ``processes 41, 42``."""
        return f"processes {', '.join(str(process.pid) for process in self.processes)}"


def find_leftovers(job: str, settings: Settings, installations: Collection[str] = ()) -> list[Leftover]:
    """Return every driver of a job on this machine that uses the store or the checkpoints of ``settings``, or belongs
    to one of ``installations``.

    A driver of a copy of the installation is not returned, because the copy has its own store and checkpoints.
    """
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
    """Send SIGKILL to the drivers that ``find_leftovers`` returns, including their supervisors. Return those that still
    exist after 30 s.
    """

    def find() -> list[Process]:
        return [process for leftover in find_leftovers(job, settings, installations) for process in leftover.processes]

    before = find()
    process_tree.kill_tree(find)
    process_tree.wait_gone([*before, *find()], seconds=_KILL_S)
    return find_leftovers(job, settings, installations)


def why_unseen(checkpoints: Collection[str], *, machine: Machine | None = None) -> str:
    """Return why a driver that writes these checkpoints could be invisible to this process, as a phrase; empty if all
    such drivers are visible.

    All such drivers are visible under three conditions. The checkpoints are on file systems that only this machine can
    mount, so their drivers run under its kernel. This process is in the first pid namespace, so it sees every process
    of the kernel. This process runs as root or as the owner of the checkpoints, so it can read the environment
    variables by which drivers are recognised.
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
    """Return a directory's kind of file system, as the kernel names it; empty if unknown."""
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
