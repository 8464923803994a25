"""The acts of a deploy: each records what it decides under a guard, so that a stale process changes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import assert_never

from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.compatibility.assess import assess
from streamkeeper.errors import InvalidInput, NotFound, OperationRefused
from streamkeeper.lifecycle.actions import (
    Appoint,
    Assess,
    Decision,
    FallBack,
    Finish,
    Kill,
    Launch,
    MarkBegun,
    MarkDone,
    Plan,
    Preserve,
    Promote,
    RecordDescription,
    RecordEnd,
    Register,
    Send,
    Wait,
)
from streamkeeper.lifecycle.steps import Step
from streamkeeper.model.coding import to_json
from streamkeeper.model.control import CommandKind, LaunchMode, LaunchSpec
from streamkeeper.model.finding import Assessment, Finding, Severity, Verdict
from streamkeeper.model.job_state import JobState, OperationState
from streamkeeper.model.journal import (
    Assessed,
    CheckpointVersionCreated,
    FallBackDecided,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    Record,
    ReleaseDescribed,
    ReleasePromoted,
    StepBegun,
    StepDone,
)
from streamkeeper.model.names import version_name
from streamkeeper.model.release import Release
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.operations.boundary import preserve_boundary
from streamkeeper.operations.registered import live_checkpoints, stored_manifests
from streamkeeper.operations.releases import push_release
from streamkeeper.operations.sites import Site
from streamkeeper.registry.control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.objects import put_object


class DeployActs:
    """Carries out decisions of one deploy."""

    def __init__(self, site: Site, journal: Journal, job: str, operation: str) -> None:
        self._site = site
        self._journal = journal
        self._job = job
        self._operation = operation

    def carry_out(self, decision: Decision) -> None:
        """Do what was decided; raises PermanentError when it can never be done, TemporaryError when not now."""
        match decision.action:
            case Register():
                self._register()
            case Plan(instance=instance, release=release, role=role):
                self._record(InstancePlanned(operation=self._operation, instance=instance, release=release, role=role))
            case Launch(instance=instance, mode=mode):
                self._launch(instance, mode)
            case RecordDescription(instance=instance):
                self._record_description(instance)
            case Assess():
                self._assess()
            case Send(instance=instance, kind=kind):
                self._send(instance, kind)
            case Kill(instance=instance):
                self._site.runner.kill(self._job, instance)
            case RecordEnd(instance=instance, proof=proof, exit=exit_):
                self._record(
                    InstanceEnded(
                        operation=self._operation, instance=instance, proof=proof or "never started", exit=exit_
                    )
                )
            case Appoint(instance=instance):
                self._appoint(instance)
            case Promote(instance=instance):
                release = self._journal.state().instances[instance].release
                self._record(ReleasePromoted(operation=self._operation, release=release, instance=instance))
            case MarkBegun():
                self._record(StepBegun(operation=self._operation, step=decision.step.label), forward=True)
            case MarkDone():
                done = self._boundary() if decision.step is Step.PROVE_DEAD else {}
                self._record(StepDone(operation=self._operation, step=decision.step.label, result=done), forward=True)
            case Preserve():
                self._preserve(decision.step)
            case FallBack(untouched=untouched):
                self._record(FallBackDecided(operation=self._operation, reason=decision.reason, untouched=untouched))
            case Finish(outcome=outcome):
                self._record(OperationFinished(operation=self._operation, outcome=outcome, sentence=decision.reason))
            case Wait():
                return
            case _:
                assert_never(decision.action)

    def _record(self, record: Record, *, forward: bool = False) -> JobState:
        """Append unless the operation is over; ``forward`` records give way to a fall-back decided meanwhile."""

        def still_wanted(state: JobState) -> Record | None:
            current = state.operations[self._operation]
            if current.outcome is not None or (forward and current.fall_back):
                return None
            return record

        return self._journal.append(still_wanted)

    def _current(self) -> OperationState:
        return self._journal.state().operations[self._operation]

    def _release(self) -> Release:
        state = self._journal.state()
        return state.releases[state.operations[self._operation].done[Step.BUNDLE.label]["release"]]

    def _register(self) -> None:
        request = self._current().request
        self._check_checkpoint_root()
        if request.release is None:
            name = push_release(self._site, self._job, params=dict(request.params), conf=dict(request.conf)).name
        elif request.release in self._journal.state().releases:
            name = request.release
            if request.params or request.conf:
                raise InvalidInput(
                    f"release {name} has its own params and conf", hint="push a new release to change them"
                )
        else:
            raise NotFound(
                f"job {self._job} has no release {request.release}", hint=f"see: streamkeeper release list {self._job}"
            )
        done = StepDone(operation=self._operation, step=Step.BUNDLE.label, result={"release": name})
        self._record(done, forward=True)

    def _check_checkpoint_root(self) -> None:
        root = Path(self._site.settings.checkpoints)
        try:
            root.mkdir(parents=True, exist_ok=True)
            probe = root / f".probe-{os.getpid()}"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise InvalidInput(
                f"checkpoint root {root} cannot be written: {error.strerror}", hint="set STREAMKEEPER_CHECKPOINTS"
            ) from error

    def _launch(self, instance: str, mode: LaunchMode) -> None:
        state = self._journal.state()
        release = state.releases[state.instances[instance].release]
        content = release.content
        spec = LaunchSpec(
            instance=instance,
            job=self._job,
            release=release.name,
            mode=mode,
            bundle=content.bundle,
            entry=content.entry,
            params=content.params,
            conf=content.conf,
            checkpoints=self._site.settings.checkpoints,
            rehearse_on={} if mode is LaunchMode.DESCRIBE else live_checkpoints(self._site, state),
            expected_manifests=state.described.get(release.name, {}),
        )
        secrets = resolve(find_references(content.params, content.conf), self._site.resolvers)
        self._site.runner.launch(spec, secrets)

    def _record_description(self, instance: str) -> None:
        manifests = Control(self._site.store, self._job, instance).read_manifests() or {}
        hashes = {
            query: put_object(self._site.store, self._job, "manifests", to_json(manifest), ".json")
            for query, manifest in manifests.items()
        }
        self._record(ReleaseDescribed(release=self._release().name, manifests=hashes))

    def _assess(self) -> None:
        state = self._journal.state()
        release, serving = self._release().name, state.serving_release
        candidate = stored_manifests(self._site, state, release)
        deployed = stored_manifests(self._site, state, serving) if serving else None
        forward = assess(deployed, candidate, self._observed(release))
        backward = assess(candidate, deployed) if deployed is not None else forward
        report = put_object(self._site.store, self._job, "reports", to_json(forward), ".json")
        self._record(
            Assessed(
                operation=self._operation,
                verdict=forward.verdict,
                reverse=backward.verdict,
                sentence=_sentence(forward, serving, release),
                report=report,
            )
        )

    def _observed(self, release: str) -> dict[str, tuple[Finding, ...]]:
        """What the standby's rehearsal found, of the instance that was launched for this operation last."""
        mine = [
            each
            for each in self._journal.state().instances.values()
            if each.operation == self._operation and each.release == release
        ]
        status = Control(self._site.store, self._job, mine[-1].instance).read_status() if mine else None
        return status.observed if status is not None else {}

    def _send(self, instance: str, kind: CommandKind) -> None:
        versions: dict[str, str] = {}
        state = self._journal.state()
        if kind is CommandKind.GO:
            queries = state.described[state.instances[instance].release]
            current = {query: state.current_version(query) for query in queries}
            versions = {query: each.version for query, each in current.items() if each is not None}
        Control(self._site.store, self._job, instance).send(kind, self._operation, versions)
        self._site.runner.nudge(self._job, instance)

    def _boundary(self) -> dict[str, str]:
        """Query -> its last committed batch: where the release that ended has left it."""
        found = live_checkpoints(self._site, self._journal.state())
        batches = {query: last_committed(Path(directory)) for query, directory in found.items()}
        return {query: str(batch) for query, batch in batches.items() if batch is not None}

    def _preserve(self, step: Step) -> None:
        batches = {query: int(batch) for query, batch in self._current().done[Step.PROVE_DEAD.label].items()}
        told = preserve_boundary(self._site, self._job, self._operation, batches)
        self._record(StepDone(operation=self._operation, step=step.label, result=told), forward=True)

    def _appoint(self, instance: str) -> None:
        state = self._journal.state()
        release = state.releases[state.instances[instance].release]
        for query in state.described[release.name]:
            self._create_version(query, release)

        def only_heir(now: JobState) -> Record | None:
            operation = now.operations[self._operation]
            if operation.outcome is not None or now.appointed == instance:
                return None
            others = [each.instance for each in now.owners if each.instance != instance]
            if others:
                raise OperationRefused(f"{', '.join(others)} not proven dead: {instance} is not appointed")
            return InstanceAppointed(operation=self._operation, instance=instance)

        self._journal.append(only_heir)

    def _create_version(self, query: str, release: Release) -> None:
        def missing(state: JobState) -> Record | None:
            if state.versions.get(query) or state.operations[self._operation].outcome is not None:
                return None
            return CheckpointVersionCreated(
                query=query,
                version=version_name(1),
                release=release.name,
                origin="fresh",
                state_format=release.content.state_format,
            )

        self._journal.append(missing)


def _sentence(assessment: Assessment, serving: str, release: str) -> str:
    """One line that says the verdict and its causes."""
    if not serving:
        return f"{release} is the first release: it starts in a new checkpoint version"
    if assessment.verdict is Verdict.RESUME:
        return f"RESUME: {release} takes over the checkpoint of {serving}"
    causes = [
        f"{query}: {finding.rule} ({finding.evidence})"
        for query, each in assessment.queries.items()
        for finding in each.findings
        if finding.severity is not Severity.NOTE
    ]
    return f"{assessment.verdict.name}: {'; '.join(causes)}; only RESUME can be carried out"
