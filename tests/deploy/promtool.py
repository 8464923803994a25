"""Prometheus' own tool, for the tests that ask it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run it; skips, with the reason, where there is none."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool (Debian: the package prometheus)")
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
