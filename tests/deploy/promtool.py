"""Access to ``promtool``, the command-line tool of Prometheus, for tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``promtool``, or skip the test with a reason if it is not installed."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool (Debian: the package prometheus)")
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
