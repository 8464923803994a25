"""Named points at which a crash campaign ends a process; without one they cost two look-ups in the environment.

``STREAMKEEPER_CRASH=name`` or ``name:3`` ends this process with SIGKILL when it reaches the point ``name`` the first
(third) time; ``STREAMKEEPER_CRASH_SIGNAL=SIGSTOP`` freezes it there instead. ``STREAMKEEPER_CRASH_ONCE=path``: only if
that file can be created, so that a re-run lives. ``STREAMKEEPER_CRASH_TRACE=path``: the names of all points reached are
appended to that file, one a line.
"""

from __future__ import annotations

import os
import signal

_reached: dict[str, int] = {}


def crash_point(name: str) -> None:
    """Die here if the environment says so."""
    trace = os.environ.get("STREAMKEEPER_CRASH_TRACE")
    if trace:
        _append(trace, name)
    wanted = os.environ.get("STREAMKEEPER_CRASH")
    if not wanted:
        return
    target, _, nth = wanted.partition(":")
    if target != name:
        return
    _reached[name] = _reached.get(name, 0) + 1
    if _reached[name] != int(nth or 1):
        return
    marker = os.environ.get("STREAMKEEPER_CRASH_ONCE")
    if marker:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.Signals[os.environ.get("STREAMKEEPER_CRASH_SIGNAL", "SIGKILL")])


def _append(path: str, name: str) -> None:
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    try:
        os.write(file, f"{name}\n".encode())
    finally:
        os.close(file)
