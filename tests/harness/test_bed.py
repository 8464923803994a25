"""Tests the separate installation that tests, demo, benchmarks and campaigns run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bed import fresh_bed


def test_a_bed_with_a_relative_root_gets_an_absolute_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bed with a relative root gets an absolute home, because an installation refuses a relative one and every case
    of a campaign would fail.
    """
    monkeypatch.chdir(tmp_path)
    with fresh_bed(Path("site"), []) as bed:
        assert bed.home == tmp_path / "site" / "home"
        assert bed.installation.runner is not None
