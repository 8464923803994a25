"""A real S3 server for the tests marked ``s3``: started once, on local ports, and stopped at the end."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.snapshots import server
from bench.snapshots.server import FIRST_BUCKET, S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The server; skips, with the reason, where its program is not installed."""
    try:
        server.find_program()
    except SystemExit as missing:
        pytest.skip(str(missing))
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-s3-"))
    with server.s3_server(home, volume_mb=64, volumes=40) as running:
        yield running


@pytest.fixture
def s3_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh ``s3://streamkeeper/<prefix>``, with the environment that reaches it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{FIRST_BUCKET}/{uuid.uuid4().hex}"
