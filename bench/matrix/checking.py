"""Asks the check about many changes at once: ``streamkeeper check --batch``, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.places import ROOT

Check = Callable[[Path], Iterable[dict[str, Any]]]
"""Takes a file of requests, one per line; gives one answer per request, in their order."""


def check_with_command(requests: Path, first: Path | None = None) -> list[dict[str, Any]]:
    """Run the command over the file; ``first``: a folder that Python looks into before all others.

    Raises RuntimeError when it gives too few answers.
    """
    asked = len(requests.read_text().splitlines())
    folders = [each for each in (first, ROOT / "plugins", ROOT) if each is not None]
    run = subprocess.Popen(
        [sys.executable, "-m", "streamkeeper.cli.main", "check", "--batch", str(requests)],
        env={**os.environ, "PYTHONPATH": ":".join(map(str, folders))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = run.communicate()
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait(timeout=30)
    answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if len(answers) != asked:
        raise RuntimeError(f"{asked} requests, {len(answers)} answers, exit code {run.returncode}: {err[-2000:]}")
    return answers
