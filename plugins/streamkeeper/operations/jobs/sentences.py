"""A journal's records as sentences for people."""

from __future__ import annotations

from typing import assert_never

from streamkeeper.lifecycle.steps import told_inherited
from streamkeeper.model.records.journal_records import (
    AbortRequested,
    ApprovalAnswered,
    Assessed,
    CheckpointVersionCreated,
    DesiredChanged,
    EpochClaimed,
    FallBackDecided,
    HandedOff,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    JobForgotten,
    OperationFinished,
    OperationStarted,
    Record,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    ShadowAppointed,
    StartOffsetsKnown,
    StepBegun,
    StepDone,
)
from streamkeeper.model.records.rebuilt import JobRebuilt
from streamkeeper.model.records.step import label_of
from streamkeeper.model.requests.diagnosis import Recovery
from streamkeeper.model.requests.request import Deployment, DeployRequest, Rollback, StartCurrent


def render_record(record: Record) -> str:
    """Return one line for a record."""
    match record:
        case OperationStarted() | StepBegun() | StepDone() | Assessed() | ApprovalAnswered():
            return _render_progress(record)
        case FallBackDecided() | AbortRequested() | OperationFinished():
            return _render_end(record)
        case DesiredChanged(serve=serve, requested_by=who, reason=reason):
            wanted = "start" if serve else "stop"
            return f"{wanted} requested by {who or 'an unknown user'}" + (f": {reason}" if reason else "")
        case JobForgotten(requested_by=who, reason=reason):
            return f"forgotten by {who or 'an unknown user'}" + (f": {reason}" if reason else "")
        case JobRebuilt(queries=queries):
            versions_text = ", ".join(f"{query} in {of.version}" for query, of in sorted(queries.items()) if of.version)
            lost = "".join(f"; {what}" for what in record.lost)
            return f"{record.sentence}: {versions_text}; epochs from {record.epoch + 1} on; {record.proof}{lost}"
        case ReleaseRegistered() | ReleaseDescribed() | ReleasePromoted():
            return _render_release(record)
        case InstancePlanned() | InstanceAppointed() | ShadowAppointed() | InstanceEnded() | EpochClaimed():
            return _render_instance(record)
        case CheckpointVersionCreated() | StartOffsetsKnown() | HandedOff():
            return _render_version(record)
        case _:
            assert_never(record)


def _render_instance(
    record: InstancePlanned | InstanceAppointed | ShadowAppointed | InstanceEnded | EpochClaimed,
) -> str:
    match record:
        case InstancePlanned(instance=instance, release=release, role=role):
            return f"{instance} is planned as {role.value} for {release}"
        case InstanceAppointed(instance=instance, versions=versions):
            versions_text = ", ".join(f"{query} in {version}" for query, version in sorted(versions.items()))
            return f"only {instance} may claim epochs from now on" + (f": {versions_text}" if versions_text else "")
        case ShadowAppointed(instance=instance):
            return f"{instance} may fill new checkpoint versions, hidden from readers"
        case InstanceEnded(instance=instance, proof=proof, exit=exit):
            return f"{instance} has terminated ({exit}): {proof}"
        case EpochClaimed(query=query, epoch=epoch, instance=instance, version=version):
            return f"{instance} claimed epoch {epoch} of query {query}, checkpoint version {version}"
        case _:
            assert_never(record)


def _render_version(record: CheckpointVersionCreated | StartOffsetsKnown | HandedOff) -> str:
    match record:
        case CheckpointVersionCreated(query=query, version=version, release=release, origin=origin):
            return f"query {query} has checkpoint version {version} for {release}, {origin}"
        case StartOffsetsKnown(query=query, version=version, offsets=offsets):
            return f"query {query} {version} started at {', '.join(offsets)}"
        case HandedOff(query=query, version=version, parent_batch=last, batch=batch):
            return f"query {query} {version} continues after batch {last} of its parent, counted here as batch {batch}"
        case _:
            assert_never(record)


def _render_progress(record: OperationStarted | StepBegun | StepDone | Assessed | ApprovalAnswered) -> str:
    match record:
        case OperationStarted(operation=operation, request=request):
            return f"{operation} started: {render_request(request)}"
        case StepBegun(operation=operation, step=step):
            return f"{operation} started step {label_of(step)}"
        case StepDone(operation=operation, step=step, result=result):
            result_text = ", ".join(f"{key}={value}" for key, value in result.items())
            return f"{operation} completed step {label_of(step)}" + (f" ({result_text})" if result_text else "")
        case Assessed(operation=operation, verdict=verdict, sentence=sentence):
            return f"{operation} assessed: {verdict.name}, {sentence}"
        case ApprovalAnswered(operation=operation, approved=approved, by=by, reason=reason):
            return f"{operation} {'approved' if approved else 'declined'} by {by}" + (f": {reason}" if reason else "")
        case _:
            assert_never(record)


def _render_end(record: FallBackDecided | AbortRequested | OperationFinished) -> str:
    match record:
        case FallBackDecided(operation=operation, reason=reason):
            return f"{operation} will not continue: {reason}"
        case AbortRequested(operation=operation, requested_by=who, reason=reason):
            return f"abort of {operation} requested by {who or 'an unknown user'}" + (f": {reason}" if reason else "")
        case OperationFinished(operation=operation, outcome=outcome, sentence=sentence):
            return f"{operation} {outcome.value}: {sentence}"
        case _:
            assert_never(record)


def _render_release(record: ReleaseRegistered | ReleaseDescribed | ReleasePromoted) -> str:
    match record:
        case ReleaseRegistered(release=release):
            return f"{release.name} registered, bundle {release.content.bundle[:12]}"
        case ReleaseDescribed(release=name, manifests=manifests):
            return f"{name} described: queries {', '.join(sorted(manifests))}"
        case ReleasePromoted(release=name, instance=instance):
            return f"{name} is the current release, run by {instance}"
        case _:
            assert_never(record)


def render_request(request: DeployRequest) -> str:
    """Return a request in one line."""
    match request.kind:
        case Deployment():
            verb, before = "deploy", "the code under the jobs root"
        case Rollback():
            verb, before = "roll back to", "the previous release"
        case StartCurrent():
            verb, before = "start", "the current release"
        case Recovery() as recovery:
            verb, before = f"{recovery.asked_for.value} ({recovery.cause}) of", "the current release"
        case kind:
            assert_never(kind)
    parts = [f"{verb} {request.release or before}{told_inherited(request)}", f"{request.handover.value} handover"]
    if request.recovery is not None and request.recovery.accepted_by:
        parts.append(f"data loss or duplicates accepted by {request.recovery.accepted_by}")
    if request.revive:
        parts.append("although it was forgotten")
    if request.dry_run:
        parts.append("dry run")
    if request.requested_by:
        parts.append(f"by {request.requested_by}")
    if request.reason:
        parts.append(f"reason: {request.reason}")
    return ", ".join(parts)


def kind_of(request: DeployRequest) -> str:
    """Return the kind of a request: ``deploy``, ``rollback``, ``start``, or the action of a recovery."""
    match request.kind:
        case Deployment():
            return "deploy"
        case Rollback():
            return "rollback"
        case StartCurrent():
            return "start"
        case Recovery() as recovery:
            return recovery.asked_for.value
        case kind:
            assert_never(kind)
