"""Tests that executors receive the archive with which their release was made, even if the original file changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput
from streamkeeper.model.settings.settings import Settings, read_settings
from streamkeeper.registry import executor_environments
from streamkeeper.registry.environments import read_environment
from streamkeeper.registry.executor_environments import find_archive, keep_archive


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The settings of an installation with an executor archive."""
    archive = tmp_path / "jobs.tar.gz"
    archive.write_bytes(b"one")
    return read_settings(
        {
            "STREAMKEEPER_HOME": str(tmp_path / "home"),
            "STREAMKEEPER_CHECKPOINTS": "s3a://bucket/cp",
            "STREAMKEEPER_MASTER": "spark://host:7077",
            "STREAMKEEPER_EXECUTOR_ENVIRONMENT": str(archive),
        }
    )


def write(settings: Settings, content: bytes) -> None:
    Path(settings.executor_environment).write_bytes(content)


def test_replacing_an_archive_in_place_keeps_both_contents(settings: Settings) -> None:
    """Replacing the archive keeps both contents, each readable by its owner only, and the same content is stored
    once.
    """
    first = keep_archive(settings)
    assert keep_archive(settings) == first
    write(settings, b"two")
    second = keep_archive(settings)
    assert [Path(find_archive(settings, name)).read_bytes() for name in (first, second)] == [b"one", b"two"]
    assert sorted(os.listdir(settings.environments)) == sorted([first, second])
    assert Path(find_archive(settings, first)).stat().st_mode & 0o777 == 0o600
    assert first.endswith(".tar.gz")


def test_without_an_archive_nothing_is_kept_and_the_hash_is_unchanged(settings: Settings) -> None:
    """Without an archive nothing is kept and the environment's hash is unchanged."""
    without = replace(settings, executor_environment="")
    assert (keep_archive(without), find_archive(without, "")) == ("", "")
    assert read_environment(archive="") == read_environment()
    assert read_environment(archive="a.zip").digest != read_environment().digest


def test_a_deleted_archive_copy_is_restored_from_the_original_file(settings: Settings) -> None:
    """A deleted copy of an archive is restored from the original file; if that was changed or deleted, the error names
    the setting or a remedy.
    """
    name = keep_archive(settings)
    kept = Path(find_archive(settings, name))
    kept.unlink()
    assert find_archive(settings, name) == str(kept)
    for other in (lambda: write(settings, b"two"), Path(settings.executor_environment).unlink):
        kept.unlink(missing_ok=True)
        other()
        with pytest.raises(InvalidInput, match="STREAMKEEPER_EXECUTOR_ENVIRONMENT"):
            find_archive(settings, name)
    with pytest.raises(InvalidInput, match=f"{name}, is no longer in .*push the release's code again"):
        find_archive(replace(settings, executor_environment=""), name)


def test_an_unreadable_archive_is_reported_with_setting_and_reason(settings: Settings) -> None:
    """An unreadable archive is reported with the setting and the reason."""
    Path(settings.executor_environment).unlink()
    with pytest.raises(InvalidInput, match=r"STREAMKEEPER_EXECUTOR_ENVIRONMENT=.*No such file"):
        keep_archive(settings)


def test_an_archive_that_changes_while_it_is_read_is_not_kept(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that changes while it is copied is not kept. Negative control: of two interrupted copies, the old one
    is deleted and the new one stays.
    """
    copy = executor_environments.shutil.copyfileobj

    def changed(source: object, target: object, size: int) -> None:
        write(settings, b"half")
        copy(source, target, size)  # type: ignore[arg-type]

    with monkeypatch.context() as during:
        during.setattr(executor_environments.shutil, "copyfileobj", changed)
        with pytest.raises(InvalidInput, match="the archive was changed while it was read"):
            keep_archive(settings)
    assert os.listdir(settings.environments) == []
    old, new = (settings.environments / f".copying-{name}" for name in ("old", "new"))
    for left in (old, new):
        left.touch()
    os.utime(old, (0, 0))
    keep_archive(settings)
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"STREAMKEEPER_EXECUTOR_ENVIRONMENT": "/opt/jobs.rar"}, r"is not an archive .*\.tar\.gz or \.tgz or \.zip"),
        ({"STREAMKEEPER_EXECUTOR_ENVIRONMENT": "s3://bucket/jobs.zip"}, "name a file on this machine"),
        ({"STREAMKEEPER_MASTER": ""}, "without STREAMKEEPER_MASTER, Spark runs tasks in the drivers, not in executors"),
    ],
)
def test_an_unknown_or_remote_archive_or_one_without_a_master_is_refused(changed: dict[str, str], told: str) -> None:
    """An archive of an unknown type, on a remote store, or without a Spark master is refused with one line that names
    the variable.
    """
    given = {
        "STREAMKEEPER_HOME": "/home",
        "STREAMKEEPER_CHECKPOINTS": "s3a://bucket/cp",
        "STREAMKEEPER_MASTER": "spark://host:7077",
        "STREAMKEEPER_EXECUTOR_ENVIRONMENT": "/opt/jobs.tar.gz",
    }
    with pytest.raises(InvalidInput, match=f"STREAMKEEPER_EXECUTOR_ENVIRONMENT.*{told}"):
        read_settings(given | changed)
