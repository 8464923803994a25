"""``python -I -S timed.py RESULT COMMAND…``: run a command and write what it used, as JSON.

``wall_s``; ``cpu_s``: user and system time, including child processes; ``rss_mb``: its largest resident size in MiB,
including threads; ``exit``. It is a small process of its own: until the program of a new process is loaded, the kernel
counts the size of the starting process as that of the new one, so it must be smaller than anything it measures.
"""

import json
import os
import sys
import time


def main(result: str, command: list[str]) -> None:
    """Run the command, wait until it has ended and write the result."""
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
