"""Finds the processes of an instance in /proc, and kills all of them.

A process belongs to an instance by its mark (``STREAMKEEPER_INSTANCE=<job>/<instance>`` and
``STREAMKEEPER_INSTALLATION=<id>`` in its initial environment) or by its session. The supervisor starts the session, and
a process keeps the session even when its environment can no longer be read. An example is a JVM whose first thread has
ended while other threads still finish a write. A program that drops the mark *and* starts its own session leaves the
tree; Spark's programs do not. Processes that the records of a copied store name belong to another installation, and are
ignored here.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from streamkeeper.locations import same_place
from streamkeeper.system import clock

INSTANCE = "STREAMKEEPER_INSTANCE"
INSTALLATION = "STREAMKEEPER_INSTALLATION"
STORE = "STREAMKEEPER_STORE"
CHECKPOINTS = "STREAMKEEPER_CHECKPOINTS"
GENERATION = "STREAMKEEPER_GENERATION"
_KERNEL_THREAD = 0x00200000
_MANY_ROUNDS = 50
_EMPTY = b"\0\0"
_LOOKS_AT_BLANK = 8
_BLANK_PAUSE_S = 0.002


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A living process, as read from /proc."""

    pid: int
    """Its id."""
    parent: int
    """Its parent's id."""
    session: int
    """Its session's id."""
    started: int
    """Its start in clock ticks since boot, which distinguishes it from later processes with its pid."""
    frozen: bool
    """Whether it is stopped."""
    halted: bool = False
    """Whether a signal has stopped it, as opposed to a tracer that stops it briefly."""


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded supervisor, living or not."""

    pid: int
    started: int


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The environment variables that identify an instance's processes.

    ``instance``: ``<job>/<instance>``; ``installation``: the installation's id; ``store``: the location of the
    installation's store, for processes that were started before installations had ids. An empty value is unknown, and
    not compared.
    """

    instance: str
    installation: str = ""
    store: str = ""

    def variables(self) -> dict[str, str]:
        """Return the environment variables for a new process of the instance."""
        return {INSTANCE: self.instance, INSTALLATION: self.installation}

    def is_on(self, environment: bytes) -> bool:
        """Whether a process with this environment, framed by zero bytes, belongs to the instance."""
        return f"\0{INSTANCE}={self.instance}\0".encode() in environment and not self.excludes(environment)

    def excludes(self, environment: bytes) -> bool:
        """Whether the environment shows that the process belongs to another installation."""
        installation, store = variable(environment, INSTALLATION), variable(environment, STORE)
        if installation and self.installation:
            return installation != self.installation
        return bool(self.store) and bool(store) and not same_place(store, self.store)


def mark(job: str, instance: str, *, installation: str = "", store: str = "") -> Mark:
    """Return the mark of an instance."""
    return Mark(instance=f"{job}/{instance}", installation=installation, store=store)


def own_root() -> Root:
    """Return the record of this process as a supervisor."""
    mine = read_process(os.getpid())
    assert mine is not None
    return Root(pid=mine.pid, started=mine.started)


def read_process(pid: int) -> Process | None:
    """Return the process with this pid, even if it is frozen. Return None if it has terminated, or is a zombie without
    threads.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    state, parent, session = fields[0], int(fields[1]), int(fields[3])
    flags, threads, started = int(fields[6]), int(fields[17]), int(fields[19])
    if flags & _KERNEL_THREAD or (state in b"ZXx" and threads <= 1):
        return None
    return Process(
        pid=pid, parent=parent, session=session, started=started, frozen=state in b"Tt", halted=state == b"T"
    )


def read_above(pid: int) -> set[int]:
    """Return the pids of a process's ancestors."""
    above: set[int] = set()
    process = read_process(pid)
    while process is not None and process.parent not in (0, *above):
        above.add(process.parent)
        process = read_process(process.parent)
    return above


def find_tree(marked: Mark, roots: Iterable[Root] = ()) -> list[Process]:
    """Return every living process of an instance on this machine, in order of pid. Takes about 20 us per process of the
    machine.

    ``marked``: the instance's mark. ``roots``: its recorded supervisors; processes in their sessions are found even
    without a readable mark.
    """
    return ProcessTable().find(marked, roots)


class ProcessTable:
    """All processes of this machine at one moment, to look up any number of instances.

    A process in the table was alive at that moment. A missing process is proven terminated only if all records that
    name the instance's processes were read before the table was made. If a record is read afterwards, it may name a
    supervisor that started after the table was made.
    """

    def __init__(self) -> None:
        listed = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        self._seen = {pid: process for pid in listed if (process := read_process(pid)) is not None}
        self._environments = {pid: _environment(pid) for pid in self._seen}
        self._marked: dict[bytes, list[Process]] = {}
        self._sessions: dict[int, list[Process]] = {}
        for process in self._seen.values():
            self._sessions.setdefault(process.session, []).append(process)
            for name in _instances(self._environments[process.pid]):
                self._marked.setdefault(name, []).append(process)
        self._blank = [process for process in self._seen.values() if self._environments[process.pid] == _EMPTY]
        self._looked_again = False

    def find(self, marked: Mark, roots: Iterable[Root] = ()) -> list[Process]:
        """Return every process of an instance, in order of pid.

        ``marked``: the instance's mark. ``roots``: its recorded supervisors; processes in their sessions are found even
        without a readable mark.
        """
        found: dict[int, Process] = {}
        for session in self._sessions_of(roots):
            members = self._sessions.get(session, [])
            # One member's mark decides for its session: the environments of others may be unreadable.
            if not any(marked.excludes(self._environments[member.pid]) for member in members):
                found |= {member.pid: member for member in members}
        found |= {process.pid: process for process in self._with(marked)}
        if not found:
            self._look_again()
            found = {process.pid: process for process in self._with(marked)}
        return [found[pid] for pid in sorted(found)]

    def instances_of(self, job: str) -> Iterator[tuple[str, Process, bytes]]:
        """Yield every process of any instance of a job, in any installation, as (instance, process, raw environment).

        Other processes in a supervisor's session are included, because the environment of a JVM that is terminating may
        no longer be readable.
        """
        self._look_again()
        first = f"{job}/".encode()
        for name, marked in self._marked.items():
            if not name.startswith(first):
                continue
            began = [process.session for process in marked if process.pid == process.session]
            members = {process.pid: process for session in began for process in self._sessions[session]}
            members |= {process.pid: process for process in marked}
            instance = name.removeprefix(first).decode(errors="replace")
            yield from ((instance, members[pid], self._environments[pid]) for pid in sorted(members))

    def _with(self, marked: Mark) -> list[Process]:
        candidates = self._marked.get(marked.instance.encode(), ())
        return [process for process in candidates if marked.is_on(self._environments[process.pid])]

    def _sessions_of(self, roots: Iterable[Root]) -> set[int]:
        """Return the sessions of the roots, without those whose number a later process has reused."""
        known = ((root, self._seen.get(root.pid)) for root in roots if root.pid > 0)
        return {root.pid for root, process in known if process is None or process.started == root.started}

    def _look_again(self) -> None:
        """Reread empty environments for a short time, because a process that replaces its program (exec) briefly has an
        empty one.
        """
        if self._looked_again:
            return
        self._looked_again = True
        blank = self._blank
        for _ in range(_LOOKS_AT_BLANK):
            if not blank:
                return
            clock.sleep(_BLANK_PAUSE_S)
            for process in blank:
                environment = _environment(process.pid)
                self._environments[process.pid] = environment
                for name in _instances(environment):
                    self._marked.setdefault(name, []).append(process)
            blank = [process for process in blank if self._environments[process.pid] == _EMPTY]


def _instances(environment: bytes) -> set[bytes]:
    """Return the marks in a raw environment."""
    first = f"{INSTANCE}=".encode()
    if first not in environment:
        return set()
    return {variable.removeprefix(first) for variable in environment.split(b"\0") if variable.startswith(first)}


def _environment(pid: int) -> bytes:
    """Return the raw environment, framed by zero bytes; empty for another user's process and for a process that has
    just terminated.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + file.read() + b"\0"
    except OSError:
        return b""


def variable(environment: bytes, name: str) -> str:
    """Return a variable of a raw environment; empty if it is not set."""
    _, found, rest = environment.partition(f"\0{name}=".encode())
    return rest.partition(b"\0")[0].decode(errors="replace") if found else ""


def generation_of(pid: int) -> int | None:
    """Return the generation of a driver process, or of a process that it started.

    Return None for a supervisor, or if the process's environment cannot be read.
    """
    number = variable(_environment(pid), GENERATION)
    return int(number) if number.isdigit() else None


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has its own handler for a signal. Without a handler, SIGUSR1 would terminate the process."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith(b"SigCgt:")), b"0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def finds_another(pid: int, directory: Path) -> bool:
    """Whether another process sees a different directory at this path than this process does, for example because it
    runs in a container with other volumes.

    False if access is denied, or if the other process sees no directory at the path.
    """
    try:
        return not os.path.samestat(os.stat(f"{root_of(pid)}{directory}"), os.stat(directory))
    except OSError:
        return False


def root_of(pid: int) -> str:
    """Return the path of a process's root directory."""
    return f"/proc/{pid}/root"


def send(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process, never a later process that has the same pid."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = read_process(process.pid)
        if now is not None and now.started == process.started:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def wait_gone(processes: Iterable[Process], *, seconds: float) -> None:
    """Wait until all these processes have terminated with all their threads, for at most ``seconds``."""
    deadline = clock.monotonic() + seconds
    with ExitStack() as stack:
        left = select.poll()
        handles: set[int] = set()
        for process in processes:
            with suppress(OSError):
                handle = os.pidfd_open(process.pid)
                stack.callback(os.close, handle)
                left.register(handle, select.POLLIN)
                handles.add(handle)
        while handles and (rest := deadline - clock.monotonic()) > 0:
            for handle, _ in left.poll(rest * 1000):
                left.unregister(handle)
                handles.discard(handle)


def kill_tree(find: Callable[[], list[Process]], *, first: int = 0) -> None:
    """Send SIGKILL to all processes that ``find`` returns, and repeat this until ``find`` returns no new process.

    ``first``: the pid of the process that gets the signal before the others. Does not wait until the processes have
    terminated.
    """
    killed: set[tuple[int, int]] = set()
    for _ in range(_MANY_ROUNDS):
        new = [member for member in find() if (member.pid, member.started) not in killed]
        if not new:
            return
        for member in sorted(new, key=lambda process: process.pid != first):
            send(member, signal.SIGKILL)
            killed.add((member.pid, member.started))
