"""Recreated Kafka topics: which topics an approval covers, and which checkpoint versions and snapshots a rollback may
still use.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.compatibility import observations
from streamkeeper.errors import OperationRefused
from streamkeeper.model.manifests.evidence import Look
from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.records.journal_records import (
    ApprovalAnswered,
    Assessed,
    InstanceAppointed,
    ReleasePromoted,
    StepDone,
)
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.diagnosis import Recovery, RecoveryAction
from streamkeeper.model.requests.request import Deployment, DeployRequest, Rollback
from streamkeeper.operations.deploys import assessing
from streamkeeper.operations.deploys.approval import check_drift
from streamkeeper.operations.deploys.assessing import assess_candidate, find_transitions
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.registry.driver_control import Control
from tests.operations.registered_job import JOB, QUERY, Registered

OLD, NEW, NEWER = ({"sales": each} for each in ("old", "new", "newer"))
AGAIN = observations.topic_created_again("sales (kafka)", "topic sales was deleted and created again")


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A registered job whose query has read the old topic."""
    job = Registered(tmp_path)
    job.record(replace(job.epoch("v0001", 2), topics=OLD))
    return job


def deploy(job: Registered) -> None:
    """Open the deploy ``op2`` and mark its bundle step as done."""
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0001"))
    job.record(StepDone(operation="op2", step="bundle", result={"release": "r0001"}))


def assess(job: Registered) -> Assessed:
    state = job.installation.journal(JOB, "test").state()
    return assess_candidate(job.installation, state, state.operations["op2"], "r0001")


@pytest.mark.parametrize(("found", "approved"), [((AGAIN,), NEW), ((), {})])
def test_an_approval_covers_only_the_topic_ids_that_the_assessment_recorded(
    job: Registered, found: tuple[Finding, ...], approved: dict[str, str]
) -> None:
    """The assessment records the ids of the recreated topics as the ones to approve; without a recreated topic it
    records none.
    """
    deploy(job)
    job.gather("op2", *found, look=Look.SOURCES, topics=NEW)
    way = assess(job).transitions[QUERY]
    assert (way.other_topics, way.approved_topics) == (bool(found), approved)


@pytest.mark.parametrize("now", [NEW, {}, NEWER])
def test_an_approval_is_void_once_the_topic_was_created_again(job: Registered, now: dict[str, str]) -> None:
    """A topic that is recreated after the approval voids it. The same topic, or brokers that do not answer, leave the
    approval valid, because the driver compares the ids later.
    """
    deploy(job)
    job.gather("op2", AGAIN, look=Look.SOURCES, topics=NEW)
    job.record(assess(job))
    job.record(
        ApprovalAnswered(operation="op2", approved=True, by="ada", reason="seen", bundle="b" * 64, batches={QUERY: "7"})
    )
    job.gather("op2", AGAIN, look=Look.SOURCES, topics=now)
    state = job.installation.journal(JOB, "test").state()
    if now == NEWER:
        with pytest.raises(OperationRefused, match=r"^the approval is void: topic sales was deleted and created again"):
            check_drift(job.installation, state, state.operations["op2"])
    else:
        check_drift(job.installation, state, state.operations["op2"])


def back(job: Registered, request: DeployRequest, now: dict[str, str]) -> tuple[QueryTransition | None, str]:
    """Return the transition to a release that cannot resume, and the refusal; ``now`` maps each Kafka topic to its
    present id.
    """
    state = job.installation.journal(JOB, "test").state()
    manifests = stored_manifests(job.installation, state, "r0001")
    changed = Finding(rule="grouping-keys-changed", severity=Severity.BREAKING, where="q", evidence="a -> b")
    judged = QueryAssessment(verdict=Verdict.SWITCH, findings=(changed,))
    assessment = Assessment(verdict=Verdict.SWITCH, queries={QUERY: judged})
    ways, refusal = find_transitions(
        job.installation, state, request, "r0001", manifests, manifests, assessment, assessment, topics={QUERY: now}
    )
    return ways.get(QUERY), refusal


def test_a_rollback_to_a_version_of_an_earlier_topic_is_refused_by_the_check(job: Registered) -> None:
    """The check refuses a rollback to a version that read a topic which was recreated since, before the current driver
    is stopped. Negative control: with the same topic, or with unknown ids, the rollback returns to v0001.
    """
    job.record(InstanceAppointed(operation="op", instance="op-candidate", versions={QUERY: "v0001"}))
    job.record(ReleasePromoted(operation="op", release="r0001", instance="op-candidate"))
    job.record(job.version("v0002"))
    job.record(InstanceAppointed(operation="op", instance="op-candidate", versions={QUERY: "v0002"}))
    request = DeployRequest(job=JOB, release="r0001").of_kind(Rollback())
    for now in (OLD, {}):
        way, _ = back(job, request, now)
        assert way is not None
        assert (way.way, way.version) == (Transition.RETURN, "v0001")
    way, refusal = back(job, request, NEW)
    assert way is None
    assert refusal.endswith(
        "; topic sales was deleted and created again since v0001, so its offsets do not belong to the present records"
        " (to continue where the query is now, deploy this release instead of rolling back to it)"
    )


def test_a_rollback_does_not_restore_a_snapshot_of_an_earlier_topic(job: Registered) -> None:
    """A rollback does not restore a snapshot whose topic was recreated since its batch. Negative control: with the same
    topic, the rollback restores the snapshot.
    """
    snapshot = job.take()
    request = DeployRequest(job=JOB, release="r0001").of_kind(Rollback())
    way, _ = back(job, request, OLD)
    assert way is not None
    assert (way.way, way.snapshot) == (Transition.RESTORE, snapshot)
    way, refusal = back(job, request, NEW)
    assert way is None
    assert "topic sales was deleted and created again since batch 7" in refusal


def test_a_recovery_restores_only_into_topics_named_by_the_check(job: Registered) -> None:
    """A recovery may restore a snapshot into a topic that was recreated since the newest claim, because the check names
    that topic; it refuses a topic that was recreated before that claim, which the check does not name.
    """
    recover = Recovery(action=RecoveryAction.RESTORE, snapshots={QUERY: job.take()}, accepted_by="ada")
    request = DeployRequest(job=JOB, release="r0001").of_kind(recover)
    way, _ = back(job, request, NEW)
    assert way is not None
    assert way.way is Transition.RESTORE
    job.record(replace(job.epoch("v0001", 3), topics=NEW, committed=7))
    way, refusal = back(job, request, NEW)
    assert way is None
    assert "topic sales was deleted and created again since batch 7" in refusal


def test_a_topic_without_an_id_is_not_approved(job: Registered) -> None:
    """A recreated topic whose id the brokers did not report makes the assessment refuse, because an approval would
    otherwise cover any topic.
    """
    deploy(job)
    job.gather("op2", AGAIN, look=Look.SOURCES)
    assert assess(job).refusal == (f"query {QUERY}: the brokers did not report the ids of its topics (deploy again)")


def test_a_rollback_to_the_present_topic_needs_no_topic_approval(job: Registered) -> None:
    """A rollback to a version that has read the present topic needs no approval of topics, whereas a handoff or a
    restore of the same change needs one.
    """
    judged = QueryAssessment(verdict=Verdict.BACKUP, findings=(AGAIN,))
    forward = Assessment(verdict=Verdict.BACKUP, queries={QUERY: judged})
    for way, kind, asks in (
        (Transition.RETURN, Rollback(), False),
        (Transition.HANDOFF, Deployment(), True),
        (Transition.RESTORE, Deployment(), True),
    ):
        request = DeployRequest(job=JOB, release="r0001").of_kind(kind)
        asked = NEW if assessing._has_other_topics(forward, QUERY) else None
        assert assessing._with_losses(QueryTransition(way=way), None, asked, request).other_topics is asks


def test_an_order_names_the_approved_topics(job: Registered) -> None:
    """The GO command names every query with recreated topics and the approved ids; a query without recorded ids is
    named without approved topics.
    """
    control = Control(job.installation.store, JOB, "op-candidate")
    sent = control.send(CommandKind.GO, "op2", {QUERY: "v0001"}, other_topics={QUERY: NEW, "older": {}})
    assert (sent.other_topics, sent.approved_topics) == ((QUERY, "older"), {QUERY: NEW})
    assert control.commands(0)[-1] == sent
