"""The bundled jobs load from a bundle, and describe themselves as what they are."""

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
    ],
)
def test_bundled_job_loads_from_its_bundle(tmp_path: Path, name: str, params: set[str]) -> None:
    """The bundle alone is enough: nothing is taken from the working tree."""
    bundle = build_bundle(ROOT / "jobs", name)
    unpack_bundle(bundle.data, tmp_path / bundle.sha256)
    job = load_job(tmp_path / bundle.sha256, bundle.entry, name)
    assert set(job.params) == params
