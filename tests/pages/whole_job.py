"""Provides a job with everything that its page can show, in a separate installation without a driver process.

``r0001`` ran in ``v0001`` and was stopped and restarted by ``op1``; ``op2`` replaced it with ``r0002`` by a handoff to
``v0002``. Every text that a user can write may be set to ``MARKUP``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Verdict
from streamkeeper.model.manifests.finding import Severity as Asks
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus, QueryStatus
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.signals import History, HistoryPoint, QuerySignals, SourceSignals
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import (
    Assessed,
    CheckpointVersionCreated,
    DesiredChanged,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
    StepBegun,
    StepDone,
)
from streamkeeper.model.records.snapshot import DrillResult
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest, StartCurrent
from streamkeeper.model.watch.fleet_index import JobMemory, JobRow
from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.incident import JobIncidents, OpenIncident
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.jobs.carriers import Carrier, note_carrier
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.objects import put_object
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.pages.asking import leave_index

OPERATION, DRIVER = "op2", "op2-candidate"
MARKUP = "<img src=x onerror=alert(1)>"
REFERENCE = "secret://env/STREAMKEEPER_SECRET_WAREHOUSE"
LITERAL = "hunter2hunter2"
"""A secret that stands as a literal param in place of a reference."""
AT = 1_800_000_000.0
RUN = "manual__2026-11-25T11:03:12+00:00"
ASKING = {"state": "backup.approve", "output": "dual_run.review"}
DAY = "2026-11-24"


class WholeJob(Registered):
    """A job with all data of its page; ``text`` is what every user-written field contains."""

    def __init__(self, root: Path, *, text: str = "a word") -> None:
        super().__init__(root, sink="file")
        self.text = text
        params: dict[str, ParamValue] = {"warehouse": REFERENCE, "password": LITERAL, "input": f"/in/{text}"}
        self.give_code("r0001", f"RATE = 1\nPASSWORD = {LITERAL!r}\n", params)
        self.give_code("r0002", f"RATE = 2  # {text}\n", params)
        self.snapshot = self.keep()
        manifest = stored_manifests(self.installation, self.state, "r0001")[QUERY]
        self.deploy(replace(manifest, plan=f"~Filter ({text} = {LITERAL})\n{manifest.plan}"))
        self.serve()
        self.write_log(f"an error: {text} by {LITERAL}")
        note_carrier(self.installation.store, JOB, OPERATION, Carrier(dag="streaming_deploy", run=RUN, asking=ASKING))
        self.leave_index()

    @property
    def state(self) -> JobState:
        """The state that its journal adds up to."""
        return self.installation.journal(JOB, "test").state()

    def give_code(self, release: str, code: str, params: dict[str, ParamValue]) -> None:
        """Register a release of this code; its other fields are those of ``r0001``."""
        root = Path(self.installation.settings.jobs)
        root.mkdir(exist_ok=True)
        (root / f"{JOB}.py").write_text(code)
        bundle = build_bundle(root, JOB)
        put_object(self.installation.store, JOB, "bundles", bundle.data, ".zip")
        before = self.state.releases["r0001"]
        content = replace(
            before.content, bundle=bundle.sha256, entry=bundle.entry, params=params, conf={"spark.app.token": LITERAL}
        )
        self.record(ReleaseRegistered(release=replace(before, number=int(release[1:]), content=content)))

    def deploy(self, manifest: Manifest) -> None:
        """Record the journal entries of ``op1`` and ``op2``."""
        way = QueryTransition(way=Transition.HANDOFF, before="v0001", version="v0002", back=Transition.RETURN)
        finding = Finding(
            rule="grouping-keys-changed", severity=Asks.BREAKING, where=self.text, evidence=f"{self.text} -> b",
            hint=self.text, effect=self.text, line="sales.py:7",
        )  # fmt: skip
        judged = QueryAssessment(verdict=Verdict.SWITCH, findings=(finding,))
        report = to_json(Assessment(verdict=Verdict.SWITCH, queries={QUERY: judged}))
        request = DeployRequest(job=JOB, reason=self.text, requested_by=self.text)
        version = CheckpointVersionCreated(
            query=QUERY, version="v0002", release="r0002", origin=f"handoff, {self.text}", state_format="f",
            parent="v0001", parent_batch=8, serves=False, operation=OPERATION,
        )  # fmt: skip
        digest = put_object(self.installation.store, JOB, "manifests", to_json(manifest), ".json")
        first = DeployRequest(job=JOB, release="r0001", reason="all done", requested_by="cli:bob")
        first = first.of_kind(StartCurrent())
        for record in (
            DesiredChanged(serve=False, requested_by="cli:bob", reason=self.text, operation="stop1"),
            DesiredChanged(serve=True, requested_by="cli:bob", reason="all done", operation="op1"),
            OperationStarted(operation="op1", request=first, steps=("bundle",)),
            StepDone(operation="op1", step="bundle", result={"release": "r0001"}),
            OperationFinished(operation="op1", outcome=Outcome.SUCCEEDED, sentence="r0001 serves again"),
            OperationStarted(operation=OPERATION, request=request, steps=("bundle", "drain")),
            StepDone(operation=OPERATION, step="bundle", result={"release": "r0002"}),
            InstancePlanned(operation=OPERATION, instance=DRIVER, release="r0002", role=Role.CANDIDATE),
            ReleaseDescribed(release="r0002", manifests={QUERY: digest}),
            Assessed(
                operation=OPERATION, verdict=Verdict.SWITCH, reverse=Verdict.SWITCH, sentence=f"SWITCH: {self.text}",
                report=put_object(self.installation.store, JOB, "reports", report, ".json"), transitions={QUERY: way},
            ),
            version,
            StepBegun(operation=OPERATION, step="drain"),
            InstanceEnded(operation=OPERATION, instance="op-candidate", proof=self.text, exit="drained"),
            InstanceAppointed(operation=OPERATION, instance=DRIVER, versions={QUERY: "v0002"}),
            StepDone(operation=OPERATION, step="first-commit"),
            ReleasePromoted(operation=OPERATION, release="r0002", instance=DRIVER),
            OperationFinished(operation=OPERATION, outcome=Outcome.SUCCEEDED, sentence=f"r0002 serves: {self.text}"),
        ):  # fmt: skip
            self.record(record)

    def serve(self) -> None:
        """Write the driver's last status, its measurements and its manifests."""
        source = SourceSignals(source="FileStreamSource[/in]", lag_files=3, lag_s=90.0)
        signals = QuerySignals(
            batch=4, batch_s=2.0, usual_batch_s=1.5, trigger_s=5.0, input_rows_per_s=1200.0,
            processed_rows_per_s=3000.0, sources=(source,), checkpoint_write_s=0.5, state_rows=77,
            state_memory_bytes=2**21, last_trigger=AT, last_commit=AT,
        )  # fmt: skip
        query = QueryStatus(
            query=QUERY, version="v0002", epoch=2, triggers=9, committed=4, state_rows=77, signals=signals,
            offsets=('{"logOffset":7}',), error=f"{self.text} {LITERAL}",
        )  # fmt: skip
        control = Control(self.installation.store, JOB, DRIVER)
        status = DriverStatus(
            instance=DRIVER, release="r0002", generation=1, state=DriverState.SERVING, beat=9,
            at="2026-11-24T10:00:00Z", queries={QUERY: query}, error=f"{self.text} {LITERAL}",
        )  # fmt: skip
        control.write_status(status)
        self.runner.life = Life.ALIVE
        ring = [HistoryPoint(at=AT + 60 * each, slowest_batch_s=2.5, signals=signals) for each in range(3)]
        control.write_history(History(queries={QUERY: tuple(ring)}))
        control.write_manifests(stored_manifests(self.installation, self.state, "r0002"))

    def write_log(self, *lines: str) -> None:
        """Write the log of the current driver."""
        log = self.installation.settings.log(JOB, DRIVER)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(f"{line}\n" for line in lines))

    def keep(self) -> str:
        """Take a snapshot, record a successful drill of it, and return its name."""
        name = self.take()
        number = int(name[1:])
        self.catalogue.note_drill(number, DrillResult(id="d1", ok=True, message=self.text, at=f"{DAY}T10:00:00"))
        return name

    def leave_index(self, *others: JobRow) -> None:
        """Write the index that a pass of the watch would have left for this job and others."""
        symptom = Symptom(
            rule="lag-seconds", severity=Urgency.TICKET, job=JOB, query=QUERY, cause=f"{self.text} {LITERAL}",
            action=f"look at {self.text}", heading="A query falls behind",
        )  # fmt: skip
        open_one = OpenIncident(symptom=symptom, raised_at=AT - 600, told_at=AT, acts=(f"started it: {self.text}",))
        row = JobRow(
            job=JOB, standing=JobStatus.SERVING, release="r0002", instance=DRIVER, symptoms=(symptom,), seen_at=AT,
            restarts=2, restarts_lately=1, silent_s=4.0, unlooked={"checkpoint": self.text},
            memory=JobMemory(incidents=JobIncidents(job=JOB, number=1, open={symptom.key: open_one})),
        )  # fmt: skip
        leave_index(self.installation, row, *others, started=AT)


def another_job(job: WholeJob, name: str, location: str) -> JobRow:
    """Write the manifest of a further job that reads from the location, and return its row in the index."""
    source = {"kind": "file", "location": location, "options": {}, "limits": {}, "schema": "k string"}
    manifest = stored_manifests(job.installation, job.state, "r0001")[QUERY]
    given = msgspec.convert(source, type(manifest.sources[0]))
    Control(job.installation.store, name, "d").write_manifests(
        {"copy": replace(manifest, query="copy", sources=(given,))}
    )
    return JobRow(job=name, standing=JobStatus.SERVING, release="r0001", instance="d")
