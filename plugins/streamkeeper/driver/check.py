"""``python -m streamkeeper.driver.check <conf as JSON>``: the compatibility check as a process.

Reads a CheckRequest per line from stdin and answers each with a CheckAnswer per line on stdout, in the same order, in
one Spark session; nothing else is written there. ``conf``: what only a starting Spark takes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.session import session_conf, start_session
from streamkeeper.model.check import CheckRequest
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.control import SECRETS, ExitCode
from streamkeeper.model.secret_references import redact, substitute

_PACKAGES = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str]) -> int:
    """Answer until stdin ends; the exit code."""
    # Told to end, it takes its JVM and its scratch directory along.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    secrets: dict[str, str] = json.loads(os.environ.pop(SECRETS, "") or "{}")
    given: dict[str, str] = json.loads(arguments[0])
    # What a job's own code or a library prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with TemporaryDirectory(prefix="streamkeeper-check-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        filled = substitute(given, secrets)
        try:
            conf = session_conf(filled, scratch, "check")
            secret = {key: conf[key] for key, value in given.items() if filled[key] != value}
            session = start_session(conf, secret, scratch, [_PACKAGES])
        except Exception as error:
            sys.stderr.write(f"error: {' '.join(redact(describe_fault(error), secrets).split())}\n")
            return ExitCode.REFUSED
        try:
            from streamkeeper.driver.checking import Checker

            checker = Checker(session.spark, scratch, secrets)
            for line in sys.stdin.buffer:
                answer = checker.answer(from_json(line, CheckRequest, where="request"))
                answers.write(redact(to_json(answer).decode(), secrets).encode() + b"\n")
                answers.flush()
        finally:
            session.kill()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # The JVM is gone: nothing is left to be shut down in order.
    os._exit(code)
