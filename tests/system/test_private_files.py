"""Tests that, under every umask, files of Streamkeeper are accessible to their owner only, while existing files and
those of jobs keep their modes.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_for
from streamkeeper.checkpoints.cloning import clone
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.settings.settings import Settings
from streamkeeper.registry.bundles import build_bundle, unpack_bundle
from streamkeeper.runners.driver_log import DriverLog
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.stores.local import LocalStore
from streamkeeper.system.private_files import make_folders, make_private, opener, write_file
from tests.private_home import open_to_others, umask
from tests.runners.launching import JOB, Place, end
from tests.snapshots.series import SERIES, a_checkpoint


@pytest.fixture(autouse=True, params=[0, 0o022, 0o077], ids=["none", "usual", "strict"])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    with umask(request.param):
        yield


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_made_private_with_those_above(tmp_path: Path) -> None:
    """New folders are private together with the new ones above them, an existing one keeps its mode, and a file in the
    way is an error.
    """
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    make_folders(there / "a" / "b")
    make_folders(there / "a" / "b")
    assert [mode(each) for each in (there, there / "a", there / "a" / "b")] == [0o755, 0o700, 0o700]
    write_file(there / "a" / "file", b"x")
    assert mode(there / "a" / "file") == 0o600
    for path in (there / "a" / "file", there / "a" / "file" / "c"):
        with pytest.raises(OSError):
            make_folders(path)


def test_a_file_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    """An existing file keeps its mode when it is opened for writing."""
    path = tmp_path / "shared"
    path.write_bytes(b"")
    path.chmod(0o664)
    with open(path, "ab", opener=opener) as file:
        file.write(b"x")
    assert mode(path) == 0o664


def test_making_a_foreign_folder_private_removes_the_access_of_others(tmp_path: Path) -> None:
    """Making a folder of a different program private removes the access of others from it and from everything below
    it.
    """
    make_folders(tmp_path / "made" / "below")
    (tmp_path / "made" / "below" / "part.parquet").write_bytes(b"x")
    (tmp_path / "made" / "below").chmod(0o755)
    (tmp_path / "made" / "below" / "part.parquet").chmod(0o644)
    assert len(open_to_others(tmp_path / "made")) == 2
    make_private(tmp_path / "made")
    assert open_to_others(tmp_path / "made") == []


def test_store_log_bundle_snapshot_and_restored_checkpoint_are_private(tmp_path: Path) -> None:
    """Stores, logs, bundles, snapshots, restored checkpoints and clones are created without access for others."""
    home = tmp_path / "home"
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "sales.py").write_text("import helpers.tax\n")
    (tmp_path / "jobs" / "helpers").mkdir()
    (tmp_path / "jobs" / "helpers" / "tax.py").write_text("")
    a_checkpoint(tmp_path / "live", "rocksdb")
    store = LocalStore(home / "store")
    store.create("registry/sales/journal/1", b"x")
    store.replace("control/sales/one/status.json", b"x")
    log = DriverLog(home / "logs" / "sales" / "one.log", {}, limit_bytes=10)
    for _ in range(3):
        log.feed(b"more than ten bytes\n")
    bundle = build_bundle(tmp_path / "jobs", "sales")
    unpack_bundle(bundle.data, home / "bundles" / bundle.sha256)
    taken = capture(LocalTree(tmp_path / "live"), Catalogue(store, SERIES))
    restore(Catalogue(store, SERIES), taken.snapshot, LocalTree(home / "checkpoints" / "sales" / "totals" / "v0002"))
    clone(LocalTree(tmp_path / "live"), LocalTree(home / "scratch" / "clone"), 7)
    assert len(list(home.rglob("*"))) > 60
    assert open_to_others(home) == []


def test_a_running_instance_creates_all_its_files_without_access_for_others(tmp_path: Path) -> None:
    """A real instance creates all its files without access for others, while its driver keeps the launcher's umask for
    what the job writes.
    """
    before = os.umask(0)
    os.umask(before)
    place = Place(tmp_path)
    place.settings = Settings(
        store=f"{tmp_path}/new/store",
        checkpoints=f"{tmp_path}/new/checkpoints",
        jobs=f"{tmp_path}/jobs",
        home=f"{tmp_path}/new/home",
        jars="",
    )
    place.store = LocalStore(place.settings.store)
    make_folders(place.settings.home)
    place.runner = place.new_runner()
    try:
        place.runner.launch(place.spec(), {"secret://env/S": "hunter22"})
        driver, _ = place.pids()
        umasks = [line for line in Path(f"/proc/{driver}/status").read_text().splitlines() if line.startswith("Umask")]
        assert int(umasks[0].split()[1], 8) == before
        end(place.supervisor(), signal.SIGTERM)
        wait_for("its end", place.control().read_exit)
        assert (tmp_path / "new" / "home" / "logs" / JOB / "one.log").exists()
        assert (tmp_path / "new" / "store" / "control" / JOB / "one" / "exit.json").exists()
        assert open_to_others(tmp_path / "new") == []
    finally:
        place.close()


def test_files_of_an_output_have_the_modes_of_the_umask(tmp_path: Path) -> None:
    """Files and folders that a writer of an output creates have the modes that the umask gives them, so that readers
    keep their access.
    """
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    writer = FileSink(str(tmp_path / "out")).open(SinkContext(job="sales", query="copy", version="v0001", epoch=1))
    writer.raise_fence()
    writer.seed(1)
    made = list((tmp_path / "out").rglob("*"))
    assert {path.name for path in made} >= {"v0001", "_spark_metadata", "1", "epochs", "0000000001.json"}
    for path in (tmp_path / "out", *made):
        assert mode(path) == mode(tmp_path / ("folder" if path.is_dir() else "file"))
