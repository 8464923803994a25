"""Jobs whose checkpoints lie on S3: real drivers, a real S3 server, and every verb."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from harness.fault_proxy import fault_proxy
from harness.s3_server import S3Server
from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.model.journal import Outcome
from streamkeeper.model.recovery import Cause, RecoveryAction
from streamkeeper.model.release import ParamValue
from streamkeeper.model.request import DeployRequest, Strategy
from streamkeeper.model.ways import Way
from streamkeeper.operations.deploy import Deploy
from streamkeeper.operations.installation import Installation
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.stores.s3 import connect
from tests.integration.test_recovery import JOB, QUERY, ROOT, House

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.timeout(900)]


class Remote(House):
    """A house with its checkpoints in a bucket."""

    def move(self, checkpoints: str) -> None:
        """From now on new checkpoint versions lie elsewhere."""
        settings, store = msgspec.structs.replace(self.site.settings, checkpoints=checkpoints), self.site.store
        self.site = Installation(settings=settings, store=store, runner=LocalProcessRunner(store, settings))

    def next(
        self, operation: str, *, trigger: str, strategy: Strategy = Strategy.AUTO, accept_risk: bool = False
    ) -> tuple[Way, str]:
        """Deploy again: the way it went, and the checkpoint version that serves then."""
        params: dict[str, ParamValue] = {"input": str(self.input), "warehouse": f"sqlite:///{self.warehouse}"}
        request = DeployRequest(
            job=JOB,
            params={**params, "trigger": trigger},
            conf={"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"},
            strategy=strategy,
            accept_risk=accept_risk,
            requested_by="ada",
            probation_batches=1,
            first_commit_s=120.0,
            probation_s=120.0,
        )
        deploy = Deploy.open(self.site, operation, request)
        done = deploy.run()
        assert done.outcome is Outcome.SUCCEEDED, done.sentence
        return deploy.state.operations[operation].ways[QUERY].way, self.checkpoint.name


@pytest.fixture
def house(tmp_path: Path, s3_url: str) -> Iterator[Remote]:
    house = Remote(tmp_path, f"{s3_url.replace('s3://', 's3a://')}/checkpoints")
    try:
        house.add(("a", 1), ("b", 2))
        house.deploy()
        house.settle()
        yield house
    finally:
        house.close()


def test_a_life_on_s3(house: Remote, tmp_path: Path) -> None:
    """First release, resume, snapshot and drill, rebuild, rollback, a checkpoint that is deleted under a killed driver
    and restored, prune: the table holds every row once, and nothing is made of the URL on the disk."""
    house.add(("a", 3))
    house.settle()
    assert house.take() == "s0001"
    assert house.next("resume", trigger="300 milliseconds") == (Way.RESUME, "v0001")
    house.add(("b", 4), ("c", 5))
    house.settle()
    assert house.next("rebuild", trigger="200 milliseconds", strategy=Strategy.REBUILD) == (Way.REBUILD, "v0002")
    house.add(("c", 6))
    house.settle()

    told = house.command("rollback", JOB, "--reason", "the totals are off", "--probation-batches", "1")
    assert told.returncode == 0, told.stdout + told.stderr
    house.add(("d", 7))
    house.settle()
    assert house.take() > "s0001"
    house.add(("d", 8))
    house.settle()

    lost = house.checkpoint
    house.kill()
    assert house.look().cause is Cause.DRIVER_KILLED
    assert lost.delete(lost.fresh().look().files) == {}
    lost.drop_empty_folders()
    assert house.look().cause is Cause.CHECKPOINT_LOST
    house.recover("restored", RecoveryAction.RESTORE, accepted_by="ada", accept_loss=True)
    house.add(("e", 9))
    house.settle()
    assert house.checkpoint.name > lost.name
    assert house.look().cause is Cause.NOTHING_WRONG
    for words in (["offsets", str(house.checkpoint)], ["fsck", str(house.checkpoint)], ["prune", JOB], ["jobs"]):
        done = house.command(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert house.serves()
    assert open_batch(house.checkpoint) is None
    assert not (tmp_path / "cp").exists()
    assert "s3a:" not in os.listdir(Path.cwd())


def test_a_job_moves_to_a_directory_and_back(house: Remote, tmp_path: Path) -> None:
    """By a rebuild each time, whose risk is accepted for s3a's jars are code; every row once. Nobody goes back to where
    the setting does not lead any more: a driver of a directory's setting writes nothing on S3."""
    bucket = house.site.settings.checkpoints
    house.move(str(tmp_path / "cp"))
    rebuild = partial(house.next, strategy=Strategy.REBUILD, accept_risk=True)
    assert rebuild("out", trigger="300 milliseconds") == (Way.REBUILD, "v0002")
    assert house.checkpoint.url.startswith("file:")
    house.add(("a", 3))
    house.settle()

    told = house.command("rollback", JOB, "--reason", "back to the bucket", "--probation-batches", "1")
    assert told.returncode != 0
    said = " ".join((told.stdout + told.stderr).split())
    assert "was checked with other settings than there are here: spark.hadoop.fs.s3a.endpoint" in said, said
    house.add(("b", 4))
    house.settle()

    house.move(bucket)
    name = rebuild("back", trigger="400 milliseconds")[1]
    assert (name > "v0002", house.checkpoint.url) == (True, f"{bucket}/{JOB}/{QUERY}/{name}")
    house.add(("c", 5))
    house.settle()
    assert house.serves()


BROKEN = (
    ("a bucket that is not there", {"STREAMKEEPER_CHECKPOINTS": "s3a://no-such-bucket/checkpoints"}, "NoSuchBucket"),
    ("wrong credentials", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch"),
    ("no server", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "check that the server runs"),
    ("no jars", {"STREAMKEEPER_JARS": "/"}, "no hadoop-aws among them (`make connectors` fetches them"),
)


@pytest.fixture
def told_of(tmp_path: Path, s3_url: str) -> Callable[[dict[str, str]], str]:
    """What a dry run of a first deploy says, by its environment; it is refused, and leaves nothing."""

    def ask(changed: dict[str, str]) -> str:
        home = tmp_path / "home"
        own = {
            "HOME": str(home),
            "CHECKPOINTS": f"{s3_url.replace('s3:', 's3a:')}/checkpoints",
            "JOBS": str(ROOT / "jobs"),
        }
        environ = os.environ | {f"STREAMKEEPER_{name}": value for name, value in own.items()} | changed
        words = ["deploy", JOB, "--dry-run", "--params", '{"input": "/in", "warehouse": "sqlite:////w.db"}']
        run = subprocess.run(
            [sys.executable, "-m", "streamkeeper.cli.main", *words, "--reason", "to see"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode != 0, run.stdout
        assert "Traceback" not in run.stdout + run.stderr
        assert not (home / "store" / "registry").exists()
        return " ".join((run.stdout + run.stderr).split())

    return ask


@pytest.mark.parametrize(("changed", "said"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_bucket_that_cannot_be_used_is_told_at_the_dry_run(
    told_of: Callable[[dict[str, str]], str], changed: dict[str, str], said: str
) -> None:
    """In a line that says what to do, before a driver is started."""
    assert said in told_of(changed)


def test_a_store_in_which_two_writers_win_is_refused(
    told_of: Callable[[dict[str, str]], str], s3_server: S3Server, s3_url: str
) -> None:
    """One that knows no If-None-Match, as the probe of the dry run finds; nothing of the probe is left."""
    bucket, _, prefix = s3_url.removeprefix("s3://").partition("/")
    client = connect("the server itself")
    with fault_proxy(s3_server.endpoint) as proxy:
        proxy.overwrites = client
        assert "lets two writers create one file" in told_of({"AWS_ENDPOINT_URL": proxy.endpoint})
    assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix=prefix)
