"""``python -I -S timed.py RESULT COMMAND…``: run a command and write what it took, as JSON.

``wall_s``; ``cpu_s``: user and system time, children included; ``rss_mb``: its largest resident size in MiB, threads
included; ``exit``. A process of its own, and a small one: the kernel counts the starting process' own size as the
started one's before its program is loaded, so it must be smaller than anything it measures.
"""

import json
import os
import sys
import time


def main(result: str, command: list[str]) -> None:
    """Run, wait, write."""
    began = time.monotonic()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    taken = {
        "wall_s": round(time.monotonic() - began, 4),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 4),
        "rss_mb": round(usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024), 1),
        "exit": os.waitstatus_to_exitcode(status),
    }
    with open(result, "w") as file:
        json.dump(taken, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
