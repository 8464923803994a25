"""Whether a file source that was moved would skip files in the new place."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from streamkeeper.checkpoints import seen_files
from streamkeeper.checkpoints.seen_files import would_read_all
from tests.checkpoints.tree_kinds import at

pytestmark = pytest.mark.usefixtures("kind_of_tree")

NOW_S = 1_800_000_000
DAY_S = 24 * 3600


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two folders, of which the first was read: its only file is in the source log."""
    for name, age_days in (("a/1.json", 0), ("b/2.json", 1)):
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
        os.utime(file, (NOW_S - age_days * DAY_S,) * 2)
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    entry = {"path": f"file://{tmp_path}/in/a/1.json", "timestamp": NOW_S * 1000, "batchId": 0}
    (log / "0").write_text(f"v1\n{json.dumps(entry)}")
    return tmp_path


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("in/a/*.json", "in/b/*.json", True),
        ("in/a", "in", True),
        ("in/a/*.json", "in", True),
        ("in/a", "in/b", False),
        ("in", "in/a", False),
        ("in/a/*.json", "in/{a,b}/*.json", False),
    ],
)
def test_a_moved_source_is_accepted_only_for_patterns_and_parent_directories(
    place: Path, before: str, after: str, expected: bool
) -> None:
    """A moved source is accepted only for patterns and for directories above the old one, because Spark refuses any
    other plain path.
    """
    assert would_read_all(at(place), "0", f"{place}/{before}", f"{place}/{after}") is expected


def test_a_move_is_not_accepted_if_spark_would_skip_an_old_file(place: Path) -> None:
    """A file more than a week older than the newest file ever read would be skipped, so the move is not accepted."""
    os.utime(place / "in/b/2.json", (NOW_S - 9 * DAY_S,) * 2)
    assert not would_read_all(at(place), "0", f"{place}/in/a/*.json", f"{place}/in/b/*.json")
    assert not would_read_all(at(place), "0", f"{place}/in/a", f"{place}/in")


def test_a_move_to_an_empty_place_is_not_accepted(place: Path) -> None:
    """An empty new place is not accepted, because files that arrive there may be too old; a new pattern in the same
    folder is.
    """
    (place / "in/b/2.json").unlink()
    assert not would_read_all(at(place), "0", f"{place}/in/a/*.json", f"{place}/in/b/*.json")
    assert would_read_all(at(place), "0", f"{place}/in/a/*.json", f"{place}/in/a/1*.json")


def test_an_old_file_that_was_read_is_no_loss(place: Path) -> None:
    """An old file in the new place that is in the source log does not prevent the move."""
    entry = {"path": f"file://{place}/in/b/2.json", "timestamp": (NOW_S - 9 * DAY_S) * 1000, "batchId": 1}
    (place / "sources" / "0" / "1").write_text(f"v1\n{json.dumps(entry)}")
    os.utime(place / "in/b/2.json", (NOW_S - 9 * DAY_S,) * 2)
    assert would_read_all(at(place), "0", f"{place}/in/a", f"{place}/in")


def test_a_move_with_an_unreadable_source_log_is_not_accepted(place: Path) -> None:
    """If the source log cannot be read or does not exist, the move is not accepted."""
    (place / "sources" / "0" / "0").write_text("v1\n{")
    assert not would_read_all(at(place), "0", f"{place}/in/a", f"{place}/in")
    assert not would_read_all(at(place), "gone", f"{place}/in/a", f"{place}/in")


def moved(place: Path, how: str) -> str:
    """Move the old folder in this way, add one file, and return the new pattern."""
    old, new = place / "in/a", place / "moved"
    match how:
        case "renamed mount":
            old.rename(new)
        case "mirror":
            new.mkdir()
            (new / "1.json").write_text("{}")
        case "mirror below":
            (new / "deep").mkdir(parents=True)
            shutil.copy2(old / "1.json", new / "deep/1.json")
        case "link to the folder":
            new.symlink_to(old)
        case "links to the files":
            new.mkdir()
            (new / "under another name.json").symlink_to(old / "1.json")
        case "hard links":
            new.mkdir()
            os.link(old / "1.json", new / "linked.json")
    deep = new / "deep" if how == "mirror below" else new
    (deep / "2.json").write_text("{}")
    os.utime(deep / "2.json", (NOW_S, NOW_S))
    return f"{new}/*/*.json" if how == "mirror below" else f"{new}/*.json"


@pytest.mark.parametrize(
    "how", ["renamed mount", "mirror", "mirror below", "link to the folder", "links to the files", "hard links"]
)
def test_a_file_already_read_under_a_different_path_prevents_the_move(place: Path, how: str) -> None:
    """A file that was already read under a different path, such as by a renamed mount, a mirror or a link, prevents the
    move, because Spark would read it twice.
    """
    after = moved(place, how)
    assert not would_read_all(at(place), "0", f"{place}/in/a/*.json", after)


def test_comparing_files_by_path_alone_accepts_a_renamed_mount(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: if files are compared by path alone, a renamed mount is accepted, and the file that was read
    would be read a second time.
    """
    after = moved(place, "renamed mount")
    monkeypatch.setattr(seen_files, "_was_read", lambda *_: iter(()))
    assert would_read_all(at(place), "0", f"{place}/in/a/*.json", after)


def test_a_mirror_at_another_depth_is_recognized_by_path_endings(place: Path) -> None:
    """A mirror is recognized by the end of its paths, also at a different depth, without the original times, or with
    whole seconds only.
    """
    entry = {"path": f"file://{place}/in/a/1.json", "timestamp": NOW_S * 1000 + 123, "batchId": 0}
    (place / "sources" / "0" / "0").write_text(f"v1\n{json.dumps(entry)}")
    for name, moment in (("mirror/1.json", NOW_S + 99), ("copy/x/y/1.json", NOW_S)):
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text("{}")
        os.utime(place / name, (moment, moment))
    assert not would_read_all(at(place), "0", f"{place}/in/*/*.json", f"{place}/mirror/*.json")
    assert not would_read_all(at(place), "0", f"{place}/in/a/*.json", f"{place}/copy/x/*/*.json")


def test_a_linked_folder_is_listed_and_a_hidden_one_is_not(place: Path) -> None:
    """Like Spark, the check follows linked folders, even cyclic ones, and ignores hidden files and folders."""
    (place / "in/.snapshot").mkdir()
    shutil.copy2(place / "in/a/1.json", place / "in/.snapshot/1.json")
    (place / "in/_SUCCESS").write_text("")
    os.utime(place / "in/_SUCCESS", (NOW_S - 30 * DAY_S,) * 2)
    assert would_read_all(at(place), "0", f"{place}/in/a", f"{place}/in")
    (place / "in/latest").symlink_to(place / "in/a")
    (place / "in/a/loop").symlink_to(place / "in")
    assert not would_read_all(at(place), "0", f"{place}/in/a", f"{place}/in")


def test_daily_files_of_equal_name_are_new_only_if_their_sizes_differ(place: Path) -> None:
    """With one folder per day and equal file names, a file of a different size is a new one, while a file of the same
    size may be a copy and prevents the move.
    """
    (place / "in/b/2.json").rename(place / "in/b/1.json")
    assert not would_read_all(at(place), "0", f"{place}/in/a/*.json", f"{place}/in/b/*.json")
    (place / "in/b/1.json").write_text('{"another": "day"}')
    os.utime(place / "in/b/1.json", (NOW_S - DAY_S,) * 2)
    assert would_read_all(at(place), "0", f"{place}/in/a/*.json", f"{place}/in/b/*.json")


def test_equal_names_prevent_a_move_after_archiving_only_in_equal_folders(place: Path) -> None:
    """If the files that were read are archived away, an equal name alone does not make a file a copy, but an equal name
    in an equal folder does.
    """
    (place / "in/a/1.json").unlink()
    file = place / "moved/c/1.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    os.utime(file, (NOW_S + 5, NOW_S + 5))
    assert would_read_all(at(place), "0", f"{place}/in/*/*.json", f"{place}/moved/*/*.json")
    file.rename(file.with_name("other.json"))
    (place / "moved/a").mkdir()
    (place / "moved/a/1.json").write_text("{}")
    assert not would_read_all(at(place), "0", f"{place}/in/*/*.json", f"{place}/moved/*/*.json")


def test_files_of_equal_name_in_different_folders_are_different_files(place: Path) -> None:
    """Files of the same name in different folders count as different, because their paths relative to the common folder
    differ.
    """
    (place / "in/b/2.json").rename(place / "in/b/1.json")
    assert would_read_all(at(place), "0", f"{place}/in/a/*.json", f"{place}/in/*/*.json")
    assert would_read_all(at(place), "0", f"{place}/in/a", f"{place}/in")
