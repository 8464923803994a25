"""Tests the decisions of a deploy in a simulated world without I/O."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkeeper.lifecycle.actions import (
    Decision,
    GiveUpStarting,
    Kill,
    Launch,
    MarkBegun,
    MarkDone,
    Plan,
    RestoreVersions,
    Send,
    Wait,
)
from streamkeeper.lifecycle.steps import HALTED_S, path, plan_deploy
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, LaunchMode
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import AbortRequested, DesiredChanged, InstanceEnded, Outcome, Role
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import CutoverSnapshots
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.requests.request import DeployRequest, Handover
from tests.lifecycle.deploy_world import OP, Instance, World


@pytest.mark.parametrize("handover", list(Handover))
def test_a_compatible_release_takes_over_and_the_old_one_is_drained_not_killed(handover):
    """A compatible release takes over with every kind of handover, and the old driver is drained, not killed."""
    world = World(handover=handover)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert (world.state.serving_release, world.state.serving_instance) == ("r0002", "op-candidate")
    assert world.instances["old"].state is DriverState.DRAINED
    assert not any(isinstance(each.action, Kill) for each in world.log)


def test_the_cutover_snapshot_is_taken_once_the_new_release_commits_and_before_it_is_promoted():
    """The cutover snapshot is taken after the new release has committed and before it is promoted."""
    world = World()
    operation = world.play()
    labels = [type(each.action).__name__ for each in world.log]
    assert labels.index("TakeCutoverSnapshots") < labels.index("Promote")
    assert world.log[labels.index("TakeCutoverSnapshots")].step is Step.SNAPSHOT
    assert operation.cutover_snapshots == CutoverSnapshots({"q": "s0001"}, {})
    assert operation.sentence == "r0002 is the current release (op-candidate)"


def test_a_failed_cutover_snapshot_is_reported_and_does_not_fail_the_deploy():
    """A deploy succeeds without its cutover snapshot, and its sentence names the query whose snapshot is missing and
    the reason.
    """
    world = World()
    world.snapshots = False
    operation = world.play()
    assert operation.outcome is Outcome.SUCCEEDED
    assert "no cutover snapshot of q: full" in operation.sentence


def test_a_first_deploy_sends_no_drain_command():
    """A first deploy sends no DRAIN command."""
    world = World(serving=False)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert not any(isinstance(each.action, Send) and each.action.kind is CommandKind.DRAIN for each in world.log)


def test_a_cold_handover_starts_the_candidate_only_after_the_old_driver_ended():
    """A cold handover launches the candidate only after the old driver's end is recorded."""
    world = World(handover=Handover.COLD)
    world.play()
    labels = [type(each.action).__name__ + getattr(each.action, "instance", "") for each in world.log]
    assert labels.index("RecordEndold") < labels.index("Launchop-candidate")


def play_to(world: World, step: Step) -> Decision:
    """Run until a decision of the step is reached, and return that decision without performing it."""
    while (decision := world.decide()) is not None and decision.step is not step:
        world.perform(decision)
        world.move()
    assert decision is not None
    return decision


@pytest.mark.parametrize("end", [DriverState.FAILED, DriverState.STARTING])
def test_the_old_driver_is_not_drained_for_a_candidate_that_is_no_longer_ready(end):
    """The deploy is refused without draining the old driver when the candidate has failed or is starting. Negative
    control: while the candidate is on standby, the drain begins.
    """
    world = World()
    assert play_to(world, Step.DRAIN).action == MarkBegun()
    candidate = world.instances["op-candidate"]
    if end.terminal:
        candidate.end(end)
    else:
        candidate.state, candidate.becomes_ready = end, False
    assert world.play().outcome is Outcome.REFUSED
    assert world.instances["old"].writes
    assert not world.instances["old"].sent


def test_a_refusal_leaves_the_serving_driver_alone():
    """A deploy with the verdict REFUSE is refused, and the old driver receives no command and keeps writing."""
    world = World(verdict=Verdict.REFUSE)
    assert world.play().outcome is Outcome.REFUSED
    assert world.instances["old"].writes
    assert not world.instances["old"].sent
    assert world.state.serving_release == "r0001"


@pytest.mark.parametrize(
    ("verdict", "way"), [(Verdict.RESUME, Transition.RESUME), (Verdict.SWITCH, Transition.REBUILD)]
)
def test_a_recorded_refusal_counts_whatever_the_verdict_is(verdict, way):
    """A recorded refusal for one of several queries refuses the whole deploy, whatever the verdict is, and no query is
    switched.
    """
    world = World(verdict=verdict, way=way, back=Transition.RETURN)
    world.refusal = "query r: its sources cannot be read again"
    assert world.play().outcome is Outcome.REFUSED
    assert_untouched(world)


def test_a_dry_run_starts_nothing_that_could_serve():
    """A dry run starts only a describer and leaves the serving driver running."""
    world = World(dry_run=True)
    assert world.play().outcome is Outcome.DRY_RUN
    assert set(world.instances) == {"old", "op-describer"}
    assert world.instances["old"].writes


@pytest.mark.parametrize("handover", list(Handover))
def test_a_candidate_that_cannot_start_is_refused_before_the_drain(handover):
    """A candidate that never becomes ready is refused, and the old driver keeps writing."""
    world = World(
        handover=handover, traits={"candidate": {"becomes_ready": False}, "describer": {"becomes_ready": False}}
    )
    assert world.play().outcome is Outcome.REFUSED
    assert world.instances["old"].writes


def test_a_candidate_that_never_commits_gives_way_to_the_old_release():
    """A candidate that commits nothing before its deadline is stopped, and a new instance of the previous release takes
    over.
    """
    world = World(traits={"candidate": {"serves": False}})
    assert world.play().outcome is Outcome.FELL_BACK
    assert (world.state.serving_release, world.state.serving_instance) == ("r0001", "op-fallback")
    assert world.instances["op-fallback"].writes


def acts_on(world: World, instance: str) -> list[tuple[Step, str]]:
    """Return the step and the kind of every act that names the instance, in order."""
    return [
        (each.step, type(each.action).__name__)
        for each in world.log
        if getattr(each.action, "instance", "") == instance
    ]


LONG = {"probation_batches": 9}
FAILS_LATE = {"candidate": {"breaks_after": 6}}
"""Completes its first triggers and then fails during a long probation."""


def test_a_reserve_of_the_old_release_starts_during_the_probation():
    """A reserve of the old release starts during the probation, so that a fall-back launches nothing. Negative control:
    in a cold handover the driver is launched only in the fall-back.
    """
    world = World(request=LONG, traits=FAILS_LATE)
    assert world.play().outcome is Outcome.FELL_BACK
    assert (Step.PROBATION, "Launch") in acts_on(world, "op-fallback")
    assert (Step.FALL_BACK, "Launch") not in acts_on(world, "op-fallback")
    cold = World(request=LONG, traits=FAILS_LATE, handover=Handover.COLD)
    assert cold.play().outcome is Outcome.FELL_BACK
    assert (Step.FALL_BACK, "Launch") in acts_on(cold, "op-fallback")


def test_the_reserve_is_stopped_once_the_candidate_passes_its_probation():
    """The reserve is stopped without ever being appointed once the candidate passes its probation; a deploy without a
    probation starts no reserve.
    """
    world = World(request=LONG)
    assert world.play().outcome is Outcome.SUCCEEDED
    reserve = world.state.instances["op-fallback"]
    assert (reserve.ended, reserve.appointed) == (True, False)
    assert world.instances["op-fallback"].life is Life.DEAD
    quick = World(request={"probation_batches": 0})
    assert quick.play().outcome is Outcome.SUCCEEDED
    assert "op-fallback" not in quick.instances


def test_a_reserve_that_hangs_is_killed_and_the_deploy_has_succeeded():
    """A deploy succeeds although its reserve hangs, in which case it is killed, or is unreachable."""
    world = World(traits={"fallback": {"drains": False}}, request=LONG)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert world.instances["op-fallback"].life is Life.DEAD
    lost = World(traits={"fallback": {"reachable": False}}, request=LONG)
    assert lost.play().outcome is Outcome.SUCCEEDED


def test_a_reserve_starts_at_the_first_failure():
    """The reserve is planned at the candidate's first failure in the probation. Negative control: without a failure the
    deploy waits.
    """
    world = World(request=LONG)
    while (decision := world.decide()).step is not Step.PROBATION:
        world.perform(decision)
        world.move()
    assert isinstance(decision.action, Wait)
    world.instances["op-candidate"].failures = 1
    assert world.decide().action == Plan("op-fallback", "r0001", Role.FALLBACK)


def test_a_fall_back_starts_the_old_release_while_the_candidate_ends():
    """A fall-back launches the old release before the candidate's end is recorded, and appoints it only afterwards."""
    world = World(request={"probation_batches": 0}, traits={"candidate": {"serves": False}})
    assert world.play().outcome is Outcome.FELL_BACK
    acts = [f"{type(each.action).__name__} {getattr(each.action, 'instance', '')}" for each in world.log]
    order = ("Launch op-fallback", "RecordEnd op-candidate", "Appoint op-fallback")
    assert [act for act in acts if act in order] == [*order]


def test_a_reserve_whose_process_never_appears_is_replaced():
    """A reserve whose process does not appear is given up after 60 s, and the fall-back uses a different instance."""
    world = World(request=LONG, traits=FAILS_LATE)
    while (decision := world.decide()).action != Launch("op-fallback", LaunchMode.STANDBY):
        world.perform(decision)
        world.move()
    world.waited_s = 60.0
    given_up = world.decide()
    assert given_up.action == GiveUpStarting("op-fallback")
    world.perform(given_up)
    assert world.play().outcome is Outcome.FELL_BACK
    assert world.state.serving_instance == "op-fallback-again"


def test_a_reserve_with_a_stop_command_is_not_appointed() -> None:
    """A rollback never continues in a driver that has a STOP command, even if that driver still waits on standby."""
    world = World(request=LONG, traits=FAILS_LATE | {"fallback": {"drains": False}})
    while (decision := world.decide()).step is not Step.FALL_BACK:
        world.perform(decision)
        world.move()
    world.instances["op-fallback"].sent.add(CommandKind.STOP)
    assert world.play().outcome is Outcome.FELL_BACK
    assert not world.state.instances["op-fallback"].appointed
    assert world.state.serving_instance == "op-fallback-again"


def test_no_reserve_where_there_is_no_way_back():
    """A deploy without a way back starts no reserve and fails when the candidate fails."""
    world = World(request=LONG, traits=FAILS_LATE, reverse=Verdict.SWITCH, back=None)
    assert world.play().outcome is Outcome.FAILED
    assert "op-fallback" not in world.instances


def test_a_reserve_that_never_becomes_ready_is_replaced_in_the_fall_back():
    """When the reserve never becomes ready, whether or not it drains, the fall-back starts a different instance of the
    old release.
    """
    for trait in ({"becomes_ready": False}, {"becomes_ready": False, "drains": False}):
        world = World(request=LONG, traits=FAILS_LATE | {"fallback": trait})
        again = Instance("op-fallback-again")
        while (decision := world.decide()) is not None:
            world.log.append(decision)
            world.perform(decision)
            if "op-fallback-again" in world.instances and world.instances["op-fallback-again"].becomes_ready is False:
                world.instances["op-fallback-again"] = again
            world.move()
        assert world.operation.outcome is Outcome.FELL_BACK
        assert world.state.serving_instance == "op-fallback-again"


def test_an_old_release_that_also_commits_nothing_stays_current():
    """After a fall-back in which the old release commits nothing either, as with an unreachable source, the operation
    fails but leaves that driver running as the current one.
    """
    world = World(traits={"candidate": {"serves": False}, "fallback": {"serves": False}})
    ended = world.play()
    assert ended.outcome is Outcome.FAILED
    assert ended.sentence.endswith(
        "r0001 remains the current release (op-fallback): no trigger has completed yet: query q: it broke"
    )


def test_an_old_release_that_waits_for_its_sink_stays_current():
    """An old release that waits for its unreachable sink after a fall-back is left running. Negative control: one that
    fails for a different cause does not remain the current release.
    """
    world = World(traits={"candidate": {"serves": False}, "fallback": {"takes_over": False}})
    assert "r0001 remains the current release (op-fallback)" in world.play().sentence
    assert world.instances["op-fallback"].life is Life.ALIVE
    stuck = World(traits={"candidate": {"serves": False}, "fallback": {"takes_over": False, "waits": False}})
    assert "remains the current release" not in stuck.play().sentence


STOPPED = DesiredChanged(serve=False, requested_by="ada", reason="maintenance", operation="stop-1")


def test_a_successful_deploy_makes_a_stopped_job_wanted_again():
    """A successful deploy of a stopped job makes the job wanted again."""
    world = stopped_world()
    assert world.play().outcome is Outcome.SUCCEEDED
    assert world.state.wanted


def test_a_deploy_of_a_stopped_job_that_fails_leaves_it_stopped():
    """A failed deploy of a stopped job starts no fall-back and leaves the job stopped, even if the old driver was still
    draining.
    """
    for ended in (True, False):
        world = stopped_world(ended=ended, traits={"candidate": {"serves": False}})
        assert world.play().outcome is Outcome.FAILED
        assert "op-fallback" not in world.instances
        assert not any(each.writes for each in world.instances.values())
        assert not world.state.wanted


def stopped_world(*, ended: bool = True, **given: Any) -> World:
    """Return a world with a deploy of a stopped job; ``ended`` means that the old driver is proven dead."""
    world = World(**given)
    world.record(STOPPED)
    if ended:
        world.instances["old"].end(DriverState.DRAINED)
        world.record(InstanceEnded(operation="stop-1", instance="old", proof="gone", exit="drained"))
    return world
    assert (world.state.serving_release, world.state.serving_instance) == ("r0001", "op-fallback")
    assert world.instances["op-fallback"].writes


def test_no_fall_back_onto_a_checkpoint_that_the_old_release_cannot_read():
    """When the old release cannot continue on the checkpoint, the operation fails without a fall-back and advises to
    deploy a release that fixes the problem.
    """
    world = World(traits={"candidate": {"serves": False}}, reverse=Verdict.SWITCH, back=None)
    ended = world.play()
    assert ended.outcome is Outcome.FAILED
    assert "op-fallback" not in world.instances
    assert "deploy a new release that fixes the problem" in ended.sentence


@pytest.mark.parametrize(("halted", "patience_s"), [(True, HALTED_S), (False, 120.0)])
def test_a_driver_whose_processes_are_stopped_is_killed_early(halted, patience_s):
    """A driver whose processes are stopped is killed after ``HALTED_S`` instead of the drain deadline. Negative
    control: a running driver has the full 120 s.
    """
    world = World(traits={"old": {"drains": False, "halted": halted}})
    assert world.play().outcome is Outcome.SUCCEEDED
    waits = [each.action for each in world.log if isinstance(each.action, Wait) and each.action.on == "old: drain"]
    assert {each.deadline_s for each in waits} == {patience_s}
    killed = next(each.reason for each in world.log if isinstance(each.action, Kill))
    assert ("its processes are stopped" in killed) is halted


def test_a_frozen_driver_is_killed_after_the_drain_deadline():
    """An old driver that does not drain is killed after the deadline, and the deploy succeeds."""
    world = World(traits={"old": {"drains": False}})
    assert world.play().outcome is Outcome.SUCCEEDED
    assert world.instances["old"].life is Life.DEAD
    assert any(isinstance(each.action, Kill) for each in world.log)


def test_an_old_driver_that_cannot_be_proven_dead_stops_the_deploy():
    """An old driver that survives the kill or is unreachable stops the deploy, and the candidate is never appointed."""
    unkillable = World(traits={"old": {"drains": False, "killable": False}})
    assert unkillable.play().outcome is Outcome.FAILED
    assert "op-candidate" not in unkillable.state.appointed
    elsewhere = World(traits={"old": {"reachable": False}})
    ended = elsewhere.play()
    assert ended.outcome is Outcome.REFUSED
    assert "cannot be proven dead" in ended.sentence
    assert not elsewhere.instances["old"].sent


def test_a_driver_that_is_lost_after_its_drain_is_not_proven_dead():
    """A driver whose fate becomes unknown after its drain remains the owner of the checkpoint, and the deploy fails."""
    world = World(traits={"old": {"lost_at": Step.PROVE_DEAD}})
    ended = world.play()
    assert ended.outcome is Outcome.FAILED
    assert "cannot be proven dead" in ended.sentence
    assert [owner.instance for owner in world.state.owners] == ["old"]


@pytest.mark.parametrize("acts", range(1, 24))
def test_an_abort_at_any_point_leaves_a_writing_instance(acts):
    """After an abort at any point of a deploy, the serving instance is writing: the old release, its restart, or the
    new release.
    """
    world = World()
    for _ in range(acts):
        decision = world.decide()
        if decision is None:
            break
        world.perform(decision)
        world.move()
    world.record(AbortRequested(operation=OP, requested_by="x", reason="changed my mind"))
    ended = world.play()
    assert ended.outcome in (Outcome.ABORTED, Outcome.FELL_BACK, Outcome.SUCCEEDED)
    assert world.instances[world.state.serving_instance].writes


SAME = OutputComparison(old_rows=3, new_rows=3)
NOT_THE_SAME = {
    "a row is missing": OutputComparison(old_rows=3, new_rows=2, only_old=1),
    "a row is new": OutputComparison(old_rows=3, new_rows=4, only_new=1),
    "all differ": OutputComparison(old_rows=4, new_rows=4, differing=4, columns={"amount": 4}),
    "not compared": OutputComparison(comparable=False, why="the two were never found to have read the same input"),
}


flags = st.booleans()
trait = st.fixed_dictionaries(
    {
        "becomes_ready": flags,
        "serves": flags,
        "drains": flags,
        "catches_up": flags,
        "killable": st.just(True),
        "lost_at": st.sampled_from([None, None, Step.DRAIN, Step.PROVE_DEAD, Step.FALL_BACK]),
    }
)


@settings(max_examples=300, deadline=None)
@given(
    serving=flags,
    handover=st.sampled_from(Handover),
    verdict=st.sampled_from(Verdict),
    reverse=st.sampled_from(Verdict),
    way=st.sampled_from(
        [Transition.RESUME, Transition.HANDOFF, Transition.REBUILD, Transition.RETURN, Transition.RESTORE]
    ),
    back=st.sampled_from([None, Transition.RESUME, Transition.RETURN, Transition.RESTORE]),
    answer=st.sampled_from([True, False, None]),
    found=st.sampled_from([SAME, *NOT_THE_SAME.values()]),
    traits=st.fixed_dictionaries(
        {"old": trait, "candidate": trait, "describer": trait, "fallback": trait},
    ),
    seed=st.integers(0, 10_000),
)
def test_every_deploy_ends_with_one_writer_at_most(
    serving, handover, verdict, reverse, way, back, answer, found, traits, seed
):
    """Every deploy reaches an outcome and never has two drivers that own the checkpoint, whatever hangs, dies or is
    killed.
    """
    world = World(
        serving=serving,
        handover=handover,
        verdict=verdict,
        reverse=reverse,
        traits=traits,
        way=way if serving else Transition.START,
        back=back,
        answer=answer,
    )
    world.comparison = found
    ended = world.play(chaos=random.Random(seed))
    assert ended.outcome is not None
    if ended.outcome is Outcome.SUCCEEDED:
        assert verdict is not Verdict.REFUSE
        assert verdict is not Verdict.BACKUP or answer
        assert Step.COMPARE not in path(ended) or found is SAME or answer
        assert world.state.serving_instance in ("op-candidate", "op-candidate-approved")
    if ended.outcome is Outcome.REFUSED and serving:
        assert not world.instances["old"].sent


def test_the_one_writer_rule_is_broken_without_the_death_proof(monkeypatch):
    """Negative control: when a frozen driver is reported as dead, the world detects two owners of the checkpoint."""
    world = World(traits={"old": {"drains": False}})
    old = world.instances["old"]
    real = type(old).seen

    def seen_as_dead(self):
        """Report the old driver as dead as soon as it has a DRAIN command, without any proof."""
        seen = real(self)
        if self is not old or CommandKind.DRAIN not in self.sent:
            return seen
        return msgspec.structs.replace(seen, liveness=msgspec.structs.replace(seen.liveness, life=Life.DEAD))

    monkeypatch.setattr(type(old), "seen", seen_as_dead)
    with pytest.raises(AssertionError, match="two drivers"):
        world.play()


def test_the_announced_steps_are_those_that_are_carried_out():
    """A deploy performs exactly the announced steps of its path, in the announced order; a dry run announces only
    BUNDLE, STANDBY and ASSESS.
    """
    world = World()
    world.play()
    announced = [each.step for each in plan_deploy(DeployRequest(job="j"), serving="r0001")]
    acted = list(dict.fromkeys(each.step for each in world.log))
    assert acted == [each for each in announced if each in path(world.operation)]
    assert [each.step for each in plan_deploy(DeployRequest(job="j", dry_run=True), serving="r0001")] == [
        Step.BUNDLE,
        Step.STANDBY,
        Step.ASSESS,
    ]


@pytest.mark.parametrize("way", [Transition.HANDOFF, Transition.REBUILD, Transition.RETURN, Transition.RESTORE])
def test_a_switch_ends_in_its_new_version_and_drains_the_old_driver(way):
    """A deploy that switches the checkpoint makes the new version current and drains the old driver."""
    world = World(verdict=Verdict.SWITCH, way=way, back=Transition.RETURN)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert world.state.current == {"q": "v0002"}
    assert world.instances["old"].state is DriverState.DRAINED


def test_a_dual_run_drains_the_old_driver_only_once_the_new_one_has_caught_up_and_was_compared():
    """In a dual run the old driver is drained only after the outputs were compared, and the new driver catches up once
    more after the drain.
    """
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN)
    world.play()
    steps = [each.step for each in world.log]
    first_drain = next(
        at for at, each in enumerate(world.log) if getattr(each.action, "kind", None) is CommandKind.DRAIN
    )
    assert max(at for at, step in enumerate(steps) if step is Step.COMPARE) < first_drain
    assert Step.CATCH_UP_AFTER_DRAIN in steps[first_drain:]


def test_a_dual_run_that_does_not_catch_up_is_refused():
    """A dual run whose shadow does not catch up in time is refused; the shadow is stopped and the old driver receives
    no command.
    """
    world = World(
        verdict=Verdict.SWITCH,
        way=Transition.REBUILD,
        back=Transition.RETURN,
        traits={"candidate": {"catches_up": False}},
    )
    assert world.play().outcome is Outcome.REFUSED
    assert_untouched(world)


def assert_untouched(world):
    """Check that the old driver writes and received no command, and that the shadow is dead and unrecorded."""
    assert world.instances["old"].writes
    assert not world.instances["old"].sent
    assert world.instances["op-candidate"].life is Life.DEAD
    assert world.state.shadow == ""


@pytest.mark.parametrize("found", NOT_THE_SAME.values(), ids=NOT_THE_SAME)
@pytest.mark.parametrize("answer", [True, False, None])
def test_a_differing_output_takes_over_only_after_an_approval(found, answer):
    """A rebuilt output with missing, new, different or uncompared rows takes over only after a person approves it;
    without an answer the deploy is refused.
    """
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN, answer=answer)
    world.comparison = found
    ended = world.play()
    assert ended.outcome is (Outcome.SUCCEEDED if answer else Outcome.REFUSED)
    waits = [each for each in world.log if each.step is Step.REVIEW and isinstance(each.action, Wait)]
    assert waits
    assert "a person must approve: query q: " in waits[0].reason
    assert ended.compared == {"q": found}
    if not answer:
        assert "not approved" in ended.sentence
        assert_untouched(world)


def test_a_comparison_that_exceeds_its_time_requires_an_approval():
    """When the comparison does not complete within 300 s, a person decides, and the deploy succeeds once approved."""
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN, answer=True)
    world.comparison = None
    ended = world.play()
    assert ended.outcome is Outcome.SUCCEEDED
    assert ended.compared["q"].why == "the comparison did not complete within 300 s"
    assert any("a person must approve: query q: not compared" in each.reason for each in world.log)


def test_transitions_alone_decide_whether_an_approval_is_required():
    """The transitions alone decide whether an approval is required, even if the verdict is worse because of a removed
    query.
    """
    operation = msgspec.structs.replace(World(verdict=Verdict.BACKUP, answer=None).play(), verdict=Verdict.REFUSE)
    assert {Step.KEEP_STATE, Step.APPROVE, Step.READY} <= set(path(operation))


def test_a_most_differing_threshold_of_one_skips_the_review():
    """Negative control: with ``most_differing`` at 1.0, a rebuild in which all rows differ takes over without a
    review.
    """
    world = World(
        verdict=Verdict.SWITCH,
        way=Transition.REBUILD,
        back=Transition.RETURN,
        answer=None,
        request={"most_differing": 1.0},
    )
    world.comparison = NOT_THE_SAME["all differ"]
    assert world.play().outcome is Outcome.SUCCEEDED
    assert not any(each.step is Step.REVIEW for each in world.log)


def test_differences_in_allowed_columns_require_no_review():
    """Differences in columns that are declared as allowed require no review; the comparison counts them separately."""
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN, answer=None)
    world.comparison = OutputComparison(old_rows=4, new_rows=4, allowed=("amount",), columns={"amount": 4})
    assert world.play().outcome is Outcome.SUCCEEDED
    assert "the same, apart from amount (4), which may differ" in world.operation.compared["q"].sentence


@pytest.mark.parametrize("request_", [{}, {"compare": False}], ids=["compared", "not to be compared"])
def test_a_rebuild_with_opaque_code_requires_an_approval(request_):
    """A rebuild with opaque code requires an approval even if its output was compared as equal; with ``accept_risk`` it
    succeeds without one.
    """
    ways = {"verdict": Verdict.SWITCH, "way": Transition.REBUILD, "back": Transition.RETURN, "answer": None}
    asking = World(**ways, request=request_)
    asking.opaque_code = True
    assert asking.play().outcome is Outcome.REFUSED
    assert_untouched(asking)
    accepting = World(**ways, request={**request_, "accept_risk": True})
    accepting.opaque_code = True
    assert accepting.play().outcome is Outcome.SUCCEEDED


def test_a_skipped_comparison_is_reported_in_the_outcome():
    """With ``compare=false`` the operation's sentence states that the rebuilt output was not compared, as requested."""
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN, request={"compare": False})
    ended = world.play()
    assert ended.outcome is Outcome.SUCCEEDED
    assert "the rebuilt output of q was not compared, as requested" in ended.sentence


def test_a_shadow_that_dies_during_the_review_ends_the_dual_run():
    """A shadow that dies during the review ends the dual run: the deploy is refused and the old driver is
    unaffected.
    """
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN, answer=None)
    world.comparison = NOT_THE_SAME["all differ"]
    while not any(each.step is Step.REVIEW for each in world.log):
        decision = world.decide()
        world.log.append(decision)
        world.perform(decision)
        world.move()
    world.instances["op-candidate"].end(DriverState.FAILED)
    assert world.play().outcome is Outcome.REFUSED
    assert_untouched(world)


def test_an_opaque_change_waits_for_a_person_without_holding_a_driver():
    """For an opaque change the state is backed up and the standby stopped before the approval; afterwards a new standby
    takes over.
    """
    world = World(verdict=Verdict.BACKUP)
    assert world.play().outcome is Outcome.SUCCEEDED
    labels = [type(each.action).__name__ + getattr(each.action, "instance", "") for each in world.log]
    assert labels.index("BackUp") < labels.index("RecordEndop-candidate") < labels.index("Launchop-candidate-approved")
    assert world.state.serving_instance == "op-candidate-approved"


@pytest.mark.parametrize("answer", [False, None])
def test_a_deploy_that_is_declined_or_unanswered_is_refused(answer):
    """A deploy that is declined or not answered in time is refused, and the old driver receives no command."""
    world = World(verdict=Verdict.BACKUP, answer=answer)
    ended = world.play()
    assert ended.outcome is Outcome.REFUSED
    assert "not approved" in ended.sentence
    assert not world.instances["old"].sent


def test_a_deploy_that_changed_since_its_approval_is_refused():
    """A deploy is refused when what was approved has changed since the approval."""
    world = World(verdict=Verdict.BACKUP)
    world.drifts = True
    assert world.play().outcome is Outcome.REFUSED
    assert not world.instances["old"].sent


def test_an_accepted_risk_is_backed_up_and_needs_no_approval():
    """With ``accept_risk`` an opaque change needs no approval, but the state is still backed up."""
    world = World(verdict=Verdict.BACKUP, answer=None, request={"accept_risk": True})
    assert world.play().outcome is Outcome.SUCCEEDED
    steps = [each.step for each in world.log]
    assert Step.KEEP_STATE in steps
    assert Step.APPROVE not in steps


@pytest.mark.parametrize(
    ("way", "back", "version"),
    [
        (Transition.RESUME, Transition.RESUME, "v0001"),
        (Transition.RESUME, Transition.RESTORE, "v0003"),
        (Transition.HANDOFF, Transition.RETURN, "v0001"),
        (Transition.REBUILD, Transition.RETURN, "v0001"),
    ],
)
def test_a_failed_release_falls_back_by_the_assessed_way(way, back, version):
    """A release that fails falls back by the assessed way: forward from its last commit, to the version that it left,
    or to that version's last batch.
    """
    world = World(
        verdict=Verdict.SWITCH, way=way, back=back, traits={"candidate": {"serves": way is Transition.REBUILD}}
    )
    if way is Transition.REBUILD:
        world.breaks_at_go = True
    assert world.play().outcome is Outcome.FELL_BACK
    assert (world.state.serving_release, world.state.current) == ("r0001", {"q": version})


LOSES = "going back to v0001 loses rows: 2 of 4 files that were read since are missing, such as /in/a.json"


@pytest.mark.parametrize(
    ("way", "back"), [(Transition.REBUILD, Transition.RETURN), (Transition.RESUME, Transition.RESTORE)]
)
def test_no_automatic_way_back_loses_rows(way: Transition, back: Transition) -> None:
    """When going back would lose rows, the operation fails with the candidate's release and checkpoints as the current
    ones and no running driver, and a person decides.

    Negative control: when the input is present, the deploy falls back.
    """
    forth = {"verdict": Verdict.SWITCH, "reverse": Verdict.SWITCH, "way": way, "back": back}
    world = World(**forth, request=LONG, traits=FAILS_LATE)
    world.lost_back = {"q": LOSES}
    ended = world.play()
    assert ended.outcome is Outcome.FAILED
    assert f"query q: {LOSES}; no driver runs. " in ended.sentence
    assert "streamkeeper rollback j --accept-loss" in ended.sentence
    assert (world.state.serving_release, world.state.current["q"]) == ("r0002", "v0002" if way.switches else "v0001")
    assert world.state.owners == []
    assert not any(isinstance(each.action, RestoreVersions) for each in world.log)
    there = World(**forth, request=LONG, traits=FAILS_LATE)
    assert there.play().outcome is Outcome.FELL_BACK


def test_the_old_release_continues_from_the_last_commit_rather_than_lose_rows() -> None:
    """When going back to the old version would lose rows and the old release can read the candidate's checkpoint, it
    continues from the candidate's last commit.
    """
    forth = {"verdict": Verdict.SWITCH, "reverse": Verdict.RESUME, "way": Transition.REBUILD, "back": Transition.RETURN}
    world = World(**forth, request=LONG, traits=FAILS_LATE)
    world.lost_back = {"q": LOSES}
    assert world.play().outcome is Outcome.FELL_BACK
    assert (world.state.serving_release, world.state.current) == ("r0001", {"q": "v0002"})


def test_a_release_kept_current_for_a_loss_stays_when_missing_files_reappear() -> None:
    """Once a release is recorded as current because going back would lose rows, it stays current even if the missing
    files reappear.
    """
    world = World(
        verdict=Verdict.SWITCH,
        reverse=Verdict.SWITCH,
        way=Transition.REBUILD,
        back=Transition.RETURN,
        request=LONG,
        traits=FAILS_LATE,
    )
    world.lost_back = {"q": LOSES}
    while world.state.serving_release != "r0002":
        world.perform(world.decide())
        world.move()
    world.lost_back = {}
    assert world.play().outcome is Outcome.FAILED
    assert world.state.current == {"q": "v0002"}


def test_a_release_that_breaks_in_its_probation_gives_way():
    """A release that fails in its probation, after its first commit, falls back."""
    world = World(traits={"candidate": {"breaks_after": 2}})
    ended = world.play()
    assert ended.outcome is Outcome.FELL_BACK
    assert "it broke" in ended.sentence
    assert ended.has_done(Step.FIRST_COMMIT)


def test_a_probation_counts_its_triggers_after_the_first_one():
    """A probation of 3 batches waits for 3 triggers after the first one. Negative control: at 4 triggers it has
    passed.
    """
    world = World(request={"probation_batches": 3})
    play_to(world, Step.PROBATION)
    world.instances["op-candidate"].triggers = 3
    assert isinstance(world.decide().action, Wait)
    world.instances["op-candidate"].triggers = 4
    assert world.decide().action == MarkDone()


def test_a_query_that_is_not_in_the_report_has_no_trigger_in_a_probation():
    """A query without a status report, as after a restart, counts as 0 triggers, and the probation waits."""
    world = World(request={"probation_batches": 3})
    play_to(world, Step.PROBATION)
    world.instances["op-candidate"].state = None
    decision = world.decide()
    assert isinstance(decision.action, Wait)
    assert decision.reason == "op-candidate has completed 0 of 4 triggers"


def test_a_release_that_falls_behind_more_and_more_gives_way():
    """A release that commits without errors but falls further and further behind gives way to the old release."""
    world = World(traits={"candidate": {"lags": True}})
    ended = world.play()
    assert ended.outcome is Outcome.FELL_BACK
    assert "records behind" in ended.sentence


def test_a_shadow_that_keeps_failing_is_refused_with_its_own_error():
    """A shadow that keeps failing is given up with its own error, and the old driver receives no command."""
    world = World(
        verdict=Verdict.SWITCH,
        way=Transition.REBUILD,
        back=Transition.RETURN,
        traits={"candidate": {"breaks_after": 1}},
    )
    ended = world.play()
    assert ended.outcome is Outcome.REFUSED
    assert "it broke" in ended.sentence
    assert not world.instances["old"].sent


@pytest.mark.parametrize("request_", [{"dry_run": True}, {"handover": Handover.COLD}])
def test_a_describer_that_exceeds_its_deadline_is_refused_and_stopped(request_: dict[str, Any]) -> None:
    """A dry run or a cold deploy is refused when its describer does not gather the evidence in time, and the describer
    is stopped.
    """
    world = World(**request_, traits={"describer": {"gathers": False}})
    world.play()
    assert world.operation.outcome is Outcome.REFUSED
    assert "did not reach evidence within" in world.operation.sentence
    assert world.operation.verdict is None
    assert world.instances["op-describer"].life is Life.DEAD


def test_a_standby_that_never_becomes_ready_is_abandoned_with_its_reason() -> None:
    """A standby that does not become ready within 300 s is given up with the reason that it reported."""
    world = World(traits={"candidate": {"becomes_ready": False, "held_up": "no executor came"}})
    assert world.play().outcome is Outcome.REFUSED
    assert world.operation.sentence.startswith("op-candidate did not reach standby within 300 s: no executor came")


def test_a_cold_deploy_starts_a_second_describer_after_an_approval() -> None:
    """After an approval, a cold deploy starts a second describer, because the old release has processed more input
    since the first one.
    """
    world = World(handover=Handover.COLD, verdict=Verdict.BACKUP)
    world.play()
    assert world.operation.outcome is Outcome.SUCCEEDED
    assert {"op-describer", "op-describer-approved", "op-candidate-approved"} <= set(world.instances)
