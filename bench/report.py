"""Where a measurement's figures go, with the commit and the machine they were taken on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pendulum

from harness.places import ROOT


def write_report(name: str, figures: dict[str, Any], *, into: Path | None = None) -> Path:
    """``build/bench/<name>.json``, or below ``into``; says from which commit the figures come."""
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    folder = into or ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    head = {
        "commit": run.stdout.strip() + ("+" if changed.stdout.strip() else ""),
        "taken_at": pendulum.now("UTC").to_iso8601_string(),
        "cores": os.cpu_count(),
    }
    file = folder / f"{name}.json"
    file.write_text(json.dumps({**head, **figures}, indent=1) + "\n")
    return file
