"""A driver program without Spark for the runner's tests; its arguments are a folder, a job, an instance and a
generation.

It starts a child that stands in for its JVM, writes ``<folder>/<instance>.<generation>.ready`` (its own pid and the
child's), records each SIGUSR1 in ``….nudged``, and follows the orders in ``<folder>/<instance>.<generation>`` or
``<folder>/<instance>``: ``exit N``, ``print TEXT``, ``spawn PROGRAM -c CODE`` (a further child, whose pid is written to
``<folder>/spawned``), ``unready`` (no handler for SIGUSR1).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    folder, _job, instance, generation = sys.argv[1:]
    orders = [Path(folder, f"{instance}.{generation}"), Path(folder, instance)]
    child = subprocess.Popen(["/bin/sleep", "300"], stdin=subprocess.DEVNULL)
    if not any(each.exists() and "unready" in each.read_text() for each in orders):
        nudged = Path(folder, f"{instance}.{generation}.nudged")
        signal.signal(signal.SIGUSR1, lambda *_: nudged.write_text("yes"))
    ready = Path(folder, f"{instance}.{generation}.ready")
    ready.with_suffix(".tmp").write_text(f"{os.getpid()} {child.pid}")
    ready.with_suffix(".tmp").replace(ready)
    done: set[str] = set()
    while True:
        for line in [line for each in orders if each.exists() for line in each.read_text().splitlines()]:
            verb, _, rest = line.partition(" ")
            if line in done:
                continue
            done.add(line)
            if verb == "print":
                os.write(1, f"{rest}\n".encode())
            if verb == "spawn":
                program, _, code = rest.split(" ", 2)
                Path(folder, "spawned").write_text(str(subprocess.Popen([program, "-c", code]).pid))
            if verb == "exit":
                os._exit(int(rest))
        time.sleep(0.02)


if __name__ == "__main__":
    main()
