"""Runs one job through every lifecycle operation with its drivers in YARN containers and its checkpoints in HDFS; every
row once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hdfs_server import HdfsServer
from harness.postgres_server import new_database
from harness.yarn_server import YarnServer, yarn_server
from streamkeeper.model.runner_kinds.yarn_kind import YARN, Application
from streamkeeper.registry.driver_control import Control
from tests.integration.remote_house import Contained, hand_off, live_a_life, opened, told_at_dry_run
from tests.integration.test_lives import IN_HDFS

pytestmark = [pytest.mark.spark, pytest.mark.storage, pytest.mark.timeout(1500)]


@pytest.fixture
def yarn(hdfs_server: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[YarnServer]:
    """A YARN cluster whose containers and clients are configured for HDFS as well."""
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-yarn-"))
    with yarn_server(home / "yarn", {"SPARK_LOCAL_IP": "127.0.0.1"}, beside=hdfs_server.conf) as running:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(running.conf))
        yield running
    home.rmdir()


@pytest.mark.postgres
@pytest.mark.parametrize("checkpoints", [IN_HDFS], indirect=True)
def test_a_job_with_drivers_in_yarn_containers_passes_every_operation(
    tmp_path: Path, checkpoints: str, yarn: YarnServer, postgres_server: str
) -> None:
    """A job passes through every operation from the first release to a handoff, with each driver as a YARN application
    of its own.
    """
    database = new_database(postgres_server, f"t{os.urandom(4).hex()}")
    with opened(Contained(tmp_path, checkpoints, database)) as house:
        live_a_life(house)
        hand_off(house)
        for job in house.jobs:
            for instance in house.installation.journal(job, "test").state().instances:
                control = Control(house.installation.store, job, instance)
                launch, application = control.read_launch(), control.read_place(Application)
                assert launch is not None
                assert launch.runner == YARN
                assert application is not None
                assert yarn.ask(f"apps/{application.id}")["app"]["applicationType"] == "STREAMKEEPER"


@pytest.mark.parametrize("named", [False, True], ids=["named by nobody", "of which nobody answers"])
def test_a_dry_run_reports_an_unavailable_yarn_cluster(tmp_path: Path, named: bool) -> None:
    """A dry run reports a YARN cluster that is not configured or does not answer, before anything is recorded."""
    conf = tmp_path / "conf"
    conf.mkdir()
    if named:
        address = "<name>yarn.resourcemanager.webapp.address</name><value>127.0.0.1:1</value>"
        (conf / "yarn-site.xml").write_text(f"<configuration><property>{address}</property></configuration>")
    changed = {"STREAMKEEPER_DRIVERS": "yarn", "STREAMKEEPER_STORE": str(tmp_path / "store")}
    told = told_at_dry_run(tmp_path, "hdfs://127.0.0.1:1/cp", changed | {"HADOOP_CONF_DIR": str(conf)})
    expected = "ResourceManager http://127.0.0.1:1 does not answer" if named else "names no ResourceManager"
    assert expected in told
