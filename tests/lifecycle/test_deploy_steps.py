"""The deploy's decisions, played out in a world without I/O."""

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
    """The plain way ends with the candidate serving, whichever handover was asked for."""
    world = World(handover=handover)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert (world.state.serving_release, world.state.serving_instance) == ("r0002", "op-candidate")
    assert world.instances["old"].state is DriverState.DRAINED
    assert not any(isinstance(each.action, Kill) for each in world.log)


def test_the_cutover_snapshot_is_taken_once_the_new_release_commits_and_before_it_is_promoted():
    """The way back is taken when it costs no gap, and before anybody relies on it."""
    world = World()
    operation = world.play()
    labels = [type(each.action).__name__ for each in world.log]
    assert labels.index("TakeCutoverSnapshots") < labels.index("Promote")
    assert world.log[labels.index("TakeCutoverSnapshots")].step is Step.SNAPSHOT
    assert operation.cutover_snapshots == CutoverSnapshots({"q": "s0001"}, {})
    assert operation.sentence == "r0002 is the current release (op-candidate)"


def test_a_cutover_snapshot_that_cannot_be_taken_is_told_and_does_not_stop_the_deploy():
    """The new release serves either way; its operation says what is missing."""
    world = World()
    world.snapshots = False
    operation = world.play()
    assert operation.outcome is Outcome.SUCCEEDED
    assert "no cutover snapshot of q: full" in operation.sentence


def test_a_first_deploy_needs_nobody_to_drain():
    """Without a serving release the candidate goes at once."""
    world = World(serving=False)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert not any(isinstance(each.action, Send) and each.action.kind is CommandKind.DRAIN for each in world.log)


def test_cold_starts_the_candidate_only_after_the_old_one_is_dead():
    """A cold handover never has two Spark drivers that could serve side by side."""
    world = World(handover=Handover.COLD)
    world.play()
    labels = [type(each.action).__name__ + getattr(each.action, "instance", "") for each in world.log]
    assert labels.index("RecordEndold") < labels.index("Launchop-candidate")


def play_to(world: World, step: Step) -> Decision:
    """Play until a decision of the step comes, and return it; it is not performed."""
    while (decision := world.decide()) is not None and decision.step is not step:
        world.perform(decision)
        world.move()
    assert decision is not None
    return decision


@pytest.mark.parametrize("end", [DriverState.FAILED, DriverState.STARTING])
def test_the_old_driver_is_not_drained_for_a_candidate_that_is_no_longer_ready(end):
    """A candidate that has failed, or starts again, cannot take over. Negative control: on standby, it is begun."""
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
    """The old driver gets no command, and the operation says REFUSED."""
    world = World(verdict=Verdict.REFUSE)
    assert world.play().outcome is Outcome.REFUSED
    assert world.instances["old"].writes
    assert not world.instances["old"].sent
    assert world.state.serving_release == "r0001"


@pytest.mark.parametrize(
    ("verdict", "way"), [(Verdict.RESUME, Transition.RESUME), (Verdict.SWITCH, Transition.REBUILD)]
)
def test_a_recorded_refusal_counts_whatever_the_verdict_is(verdict, way):
    """One query of several may have no way, while the others have theirs: none of them is switched."""
    world = World(verdict=verdict, way=way, back=Transition.RETURN)
    world.refusal = "query r: its sources cannot be read again"
    assert world.play().outcome is Outcome.REFUSED
    assert_untouched(world)


def test_a_dry_run_starts_nothing_that_could_serve():
    """A dry run describes, assesses and ends."""
    world = World(dry_run=True)
    assert world.play().outcome is Outcome.DRY_RUN
    assert set(world.instances) == {"old", "op-describer"}
    assert world.instances["old"].writes


@pytest.mark.parametrize("handover", list(Handover))
def test_a_candidate_that_cannot_start_is_refused_before_the_drain(handover):
    """A job that does not import, or hangs, costs the serving release nothing."""
    world = World(
        handover=handover, traits={"candidate": {"becomes_ready": False}, "describer": {"becomes_ready": False}}
    )
    assert world.play().outcome is Outcome.REFUSED
    assert world.instances["old"].writes


def test_a_candidate_that_never_commits_gives_way_to_the_old_release():
    """Past its deadline it is ended and the previous release goes again, in a new instance."""
    world = World(traits={"candidate": {"serves": False}})
    assert world.play().outcome is Outcome.FELL_BACK
    assert (world.state.serving_release, world.state.serving_instance) == ("r0001", "op-fallback")
    assert world.instances["op-fallback"].writes


def acts_on(world: World, instance: str) -> list[tuple[Step, str]]:
    """The step and the kind of every act that names the instance, in order."""
    return [
        (each.step, type(each.action).__name__)
        for each in world.log
        if getattr(each.action, "instance", "") == instance
    ]


LONG = {"probation_batches": 9}
FAILS_LATE = {"candidate": {"breaks_after": 6}}
"""It makes its first triggers and fails in a long probation."""


def test_the_old_release_stands_by_while_the_candidate_may_fail():
    """Going back then starts nothing. Negative control: without a reserve the driver starts after the fall-back."""
    world = World(request=LONG, traits=FAILS_LATE)
    assert world.play().outcome is Outcome.FELL_BACK
    assert (Step.PROBATION, "Launch") in acts_on(world, "op-fallback")
    assert (Step.FALL_BACK, "Launch") not in acts_on(world, "op-fallback")
    cold = World(request=LONG, traits=FAILS_LATE, handover=Handover.COLD)
    assert cold.play().outcome is Outcome.FELL_BACK
    assert (Step.FALL_BACK, "Launch") in acts_on(cold, "op-fallback")


def test_the_reserve_ends_once_the_candidate_has_held():
    """It owned nothing at any time; a candidate that holds at once needs none."""
    world = World(request=LONG)
    assert world.play().outcome is Outcome.SUCCEEDED
    reserve = world.state.instances["op-fallback"]
    assert (reserve.ended, reserve.appointed) == (True, False)
    assert world.instances["op-fallback"].life is Life.DEAD
    quick = World(request={"probation_batches": 0})
    assert quick.play().outcome is Outcome.SUCCEEDED
    assert "op-fallback" not in quick.instances


def test_a_reserve_that_hangs_is_killed_and_the_deploy_has_succeeded():
    """What it does is its own affair: the candidate serves."""
    world = World(traits={"fallback": {"drains": False}}, request=LONG)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert world.instances["op-fallback"].life is Life.DEAD
    lost = World(traits={"fallback": {"reachable": False}}, request=LONG)
    assert lost.play().outcome is Outcome.SUCCEEDED


def test_a_reserve_starts_at_the_first_failure():
    """The candidate is given up at the second. Negative control: without one it is waited for."""
    world = World(request=LONG)
    while (decision := world.decide()).step is not Step.PROBATION:
        world.perform(decision)
        world.move()
    assert isinstance(decision.action, Wait)
    world.instances["op-candidate"].failures = 1
    assert world.decide().action == Plan("op-fallback", "r0001", Role.FALLBACK)


def test_a_fall_back_starts_the_old_release_while_the_candidate_ends():
    """Nothing serves meanwhile; it is appointed only once the candidate is proven dead."""
    world = World(request={"probation_batches": 0}, traits={"candidate": {"serves": False}})
    assert world.play().outcome is Outcome.FELL_BACK
    acts = [f"{type(each.action).__name__} {getattr(each.action, 'instance', '')}" for each in world.log]
    order = ("Launch op-fallback", "RecordEnd op-candidate", "Appoint op-fallback")
    assert [act for act in acts if act in order] == [*order]


def test_a_reserve_of_which_no_process_comes_is_given_up():
    """It is not started for ever, and the candidate's fall-back does not wait for it."""
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


def test_a_reserve_that_was_told_to_stop_is_ended_and_not_appointed() -> None:
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
    """It could not take over."""
    world = World(request=LONG, traits=FAILS_LATE, reverse=Verdict.SWITCH, back=None)
    assert world.play().outcome is Outcome.FAILED
    assert "op-fallback" not in world.instances


def test_where_the_reserve_has_ended_the_old_release_starts_again():
    """Died in the probation, or never ready: another driver of it goes; one that hangs is ended first."""
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


def test_an_old_release_that_commits_nothing_either_is_left_to_serve():
    """A source that nobody reaches: the only driver that can go on once it is back is not ended."""
    world = World(traits={"candidate": {"serves": False}, "fallback": {"serves": False}})
    ended = world.play()
    assert ended.outcome is Outcome.FAILED
    assert ended.sentence.endswith(
        "r0001 remains the current release (op-fallback): no trigger has completed yet: query q: it broke"
    )


def test_an_old_release_that_waits_for_its_sink_is_left_to_serve():
    """It has not taken over yet; negative control: one that waits for nothing is ended."""
    world = World(traits={"candidate": {"serves": False}, "fallback": {"takes_over": False}})
    assert "r0001 remains the current release (op-fallback)" in world.play().sentence
    assert world.instances["op-fallback"].life is Life.ALIVE
    stuck = World(traits={"candidate": {"serves": False}, "fallback": {"takes_over": False, "waits": False}})
    assert "remains the current release" not in stuck.play().sentence


STOPPED = DesiredChanged(serve=False, requested_by="ada", reason="maintenance", operation="stop-1")


def test_a_deploy_of_a_stopped_job_wants_it_to_serve_once_it_is_promoted():
    """Not before."""
    world = stopped_world()
    assert world.play().outcome is Outcome.SUCCEEDED
    assert world.state.wanted


def test_a_deploy_of_a_stopped_job_that_fails_leaves_it_stopped():
    """What served before was to serve no more: it does not go again, also when it was still draining."""
    for ended in (True, False):
        world = stopped_world(ended=ended, traits={"candidate": {"serves": False}})
        assert world.play().outcome is Outcome.FAILED
        assert "op-fallback" not in world.instances
        assert not any(each.writes for each in world.instances.values())
        assert not world.state.wanted


def stopped_world(*, ended: bool = True, **given: Any) -> World:
    """A deploy of a job that was stopped; ``ended``: its driver is proven dead."""
    world = World(**given)
    world.record(STOPPED)
    if ended:
        world.instances["old"].end(DriverState.DRAINED)
        world.record(InstanceEnded(operation="stop-1", instance="old", proof="gone", exit="drained"))
    return world
    assert (world.state.serving_release, world.state.serving_instance) == ("r0001", "op-fallback")
    assert world.instances["op-fallback"].writes


def test_no_fall_back_onto_a_checkpoint_that_the_old_release_cannot_read():
    """When the way back is not RESUME, the operation fails and says so; it never corrupts."""
    world = World(traits={"candidate": {"serves": False}}, reverse=Verdict.SWITCH, back=None)
    ended = world.play()
    assert ended.outcome is Outcome.FAILED
    assert "op-fallback" not in world.instances
    assert "deploy a new release that fixes the problem" in ended.sentence


@pytest.mark.parametrize(("halted", "patience_s"), [(True, HALTED_S), (False, 120.0)])
def test_a_driver_whose_processes_are_stopped_is_not_waited_for(halted, patience_s):
    """It cannot drain, so it is killed after a few seconds. Negative control: one that runs has all of its time."""
    world = World(traits={"old": {"drains": False, "halted": halted}})
    assert world.play().outcome is Outcome.SUCCEEDED
    waits = [each.action for each in world.log if isinstance(each.action, Wait) and each.action.on == "old: drain"]
    assert {each.deadline_s for each in waits} == {patience_s}
    killed = next(each.reason for each in world.log if isinstance(each.action, Kill))
    assert ("its processes are stopped" in killed) is halted


def test_a_frozen_driver_is_killed_after_the_drain_deadline():
    """A driver that does not answer is ended as a whole tree, then proven dead."""
    world = World(traits={"old": {"drains": False}})
    assert world.play().outcome is Outcome.SUCCEEDED
    assert world.instances["old"].life is Life.DEAD
    assert any(isinstance(each.action, Kill) for each in world.log)


def test_an_old_driver_that_cannot_be_proven_dead_stops_the_deploy():
    """Neither killed nor unreachable: the candidate never gets near the checkpoint."""
    unkillable = World(traits={"old": {"drains": False, "killable": False}})
    assert unkillable.play().outcome is Outcome.FAILED
    assert "op-candidate" not in unkillable.state.appointed
    elsewhere = World(traits={"old": {"reachable": False}})
    ended = elsewhere.play()
    assert ended.outcome is Outcome.REFUSED
    assert "cannot be proven dead" in ended.sentence
    assert not elsewhere.instances["old"].sent


def test_a_driver_that_is_lost_after_its_drain_is_not_proven_dead():
    """An unknown fate is no proof: the checkpoint keeps its owner, and the candidate never gets it."""
    world = World(traits={"old": {"lost_at": Step.PROVE_DEAD}})
    ended = world.play()
    assert ended.outcome is Outcome.FAILED
    assert "cannot be proven dead" in ended.sentence
    assert [owner.instance for owner in world.state.owners] == ["old"]


@pytest.mark.parametrize("acts", range(1, 24))
def test_an_abort_at_any_point_leaves_something_serving(acts):
    """Whenever it comes, either the old release serves on, or goes again, or the new one was already through."""
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
    """Whatever hangs, dies or is killed: an outcome is reached, and never do two drivers own the checkpoint."""
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
    """Negative control: call a frozen driver dead, and the world sees two owners."""
    world = World(traits={"old": {"drains": False}})
    old = world.instances["old"]
    real = type(old).seen

    def seen_as_dead(self):
        """A death proof that believes what it is told."""
        seen = real(self)
        if self is not old or CommandKind.DRAIN not in self.sent:
            return seen
        return msgspec.structs.replace(seen, liveness=msgspec.structs.replace(seen.liveness, life=Life.DEAD))

    monkeypatch.setattr(type(old), "seen", seen_as_dead)
    with pytest.raises(AssertionError, match="two drivers"):
        world.play()


def test_the_announced_steps_are_those_that_are_carried_out():
    """Every step that acts was announced, in the announced order."""
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
    """The appointment that lets the candidate go names the version: that record is the cutover."""
    world = World(verdict=Verdict.SWITCH, way=way, back=Transition.RETURN)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert world.state.current == {"q": "v0002"}
    assert world.instances["old"].state is DriverState.DRAINED


def test_a_dual_run_drains_the_old_driver_only_once_the_new_one_has_caught_up_and_was_compared():
    """Until then the old one serves as if nothing had been."""
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN)
    world.play()
    steps = [each.step for each in world.log]
    first_drain = next(
        at for at, each in enumerate(world.log) if getattr(each.action, "kind", None) is CommandKind.DRAIN
    )
    assert max(at for at, step in enumerate(steps) if step is Step.COMPARE) < first_drain
    assert Step.CATCH_UP_AFTER_DRAIN in steps[first_drain:]


def test_a_dual_run_that_does_not_get_there_leaves_the_old_one_serving():
    """Too late: the shadow is ended, the old driver never hears of it."""
    world = World(
        verdict=Verdict.SWITCH,
        way=Transition.REBUILD,
        back=Transition.RETURN,
        traits={"candidate": {"catches_up": False}},
    )
    assert world.play().outcome is Outcome.REFUSED
    assert_untouched(world)


def assert_untouched(world):
    """The old driver serves and never heard of it; nothing of the shadow is left."""
    assert world.instances["old"].writes
    assert not world.instances["old"].sent
    assert world.instances["op-candidate"].life is Life.DEAD
    assert world.state.shadow == ""


@pytest.mark.parametrize("found", NOT_THE_SAME.values(), ids=NOT_THE_SAME)
@pytest.mark.parametrize("answer", [True, False, None])
def test_an_output_that_is_not_the_same_serves_only_when_a_person_says_so(found, answer):
    """Nothing may be missing, new, different or not compared: else somebody is asked, and silence is a no."""
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


def test_a_comparison_that_takes_too_long_is_for_a_person_to_decide_about():
    """A large output can never be compared in time: that is no reason to refuse it, nor to let it through."""
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN, answer=True)
    world.comparison = None
    ended = world.play()
    assert ended.outcome is Outcome.SUCCEEDED
    assert ended.compared["q"].why == "the comparison did not complete within 300 s"
    assert any("a person must approve: query q: not compared" in each.reason for each in world.log)


def test_the_ways_alone_say_whether_a_person_is_asked():
    """A verdict may be worse than the ways, by a query that the candidate has not any more."""
    operation = msgspec.structs.replace(World(verdict=Verdict.BACKUP, answer=None).play(), verdict=Verdict.REFUSE)
    assert {Step.KEEP_STATE, Step.APPROVE, Step.READY} <= set(path(operation))


def test_with_the_threshold_that_was_the_default_all_rows_may_differ_unattended():
    """The negative control: a share of 1.0 of differing rows, and nobody is asked."""
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


def test_columns_that_are_meant_to_differ_ask_nobody():
    """What a change redefines, or somebody has declared, is counted by itself."""
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN, answer=None)
    world.comparison = OutputComparison(old_rows=4, new_rows=4, allowed=("amount",), columns={"amount": 4})
    assert world.play().outcome is Outcome.SUCCEEDED
    assert "the same, apart from amount (4), which may differ" in world.operation.compared["q"].sentence


@pytest.mark.parametrize("request_", [{}, {"compare": False}], ids=["compared", "not to be compared"])
def test_opaque_code_is_asked_about_on_the_way_of_a_rebuild_as_well(request_):
    """Equal rows so far prove nothing of the next ones; who accepts the risk beforehand is not asked."""
    ways = {"verdict": Verdict.SWITCH, "way": Transition.REBUILD, "back": Transition.RETURN, "answer": None}
    asking = World(**ways, request=request_)
    asking.opaque_code = True
    assert asking.play().outcome is Outcome.REFUSED
    assert_untouched(asking)
    accepting = World(**ways, request={**request_, "accept_risk": True})
    accepting.opaque_code = True
    assert accepting.play().outcome is Outcome.SUCCEEDED


def test_an_output_that_nobody_compared_is_told():
    """``compare=false`` is a decision, and stands in the report."""
    world = World(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN, request={"compare": False})
    ended = world.play()
    assert ended.outcome is Outcome.SUCCEEDED
    assert "the rebuilt output of q was not compared, as requested" in ended.sentence


def test_a_shadow_that_dies_while_a_person_is_asked_ends_the_dual_run():
    """There is nothing left to approve."""
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
    """The state is backed up, the standby stopped, and started again once somebody has approved."""
    world = World(verdict=Verdict.BACKUP)
    assert world.play().outcome is Outcome.SUCCEEDED
    labels = [type(each.action).__name__ + getattr(each.action, "instance", "") for each in world.log]
    assert labels.index("BackUp") < labels.index("RecordEndop-candidate") < labels.index("Launchop-candidate-approved")
    assert world.state.serving_instance == "op-candidate-approved"


@pytest.mark.parametrize("answer", [False, None])
def test_what_nobody_approves_is_not_done(answer):
    """Declined, or not answered in time: the old release serves on, untouched."""
    world = World(verdict=Verdict.BACKUP, answer=answer)
    ended = world.play()
    assert ended.outcome is Outcome.REFUSED
    assert "not approved" in ended.sentence
    assert not world.instances["old"].sent


def test_what_has_drifted_since_it_was_approved_is_not_done():
    """An approval is for what was seen, and for nothing else."""
    world = World(verdict=Verdict.BACKUP)
    world.drifts = True
    assert world.play().outcome is Outcome.REFUSED
    assert not world.instances["old"].sent


def test_a_risk_that_was_accepted_is_backed_up_and_not_asked_about():
    """The way back is taken all the same."""
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
def test_a_release_that_does_not_hold_gives_way_by_the_way_back_that_was_assessed(way, back, version):
    """Forward from the candidate's last commit, back to the version it left, or to its last batch."""
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
    """A person decides: the candidate's release stays the current one, with its checkpoints, and nothing runs.

    Negative control: with the input there, the old release serves again.
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


def test_what_the_old_release_takes_it_goes_on_from_instead_of_losing_rows() -> None:
    """Forward from the candidate's last commit, although the version that it left is kept."""
    forth = {"verdict": Verdict.SWITCH, "reverse": Verdict.RESUME, "way": Transition.REBUILD, "back": Transition.RETURN}
    world = World(**forth, request=LONG, traits=FAILS_LATE)
    world.lost_back = {"q": LOSES}
    assert world.play().outcome is Outcome.FELL_BACK
    assert (world.state.serving_release, world.state.current) == ("r0001", {"q": "v0002"})


def test_a_release_that_stays_current_for_a_loss_does_not_go_back_once_the_files_are_there_again() -> None:
    """It is on record as the current one by then: the checkpoints of the release before are none of its."""
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
    """It has committed once, which is not enough."""
    world = World(traits={"candidate": {"breaks_after": 2}})
    ended = world.play()
    assert ended.outcome is Outcome.FELL_BACK
    assert "it broke" in ended.sentence
    assert ended.has_done(Step.FIRST_COMMIT)


def test_a_probation_counts_its_triggers_after_the_first_one():
    """The first trigger proved that the release starts. Negative control: one trigger more, and it has passed."""
    world = World(request={"probation_batches": 3})
    play_to(world, Step.PROBATION)
    world.instances["op-candidate"].triggers = 3
    assert isinstance(world.decide().action, Wait)
    world.instances["op-candidate"].triggers = 4
    assert world.decide().action == MarkDone()


def test_a_query_that_is_not_in_the_report_has_no_trigger_in_a_probation():
    """A driver that has just restarted has written no report yet: the wait says 0 triggers, and does not end."""
    world = World(request={"probation_batches": 3})
    play_to(world, Step.PROBATION)
    world.instances["op-candidate"].state = None
    decision = world.decide()
    assert isinstance(decision.action, Wait)
    assert decision.reason == "op-candidate has completed 0 of 4 triggers"


def test_a_release_that_falls_behind_more_and_more_gives_way():
    """It commits without an error, and never keeps up."""
    world = World(traits={"candidate": {"lags": True}})
    ended = world.play()
    assert ended.outcome is Outcome.FELL_BACK
    assert "records behind" in ended.sentence


def test_a_shadow_that_fails_again_and_again_is_given_up_with_its_own_error():
    """Not after the hours that a catch-up may take; the old driver never hears of it."""
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
def test_a_describer_that_finds_no_end_is_refused_and_ended(request_: dict[str, Any]) -> None:
    """What a dry run or a cold deploy could not look at in time is no reason to go on."""
    world = World(**request_, traits={"describer": {"gathers": False}})
    world.play()
    assert world.operation.outcome is Outcome.REFUSED
    assert "did not reach evidence within" in world.operation.sentence
    assert world.operation.verdict is None
    assert world.instances["op-describer"].life is Life.DEAD


def test_a_standby_that_is_held_up_is_given_up_with_what_holds_it_up() -> None:
    """Not with its deadline alone, of which nobody could mend anything."""
    world = World(traits={"candidate": {"becomes_ready": False, "held_up": "no executor came"}})
    assert world.play().outcome is Outcome.REFUSED
    assert world.operation.sentence.startswith("op-candidate did not reach standby within 300 s: no executor came")


def test_a_cold_deploy_looks_again_once_a_person_has_approved() -> None:
    """The old release has served on meanwhile: another describer gathers what is there by now."""
    world = World(handover=Handover.COLD, verdict=Verdict.BACKUP)
    world.play()
    assert world.operation.outcome is Outcome.SUCCEEDED
    assert {"op-describer", "op-describer-approved", "op-candidate-approved"} <= set(world.instances)
