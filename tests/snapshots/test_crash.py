"""Death between any two calls of the store: no snapshot is lost, and the next prune collects all that is left."""

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
"""More of them for a campaign."""


class Scene:
    """A checkpoint with snapshots of its batches in a local store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live = a_checkpoint(root / "live", "hdfs", batches=4)
        self.series = catalogue(LocalStore(root / "store"))
        for batch in range(4, 8):
            commit(self.live, batch)
            capture(LocalTree(root / "live"), self.series)

    def run(self, what: str, nth: int) -> subprocess.CompletedProcess[str]:
        """Run a process that dies at its ``nth`` call to its end."""
        return self._run("crashing", what, str(nth), str(self.root / "back"))

    def kill(self, place: float) -> subprocess.CompletedProcess[str]:
        """Run a process that is killed at this place, from 0 to below 1, of its writes."""
        return self._run("killing", str(place))

    def _run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        places = [str(self.root / "store"), str(self.root / "live")]
        command = [sys.executable, "-m", f"tests.snapshots.{program}", *places, *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    def check(self, at_least: set[int]) -> None:
        """Every snapshot in the list is whole, and those that have to be there are."""
        assert at_least <= set(self.series.numbers())
        assert verify(self.series).damaged == ()

    def check_collected(self) -> None:
        """Two prunes later the store holds what its snapshots need, and nothing else."""
        for later in (4, 6):
            prune(self.series, later)
        self.series.store.clear_unfinished("", older_than_s=0)
        needed = {pack.name for each in self.series.snapshots() for pack in each.packs}
        assert self.series.pack_names() == needed
        folder = self.root / "store"
        others = {path.relative_to(folder).parts[3] for path in folder.rglob("*") if path.is_file()}
        assert others == {"index", "packs"}


def commit(live: Tree, batch: int) -> None:
    """One more batch."""
    live.plan(batch)
    live.commit(batch, snapshot=True)
    salt_state(live.root)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Four snapshots, and a batch that is in none."""
    scene = Scene(tmp_path)
    commit(scene.live, 8)
    return scene


@pytest.mark.parametrize("what", ["capture", "restore", "prune"])
def test_death_before_any_call_of_the_store_loses_nothing_and_is_made_good(scene: Scene, what: str) -> None:
    """A process ends before its first call, before its second, and so on, until one run comes through."""
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
    """A capture and the prune after it are killed before a random step of a random write, and every kill hits one."""
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
    """The negative control: with the order turned round, death in between leaves a snapshot that is none."""
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
