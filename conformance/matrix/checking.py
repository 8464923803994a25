"""Runs the check on many changes at once: ``streamkeeper check --batch``, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.places import ROOT

Check = Callable[[Path], Iterable[dict[str, Any]]]
"""Accepts a file of requests, one per line; returns one answer per request, in their order."""


def check_with_command(requests: Path, first: Path | None = None) -> list[dict[str, Any]]:
    """Return all answers of the command for the file; ``first``: a folder at the front of Python's module path.

    Raises RuntimeError if the number of answers is wrong.
    """
    return list(stream_answers(requests, first))


def stream_answers(requests: Path, first: Path | None = None) -> Iterator[dict[str, Any]]:
    """Yield the same answers, each as soon as it arrives; the command is terminated with the iterator."""
    asked, given = len(requests.read_text().splitlines()), 0
    folders = [each for each in (first, ROOT / "plugins", ROOT) if each is not None]
    with tempfile.TemporaryFile("w+") as errors:
        run = subprocess.Popen(
            [sys.executable, "-m", "streamkeeper.cli.main", "check", "--batch", str(requests)],
            env={**os.environ, "PYTHONPATH": ":".join(map(str, folders))},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert run.stdout is not None
        try:
            for line in run.stdout:
                if line.startswith("{"):
                    given += 1
                    yield json.loads(line)
            run.wait()
        finally:
            if run.poll() is None:
                run.terminate()
                run.wait(timeout=30)
            run.stdout.close()
        if given != asked:
            errors.seek(0)
            told = errors.read()[-2000:]
            raise RuntimeError(f"{asked} requests, {given} answers, exit code {run.returncode}: {told}")
