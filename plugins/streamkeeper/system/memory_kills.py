"""The number of processes that Linux has killed for lack of memory in this process's control group (cgroup).

The number explains a SIGKILL, which reports no reason itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from streamkeeper.system import clock

_ROOT = Path("/sys/fs/cgroup")
_COUNT = "oom_kill"
LATELY_S = 10.0


def memory_kills(root: Path = _ROOT, groups: Path = Path("/proc/self/cgroup")) -> int | None:
    """Return how many processes were killed for lack of memory in this process's control group; None if unknown.

    The number only grows. In a container the files of the control group are at the root of the mount, whatever path
    the kernel reports.
    """
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            files = [root / path.strip("/") / "memory.events", root / "memory.events"]
        elif "memory" in controllers.split(","):
            files = [root / "memory" / path.strip("/") / "memory.oom_control", root / "memory" / "memory.oom_control"]
        else:
            continue
        for file in files:
            if (found := _count(file)) is not None:
                return found
    return None


def _count(file: Path) -> int | None:
    try:
        values = dict(line.split() for line in file.read_text().splitlines() if len(line.split()) == 2)
    except OSError:
        return None
    return int(values[_COUNT]) if _COUNT in values else None


class RecentKills:
    """The out-of-memory kills of the last seconds in this process's control group.

    An older kill does not explain why a process terminated, because other processes may share the control group. Call
    ``look`` at least every 10 s while the observed process is running: a kill then counts for 10 to 20 s. ``count``
    reads the kernel's count; ``clock`` returns seconds.
    """

    def __init__(
        self, count: Callable[[], int | None] = memory_kills, clock: Callable[[], float] = clock.monotonic
    ) -> None:
        self._count, self._clock = count, clock
        self._before = self._last = count()
        self._at = clock()

    def look(self) -> None:
        """Forget kills that are older than twice ``LATELY_S``."""
        now = self._clock()
        if now - self._at >= LATELY_S:
            self._before, self._last, self._at = self._last, self._count(), now

    def any(self) -> bool:
        """Whether the kernel has killed a process that is not forgotten yet."""
        now = self._count()
        return self._before is not None and now is not None and now > self._before

    def explain(self, code: int | None) -> bool:
        """Whether a lack of memory explains that a process has just exited with ``code``.

        It does if ``code`` means SIGKILL and the kernel has recently killed a process of the group for lack of memory.
        """
        return code in (-9, 137) and self.any()
