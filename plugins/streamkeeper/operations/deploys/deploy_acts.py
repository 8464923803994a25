"""The actions of a deploy: each writes its record under a guard, so that a stale process has no effect."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.compatibility.output_columns import columns_that_may_differ
from streamkeeper.errors import InvalidInput, NotFound, OperationRefused, StoreUnavailable
from streamkeeper.lifecycle.actions import (
    Appoint,
    Assess,
    BackUp,
    CheckDrift,
    Decision,
    FallBack,
    Finish,
    GiveUpStarting,
    Kill,
    Launch,
    MarkBegun,
    MarkDone,
    Plan,
    Promote,
    RecordDescription,
    RecordEnd,
    RecordLastBatches,
    Register,
    RestoreVersions,
    Send,
    Shadow,
    TakeCutoverSnapshots,
    Wait,
)
from streamkeeper.lifecycle.fall_back import ways_back
from streamkeeper.lifecycle.right_to_answer import may_change_approvers
from streamkeeper.locations import scheme_of
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.release import Release
from streamkeeper.model.protocol.driver_messages import LOCAL, CommandKind, Gather, LaunchMode, LaunchSpec
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import (
    FallBackDecided,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    Outcome,
    Record,
    ReleaseDescribed,
    ReleasePromoted,
    StepBegun,
)
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.snapshot import Snapshot
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import (
    Bundled,
    CutoverSnapshots,
    LastBatches,
    StepResult,
    VersionsRestored,
    step_done,
)
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.requests.request import Rollback
from streamkeeper.model.runner_kinds.known_runners import runner_kind
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.model.settings.release_conf import MASTER, check_release_conf, own_threads, without_later_refusals
from streamkeeper.operations.deploys.approval import back_up_state, check_drift
from streamkeeper.operations.deploys.assessing import assess_candidate
from streamkeeper.operations.deploys.cutover_snapshots import take_cutover_snapshots
from streamkeeper.operations.deploys.deaths import give_up, make_unclaimable, release_resources
from streamkeeper.operations.deploys.failed_by import fault_of_operation
from streamkeeper.operations.deploys.interpreters import choose_interpreter
from streamkeeper.operations.deploys.release_registration import push_release
from streamkeeper.operations.deploys.replanning import must_not_hold
from streamkeeper.operations.deploys.version_acts import VersionActs
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.missing_input import must_still_be_there
from streamkeeper.operations.jobs.registered import (
    first_topics,
    is_served,
    live_checkpoints,
    offset_topics,
    output_histories,
    recorded_findings,
    stored_manifests,
)
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.environments import installed_jars
from streamkeeper.registry.executor_environments import find_archive
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.objects import put_object


class DeployActs:
    """The actions of one deploy, which carry out its decisions."""

    def __init__(self, installation: Installation, journal: Journal, job: str, operation: str) -> None:
        self._installation = installation
        self._journal = journal
        self._job = job
        self._operation = operation
        self._versions = VersionActs(installation, journal, job, operation)

    def carry_out(self, decision: Decision) -> None:
        """Carry out a decision. Raises PermanentError if this can never succeed, TemporaryError if it cannot succeed
        now.
        """
        match decision.action:
            case Register():
                self._register()
            case Plan(instance=instance, release=release, role=role):
                self._record(InstancePlanned(operation=self._operation, instance=instance, release=release, role=role))
            case Launch(instance=instance, mode=mode):
                self._launch(instance, mode)
            case GiveUpStarting(instance=instance):
                self._record_end(instance, give_up(self._installation, self._job, instance, decision.reason))
            case RecordDescription(instance=instance):
                self._record_description(instance)
            case Assess():
                self._assess()
            case Send(instance=instance, kind=kind):
                self._send(instance, kind)
            case Kill(instance=instance):
                self._installation.runner.kill(self._job, instance)
            case RecordEnd(instance=instance, proof=proof, exit=exit_, fault=fault, unclaimed=unclaimed):
                if not unclaimed or make_unclaimable(self._installation, self._job, instance):
                    self._record_end(instance, proof or "never started", exit_, fault)
            case Appoint(instance=instance, versions=versions):
                self._versions.appoint(instance, versions)
            case BackUp():
                self._done(decision.step, back_up_state(self._installation, self._journal.state(), self._current()))
            case CheckDrift():
                check_drift(self._installation, self._journal.state(), self._current())
                self._done(decision.step)
            case Shadow(instance=instance):
                self._versions.shadow(instance)
            case RestoreVersions():
                self._restore_versions(decision.step)
            case Promote(instance=instance):
                release = self._journal.state().instances[instance].release
                self._record(ReleasePromoted(operation=self._operation, release=release, instance=instance))
            case MarkBegun():
                self._record(StepBegun(operation=self._operation, step=decision.step.tag), forward=True)
            case MarkDone(result=result):
                self._done(decision.step, result)
            case RecordLastBatches():
                must_still_be_there(self._installation, self._journal.state(), self._current())
                self._done(decision.step, self._last_batches())
            case TakeCutoverSnapshots():
                self._done(decision.step, self._take_cutover_snapshots(self._current().last_batches))
            case FallBack(outcome_if_untouched=outcome):
                self._record(
                    FallBackDecided(operation=self._operation, reason=decision.reason, outcome_if_untouched=outcome)
                )
            case Finish(outcome=outcome):
                self._finish(outcome, decision.reason)
            case Wait():
                return
            case _:
                assert_never(decision.action)

    def _record_end(self, instance: str, proof: str, last: str = "", fault: str = "") -> None:
        """Record the proven end of an instance."""
        end = InstanceEnded(
            operation=self._operation, instance=instance, proof=proof, exit=last, stated_by="", fault=fault
        )
        self._record(end)
        release_resources(self._installation, self._job, instance)

    def _finish(self, outcome: Outcome, sentence: str) -> None:
        fault = fault_of_operation(self._installation, self._journal.state(), self._current(), outcome)
        self._record(OperationFinished(operation=self._operation, outcome=outcome, sentence=sentence, fault=fault))

    def _record(self, record: Record, *, forward: bool = False) -> JobState:
        """Append the record, unless the operation has ended or, with ``forward``, was given up."""

        def still_wanted(state: JobState) -> Record | None:
            current = state.operations[self._operation]
            if current.outcome is not None or (forward and current.fall_back):
                return None
            return record

        return self._journal.append(still_wanted)

    def _done(self, step: Step, result: StepResult | None = None) -> None:
        self._record(step_done(self._operation, step, result), forward=True)

    def _current(self) -> OperationState:
        operation = self._journal.state().operations.get(self._operation)
        if operation is None:
            raise unknown_operation(self._job, self._operation)
        return operation

    def _release(self) -> Release:
        return self._journal.state().releases[self._current().release]

    def _register(self) -> None:
        request = self._current().request
        self._check_checkpoint_root()
        back = isinstance(request.kind, Rollback)
        wanted = request.release or (release_before(self._journal.state()) if back else None)
        if wanted is None:
            params, confs = dict(request.params), dict(request.conf)
            name = push_release(self._installation, self._job, params=params, conf=confs).name
        elif wanted in self._journal.state().releases:
            name = wanted
            # An earlier version may have accepted confs that are refused now; the release keeps its own confs.
            conf = self._journal.state().releases[name].content.conf
            check_release_conf(without_later_refusals(conf), allowed=conf)
        else:
            raise NotFound(
                f"job {self._job} has no release {wanted}", hint=f"run `streamkeeper release list {self._job}`"
            )
        may_change_approvers(self._installation.settings, self._journal.state(), request, name)
        self._done(Step.BUNDLE, Bundled(name))

    def _check_checkpoint_root(self) -> None:
        settings = self._installation.settings
        if scheme_of(settings.checkpoints) == "s3a":
            jars = installed_jars(settings.jars, settings.checkpoints)
            if not any(Path(jar).name.startswith("hadoop-aws") for jar in jars):
                hint = "run `make connectors` to fetch them, or set STREAMKEEPER_JARS to a directory that contains them"
                what = "checkpoints on S3 need the s3a jars, and hadoop-aws is not among the installed jars"
                raise InvalidInput(what, hint=hint)
        try:
            self._installation.checkpoints.must_take_files()
        except (InvalidInput, StoreUnavailable) as error:
            hint = error.hint or "set STREAMKEEPER_CHECKPOINTS"
            raise InvalidInput(f"checkpoint root {error.message}", hint=hint) from error

    def _launch(self, instance: str, mode: LaunchMode) -> None:
        state = self._journal.state()
        release = state.releases[state.instances[instance].release]
        content = release.content
        settings, kept_here = self._installation.settings, self._lies_here(state)
        # Remote executors, or a driver on another node, would write the state of such a version to their own disks.
        conf = {
            **({MASTER: own_threads(content.conf)} if kept_here and settings.master else {}),
            **content.conf,
        }
        spec = LaunchSpec(
            instance=instance,
            job=self._job,
            release=release.name,
            mode=mode,
            bundle=content.bundle,
            entry=content.entry,
            params=content.params,
            conf=conf,
            checkpoints=self._installation.settings.checkpoints,
            rehearse_on=live_checkpoints(self._installation, state),
            expected_manifests=state.described.get(release.name, {}),
            installation=self._installation.id,
            gather=self._gather(state),
            python=choose_interpreter(self._installation.store, state, release),
            archive="" if MASTER in conf else find_archive(settings, content.environment.archive),
            runner=LOCAL if kept_here else settings.drivers,
        )
        secrets = resolve(find_references(content.params, content.conf), self._installation.resolvers)
        self._installation.runner.launch(spec, secrets)

    def _lies_here(self, state: JobState) -> bool:
        """Whether a driver must run on this machine only: the job has a checkpoint version in a local directory,
        although drivers or their executors would otherwise run on other machines.
        """
        settings = self._installation.settings
        if not settings.master and not runner_kind(settings.drivers).on_nodes:
            return False
        versions = [version for query in state.versions.values() for version in query]
        places = [self._installation.checkpoint(state, version.query, version.version) for version in versions]
        return any(isinstance(place, LocalTree) and not place.absence() for place in places)

    def _gather(self, state: JobState) -> Gather | None:
        """Return the evidence to gather and its baseline, before the assessment and after an approval; else None."""
        operation = state.operations[self._operation]
        approved = operation.has_done(Step.APPROVE) and not operation.has_done(Step.READY)
        if operation.fall_back or (operation.verdict is not None and not approved):
            return None
        serving = state.serving_release
        return Gather(
            release=serving,
            deployed=state.described[serving] if serving else {},
            record=recorded_findings(self._installation, state),
            served=is_served(self._installation, state),
            histories=output_histories(state),
            topics=offset_topics(state),
            first_topics=first_topics(state),
        )

    def _record_description(self, instance: str) -> None:
        manifests = Control(self._installation.store, self._job, instance).read_manifests() or {}
        hashes = {
            query: put_object(self._installation.store, self._job, "manifests", to_json(manifest), ".json")
            for query, manifest in manifests.items()
        }
        self._record(ReleaseDescribed(release=self._release().name, manifests=hashes))

    def _assess(self) -> None:
        self._record(assess_candidate(self._installation, self._journal.state(), self._current(), self._release().name))

    def _send(self, instance: str, kind: CommandKind) -> None:
        versions: dict[str, str] = {}
        may_differ: dict[str, tuple[str, ...]] = {}
        losses: dict[str, int] = {}
        others: dict[str, dict[str, str]] = {}
        state = self._journal.state()
        if kind is CommandKind.GO:
            queries = state.described[state.instances[instance].release]
            current = {query: state.current_version(query) for query in queries}
            versions = {query: version.version for query, version in current.items() if version is not None}
            lacks = {query: way.output_lacks for query, way in self._current().transitions.items()}
            losses = {query: batch for query, batch in lacks.items() if batch is not None}
            others = {
                query: way.approved_topics for query, way in self._current().transitions.items() if way.other_topics
            }
        elif kind is CommandKind.SHADOW:
            versions = {query: way.version for query, way in self._current().rebuilt.items()}
        elif kind is CommandKind.COMPARE:
            may_differ = self._may_differ(state)
        control = Control(self._installation.store, self._job, instance)
        control.send(kind, self._operation, versions, may_differ=may_differ, output_losses=losses, other_topics=others)
        self._installation.runner.notify(self._job, instance)

    def _may_differ(self, state: JobState) -> dict[str, tuple[str, ...]]:
        """Return query -> columns in which its rebuilt output may differ from the current output."""
        old = stored_manifests(self._installation, state, state.serving_release) if state.serving_release else {}
        new = stored_manifests(self._installation, state, self._release().name)
        declared = self._current().request.expect_different
        rebuilt = self._current().rebuilt
        return {query: columns_that_may_differ(query, old.get(query), new[query], declared) for query in rebuilt}

    def _last_batches(self) -> LastBatches:
        """Return query -> the last committed batch of the release whose driver terminated.

        Damaged checkpoints that a recovery leaves behind are omitted, so that no snapshot of them is taken.
        """
        found, recover = live_checkpoints(self._installation, self._journal.state()), self._current().request.recovery
        left = {*recover.snapshots, *recover.rebuilt} if recover is not None else set()
        found = {query: directory for query, directory in found.items() if query not in left}
        batches = {query: last_committed(tree_at(directory)) for query, directory in found.items()}
        return LastBatches({query: batch for query, batch in batches.items() if batch is not None})

    def _take_cutover_snapshots(self, batches: dict[str, int]) -> CutoverSnapshots:
        return take_cutover_snapshots(self._installation, self._job, self._operation, batches)

    def _restore_versions(self, step: Step) -> None:
        """Restore the versions of transitions that need it, or for a rollback the last batch before the cutover."""
        operation = self._current()
        made: dict[str, str] = {}
        if step is Step.RESTORE:
            if operation.request.recovery is not None:
                must_not_hold(self._installation, self._journal.state(), operation.request.recovery.replans)
            for query, way in operation.transitions.items():
                if way.way is Transition.RESTORE:
                    snapshot = self._versions.snapshot_named(query, way.snapshot)
                    self._versions.restore(query, way.version, snapshot, self._versions.parent_of(query, snapshot))
                    made[query] = way.version
        else:
            for query, way in ways_back(operation).items():
                made[query] = self._versions.version_for_fall_back(query, way)
                self._versions.restore(query, made[query], self._cutover_snapshot(query), way.before)
        self._record(step_done(self._operation, step, VersionsRestored(made)))

    def _cutover_snapshot(self, query: str) -> Snapshot:
        """Return the cutover snapshot of a query; if it was not taken yet, take it now of the same batch."""
        operation = self._current()
        snapshots = operation.cutover_snapshots
        if query not in snapshots.taken:
            last = operation.last_batches.get(query)
            if last is None:
                raise OperationRefused(
                    f"the last batch of {query} before the cutover is unknown, and no snapshot has it"
                )
            snapshots = self._take_cutover_snapshots({query: last})
        if query in snapshots.failed:
            raise OperationRefused(
                f"no snapshot of the last batch of {query} could be taken: {snapshots.failed[query]}"
            )
        return self._versions.snapshot_named(query, snapshots.taken[query])


def release_before(state: JobState) -> str:
    """Return the release that was current immediately before the present one; raises OperationRefused if no release
    was.
    """
    before = [release for release in state.served if release != state.serving_release]
    if not before:
        raise OperationRefused(f"no release was current before {state.serving_release or 'now'}")
    return before[-1]


def unknown_operation(job: str, operation: str) -> NotFound:
    """Return the error for an operation that the journal does not record, perhaps because it is an older copy now."""
    return NotFound(f"job {job} has no operation {operation}", hint=f"run `streamkeeper history {job}`")
