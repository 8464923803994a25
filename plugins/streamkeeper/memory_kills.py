"""How many processes of this process's control group Linux has killed for their memory: a SIGKILL gives no reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_COUNT = "oom_kill"
LATELY_S = 10.0


def memory_kills(root: Path = _ROOT, groups: Path = Path("/proc/self/cgroup")) -> int | None:
    """The kernel's count, which only grows; None if it keeps none.

    In a container the group's own files are at the mount's root, whatever path the kernel names.
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
    """Whether Linux has killed a process for its memory within the last seconds.

    Other processes may share the control group, so an earlier kill explains nothing. ``look`` is called repeatedly as
    long as the process lives; a kill counts for 10 to 20 s if it is called at least every 10 s. ``count``: reads the
    kernel's count; ``clock``: seconds.
    """

    def __init__(
        self, count: Callable[[], int | None] = memory_kills, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count, self._clock = count, clock
        self._before = self._last = count()
        self._at = clock()

    def look(self) -> None:
        """Drop kills older than twice ``LATELY_S``."""
        now = self._clock()
        if now - self._at >= LATELY_S:
            self._before, self._last, self._at = self._last, self._count(), now

    def any(self) -> bool:
        """Whether the count has grown since then."""
        now = self._count()
        return self._before is not None and now is not None and now > self._before

    def explain(self, code: int | None) -> bool:
        """Whether a process that has just ended with ``code`` was killed for its memory, which means by SIGKILL."""
        return code in (-9, 137) and self.any()
