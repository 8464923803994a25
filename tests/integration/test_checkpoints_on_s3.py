"""Tests of jobs whose checkpoints are on S3, with real drivers and a real S3 server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from harness.fault_proxy import fault_proxy
from harness.s3_server import S3Server
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.requests.request import Strategy
from streamkeeper.stores.s3 import connect
from tests.integration.remote_house import Remote, opened, told_at_dry_run
from tests.integration.test_recovery import JOB, QUERY

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.timeout(900)]


@pytest.fixture
def checkpoints(s3_url: str) -> str:
    return f"{s3_url.replace('s3:', 's3a:')}/checkpoints"


@pytest.mark.storage
def test_a_job_moves_to_a_directory_and_back(tmp_path: Path, checkpoints: str) -> None:
    """A job moves from S3 to a local directory and back by rebuilds with an accepted risk, and every row is present
    once. A rollback to a release that was checked with the S3 settings is refused while the installation uses the
    directory.
    """
    with opened(Remote(tmp_path, checkpoints)) as house:
        house.move(str(tmp_path / "cp"))
        rebuild = partial(house.next, strategy=Strategy.REBUILD, accept_risk=True)
        assert rebuild("out", trigger="300 milliseconds") == (Transition.REBUILD, "v0002")
        assert house.checkpoint.url.startswith("file:")
        house.add(("a", 3))
        house.settle()

        told = house.command("rollback", JOB, "--reason", "back to the bucket", "--probation-batches", "0")
        assert told.returncode != 0
        said = " ".join((told.stdout + told.stderr).split())
        assert "was checked with other values of these settings: spark.hadoop.fs.s3a.endpoint" in said, said
        house.add(("b", 4))
        house.settle()

        house.move(checkpoints)
        name = rebuild("back", trigger="400 milliseconds")[1]
        assert (name > "v0002", house.checkpoint.url) == (True, f"{checkpoints}/{JOB}/{QUERY}/{name}")
        house.add(("c", 5))
        house.settle()
        assert house.serves()


BROKEN = (
    ("a bucket that is not there", {"STREAMKEEPER_CHECKPOINTS": "s3a://no-such-bucket/checkpoints"}, "NoSuchBucket"),
    ("wrong credentials", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch"),
    ("no server", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "check that the server is running"),
    ("no jars", {"STREAMKEEPER_JARS": "/"}, "hadoop-aws is not among the installed jars (run `make connectors`"),
)


@pytest.mark.parametrize(("changed", "said"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_dry_run_reports_an_unusable_bucket(
    tmp_path: Path, checkpoints: str, changed: dict[str, str], said: str
) -> None:
    """A dry run reports an unusable bucket, wrong credentials, an unreachable server or missing jars with the remedy,
    before any driver is started.
    """
    assert said in told_at_dry_run(tmp_path, checkpoints, changed)


def test_an_s3_server_that_ignores_if_none_match_is_refused(
    tmp_path: Path, s3_server: S3Server, s3_url: str, checkpoints: str
) -> None:
    """A dry run refuses an S3 server that ignores ``If-None-Match``, which its probe detects, and deletes the probe's
    objects.
    """
    bucket, _, prefix = s3_url.removeprefix("s3://").partition("/")
    client = connect("the server itself")
    with fault_proxy(s3_server.endpoint) as proxy:
        proxy.overwrites = client
        told = told_at_dry_run(tmp_path, checkpoints, {"AWS_ENDPOINT_URL": proxy.endpoint})
        assert "lets two writers create the same file" in told
    assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix=prefix)
