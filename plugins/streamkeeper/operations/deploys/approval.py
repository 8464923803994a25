"""Approvals of opaque changes: the state is kept before a person is asked, and later changes void the approval."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.layout import last_committed, query_id
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import OperationRefused
from streamkeeper.lifecycle.approval_steps import answer_about
from streamkeeper.lifecycle.right_to_answer import RightToAnswer, right_to_answer
from streamkeeper.lifecycle.steps import current_step, path
from streamkeeper.model.manifests.finding import Assessment, Severity
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import About, ApprovalAnswered, Record
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.snapshot import Snapshot, series_of_query, snapshot_number
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import StateKept
from streamkeeper.model.settings.approvers import NOBODY
from streamkeeper.operations.backups.backup import back_up, hold_for
from streamkeeper.operations.backups.exporting import export_state
from streamkeeper.operations.deploys.assessing import evidence_of, judge
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import find_version_loss, stored_manifests
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.registry.objects import read_assessment
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.sources.contract import recreated
from streamkeeper.system.crash_points import crash_point

_AGAIN = "deploy again, and answer the new question"
_WHAT = {About.STATE: "the state", About.OUTPUT: "the rebuilt output"}


def back_up_state(installation: Installation, state: JobState, operation: OperationState) -> StateKept:
    """For every query that resumes with an opaque change, take a snapshot with a hold, and export the query's state.
    Idempotent."""
    # If the journal was lost, the current release is not recorded: the candidate's manifests name the state.
    described = state.serving_release or operation.release
    manifests = stored_manifests(installation, state, described)
    kept: dict[str, str] = {}
    for query, way in sorted(operation.transitions.items()):
        if not way.opaque or not way.before or _has_no_batch(installation, state, query, way.before):
            # A query that starts has no state yet, nor has a version that no driver has started.
            continue
        hold = hold_for(operation.operation, f"the state before {operation.release}")
        snapshot = back_up(installation.snapshots, query_target(installation, state.job, query), hold=hold).snapshot
        crash_point("backup.export.before")
        # The current release may lack a query that an older one had, and that continues in its version.
        manifest = manifests.get(query) or stored_manifests(installation, state, operation.release)[query]
        if manifest.operators:
            _export(installation, snapshot)
        crash_point("backup.export.after")
        kept[query] = snapshot.name
    return StateKept(kept)


def _has_no_batch(installation: Installation, state: JobState, query: str, version: str) -> bool:
    """Whether a version has committed no batch, according to both its records and its files."""
    if find_version_loss(installation, state, query, version):
        return False
    return last_committed(installation.checkpoint(state, query, version)) is None


def export_prefix(snapshot: Snapshot) -> str:
    """Return the key prefix of a snapshot's exported state: ``exports/<series>/<snapshot>/``."""
    return f"exports/{snapshot.series}/{snapshot.name}/"


def answer_approval(
    installation: Installation,
    job: str,
    operation: str,
    *,
    approved: bool,
    by: str,
    reason: str,
    user_id: str = "",
    bundle: str = "",
    about: About | None = None,
) -> ApprovalAnswered:
    """Record a person's answer and return it.

    ``installation``, ``job`` and ``operation``: the operation that asks; ``approved``: yes or no; ``by`` and
    ``reason``: the person who answers, and why; ``user_id``: the person's id in Airflow, empty outside Airflow;
    ``bundle``: the sha256 that the person has seen, empty if not named; ``about``: the subject of the question, None if
    not named.

    Raises OperationRefused if no question is open, the person may not answer, the question already has the opposite
    answer or is about another bundle, or the answer does not name which of two questions it is about.
    """
    answer = _Given(approved=approved, by=by, reason=reason, bundle=bundle, about=about, user_id=user_id)
    return _record(installation, job, operation, answer)


def decline_for_silence(
    installation: Installation, job: str, operation: str, *, reason: str, bundle: str = "", about: About | None = None
) -> ApprovalAnswered:
    """Record that no answer arrived in time. Any caller may record this; raises the errors of ``answer_approval``.

    ``installation``, ``job`` and ``operation``: the operation that asked; ``reason``: why, for the record; ``bundle``:
    the sha256 that the question was about, empty if not named; ``about``: the question's subject, None if not named.
    """
    answer = _Given(approved=False, by=NOBODY, reason=reason, bundle=bundle, about=about, silence=True)
    return _record(installation, job, operation, answer)


def right_of(installation: Installation, state: JobState, operation: OperationState) -> RightToAnswer:
    """Return the rule for who may answer the operation's question."""
    return right_to_answer(installation.settings, state, operation.request.requested_by)


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose validity is not checked yet."""

    approved: bool
    """Yes or no."""
    by: str
    """Who answers."""
    reason: str
    """Why."""
    bundle: str
    """The sha256 of the bundle that this person has seen; empty if not named."""
    about: About | None
    """The subject of the question; None if not named."""
    user_id: str = ""
    """This person's id in Airflow; empty outside Airflow."""
    silence: bool = False
    """Whether this records a missing answer, which needs no right."""


def _record(installation: Installation, job: str, operation: str, answer: _Given) -> ApprovalAnswered:
    about, bundle = answer.about, answer.bundle

    def decide(state: JobState) -> Record | None:
        asked_in = state.operations.get(operation)
        asked = asked_about(asked_in) if asked_in is not None else None
        if asked_in is None or asked is None:
            raise OperationRefused(f"operation {operation} of job {job} does not wait for an approval")
        if about is not None and about is not asked:
            raise OperationRefused(
                f"operation {operation} needs an answer about {_WHAT[asked]}, not about {_WHAT[about]}"
            )
        if about is None and asked is About.OUTPUT and asked_in.approval is not None:
            # A repeated or late answer was given without seeing the current question.
            raise OperationRefused(
                f"operation {operation} already has an answer about {_WHAT[About.STATE]}, and now needs one about"
                f" {_WHAT[asked]}",
                hint=f"run `streamkeeper question {job} {operation}`, then answer with `--about {asked.value}`",
            )
        objection = (
            "" if answer.silence else right_of(installation, state, asked_in).objection(answer.by, answer.user_id)
        )
        if objection:
            raise OperationRefused(
                f"the answer to operation {operation} of job {job} does not count: {objection}",
                hint=f"run `streamkeeper question {job} {operation}` to see who may answer",
            )
        before = answer_about(asked_in, asked)
        if before is not None:
            if before.approved == answer.approved:
                return None
            said = "approved" if before.approved else "declined"
            raise OperationRefused(f"operation {operation} was already {said} by {before.by}")
        content = state.releases[asked_in.release].content
        if bundle and bundle != content.bundle:
            raise OperationRefused(
                f"operation {operation} is about the bundle {content.bundle[:12]}, not {bundle[:12]}",
                hint=f"run `streamkeeper question {job} {operation}` to see the question about bundle"
                f" {content.bundle[:12]}",
            )
        return ApprovalAnswered(
            operation=operation,
            approved=answer.approved,
            by=answer.by,
            reason=answer.reason,
            bundle=content.bundle,
            batches=_batches(installation, job, asked_in, asked),
            about=asked,
        )

    opened = installation.journal(job, f"approval:{answer.by}").append(decide).operations[operation]
    answered = answer_about(opened, asked_about(opened) or About.STATE)
    assert answered is not None
    return answered


def asked_about(operation: OperationState) -> About | None:
    """Return the subject of the newest question of an operation.

    None if the operation has asked no question, has ended, or has given up its candidate.
    """
    if operation.outcome is not None or operation.fall_back:
        return None
    if current_step(operation) is Step.REVIEW or operation.review is not None:
        return About.OUTPUT
    asks = Step.APPROVE in path(operation) and operation.has_done(Step.KEEP_STATE)
    return About.STATE if asks else None


def _batches(installation: Installation, job: str, operation: OperationState, about: About) -> dict[str, str]:
    """Return query -> the batch that the question was about: the batch of the snapshot, or of the rebuilt output."""
    if about is About.STATE:
        return {query: str(snapshot.batch) for query, snapshot in _snapshots(installation, job, operation).items()}
    return {
        query: str(comparison.new_batch)
        for query, comparison in operation.compared.items()
        if comparison.new_batch is not None
    }


def check_drift(installation: Installation, state: JobState, operation: OperationState) -> None:
    """Raise OperationRefused if the bundle, the checkpoint or the findings differ from the approved ones."""
    answer, release = operation.approval, operation.release
    if answer is None or answer.bundle != state.releases[release].content.bundle:
        raise OperationRefused("the approval is void: it was given for another bundle", hint=_AGAIN)
    for query, snapshot in _snapshots(installation, state.job, operation).items():
        current = state.current_version(query)
        if current is None or current.version != operation.transitions[query].before:
            raise OperationRefused(
                f"the approval is void: query {query} has a different checkpoint version now", hint=_AGAIN
            )
        tree = installation.checkpoint(state, query, current.version)
        committed = last_committed(tree)
        if committed is None or committed < int(answer.batches[query]) or query_id(tree) != snapshot.query_id:
            raise OperationRefused(
                f"the approval is void: the checkpoint of query {query} does not contain batch {answer.batches[query]}",
                hint=_AGAIN,
            )
    _same_findings(installation, state, operation, release)


def _same_findings(installation: Installation, state: JobState, operation: OperationState, release: str) -> None:
    """Raise OperationRefused if the evidence that was gathered after the approval contains new findings or topics."""
    approved = read_assessment(installation.store, state.job, operation.report)
    evidence = evidence_of(installation, state, operation.operation, release)
    for query, way in operation.transitions.items():
        found = evidence.queries.get(query)
        if others := recreated(way.approved_topics, found.topics if found is not None else {}):
            raise OperationRefused(
                f"the approval is void: topic {others[0]} was deleted and created again after the check of {query}",
                hint=_AGAIN,
            )
    now, _ = judge(evidence, operation.request)
    came = _causes(now) - _causes(approved)
    if came:
        raise OperationRefused(
            f"the approval is void: the check has new findings, {', '.join(sorted(came))}", hint=_AGAIN
        )


def _causes(assessment: Assessment) -> set[str]:
    return {
        f"{finding.rule} ({query})"
        for query, judged in assessment.queries.items()
        for finding in judged.findings
        if finding.severity is not Severity.NOTE
    }


def _snapshots(installation: Installation, job: str, operation: OperationState) -> dict[str, Snapshot]:
    return {
        query: Catalogue(installation.snapshots, series_of_query(job, query)).read(snapshot_number(name))
        for query, name in operation.kept_state.items()
    }


def _export(installation: Installation, snapshot: Snapshot) -> None:
    """Write the snapshot's state as Parquet files into the store of the snapshots."""
    with tempfile.TemporaryDirectory(prefix="streamkeeper-export-") as scratch:
        checkpoint, target = Path(scratch) / "checkpoint", Path(scratch) / "state"
        restore(Catalogue(installation.snapshots, snapshot.series), snapshot, LocalTree(checkpoint, lasting=False))
        export_state(checkpoint, target, batch=snapshot.batch)
        for file in sorted(path for path in target.rglob("*") if path.is_file()):
            key = export_prefix(snapshot) + file.relative_to(target).as_posix()
            installation.snapshots.replace(key, file.read_bytes())
