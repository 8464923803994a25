"""Client of a short-lived driver process, which reads requests and writes answers as JSON lines, in the same order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import streamkeeper
from streamkeeper.errors import PermanentError
from streamkeeper.model.protocol.driver_messages import SECRETS, ExitCode


class DriverDied(PermanentError):
    """Reports that a driver process terminated before it had answered every request.

    ``refused``: whether the process could not start; ``killed``: whether a signal terminated it, so its requests are
    not the cause.
    """

    def __init__(self, reason: str, *, refused: bool, killed: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        self.killed = killed


def ask_driver(
    module: str, requests: Sequence[bytes], conf: Mapping[str, str], secrets: Mapping[str, str]
) -> Iterator[bytes]:
    """Yield one answer for each request. Raises DriverDied if the process terminates early, after the answers that it
    gave. Terminates the process if the caller stops iterating.
    """
    command = [sys.executable, "-m", module, json.dumps(dict(conf))]
    with tempfile.TemporaryFile() as stderr, tempfile.TemporaryFile() as questions:
        questions.writelines(request + b"\n" for request in requests)
        questions.seek(0)
        running = subprocess.Popen(
            command, env=driver_environment(secrets), stdin=questions, stdout=subprocess.PIPE, stderr=stderr
        )
        answered = 0
        try:
            assert running.stdout is not None
            for line in running.stdout:
                answered += 1
                yield line
            code = running.wait()
        finally:
            _end(running)
        if answered < len(requests):
            words = _last_words(stderr, code)
            killed = code < 0 or words == KeyboardInterrupt.__name__
            raise DriverDied(words, refused=answered == 0 and code == ExitCode.REFUSED, killed=killed)


def driver_environment(secrets: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment, with the driver's secrets and with this package first on Python's path."""
    packages = str(Path(streamkeeper.__file__).parents[1])
    path = os.pathsep.join(entry for entry in (packages, os.environ.get("PYTHONPATH", "")) if entry)
    return {**os.environ, "PYTHONPATH": path, SECRETS: json.dumps(dict(secrets))}


def _end(running: subprocess.Popen[Any]) -> None:
    """Terminate a driver that is still running. Closing its stdin is not enough, because it would process its requests
    first.
    """
    if running.poll() is None:
        running.terminate()
        try:
            running.wait(timeout=10)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
    if running.stdout is not None:
        running.stdout.close()


def _last_words(stderr: IO[bytes], code: int) -> str:
    stderr.seek(0)
    lines = [line.strip() for line in stderr.read().decode(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or [f"exit code {code}"])[-1]
