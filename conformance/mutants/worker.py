"""Runs pytest in forks of one process that has loaded the libraries. It runs as a separate program, below the mutated
tree.

Each line of the input is a JSON object: ``args`` for pytest, ``report``, a file for the outcomes, ``log``, a file for
pytest's output, and ``limit`` in seconds. Each line of the output has ``code``, pytest's exit code, or null if the
limit was exceeded. The code under test is imported in the fork, so that no run sees the modules of another mutant.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
import traceback
from typing import Any

LIBRARIES = (
    "hypothesis",
    "msgspec",
    "pendulum",
    "boto3",
    "sqlalchemy",
    "typer",
    "requests",
    "psutil",
    "rich",
    "blake3",
)


class Recorder:
    """Writes the result of each test to a file as soon as it is available."""

    def __init__(self, file: str) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record which test starts, in case it never finishes."""
        self._write({"started": nodeid})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the outcome of a test's call, and any failure of its setup or teardown."""
        if report.failed or report.when == "call":
            self._write({"test": report.nodeid, "passed": not report.failed, "seconds": round(report.duration, 2)})

    def pytest_collectreport(self, report: Any) -> None:
        """Record a module that cannot be imported as a failure."""
        if report.failed:
            self._write({"test": report.nodeid, "passed": False, "seconds": 0})

    def _write(self, line: dict[str, Any]) -> None:
        with open(self._file, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    """Answer requests until the input is closed."""
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    importlib.import_module("pytest")
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            _test(request)
        print(json.dumps({"code": _wait(pid, request["limit"])}), flush=True)


def _test(request: dict[str, Any]) -> None:
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(here, there)
    code = 3
    try:
        code = int(importlib.import_module("pytest").main(request["args"], plugins=[Recorder(request["report"])]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, limit: float) -> int | None:
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


if __name__ == "__main__":
    main()
