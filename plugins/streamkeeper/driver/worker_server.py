"""A short-lived driver process that answers requests: one JSON line in, one JSON line out, in the same order."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.session import session_conf, start_session
from streamkeeper.model.coding import to_json
from streamkeeper.model.protocol.driver_messages import SECRETS, ExitCode
from streamkeeper.model.redaction import redact, redact_value
from streamkeeper.model.secret_references import substitute
from streamkeeper.system.hidden_secrets import hide_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = Path(__file__).resolve().parents[2]

Answering = Callable[[bytes], object]
"""A function that returns the answer to the line of a request; it raises no error."""


def answer_lines(
    arguments: Sequence[str], name: str, make: Callable[[SparkSession, Path, Mapping[str, str]], Answering]
) -> int:
    """Answer each line of stdin with a line on stdout until stdin is closed, in one Spark session; return the exit
    code.

    ``arguments``: the first one is the conf as JSON. It may contain settings that Spark accepts only when it starts.
    ``name``: the process's name in Spark and in its scratch directory.
    ``make``: creates the answering function from the session, the scratch directory and the secrets.

    If the session cannot be started, write ``error: …`` as one line to stderr and return REFUSED.
    """
    # On SIGTERM this process also removes its JVM and its scratch directory.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    secrets: dict[str, str] = json.loads(os.environ.pop(SECRETS, "") or "{}")
    hide_secrets(secrets)
    options: dict[str, str] = json.loads(arguments[0])
    # Output of a job's own code or of a library must not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with TemporaryDirectory(prefix=f"streamkeeper-{name}-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        filled = substitute(options, secrets)
        try:
            conf = session_conf(filled, scratch, name)
            secret = {key: conf[key] for key, value in options.items() if filled[key] != value}
            session = start_session(conf, secret, scratch, [PACKAGES])
        except Exception as error:
            sys.stderr.write(f"error: {' '.join(redact(describe_fault(error), secrets).split())}\n")
            return ExitCode.REFUSED
        try:
            answer = make(session.spark, scratch, secrets)
            for line in filter(bytes.strip, sys.stdin.buffer):
                answers.write(to_json(redact_value(answer(line), secrets)) + b"\n")
                answers.flush()
        finally:
            session.kill()
    return 0


def end(code: int) -> None:
    """Exit this process at once. The JVM has already exited, so no orderly shutdown is needed."""
    sys.stderr.flush()
    os._exit(code)
