"""Tests opening a store by its URL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.stores.local import LocalStore
from streamkeeper.stores.s3 import S3Store
from streamkeeper.stores.store_urls import open_store


def test_directory_opens_by_path_and_by_url(tmp_path: Path) -> None:
    """A plain path and its ``file://`` URL, with characters that a URL escapes, open one store."""
    folder = tmp_path / "with space and ü"
    store = open_store(str(folder))
    store.create("a", b"1")
    again = open_store(folder.as_uri())
    assert isinstance(again, LocalStore)
    assert again.read("a") == b"1"
    assert again.url == store.url == folder.as_uri()


def test_an_s3_url_opens_an_s3_store_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ``s3://`` URL opens an S3Store with this URL, and no request is sent."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    store = open_store("s3://bucket/prefix/")
    assert isinstance(store, S3Store)
    assert store.url == "s3://bucket/prefix"


@pytest.mark.parametrize("url", ["hdfs://host/x", "gs://bucket/x", "abfss://c@a/x", "http://host", "s3a://bucket/x"])
def test_unsupported_schemes_are_refused_with_an_example_of_a_supported_url(url: str) -> None:
    """A URL with an unsupported scheme is refused with the URL and an example of a supported one."""
    with pytest.raises(Unsupported) as caught:
        open_store(url)
    assert url in str(caught.value)
    assert "s3://bucket/prefix" in str(caught.value)


@pytest.mark.parametrize("url", ["", "file://host/path", "file://"])
def test_empty_urls_and_file_urls_of_a_different_machine_are_refused(url: str) -> None:
    """An empty URL and a ``file://`` URL of a different machine or without a path are refused."""
    with pytest.raises(InvalidInput):
        open_store(url)


def test_opening_a_directory_does_not_load_boto3(tmp_path: Path) -> None:
    """Opening a directory does not import boto3, which is slow to load."""
    script = (
        "import sys; from streamkeeper.stores.store_urls import open_store; open_store(sys.argv[1]);"
        "assert not {'boto3', 'botocore'} & set(sys.modules)"
    )
    path = Path(__file__).parents[2] / "plugins"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60, env={"PYTHONPATH": str(path)})
