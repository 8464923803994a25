"""Tests that the bundled jobs load from a bundle and declare their params."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.authoring.definition import load_job
from streamkeeper.registry.bundles import build_bundle, unpack_bundle

ROOT = Path(__file__).resolve().parents[2]
KAFKA = {"servers", "topic", "warehouse", "starting", "max_offsets_per_trigger", "trigger"}


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("sales_totals", {"input", "warehouse", "files_per_trigger", "trigger"}),
        ("event_copy", {"input", "output", "files_per_trigger", "trigger"}),
        ("event_counts", {*KAFKA, "late"}),
        ("event_table", KAFKA),
        ("event_balances", KAFKA),
        ("event_intake", KAFKA),
        ("event_fan_out", {"input", "warehouse", "second", "files_per_trigger", "trigger"}),
    ],
)
def test_bundled_job_loads_from_its_bundle(tmp_path: Path, name: str, params: set[str]) -> None:
    """Each bundled job loads from its unpacked bundle alone, without files of the working tree, and declares the
    expected params.
    """
    bundle = build_bundle(ROOT / "jobs", name)
    unpack_bundle(bundle.data, tmp_path / bundle.sha256)
    job = load_job(tmp_path / bundle.sha256, bundle.entry, name)
    assert set(job.params) == params
