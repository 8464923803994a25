"""Builds an installation with one job that has everything that housekeeping removes, keeps or rebuilds, on files like
those of Spark.

``sales`` has one query, ``totals``: v0001 is retired, v0002 is current, and both have batches and snapshots. One of its
three drivers never claimed a checkpoint. All have ended; the end of the last one is not recorded.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from harness.checkpoint_files import Tree, salt_state
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.manifest import Manifest, Operator, SinkDescription, Source, StateColumn
from streamkeeper.model.manifests.release import Environment, Release, ReleaseContent
from streamkeeper.model.protocol.driver_messages import (
    DriverExit,
    DriverState,
    DriverStatus,
    ProcessRecord,
    QueryStatus,
)
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    EpochClaimed,
    InstanceAppointed,
    InstanceEnded,
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
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.objects import put_object
from streamkeeper.runners.machine import this_machine
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.table import TableSink

JOB, QUERY, RELEASE = "sales", "totals", "r0001"
SERIES = f"{JOB}/{QUERY}"
LAST_DRIVER = "third-candidate"
FORMAT = "hdfs"
KIND = "hdfs"


def warehouse(site: Path) -> str:
    """Return the URL of the database with the job's table."""
    return f"sqlite:///{site}/warehouse.db"


def build_house() -> None:
    """Create the installation that the environment describes, and the job's table beside its home."""
    installation = Installation.from_environment(os.environ)
    site = Path(installation.settings.home).parent
    house = _House(installation, site)
    house.register()
    house.serve("first", "v0001", epoch=1, batches=(4, 2, 2))
    house.fail("second")
    house.serve("third", "v0002", epoch=2, batches=(5, 3))


class _House:
    def __init__(self, installation: Installation, site: Path) -> None:
        self.installation, self.site = installation, site
        self.journal = installation.journal(JOB, "campaign")

    def _record(self, *records: Record) -> None:
        for record in records:
            self.journal.append(lambda _, each=record: each)  # type: ignore[misc]

    def register(self) -> None:
        """Record the release and its manifest."""
        manifest = _manifest(f"{warehouse(self.site)}#totals")
        digest = put_object(self.installation.store, JOB, "manifests", to_json(manifest), ".json")
        environment = Environment(python="3.11", spark="4.2.0", packages_sha256="p", jars_sha256="j", digest="d")
        content = ReleaseContent(
            bundle="b" * 64, bundle_bytes=1, entry="sales.py", params={}, conf={}, environment=environment,
            state_format=FORMAT,
        )  # fmt: skip
        self._record(
            ReleaseRegistered(release=Release(job=JOB, number=1, content=content)),
            ReleaseDescribed(release=RELEASE, manifests={QUERY: digest}),
        )

    def _begin(self, operation: str) -> str:
        instance = f"{operation}-candidate"
        self._record(
            OperationStarted(operation=operation, request=DeployRequest(job=JOB), steps=()),
            InstancePlanned(operation=operation, instance=instance, release=RELEASE, role=Role.CANDIDATE),
        )
        return instance

    def serve(self, operation: str, version: str, *, epoch: int, batches: tuple[int, ...]) -> None:
        """Write a checkpoint version as a driver would, in groups of the given numbers of batches, with a snapshot
        after each group.
        """
        before = self.journal.state().appointed
        instance = self._begin(operation)
        self._record(
            CheckpointVersionCreated(
                query=QUERY, version=version, release=RELEASE, origin="fresh", state_format=FORMAT,
                installation=self.installation.id,
            ),
            *([InstanceEnded(operation=operation, instance=before, proof="gone", exit="drained")] if before else []),
            InstanceAppointed(operation=operation, instance=instance),
            EpochClaimed(query=QUERY, output="t", epoch=epoch, instance=instance, generation=1, version=version),
            ReleasePromoted(operation=operation, release=RELEASE, instance=instance),
            OperationFinished(operation=operation, outcome=Outcome.SUCCEEDED, sentence="it serves"),
        )  # fmt: skip
        directory = Path(self.installation.settings.checkpoints) / JOB / QUERY / version
        first, *later = batches
        tree, done = Tree(directory, KIND, batches=first, snapshots=(first,)), first
        for count in (0, *later):
            for batch in range(done, done + count):
                tree.plan(batch)
                tree.commit(batch, snapshot=batch + 1 == done + count)
            done += count
            salt_state(directory)
            back_up(self.installation.snapshots, query_target(self.installation, JOB, QUERY))
        tree.plan(done)
        self._report(instance, version, epoch, done - 1)
        self._fence(version, epoch, done - 1)

    def fail(self, operation: str) -> None:
        """Record a driver that ended without claiming the checkpoint; its records remain."""
        instance = self._begin(operation)
        self._record(
            InstanceEnded(operation=operation, instance=instance, proof="gone", exit="failed"),
            OperationFinished(operation=operation, outcome=Outcome.FAILED, sentence="it failed"),
        )
        here, control = this_machine(), Control(self.installation.store, JOB, instance)
        for generation in (1, 2):
            control.write_process(
                ProcessRecord(
                    instance=instance, generation=generation, machine=here.text, host=here.host, pid=0, started=0
                )
            )
        control.write_status(
            DriverStatus(
                instance=instance, release=RELEASE, generation=2, state=DriverState.FAILED, beat=1, at=""
            )
        )  # fmt: skip
        control.write_exit(DriverExit(instance=instance, state=DriverState.FAILED, code=1))

    def _report(self, instance: str, version: str, epoch: int, committed: int) -> None:
        progress = QueryStatus(query=QUERY, version=version, epoch=epoch, committed=committed)
        status = DriverStatus(
            instance=instance, release=RELEASE, generation=1, state=DriverState.FAILED, beat=9, at="",
            queries={QUERY: progress},
        )  # fmt: skip
        Control(self.installation.store, JOB, instance).write_status(status)

    def _fence(self, version: str, epoch: int, batch: int) -> None:
        context = SinkContext(job=JOB, query=QUERY, version=version, epoch=epoch, installation=self.installation.id)
        TableSink(warehouse(self.site), table="totals", key=["k"]).open(context).raise_fence()
        with closing(sqlite3.connect(self.site / "warehouse.db")) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS totals (k TEXT PRIMARY KEY)")
            database.execute("UPDATE streamkeeper_outputs SET version = ?, batch_id = ?", (version, batch))


def _manifest(output: str) -> Manifest:
    """Return a manifest with one file source, one aggregation and a table."""
    plan = "~Aggregate [k#0], [k#0, sum(x#1L) AS s#2L]\n+- StreamingRelation FileSource, [k#0, x#1L]\nstructure 11"
    key, value = StateColumn(meaning="source 0.k", type="string"), StateColumn(meaning="sum(source 0.x)", type="long")
    source = Source(
        kind="file", location="/in", options={"format": "json"}, limits={}, schema="k string\nx bigint"
    )  # fmt: skip
    operator = Operator(
        kind="aggregate", keys=("k string",), expressions=("k string", "sum(x) AS s bigint"), upstream=plan,
        detail={"rows": "k string; x bigint"}, key_columns=(key,), values=(value,), shape=("source 0",), resolved=True,
    )  # fmt: skip
    return Manifest(
        query=QUERY, spark_version="4.2.0", sources=(source,), watermarks=(), operators=(operator,), plan=plan,
        output_schema="k string\ns bigint", output_mode="update", trigger="5 seconds",
        sink=SinkDescription(kind="table", output=output, options={"key": "k"}), confs={}, functions={},
        output_shape=("source 0", "group by (source 0.k)"),
    )  # fmt: skip
