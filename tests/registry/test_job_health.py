"""Tests a job's own health thresholds: read from its source text, stored in the release, and refused in one line if
invalid.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.authoring.definition import streaming_job
from streamkeeper.errors import InvalidInput, JobUnusable
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.release import ReleaseContent
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.job_health import read_thresholds

DECLARED = (
    '@streamkeeper.streaming_job(name="sales", health={"lag-seconds": 600, "frozen": None})\ndef sales(a, b): ...\n'
)


def test_thresholds_are_read_without_running_the_job(tmp_path: Path) -> None:
    """Thresholds are read from a file that would terminate the process if executed, and those of other jobs are
    ignored.
    """
    (tmp_path / "sales.py").write_text(
        f"raise SystemExit\n{DECLARED}{DECLARED.replace('sales', 'other').replace('600', '7')}"
    )
    assert build_bundle(tmp_path, "sales").health == {"lag-seconds": 600.0, "frozen": None}
    assert read_thresholds("x = 1\n", "sales", where="sales.py") == {}


def test_thresholds_that_are_not_literals_are_refused(tmp_path: Path) -> None:
    """Thresholds that are not literals, and so would require running the job, are refused with file and line."""
    (tmp_path / "sales.py").write_text("H = {}\n@streaming_job(name='sales', health=H)\ndef sales(a, b): ...\n")
    with pytest.raises(
        JobUnusable, match=r"^sales.py:2: the health thresholds of job sales cannot be read without running"
    ):
        build_bundle(tmp_path, "sales")


def test_an_unknown_rule_is_refused_when_bundled_and_when_declared(tmp_path: Path) -> None:
    """An unknown health rule is refused with the nearest name, both when the job is bundled and when it is declared."""
    (tmp_path / "sales.py").write_text(DECLARED.replace("frozen", "frosen"))
    with pytest.raises(InvalidInput, match=r"health rule 'frosen' is not known \(perhaps frozen\)"):
        build_bundle(tmp_path, "sales")
    with pytest.raises(InvalidInput, match=r"health rule 'frosen' is not known \(perhaps frozen\)"):
        streaming_job(name="sales", health={"frosen": None})


def test_a_stored_release_without_thresholds_is_read_and_stays_equal() -> None:
    """A stored release without thresholds is read as one with no thresholds, and stays equal after it is stored
    again.
    """
    old = (
        b'{"bundle":"b","bundle_bytes":1,"entry":"sales.py","params":{},"conf":{},"environment":{"python":"3.11",'
        b'"spark":"4.2.0","packages_sha256":"p","jars_sha256":"j","digest":"d"},"state_format":"f"}'
    )
    read = from_json(old, ReleaseContent, where="old")
    assert read.health == {}
    assert from_json(to_json(read), ReleaseContent, where="new") == read
