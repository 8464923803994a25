"""The kernel's count of processes that it killed for their memory, in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper import memory_kills as module
from streamkeeper.memory_kills import killed_for_memory, memory_kills


@pytest.mark.parametrize(
    ("groups", "file", "content"),
    [
        ("0::/pods/p1\n", "pods/p1/memory.events", "low 0\noom 4\noom_kill 3\n"),
        ("0::/pods/p1\n", "memory.events", "oom_kill 3\n"),
        ("5:cpu:/a\n4:memory:/pods/p1\n", "memory/pods/p1/memory.oom_control", "under_oom 0\noom_kill 3\n"),
        ("4:memory:/pods/p1\n", "memory/memory.oom_control", "oom_kill_disable 0\noom_kill 3\n"),
    ],
)
def test_the_count_is_read_where_the_group_is_mounted(tmp_path: Path, groups: str, file: str, content: str) -> None:
    """By its own path on a machine, at the mount's root in a container; None where the kernel keeps none."""
    (tmp_path / "groups").write_text(groups)
    assert memory_kills(tmp_path, tmp_path / "groups") is None
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    assert memory_kills(tmp_path, tmp_path / "groups") == 3


def test_a_sigkill_is_the_kernels_only_where_its_count_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls: another end, a count that stands, and no count."""
    monkeypatch.setattr(module, "memory_kills", lambda: 3)
    assert killed_for_memory(2, -9)
    assert not any(killed_for_memory(before, code) for before, code in ((2, 1), (3, -9), (None, -9), (2, None)))
