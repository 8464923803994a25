"""Detached processes: each runs in its own session, is recorded in a file, and is stopped by that record alone.

A record contains the pid and the start time of the process, so that a different process that has got the same pid since
then is never signalled. Stopping applies to the whole session, because Airflow's task processes leave their parent's
process group.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from streamkeeper.errors import InvalidInput, StillWaiting
from streamkeeper.system.private_files import make_folders, opener, write_file

T = TypeVar("T", str, bytes)

_SAME_MOMENT_S = 2.0
PRIVATE = 0o077
"""The umask of all started processes, including Airflow's tasks and their drivers: only their user can read the files.
"""


class StartedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that this program started as the leader of its own session. ``began``: seconds since the Unix epoch."""

    name: str
    pid: int
    began: float
    log: str


class StartedProcesses:
    """The record of the running processes, kept in a file so that a later call (``down``, or the next start) can stop
    them too.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def start(
        self, name: str, command: Sequence[str], *, environ: Mapping[str, str], log: Path, cwd: Path
    ) -> StartedProcess:
        """Start ``command`` detached, append its output to ``log``, and record it before returning."""
        make_folders(log.parent)
        with open(log, "ab", opener=opener) as output:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd=cwd,
                start_new_session=True,
                umask=PRIVATE,
            )
        started = StartedProcess(
            name=name, pid=process.pid, began=psutil.Process(process.pid).create_time(), log=str(log)
        )
        self._write([*self.read(), started])
        # The record is what it is known by from here on: it may outlive this program, so nobody waits for it.
        process.returncode = 0
        return started

    def read(self) -> list[StartedProcess]:
        """Return the recorded processes, oldest first."""
        if not self._file.exists():
            return []
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[StartedProcess])
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"{self._file} cannot be read: {error}", hint="remove it if nothing runs") from error

    def stop(self, name: str, *, grace_s: float) -> None:
        """Stop the processes with this name, and remove them from the record."""
        for each in [each for each in self.read() if each.name == name]:
            stop_session(each, grace_s=grace_s)
            self._write([other for other in self.read() if other != each])

    def stop_all(self, *, grace_s: float = 15.0) -> None:
        """Stop all recorded processes, newest first, and remove the record."""
        for each in reversed(self.read()):
            self.stop(each.name, grace_s=grace_s)
        self._file.unlink(missing_ok=True)

    def _write(self, processes: list[StartedProcess]) -> None:
        make_folders(self._file.parent)
        draft = self._file.with_suffix(".new")
        write_file(draft, msgspec.json.encode(processes))
        draft.replace(self._file)


@contextmanager
def killed_after(process: subprocess.Popen[T]) -> Iterator[subprocess.Popen[T]]:
    """Provide the process; at the end of the body, also after an error, it is killed and waited for, and its pipes are
    closed.
    """
    with process:
        try:
            yield process
        finally:
            process.kill()


def is_running(process: StartedProcess) -> bool:
    """Return whether exactly the process that was started is still running, not a later one with the same pid."""
    try:
        found = psutil.Process(process.pid)
        return _same(process) and bool(found.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def stop_session(process: StartedProcess, *, grace_s: float) -> None:
    """Send SIGTERM to all processes of the session, and SIGKILL to those that are left after ``grace_s`` seconds."""
    members = list(session_of(process))
    for member in members:
        _signal(member, signal.SIGTERM)
    _gone, left = psutil.wait_procs(members, timeout=grace_s)
    # A task process may have been born while its parent was ending: look again, not only at those known before.
    for member in {*left, *session_of(process)}:
        _signal(member, signal.SIGKILL)
    psutil.wait_procs(left, timeout=5.0)
    _reap(process.pid)


def session_of(process: StartedProcess) -> Iterator[psutil.Process]:
    """Yield the running processes of the session that ``process`` leads or led; none if a different process has its pid
    now.
    """
    if psutil.pid_exists(process.pid) and not _same(process):
        return
    for each in psutil.process_iter():
        try:
            if os.getsid(each.pid) != process.pid or each.status() == psutil.STATUS_ZOMBIE:
                continue
            if each.create_time() >= process.began - _SAME_MOMENT_S:
                yield each
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            continue


def children_of(process: StartedProcess) -> list[list[str]]:
    """Return the command lines of the running direct children of the process."""
    found: list[list[str]] = []
    with suppress(psutil.NoSuchProcess):
        for each in psutil.Process(process.pid).children() if is_running(process) else ():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each.cmdline())
    return found


def free_ports(count: int) -> list[int]:
    """Return free ports below the ephemeral range, so that no outgoing connection uses one before its server starts."""
    found: list[int] = []
    candidates = list(range(20000, 32000))
    random.shuffle(candidates)
    for port in candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise StillWaiting("no free ports between 20000 and 32000")


def _same(process: StartedProcess) -> bool:
    try:
        return bool(abs(psutil.Process(process.pid).create_time() - process.began) < _SAME_MOMENT_S)
    except psutil.NoSuchProcess:
        return False


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
