"""The failpoints that exist, and the ones that no campaign has hit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from chaos.attacks.on_checkpoints import _FREEZES_AT
from chaos.drills.on_operations import _POINTS
from chaos.failpoints import NOT_HIT, hit_points, named_points


@pytest.fixture(scope="module")
def points() -> set[str]:
    """The failpoints of ``plugins/``."""
    return named_points()


def test_every_failpoint_was_hit_or_has_a_reason_why_not(points: set[str]) -> None:
    """Every failpoint was hit by a campaign or is listed with a reason, and no listed failpoint was hit since."""
    assert points - hit_points() == NOT_HIT.keys()


def test_campaigns_kill_at_failpoints_that_exist(points: set[str]) -> None:
    """All failpoints at which campaigns kill or freeze exist; at a renamed one nothing would die and the case would be
    clean.
    """
    assert {*_POINTS, *_FREEZES_AT} <= points


def test_every_kind_of_record_and_command_has_failpoints_around_its_writes(points: set[str]) -> None:
    """Records, incidents, commands and objects have a failpoint before and after each write, named by their kind."""
    made = {"record.epoch-claimed", "incident.raised", "command.drain", "object.bundles"}
    assert {f"{each}.{when}" for each in made for when in ("before", "after")} <= points
    assert not [each for each in points if not re.fullmatch(r"[a-z-]+(\.[a-z-]+)+", each)]


def test_a_failpoint_with_a_computed_name_is_refused(tmp_path: Path) -> None:
    """A failpoint with a computed name is refused, because whether it was hit cannot be determined."""
    (tmp_path / "writer.py").write_text('crash_point("a.b")\ncrash_point(f"write.{what}.before")\n')
    with pytest.raises(LookupError, match=r"write\.\{what\}\.before"):
        named_points(tmp_path)
    (tmp_path / "writer.py").write_text('crash_point("a.b")\n')
    assert named_points(tmp_path) >= {"a.b"}


def test_hits_are_read_from_every_kind_of_line(tmp_path: Path) -> None:
    """Hits are read from result lines that name a failpoint or mention one in a sentence; lines of traces count as no
    hit.
    """
    lines: list[dict[str, object]] = [
        {"hits": ["sink.staged"]},
        {"hits": ["a restore frozen at restore.serve.before, and a deploy"]},
        {"traced": "switch", "points": ["sink.swapped"]},
    ]
    (tmp_path / "any.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert {"sink.staged", "restore.serve.before"} <= hit_points(tmp_path)
    assert "sink.swapped" not in hit_points(tmp_path)
