"""Failpoints: named points at which a crash test kills a process. A point that is not in use costs two look-ups in the
environment.

``STREAMKEEPER_CRASH=one,other:3`` kills this process with SIGKILL when it reaches the point ``one`` the first time, or
``other`` the third time. ``STREAMKEEPER_CRASH_SIGNAL=SIGSTOP`` freezes the process there instead.

With ``STREAMKEEPER_CRASH_ONCE=path``, a point acts only if the file ``path-one`` can be created, so that a rerun passes
the point. With ``STREAMKEEPER_CRASH_TRACE=path``, the process appends the name of each point that it reaches to that
file.
"""

from __future__ import annotations

import os
import signal

from streamkeeper.system import clock

_STOPPED_WITHIN_S = 0.5
_reached: dict[str, int] = {}


def crash_point(name: str) -> None:
    """Kill or freeze this process if the environment requests it for the point ``name``."""
    trace = os.environ.get("STREAMKEEPER_CRASH_TRACE")
    if trace:
        _append(trace, name)
    wanted = os.environ.get("STREAMKEEPER_CRASH")
    if not wanted:
        return
    nth = next((int(number or 1) for point, _, number in _split(wanted) if point == name), 0)
    if nth == 0:
        return
    _reached[name] = _reached.get(name, 0) + 1
    if _reached[name] != nth:
        return
    marker = os.environ.get("STREAMKEEPER_CRASH_ONCE")
    if marker:
        try:
            os.close(os.open(f"{marker}-{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.Signals[os.environ.get("STREAMKEEPER_CRASH_SIGNAL", "SIGKILL")])
    # Another thread may receive the SIGSTOP first: this thread would continue until the whole process has stopped.
    clock.sleep(_STOPPED_WITHIN_S)


def _split(wanted: str) -> list[tuple[str, str, str]]:
    return [each.partition(":") for each in wanted.split(",")]


def _append(path: str, name: str) -> None:
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    try:
        os.write(file, f"{name}\n".encode())
    finally:
        os.close(file)
