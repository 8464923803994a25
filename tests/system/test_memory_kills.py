"""Tests reading the kernel's count of processes that it killed for their memory, in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.system.memory_kills import RecentKills, memory_kills


@pytest.mark.parametrize(
    ("groups", "file", "content"),
    [
        ("0::/pods/p1\n", "pods/p1/memory.events", "low 0\noom 4\noom_kill 3\n"),
        ("0::/pods/p1\n", "memory.events", "oom_kill 3\n"),
        ("5:cpu:/a\n4:memory:/pods/p1\n", "memory/pods/p1/memory.oom_control", "under_oom 0\noom_kill 3\n"),
        ("4:memory:/pods/p1\n", "memory/memory.oom_control", "oom_kill_disable 0\noom_kill 3\n"),
    ],
)
def test_the_count_of_memory_kills_is_read_from_the_control_group(
    tmp_path: Path, groups: str, file: str, content: str
) -> None:
    """The count is read at the control group's own path on a machine or at the mount's root in a container; it is None
    if the kernel keeps no count.
    """
    (tmp_path / "groups").write_text(groups)
    assert memory_kills(tmp_path, tmp_path / "groups") is None
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    assert memory_kills(tmp_path, tmp_path / "groups") == 3


class Kernel:
    """A stand-in for the kernel's count of kills and for the time."""

    def __init__(self) -> None:
        self.kills: int | None = 2
        self.now = 0.0

    def recent(self) -> RecentKills:
        return RecentKills(lambda: self.kills, lambda: self.now)


def test_a_sigkill_is_the_kernels_only_if_its_kill_count_has_grown() -> None:
    """A SIGKILL is attributed to the kernel if its count of kills has grown.

    Negative controls: other exit codes, an unchanged count and a missing count are not.
    """
    kernel = Kernel()
    recent = kernel.recent()
    assert not recent.explain(-9)
    kernel.kills = 3
    assert (recent.explain(-9), recent.explain(137), recent.explain(1), recent.explain(None)) == (
        True,
        True,
        False,
        False,
    )
    kernel.kills = None
    assert not recent.any()
    assert not kernel.recent().any()


def test_an_old_kill_in_a_shared_control_group_explains_no_sigkill() -> None:
    """A kill that was counted long before in a shared control group does not explain a SIGKILL now.

    Negative control: a recent kill does, even right after the count was read.
    """
    kernel = Kernel()
    recent = kernel.recent()
    kernel.kills = 3
    for kernel.now in (5.0, 12.0, 24.0):
        recent.look()
    assert not recent.explain(-9)
    kernel.kills = 4
    kernel.now = 35.0
    recent.look()
    assert recent.explain(-9)
