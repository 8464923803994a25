"""How many processes of this one's control group Linux has killed for their memory: a SIGKILL alone has no reason."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_COUNT = "oom_kill"


def memory_kills(root: Path = _ROOT, groups: Path = Path("/proc/self/cgroup")) -> int | None:
    """The kernel's count, which only grows; None where it keeps none.

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


def killed_for_memory(before: int | None, code: int | None) -> bool:
    """Whether a process that has ended with ``code`` was: a SIGKILL, and the count has grown since ``before``."""
    return code in (-9, 137) and has_killed_since(before)


def has_killed_since(before: int | None) -> bool:
    """Whether the count has grown."""
    now = memory_kills()
    return before is not None and now is not None and now > before
