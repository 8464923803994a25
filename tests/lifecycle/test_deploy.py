"""The deploy's decisions, played out in a world without I/O."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkeeper.lifecycle.actions import Kill, Send
from streamkeeper.lifecycle.steps import Step, plan_deploy
from streamkeeper.model.control import CommandKind, DriverState
from streamkeeper.model.finding import Verdict
from streamkeeper.model.journal import AbortRequested, DeployRequest, Handover, Outcome
from streamkeeper.model.liveness import Life
from tests.lifecycle.deploy_world import OP, World


@pytest.mark.parametrize("handover", list(Handover))
def test_a_compatible_release_takes_over_and_the_old_one_is_drained_not_killed(handover):
    """The plain way ends with the candidate serving, whichever handover was asked for."""
    world = World(handover=handover)
    assert world.play().outcome is Outcome.SUCCEEDED
    assert (world.state.serving_release, world.state.serving_instance) == ("r0002", "op-candidate")
    assert world.instances["old"].state is DriverState.DRAINED
    assert not any(isinstance(each.action, Kill) for each in world.log)


def test_the_boundary_is_preserved_once_the_new_release_commits_and_before_it_is_promoted():
    """The way back is taken when it costs no gap, and before anybody relies on it."""
    world = World()
    operation = world.play()
    labels = [type(each.action).__name__ for each in world.log]
    assert labels.index("Preserve") < labels.index("Promote")
    assert world.log[labels.index("Preserve")].step is Step.BOUNDARY
    assert operation.done[Step.BOUNDARY.label] == {"q": "s0001"}
    assert operation.sentence == "r0002 serves (op-candidate)"


def test_a_boundary_that_cannot_be_preserved_is_told_and_does_not_stop_the_deploy():
    """The new release serves either way; its operation says what is missing."""
    world = World()
    world.preserves = False
    operation = world.play()
    assert operation.outcome is Outcome.SUCCEEDED
    assert "no snapshot of the boundary: q: failed: the store is full" in operation.sentence


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


@pytest.mark.parametrize("verdict", [Verdict.BACKUP, Verdict.SWITCH, Verdict.REFUSE])
def test_any_verdict_but_resume_leaves_the_serving_driver_alone(verdict):
    """The old driver gets no command, and the operation says REFUSED."""
    world = World(verdict=verdict)
    assert world.play().outcome is Outcome.REFUSED
    assert world.instances["old"].writes
    assert not world.instances["old"].sent
    assert world.state.serving_release == "r0001"


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


def test_no_fall_back_onto_a_checkpoint_that_the_old_release_cannot_read():
    """When the way back is not RESUME, the operation fails and says so; it never corrupts."""
    world = World(traits={"candidate": {"serves": False}}, reverse=Verdict.SWITCH)
    ended = world.play()
    assert ended.outcome is Outcome.FAILED
    assert "op-fallback" not in world.instances
    assert "fix forward" in ended.sentence


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


flags = st.booleans()
trait = st.fixed_dictionaries(
    {"becomes_ready": flags, "serves": flags, "drains": flags, "killable": st.just(True), "reachable": st.just(True)}
)


@settings(max_examples=300, deadline=None)
@given(
    serving=flags,
    handover=st.sampled_from(Handover),
    verdict=st.sampled_from(Verdict),
    reverse=st.sampled_from(Verdict),
    traits=st.fixed_dictionaries(
        {"old": trait, "candidate": trait, "describer": trait, "fallback": trait},
    ),
    seed=st.integers(0, 10_000),
)
def test_every_deploy_ends_with_one_writer_at_most(serving, handover, verdict, reverse, traits, seed):
    """Whatever hangs, dies or is killed: an outcome is reached, and never do two drivers own the checkpoint."""
    world = World(serving=serving, handover=handover, verdict=verdict, reverse=reverse, traits=traits)
    ended = world.play(chaos=random.Random(seed))
    assert ended.outcome is not None
    if ended.outcome is Outcome.SUCCEEDED:
        assert verdict is Verdict.RESUME
        assert world.state.serving_instance == "op-candidate"
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
    assert acted == announced
    assert [each.step for each in plan_deploy(DeployRequest(job="j", dry_run=True), serving="r0001")] == [
        Step.BUNDLE,
        Step.STANDBY,
        Step.ASSESS,
    ]
