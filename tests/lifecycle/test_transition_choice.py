"""Tests the choice of a query's transition and way back over verdicts, sinks, sources and requests."""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.way_out import switch_of
from streamkeeper.lifecycle.steps import path
from streamkeeper.lifecycle.transition_choice import Boundary, QueryFacts, choose_transitions
from streamkeeper.model.manifests.finding import Finding, QueryAssessment, Severity, Switch, Verdict
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import Deployment, DeployRequest, Handover, Rollback, Strategy
from tests.compatibility.manifests import AGGREGATE, STATEFUL, with_source


def finding(rule: str, severity: Severity = Severity.BREAKING, where: str = "sink") -> Finding:
    return Finding(rule=rule, severity=severity, where=where, evidence="a -> b")


def facts(*findings: Finding, verdict: Verdict = Verdict.SWITCH, sink: str = "file", state: bool = False, **more):
    """Return the facts about one query that runs on v0001, whose manifests differ only as stated."""
    out = SinkDescription(kind=sink, output=f"{sink} out", options={})
    operators = (AGGREGATE,) if state else ()
    plain = msgspec.structs.replace(STATEFUL, sink=out, operators=operators, trigger="1 second")
    judged = QueryAssessment(verdict=verdict, findings=findings)
    defaults = {"deployed": plain, "candidate": plain, "judged": judged, "current": "v0001", "next": "v0002"}
    return QueryFacts(**{**defaults, **more})


def choose(at: QueryFacts, *, kind=Deployment(), **request):  # noqa: B008
    ways, refusal = choose_transitions(DeployRequest(job="j", **request).of_kind(kind), {"q": at})
    return ways.get("q"), refusal


def test_a_new_query_starts_in_a_version_of_its_own():
    """A new query starts in its own checkpoint version."""
    way, _ = choose(facts(current="", next="v0001"))
    assert (way.way, way.version) == (Transition.START, "v0001")


def test_a_new_query_that_may_be_a_renamed_one_asks_before_it_starts():
    """A new query that may be a renamed one starts only after an approval, because it could write existing rows again;
    a query that resembles no removed one needs none.
    """
    asked = finding("query-may-be-renamed", Severity.OPAQUE, "query sums")
    way, _ = choose(facts(asked, verdict=Verdict.BACKUP, current="", next="v0001"))
    assert (way.way, way.before, way.opaque) == (Transition.START, "", True)
    added = finding("query-added", Severity.NOTE, "query sums")
    assert not choose(facts(added, verdict=Verdict.RESUME, current="", next="v0001"))[0].opaque


def test_a_rollback_starts_no_query_that_may_be_a_renamed_one():
    """A rollback refuses to start a query that may be a renamed one, because only a deploy has a step for the
    approval.
    """
    asked = finding("query-may-be-renamed", Severity.OPAQUE, "query sums")
    way, refusal = choose(facts(asked, verdict=Verdict.BACKUP, current="", next="v0001"), kind=Rollback())
    assert way is None
    assert refusal.endswith("deploy this release instead of rolling back to it, and a person decides")


def test_a_new_query_that_takes_over_an_output_does_not_start():
    """A new query that would take over an existing output is refused, because it has no checkpoint to switch from."""
    way, refusal = choose(
        facts(finding("output-changes-hands", where="sink out"), deployed=None, current="", next="v0001")
    )
    assert (way, refusal) == (None, "query q: it cannot start: output-changes-hands (a -> b)")


@pytest.mark.parametrize("sink", ["table", "file", "foreach"])
@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("trigger", ["1 second", "availableNow"])
@pytest.mark.parametrize(
    "findings",
    [
        (finding("source-kind-changed", where="source 0"),),
        (finding("source-reading-changed", where="source 0"),),
        (finding("refused-by-spark", where="rehearsal of batch 3"),),
        (finding("sink-option-changed"),),
        (finding("aggregate-added", where="aggregation"),),
        (finding("aggregate-added", where="aggregation"), finding("history-gone", Severity.NOTE, "source 0")),
    ],
    ids=lambda findings: findings[-1].rule,
)
def test_a_check_reports_a_switch_exactly_as_a_deploy_decides(sink, state, moved, trigger, findings):
    """The check reports whether a switch is possible, possible without state, or impossible exactly as the deploy
    decides.
    """
    at = facts(*findings, sink=sink, state=state)
    elsewhere = SinkDescription(kind=sink, output="elsewhere", options={})
    new = msgspec.structs.replace(at.candidate, trigger=trigger, sink=elsewhere if moved else at.candidate.sink)
    at = msgspec.structs.replace(at, candidate=new)
    does = choose(at)[0], choose(at, accept_state_loss=True)[0]
    expected = Switch.POSSIBLE if does[0] else Switch.WITHOUT_STATE if does[1] else Switch.IMPOSSIBLE
    assert switch_of(findings, at.deployed, new) is expected


def test_a_stateless_query_whose_output_changed_its_form_is_handed_off():
    """A stateless query whose output options changed is handed off to a new version at its offsets."""
    way, _ = choose(facts(finding("sink-option-changed")))
    assert (way.way, way.before, way.version, way.back) == (Transition.HANDOFF, "v0001", "v0002", Transition.RETURN)


@pytest.mark.parametrize(
    ("at", "why"),
    [
        (facts(finding("source-reading-changed", where="source 0")), "offsets"),
        (facts(finding("refused-by-spark", where="rehearsal of batch 3")), "offsets"),
        (facts(finding("sink-option-changed"), sink="table"), "does not accept its rows"),
        (facts(finding("state-keys-changed", where="operator"), state=True), "state would be lost"),
    ],
)
def test_a_change_that_a_handoff_would_not_survive_is_rebuilt(at, why):
    """A change that a handoff would not survive, in offsets, table columns or state, is rebuilt; a requested handoff is
    refused with the reason.
    """
    way, _ = choose(at)
    assert way.way is Transition.REBUILD
    _, refusal = choose(at, strategy=Strategy.HANDOFF)
    assert why in refusal


def test_an_output_in_another_place_is_not_handed_off():
    """A query whose output moves to a different place is rebuilt, because a handoff would leave the new output without
    its beginning.
    """
    at = facts(finding("sink-output-changed"))
    moved = msgspec.structs.replace(at.candidate, sink=SinkDescription(kind="file", output="elsewhere", options={}))
    way, _ = choose(msgspec.structs.replace(at, candidate=moved))
    assert way.way is Transition.REBUILD


@pytest.mark.parametrize(
    ("at", "request_", "why"),
    [
        (facts(finding("x", where="operator"), state=True, sink="foreach"), {}, "written without readers seeing it"),
        (
            facts(finding("x", where="operator"), state=True, missing_sources="3 of 9 files are gone"),
            {},
            "3 of 9 files are gone",
        ),
        (facts(finding("x", where="operator"), state=True), {"handover": Handover.COLD}, "needs two drivers at once"),
        (facts(finding("source-kind-changed", where="source 0")), {}, "cannot be determined (source-kind-changed)"),
        (
            facts(finding("x", where="operator"), finding("history-gone", Severity.NOTE, "source 0"), state=True),
            {},
            "No rebuild is possible, because a -> b",
        ),
    ],
)
def test_what_cannot_be_switched_is_refused_with_every_reason(at, request_, why):
    """A change that cannot be switched is refused with the cause and the reasons against a handoff and a rebuild."""
    way, refusal = choose(at, **request_)
    assert way is None
    assert why in refusal
    assert "No handoff is possible, because" in refusal


def test_state_is_discarded_only_if_the_request_accepts_it():
    """A change of the state keys is rebuilt by default, and is handed off with empty state only if the request accepts
    the loss.
    """
    at = facts(finding("state-keys-changed", where="operator"), state=True)
    way, _ = choose(at, strategy=Strategy.HANDOFF, accept_state_loss=True)
    assert (way.way, way.state_given_up) == (Transition.HANDOFF, True)
    assert choose(at)[0].way is Transition.REBUILD


def test_an_opaque_change_resumes_and_is_marked_as_opaque():
    """An opaque change resumes and is marked as opaque, so that a person must approve it."""
    way, _ = choose(facts(verdict=Verdict.BACKUP, reverse=Verdict.BACKUP))
    assert (way.way, way.opaque, way.back) == (Transition.RESUME, True, Transition.RESTORE)


@pytest.mark.parametrize(
    ("reverse", "sink", "back"),
    [
        (Verdict.RESUME, "foreach", Transition.RESUME),
        (Verdict.SWITCH, "table", Transition.RESTORE),
        (Verdict.SWITCH, "foreach", None),
    ],
)
def test_the_way_back_of_a_resume_is_a_resume_or_restore(reverse, sink, back):
    """The way back of a resume is a resume if the old release can read the state, else a restore; a function that would
    receive batches twice has no way back, and the reason is given.
    """
    way, _ = choose(facts(verdict=Verdict.RESUME, reverse=reverse, sink=sink))
    assert way.back is back
    assert bool(way.no_way_back) is (back is None)


@pytest.mark.parametrize(
    ("rule", "where", "state", "asks"),
    [
        ("source-topic-created-again", "source 0", False, True),
        ("source-topic-created-again", "source 0", True, True),
        ("sink-function-may-write-elsewhere", "sink out", True, True),
        ("unknown-in-plan", "query q", False, True),
        ("code-in-state-changed", "operator 0", True, False),
        ("rehearsal-timed-out", "rehearsal of batch 3", False, False),
    ],
)
def test_a_handoff_needs_an_approval_for_opaque_findings_it_keeps(rule: str, where: str, state: bool, asks: bool):
    """A handoff needs an approval for opaque findings about its offsets, output or computation, but not about state
    that it gives up or a rehearsal on the old checkpoint.
    """
    at = facts(finding("sink-option-changed"), finding(rule, Severity.OPAQUE, where), state=state)
    way, _ = choose(at, accept_state_loss=True, strategy=Strategy.HANDOFF)
    assert (way.way, way.opaque) == (Transition.HANDOFF, asks)


def test_a_query_that_continues_in_another_topic_waits_for_a_person():
    """A query that continues in a different topic needs an approval, even with a restore."""
    way = QueryTransition(way=Transition.RESTORE, before="v0001", version="v0002", snapshot="s0001", batch=7)
    for other in (False, True):
        ways = {"q": msgspec.structs.replace(way, other_topics=other)}
        operation = OperationState(
            operation="op", request=DeployRequest(job="j"), steps=(), started=1, transitions=ways
        )
        assert (Step.APPROVE in path(operation)) is other


def test_a_rollback_goes_forward_where_the_old_release_takes_the_state():
    """A rollback resumes if the old release can read the current state."""
    way, _ = choose(facts(verdict=Verdict.RESUME, kept="v0000"), kind=Rollback())
    assert way.way is Transition.RESUME


def test_a_rollback_returns_to_the_version_that_was_kept_else_to_a_snapshot():
    """A rollback returns to the kept checkpoint version, else restores the cutover snapshot into a new version."""
    boundary = Boundary(snapshot="s0004", batch=7)
    kept = facts(finding("x"), kept="v0001", current="v0002", next="v0003", boundary=boundary)
    assert (choose(kept, kind=Rollback())[0].way, choose(kept, kind=Rollback())[0].version) == (
        Transition.RETURN,
        "v0001",
    )
    way, _ = choose(msgspec.structs.replace(kept, kept=""), kind=Rollback())
    assert (way.way, way.version, way.snapshot, way.batch) == (Transition.RESTORE, "v0003", "s0004", 7)


GONE = "loses rows: 4 of 4 files that were read since are missing, such as /in/f003.csv"


@pytest.mark.parametrize("kept", ["v0001", ""])
def test_a_rollback_that_loses_rows_is_refused_until_that_is_accepted(kept):
    """A rollback that loses rows is refused until ``accept_loss`` is set, for the kept version and the snapshot;
    ``accept_risk`` does not suffice. Negative control: without missing files it needs no acceptance.
    """
    boundary = Boundary(snapshot="s0004", batch=7, loses=GONE)
    at = facts(finding("x"), kept=kept, kept_loses=GONE, current="v0002", next="v0003", boundary=boundary)
    way, refusal = choose(at, kind=Rollback())
    place = kept or "batch 7"
    assert way is None
    assert refusal == f"query q: going back to {place} {GONE}; put the files back, or accept the loss with accept_loss"
    assert choose(at, kind=Rollback(), accept_risk=True)[0] is None
    wanted = Transition.RETURN if kept else Transition.RESTORE
    assert choose(at, kind=Rollback(), accept_loss=True)[0].way is wanted
    there = msgspec.structs.replace(at, kept_loses="", boundary=Boundary(snapshot="s0004", batch=7))
    assert choose(there, kind=Rollback())[0].way is wanted


def test_a_rollback_prefers_what_loses_nothing():
    """A rollback prefers a snapshot that loses nothing over a kept version that does, and a resume over both."""
    boundary = Boundary(snapshot="s0004", batch=7)
    at = facts(finding("x"), kept="v0001", kept_loses=GONE, current="v0002", next="v0003", boundary=boundary)
    assert choose(at, kind=Rollback())[0].way is Transition.RESTORE
    takes = msgspec.structs.replace(at, judged=QueryAssessment(verdict=Verdict.RESUME, findings=()))
    assert choose(takes, kind=Rollback())[0].way is Transition.RESUME


@pytest.mark.parametrize("sink", ["foreach", "kafka"])
def test_a_rollback_that_replays_into_a_function_or_a_topic_needs_accept_risk(sink):
    """A rollback in which a function or a topic would receive batches a second time is refused until ``accept_risk`` is
    set.
    """
    at = facts(finding("x"), kept="v0001", current="v0002", sink=sink)
    assert "second time" in choose(at, kind=Rollback())[1]
    assert choose(at, kind=Rollback(), accept_risk=True)[0].way is Transition.RETURN


def test_a_rollback_from_another_topic_says_which_batches_both_topics_would_have():
    """A rollback to a release with another topic says that this topic would also receive the batches of the present
    one, and not that it receives them a second time; the path back from a resume says the same.
    """
    old, new = (
        msgspec.structs.replace(STATEFUL, sink=SinkDescription(kind="kafka", output=topic, options={}))
        for topic in ("A", "B")
    )
    both = "A would also receive the batches that B has received (use accept_risk if"
    back = facts(finding("x"), kept="v0001", current="v0002", deployed=new, candidate=old)
    assert both in choose(back, kind=Rollback())[1]
    assert choose(back, kind=Rollback(), accept_risk=True)[0].way is Transition.RETURN
    resumed = facts(verdict=Verdict.BACKUP, deployed=old, candidate=new, reverse=Verdict.BACKUP)
    assert both in choose(resumed)[0].no_way_back


def test_a_refused_rollback_into_a_topic_names_it_and_the_deploy_that_continues():
    """A refused rollback names the topic that would receive batches a second time, and recommends a deploy of this
    release if that deploy only needs an approval.
    """
    at = facts(finding("x"), verdict=Verdict.BACKUP, kept="v0001", current="v0002", sink="kafka")
    refusal = choose(at, kind=Rollback())[1]
    topic = f"the topic {at.candidate.sink.output} would receive batches a second time (use accept_risk if its readers"
    assert topic in refusal
    assert "deploy this release instead of rolling back to it" in refusal
    switches = msgspec.structs.replace(at, judged=msgspec.structs.replace(at.judged, verdict=Verdict.SWITCH))
    assert "deploy this release" not in choose(switches, kind=Rollback())[1]


def test_a_rollback_with_nothing_to_go_back_to_is_refused():
    """A rollback with neither a kept version nor a snapshot is refused with that reason."""
    way, refusal = choose(facts(finding("x")), kind=Rollback())
    assert way is None
    assert "neither" in refusal


def test_resume_only_refuses_what_cannot_resume():
    """With the strategy RESUME a change that cannot resume is refused with the reason."""
    _, refusal = choose(facts(finding("x")), strategy=Strategy.RESUME)
    assert "cannot resume" in refusal


def test_one_query_without_a_way_refuses_the_whole_job():
    """A single query without a transition refuses the whole deploy."""
    good = facts(verdict=Verdict.RESUME)
    bad = facts(finding("x", Severity.FATAL), verdict=Verdict.REFUSE)
    _, refusal = choose_transitions(DeployRequest(job="j"), {"a": good, "b": bad})
    assert refusal.startswith("query b: x (a -> b)")


@pytest.mark.parametrize("whose", ["deployed", "candidate"])
def test_a_rebuild_is_refused_if_the_source_deletes_read_files(whose):
    """A rebuild is refused if the source deletes files after reading, because each driver of the dual run would remove
    files that the other has not read; without ``cleanSource`` it is possible.
    """
    at = facts(finding("state-keys-changed", where="operator"), state=True)
    cleaning = with_source(at.candidate, kind="file", options={"cleansource": "Delete"})
    way, refusal = choose(msgspec.structs.replace(at, **{whose: cleaning}), strategy=Strategy.REBUILD)
    assert way is None
    assert "cleanSource=delete removes files that one of them has read" in refusal
    way, _ = choose(at, strategy=Strategy.REBUILD)
    assert way.way is Transition.REBUILD
