"""A checkpoint version appears when its metadata is written: complete or not at all, after any crash and with any
number of writers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from streamkeeper.checkpoints.publishing import is_published, publish
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import InvalidInput
from tests.checkpoints.tree_kinds import at, contents

FILES = {f"{log}/{batch}": f"{log} {batch}".encode() for log in ("offsets", "commits") for batch in range(3)}
METADATA = b'{"id":"a"}'
WHOLE = {**FILES, "metadata": METADATA}
PROGRAM = """
import sys
from pathlib import Path
from streamkeeper.checkpoints.publishing import publish
from streamkeeper.checkpoints.trees import LocalTree
from tests.checkpoints.test_publishing import FILES, METADATA
publish(LocalTree(Path(sys.argv[1])), FILES, METADATA)
"""
POINTS = {
    "publish.file.before": 0,
    "publish.file.before:4": 3,
    "publish.metadata.before": len(FILES),
    "publish.metadata.after": len(WHOLE),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_process_killed_while_publishing_leaves_no_partial_version(tmp_path: Path, point: str) -> None:
    """A process that is killed while publishing leaves either no version or a complete one, and a second attempt
    completes it from the files that exist.
    """
    root = tmp_path / "v0002"
    environment = {**os.environ, "STREAMKEEPER_CRASH": point, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(root)], env=environment, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert len(contents(root)) == POINTS[point]
    assert is_published(LocalTree(root)) == (contents(root) == WHOLE)
    if not is_published(LocalTree(root)):
        publish(LocalTree(root), FILES, METADATA)
    assert contents(root) == WHOLE


def publish_metadata_first(target: Tree, files: Mapping[str, bytes], dies_after: int) -> None:
    target.create("metadata", [METADATA])
    for path, content in list(files.items())[:dies_after]:
        target.create(path, [content])


@pytest.mark.usefixtures("kind_of_tree")
def test_metadata_first_would_leave_a_version_that_is_not_whole(tmp_path: Path) -> None:
    """Negative control: writing the metadata first leaves a published version that is incomplete."""
    publish_metadata_first(at(tmp_path / "v0002"), FILES, dies_after=2)
    assert is_published(at(tmp_path / "v0002"))
    assert contents(tmp_path / "v0002") != WHOLE


def publish_at_once(target: Tree, start: Barrier) -> str:
    """Wait for all other writers, publish, and return the error or an empty text."""
    start.wait()
    try:
        publish(target, FILES, METADATA)
    except InvalidInput as error:
        return str(error)
    return ""


@pytest.mark.usefixtures("kind_of_tree")
def test_concurrent_writers_publish_one_complete_version(tmp_path: Path) -> None:
    """Four concurrent writers produce one complete version; a writer that fails reports that the version already
    exists.
    """
    for attempt in range(10):
        root, start = tmp_path / f"v{attempt}", Barrier(4)
        target = at(root)
        with ThreadPoolExecutor(max_workers=4) as writers:
            told = set(writers.map(lambda _, target=target, start=start: publish_at_once(target, start), range(4)))
        assert contents(root) == WHOLE
        assert all("already exists" in each for each in told - {""})


@pytest.mark.usefixtures("kind_of_tree")
def test_existing_files_are_kept_only_if_their_content_is_equal(tmp_path: Path) -> None:
    """Existing files with equal content are kept, while different content and files that do not belong to the version
    are refused.
    """
    target = at(tmp_path / "v0002")
    target.create("offsets/0", [b"off", b"sets 0"])
    publish(target, FILES, METADATA)
    assert contents(tmp_path / "v0002") == WHOLE
    for path, content in (("offsets/0", b"offsets 1"), ("offsets/0", b""), ("notes", b"mine")):
        other = at(tmp_path / "other" / path / str(len(content)))
        other.create(path, [content])
        with pytest.raises(InvalidInput):
            publish(other, FILES, METADATA)
        assert not is_published(other)


@pytest.mark.usefixtures("kind_of_tree")
def test_publishing_into_a_published_version_is_refused(tmp_path: Path) -> None:
    """Publishing into a published version is refused, even with identical files."""
    target = at(tmp_path / "v0002")
    publish(target, FILES, METADATA)
    with pytest.raises(InvalidInput, match="already exists"):
        publish(target, FILES, METADATA)


def test_a_temporary_file_of_a_dead_writer_does_not_prevent_publishing(tmp_path: Path) -> None:
    """A temporary file of a dead writer does not prevent publishing."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / f".{'0' * 32}.tmp").write_text("half")
    publish(LocalTree(tmp_path), FILES, METADATA)
    assert contents(tmp_path) == WHOLE
