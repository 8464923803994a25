"""One driver process and its output, as its supervisor observes them. The driver cannot outlive the supervisor."""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence

from streamkeeper.errors import StreamkeeperError
from streamkeeper.runners.driver_log import DriverLog
from streamkeeper.runners.process_tree import Mark, Root, catches, find_tree, read_above, read_process, send, wait_gone
from streamkeeper.system import clock
from streamkeeper.system.memory_kills import LATELY_S, RecentKills

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PIECE_BYTES = 64 * 1024
_LOOK_AGAIN_S = 0.1
_STUCK_S = 30.0

_libc = ctypes.CDLL(None, use_errno=True)


class Signals:
    """Catches the signals that ask this process to terminate, so that they interrupt any wait.

    ``received_at``: when the first such signal arrived, in seconds on the monotonic clock; 0 before any has arrived.
    """

    def __init__(self) -> None:
        self._received = 0
        self.received_at = 0.0
        self.pipe, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # The launcher may have blocked or ignored signals, which the driver's JVM would inherit.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)

    def _note(self, number: int, _frame: object) -> None:
        self.received_at = self.received_at or clock.monotonic()
        self._received = self._received or number

    def received(self) -> int:
        """Return the number of the first signal that asked this process to terminate; 0 if none has arrived."""
        return self._received

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds`` or until a signal arrives."""
        deadline = clock.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.pipe, selectors.EVENT_READ)
            while not self._received and (left := deadline - clock.monotonic()) > 0:
                if selector.select(left):
                    self.drain()

    def drain(self) -> None:
        """Empty the pipe that signals write to; ``received`` keeps the signal."""
        try:
            os.read(self.pipe, 1024)
        except BlockingIOError:
            return


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent terminates, so that none of them remains a
    zombie.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class DriverProcess:
    """A started driver; raises StreamkeeperError when it cannot be started."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: DriverLog) -> None:
        self._log = log
        parent = os.getpid()

        def die_with_parent() -> None:
            # Bound to the main thread, whose end is the supervisor's end; the parent may have ended before this line.
            if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != parent:
                os._exit(127)

        try:
            self._process = subprocess.Popen(
                command,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise StreamkeeperError(f"the driver cannot be started: {error}", hint=f"check {command[0]}") from error
        assert self._process.stdout is not None
        self._close = self._process.stdout.close
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        self.pid = self._process.pid
        self.kills = RecentKills()

    def wait(self, signals: Signals) -> int | None:
        """Copy the driver's output until the driver terminates, and return its exit code. If a signal terminated it,
        return minus the signal's number.

        Return None if the supervisor receives a signal before the driver terminates.
        """
        return self._wait(signals, None)

    def wait_at_most(self, seconds: float) -> int | None:
        """Do the same as ``wait``, but for at most ``seconds`` and without reacting to signals that the supervisor
        receives.

        Return None if the driver has not terminated in time.
        """
        return self._wait(None, clock.monotonic() + seconds)

    def notify(self) -> None:
        """Send SIGUSR1, if the driver has a handler for it."""
        process = read_process(self.pid)
        if process is not None and catches(self.pid, signal.SIGUSR1):
            send(process, signal.SIGUSR1)

    def _wait(self, signals: Signals | None, until: float | None) -> int | None:
        handle = os.pidfd_open(self.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for readable in (handle, self._output, *((signals.pipe,) if signals is not None else ())):
                    selector.register(readable, selectors.EVENT_READ)
                while signals is None or not signals.received():
                    left = LATELY_S if until is None else min(LATELY_S, until - clock.monotonic())
                    if left <= 0:
                        break
                    ready = {key.fd for key, _ in selector.select(left)}
                    if self._output in ready and not self._copy():
                        selector.unregister(self._output)
                    if signals is not None and signals.pipe in ready:
                        signals.drain()
                    if handle in ready:
                        return self._process.wait()
                    self.kills.look()
            return None
        finally:
            os.close(handle)

    def _copy(self) -> bool:
        """Copy the available output to the log; return False at the end of the output."""
        try:
            data = os.read(self._output, _PIECE_BYTES)
        except BlockingIOError:
            return True
        self._log.feed(data)
        return bool(data)

    def end_tree(self, marked: Mark, supervisor: Root) -> None:
        """Kill every process of the instance with SIGKILL, except its supervisor, and return only when all of them have
        terminated.

        The supervisor's ancestors are not killed either. One of them may be a NodeManager's shell, which represents the
        container and also has the instance's mark.
        """
        began = logged_at = clock.monotonic()
        spared = {supervisor.pid, *read_above(supervisor.pid)}
        while left := [process for process in find_tree(marked, [supervisor]) if process.pid not in spared]:
            for process in left:
                send(process, signal.SIGKILL)
            wait_gone(left, seconds=_LOOK_AGAIN_S)
            self._reap()
            self._read_on()
            if clock.monotonic() - logged_at > _STUCK_S:
                logged_at = clock.monotonic()
                self._log.write_line(
                    f"waited {logged_at - began:.0f} s for the exit of {sorted({process.pid for process in left})}"
                )
        self._reap()
        self._read_on()
        self._log.flush()
        self._close()

    def _reap(self) -> None:
        self._process.poll()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return

    def _read_on(self) -> None:
        """Copy to the log everything that the pipe contains now."""
        while True:
            try:
                data = os.read(self._output, _PIECE_BYTES)
            except BlockingIOError:
                return
            if not data:
                return
            self._log.feed(data)
