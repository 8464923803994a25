"""Tests crashes between any two calls of the store: no snapshot is lost, and the next prune removes everything left
over.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.checkpoint_files import Tree
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.verify import verify
from streamkeeper.stores.local import LocalStore
from tests.snapshots.crashing import DEAD, prune
from tests.snapshots.killing import STEPS
from tests.snapshots.series import a_checkpoint, catalogue, files_below, salt_state, wanted

ROOT = Path(__file__).resolve().parents[2]
SEEDS = int(os.environ.get("STREAMKEEPER_SEEDS", "6"))
"""The number of random runs; a campaign sets more."""


class Scene:
    """A checkpoint, and snapshots of its batches in a local store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live = a_checkpoint(root / "live", "hdfs", batches=4)
        self.series = catalogue(LocalStore(root / "store"))
        for batch in range(4, 8):
            commit(self.live, batch)
            capture(LocalTree(root / "live"), self.series)

    def run(self, what: str, nth: int) -> subprocess.CompletedProcess[str]:
        """Run a process that crashes at its ``nth`` call of the store, and wait for it."""
        return self._run("crashing", what, str(nth), str(self.root / "back"))

    def kill(self, place: float) -> subprocess.CompletedProcess[str]:
        """Run a process that is killed at this place of its writes, from 0 to below 1, and wait for it."""
        return self._run("killing", str(place))

    def _run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        places = [str(self.root / "store"), str(self.root / "live")]
        command = [sys.executable, "-m", f"tests.snapshots.{program}", *places, *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    def check(self, at_least: set[int]) -> None:
        """Assert that the required snapshots are listed and that every listed one is intact."""
        assert at_least <= set(self.series.numbers())
        assert verify(self.series).damaged == ()

    def check_collected(self) -> None:
        """Assert that two further prunes leave in the store only what its snapshots need."""
        for later in (4, 6):
            prune(self.series, later)
        self.series.store.clear_unfinished("", older_than_s=0)
        needed = {pack.name for each in self.series.snapshots() for pack in each.packs}
        assert self.series.pack_names() == needed
        folder = self.root / "store"
        others = {path.relative_to(folder).parts[3] for path in folder.rglob("*") if path.is_file()}
        assert others == {"index", "packs"}


def commit(live: Tree, batch: int) -> None:
    """Commit one more batch."""
    live.plan(batch)
    live.commit(batch, snapshot=True)
    salt_state(live.root)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A checkpoint with four snapshots, and one newer batch without a snapshot."""
    scene = Scene(tmp_path)
    commit(scene.live, 8)
    return scene


@pytest.mark.parametrize("what", ["capture", "restore", "prune"])
def test_a_rerun_completes_after_a_crash_before_any_store_call(scene: Scene, what: str) -> None:
    """A capture, restore or prune that crashes before any of its store calls loses no snapshot and publishes no partial
    checkpoint; a rerun completes, and the prunes remove all leftovers.
    """
    for nth in range(1, 60):
        at_least = {max(scene.series.numbers())}
        ended = scene.run(what, nth)
        scene.check(at_least)
        if ended.returncode != DEAD:
            break
        assert not is_published(LocalTree(scene.root / "back")), ended.stderr
    assert ended.returncode == 0, ended.stderr
    assert nth > 2
    scene.check_collected()
    newest = scene.series.newest()
    assert newest is not None
    restore(scene.series, newest, LocalTree(scene.root / "again"))
    assert files_below(scene.root / "again") == wanted(scene.root / "live", newest.batch)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_sigkill_in_the_middle_of_any_write_loses_nothing(scene: Scene, seed: int) -> None:
    """A SIGKILL before a random step of a random write, during a capture and its prune, loses no snapshot, and later
    prunes remove all leftovers.
    """
    chance = random.Random(seed)
    for batch in range(9, 12):
        commit(scene.live, batch)
        at_least = {max(scene.series.numbers())}
        ended = scene.kill(chance.random())
        assert (ended.returncode, ended.stdout in STEPS) == (-signal.SIGKILL, True), ended.stderr
        scene.check(at_least)
    capture(LocalTree(scene.root / "live"), scene.series)
    scene.check_collected()
    newest = scene.series.newest()
    assert newest is not None
    assert newest.batch == 11


def test_a_record_that_is_published_before_its_pack_is_caught(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: if a capture publishes the record before its pack, a crash in between leaves a listed snapshot
    that is damaged, and the check finds it.
    """
    from streamkeeper.snapshots.catalogue import Catalogue

    class Died(BaseException):
        pass

    def die(self: Catalogue, name: str, content: bytes) -> None:
        raise Died

    def publish_first(self: object, snapshot: object) -> object:
        # What finish() would have named, but for the pack that is never stored.
        compact = type(self)._compact  # type: ignore[attr-defined]
        from streamkeeper.model.records.snapshot import Pack

        found = compact(self, snapshot, Pack(name="0" * 64, size=1))
        scene.series.publish(found, max(scene.series.numbers()))
        return finish(self, snapshot)

    from streamkeeper.snapshots import capture as capturing

    finish = capturing._Run.finish
    monkeypatch.setattr(capturing._Run, "finish", publish_first)
    monkeypatch.setattr(Catalogue, "put_pack", die)
    with pytest.raises(Died):
        capture(LocalTree(scene.root / "live"), scene.series)
    with pytest.raises(AssertionError):
        scene.check(set())
