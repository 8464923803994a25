"""A site of its own for tests, demo, bench and campaigns."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bed import fresh_bed


def test_a_relative_root_is_a_whole_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation refuses a relative home: every case of a campaign would fail on one."""
    monkeypatch.chdir(tmp_path)
    with fresh_bed(Path("site"), []) as bed:
        assert bed.home == tmp_path / "site" / "home"
        assert bed.installation.runner is not None
