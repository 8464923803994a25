"""Writes the figures of a measurement, with the commit and the machine that they were taken on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pendulum

from harness.checkout import is_changed, read_code, read_commit
from harness.places import ROOT


def write_report(name: str, figures: dict[str, Any], *, into: Path | None = None) -> Path:
    """Write the figures to ``build/bench/<name>.json``, or below ``into``, with the commit and the code that they come
    from.

    ``load`` is the machine's one-minute load average, which includes the bench itself.
    """
    folder = into or ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    head = {
        "commit": read_commit() + ("+" if is_changed(ROOT) else ""),
        "code": read_code(),
        "taken_at": pendulum.now("UTC").to_iso8601_string(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    file = folder / f"{name}.json"
    file.write_text(json.dumps({**head, **figures}, indent=1) + "\n")
    return file
