"""Tests paths and URLs that a person or a setting names."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.locations import lies_within, local_path, scheme_of


@pytest.mark.parametrize(
    "location",
    [
        "s3a://b/p",
        "s3://b/p",
        "hdfs://n:9000/p",
        "gs://b/p",
        "abfss://c@a/p",
        "dbfs:/p",
        "s3a:/b/p",
        "S3A://b",
        "s3:b/p",
        "hdfs:p",
    ],
)
def test_a_url_is_never_a_path(location: str) -> None:
    """A URL is never read as a local path, even in Hadoop's short form and in any case."""
    with pytest.raises(Unsupported, match="is not supported here"):
        local_path("checkpoint", location)


def test_a_local_path_is_accepted_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local path is accepted as an absolute path, a relative path or a ``file:`` URL with escapes; a colon alone does
    not make a URL.
    """
    monkeypatch.chdir(tmp_path)
    wanted = tmp_path / "a b"
    for location in (
        str(wanted),
        "a b",
        wanted.as_uri(),
        f"file:{tmp_path}/a%20b",
        f"file://localhost{tmp_path}/a%20b",
    ):
        assert local_path("checkpoint", location) == wanted
    assert local_path("checkpoint", "12:30") == tmp_path / "12:30"
    assert scheme_of("c:x") == ""


@pytest.mark.parametrize(
    "location",
    ["", "file://host/p", "file://", "file:p/q", '"s3://b/p"', "'/data'", " /data", "/data\n", "\ufeffs3://b"],
)
def test_empty_remote_and_quoted_locations_are_refused(location: str) -> None:
    """An empty location, a file on a different machine and a path with quotes or blanks around it, as an environment
    file may leave them, are refused.
    """
    with pytest.raises(InvalidInput):
        local_path("checkpoint", location)


@pytest.mark.parametrize(
    ("place", "folder", "within"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a/", True),
        ("file:///a/b", "/a", True),
        ("s3://bucket/a/b", "s3a://bucket/a", True),
        ("hdfs://n:8020/a/b", "hdfs://n:8020/a", True),
        ("/ab", "/a", False),
        ("/a", "/a/b", False),
        ("s3a://bucket/a", "/bucket/a", False),
        ("s3a://other/a", "s3a://bucket", False),
        ("/a", "", False),
        ("/a", "/", False),
    ],
)
def test_a_place_within_a_folder_is_recognized_in_any_written_form(place: str, folder: str, within: bool) -> None:
    """A place lies within a folder if it is the folder itself or below it, in whatever form both are written; nothing
    lies within an empty folder or the root.
    """
    assert lies_within(place, folder) is within
