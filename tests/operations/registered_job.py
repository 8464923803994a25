"""A job that was deployed once, with files laid out like Spark's and without a running driver."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.checkpoint_files import Tree
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.evidence import Evidence, Look, QueryEvidence
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription
from streamkeeper.model.manifests.release import Environment, Release, ReleaseContent
from streamkeeper.model.protocol.driver_messages import (
    DriverState,
    DriverStatus,
    LaunchSpec,
    ProcessRecord,
    QueryStatus,
)
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    EpochClaimed,
    InstanceAppointed,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
)
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.objects import put_object
from streamkeeper.runners.contract import Runner
from streamkeeper.runners.machine import this_machine
from streamkeeper.sinks.file import EpochFile
from streamkeeper.sinks.file_serving import create_epoch
from streamkeeper.sinks.sink_log import continue_log
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.stores.local import LocalStore
from tests.compatibility.manifests import STATEFUL
from tests.snapshots.series import a_checkpoint, salt_state

JOB, QUERY = "sales", "totals"
ENVIRONMENT = Environment(python="3.11", spark="4.2.0", packages_sha256="p", jars_sha256="j", digest="d")


class RestingRunner(Runner):
    """A runner that reports the life that the test sets, and starts nothing."""

    def __init__(self) -> None:
        self.life = Life.DEAD
        self.frozen = False
        self.elsewhere = ""

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        raise AssertionError("nothing is to be started")

    def observe(self, job: str, instance: str) -> Liveness:
        if self.elsewhere:
            return Liveness(life=Life.UNKNOWN, why=f"it runs on {self.elsewhere}", elsewhere=self.elsewhere)
        return Liveness(life=self.life, why=f"{instance} is {self.life.value}", frozen=self.frozen)

    def notify(self, job: str, instance: str) -> None:
        raise AssertionError("nobody is to be nudged")

    def kill(self, job: str, instance: str) -> None:
        raise AssertionError("nobody is to be killed")


class Registered:
    """A job that was deployed once and whose driver has terminated."""

    def __init__(self, root: Path, *, sink: str = "table", batches: int = 8, approvers: tuple[str, ...] = ()) -> None:
        """``approvers`` are those of the current release."""
        self._approvers = approvers
        self.runner = RestingRunner()
        settings = Settings(
            store=str(root / "store"), checkpoints=str(root / "cp"), jobs=str(root / "jobs"), home=str(root / "home")
        )
        self.installation = Installation(settings=settings, store=LocalStore(root / "store"), runner=self.runner)
        self.directory = root / "cp" / JOB / QUERY / "v0001"
        self.tree: Tree = a_checkpoint(self.directory, "hdfs", batches=batches)
        self.warehouse = root / "warehouse.db"
        self.output = root / "out"
        outputs = {"file": str(self.output), "table": f"sqlite:///{self.warehouse}#totals"}
        if sink == "table":
            self.write_table(batches - 1)
        self._register(_with_sink(STATEFUL, sink, outputs.get(sink, f"the {sink}")))

    def _register(self, manifest: Manifest) -> None:
        digest = put_object(self.installation.store, JOB, "manifests", to_json(manifest), ".json")
        content = ReleaseContent(
            bundle="b" * 64, bundle_bytes=1, entry="sales.py", params={}, conf={}, environment=ENVIRONMENT,
            state_format="rocksdb+changelog/v2", approvers=self._approvers,
        )  # fmt: skip
        for record in (
            ReleaseRegistered(release=Release(job=JOB, number=1, content=content)),
            ReleaseDescribed(release="r0001", manifests={QUERY: digest}),
            OperationStarted(operation="op", request=DeployRequest(job=JOB), steps=()),
            InstancePlanned(operation="op", instance="op-candidate", release="r0001", role=Role.CANDIDATE),
            self.version("v0001"),
            InstanceAppointed(operation="op", instance="op-candidate"),
            self.epoch("v0001", 1),
            ReleasePromoted(operation="op", release="r0001", instance="op-candidate"),
            OperationFinished(operation="op", outcome=Outcome.SUCCEEDED, sentence="serves"),
        ):
            self.record(record)

    def set(self, **settings: Any) -> None:
        """Change these settings of the installation."""
        self.installation = replace(
            self.installation, settings=msgspec.structs.replace(self.installation.settings, **settings)
        )

    def record(self, record: Record) -> None:
        """Append an entry to the job's journal."""
        self.installation.journal(JOB, "test").append(lambda _: record)

    def version(self, name: str) -> CheckpointVersionCreated:
        """Return the record of a new checkpoint version."""
        return CheckpointVersionCreated(
            query=QUERY, version=name, release="r0001", origin="fresh", state_format="rocksdb+changelog/v2"
        )

    def epoch(self, version: str, number: int) -> EpochClaimed:
        """Return the record of a driver that has claimed an epoch of a version."""
        return EpochClaimed(
            query=QUERY, output="t", epoch=number, instance="op-candidate", generation=number, version=version
        )

    def report(self, committed: int) -> None:
        """Write the last status of the driver."""
        status = DriverStatus(
            instance="op-candidate", release="r0001", generation=1, state=DriverState.FAILED, beat=9, at="",
            queries={QUERY: QueryStatus(query=QUERY, version="v0001", epoch=1, committed=committed)},
        )  # fmt: skip
        Control(self.installation.store, JOB, "op-candidate").write_status(status)

    def write_process(self, host: str) -> None:
        """Record that the driver ran on a machine with this name."""
        boot = this_machine().boot if host == this_machine().host else f"{host}-boot"
        record = ProcessRecord(
            instance="op-candidate", generation=1, machine=f"-:{boot}:4026531836:0", host=host, pid=1, started=1
        )
        Control(self.installation.store, JOB, "op-candidate").write_process(record)

    def gather(
        self,
        operation: str,
        *found: Finding,
        against: str = "r0001",
        look: Look = Look.DAMAGE,
        batch: int | None = None,
        release: str = "r0001",
        topics: dict[str, str] | None = None,
    ) -> None:
        """Store the evidence of the operation's standby, with equal manifests and these findings of one check;
        ``topics`` maps each Kafka topic to its id at that time.
        """
        instance = f"{operation}-candidate"
        self.record(InstancePlanned(operation=operation, instance=instance, release=release, role=Role.CANDIDATE))
        manifests = stored_manifests(self.installation, self.installation.journal(JOB, "test").state(), "r0001")
        queries = {
            query: QueryEvidence(
                deployed=each,
                candidate=each,
                checkpoint=str(self.directory),
                found={look: found},
                batch=batch,
                topics=topics or {},
            )
            for query, each in manifests.items()
        }
        Control(self.installation.store, JOB, instance).write_evidence(Evidence(against=against, queries=queries))

    def write_table(self, batch: int, *, version: str = "v0001", owner: str = f"{JOB}/{QUERY}") -> None:
        """Record in the table's own row that it contains this batch."""
        with sqlite3.connect(self.warehouse) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS streamkeeper_outputs"
                " (output TEXT PRIMARY KEY, owner TEXT, epoch BIGINT, version TEXT, batch_id BIGINT)"
            )
            connection.execute("CREATE TABLE IF NOT EXISTS totals (customer TEXT PRIMARY KEY)")
            row = ("totals", owner, 1, version, batch)
            connection.execute("INSERT OR REPLACE INTO streamkeeper_outputs VALUES (?, ?, ?, ?, ?)", row)

    def write_files(self, batch: int, *, version: str = "v0001") -> None:
        """Record in the sink log of the output files that they contain this batch."""
        continue_log(f"{self.output}/{version}", batch)
        claim = EpochFile(epoch=1, owner=f"{JOB}/{QUERY}", version="v0001", file_format="parquet")
        create_epoch(str(self.output), claim)

    def commit(self, batch: int) -> None:
        """Plan and commit one more batch."""
        self.tree.plan(batch)
        self.tree.commit(batch, snapshot=True)
        salt_state(self.directory)

    def take(self) -> str:
        """Back up the query and return the snapshot's name."""
        return back_up(self.installation.snapshots, query_target(self.installation, JOB, QUERY)).snapshot.name

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue of the query's snapshots."""
        return Catalogue(self.installation.snapshots, f"{JOB}/{QUERY}")

    @property
    def versions(self) -> list[str]:
        """The recorded checkpoint versions of the query."""
        return [each.version for each in self.installation.journal(JOB, "test").state().versions[QUERY]]


def _with_sink(manifest: Manifest, kind: str, output: str) -> Manifest:
    sink = SinkDescription(kind=kind, output=output, options={})
    return msgspec.structs.replace(manifest, query=QUERY, sink=sink)
