"""Provides one installation with its Airflow per test file, and the locations of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hdfs_server import HdfsServer
from harness.rest import AirflowApi
from tests.integration.installation import CONNECTION, InstalledAirflow
from tests.servers import HDFS_USER, skip_without_s3a


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledAirflow]:
    """An installation whose drivers and Airflow are stopped after the last test of the file."""
    made = InstalledAirflow(tmp_path_factory.mktemp("installation"))
    yield made
    made.system.stop()


@pytest.fixture(scope="module")
def api(installation: InstalledAirflow) -> AirflowApi:
    """The API of the started Airflow, with the connection that the job's parameters name."""
    api = installation.start().api
    api.add_connection(CONNECTION, "generic", password=installation.secret)
    return api


@pytest.fixture
def on_disk(tmp_path: Path) -> str:
    return str(tmp_path / "cp")


@pytest.fixture
def on_s3(s3_url: str) -> str:
    skip_without_s3a()
    return f"{s3_url.replace('s3://', 's3a://')}/checkpoints"


@pytest.fixture
def in_hdfs(hdfs_url: str, hdfs_server: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A checkpoint directory in HDFS that belongs to a different user, who may also create outputs next to it."""
    for folder in (hdfs_url, f"{hdfs_url}/checkpoints"):
        hdfs_server.give(folder, HDFS_USER)
    monkeypatch.setenv("HADOOP_USER_NAME", HDFS_USER)
    return f"{hdfs_url}/checkpoints"


@pytest.fixture
def checkpoints(request: pytest.FixtureRequest) -> str:
    where: str = request.getfixturevalue(request.param)
    return where
