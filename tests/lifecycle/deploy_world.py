"""A simulated world in which a deploy runs to its end, with instances that live, drain, hang and die; without I/O or a
clock.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

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
from streamkeeper.lifecycle.approval_steps import ANSWER
from streamkeeper.lifecycle.decision_input import Observation
from streamkeeper.lifecycle.deploy_steps import decide
from streamkeeper.lifecycle.instances import kill_wait
from streamkeeper.lifecycle.steps import current_step
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.driver_messages import (
    CommandKind,
    DriverExit,
    DriverState,
    DriverStatus,
    LaunchMode,
    QueryStatus,
)
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import (
    About,
    ApprovalAnswered,
    Assessed,
    CheckpointVersionCreated,
    Entry,
    FallBackDecided,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleaseDescribed,
    ReleasePromoted,
    Role,
    ShadowAppointed,
    StepBegun,
)
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import (
    Bundled,
    CutoverSnapshots,
    LastBatches,
    StateKept,
    VersionsRestored,
    step_done,
)
from streamkeeper.model.records.transitions import QueryTransition, Reached, Transition
from streamkeeper.model.requests.request import Deployment, DeployRequest, Handover, RequestKind

OP = "op"


@dataclass
class Instance:
    """One simulated process tree.

    ``serves``: whether it completes triggers after GO; ``drains``: whether it obeys a drain; ``halted``: its processes
    are stopped; ``killable``: whether SIGKILL ends it; ``takes_over``: whether it takes over at GO, otherwise it
    ``waits`` for a sink that is down, or fails for a different cause; ``held_up``: what it reports that it waits for;
    ``lost_at``: the step from which its fate cannot be proven.
    """

    name: str
    life: Life = Life.ABSENT
    state: DriverState | None = None
    described: bool = False
    gathered: bool = False
    gathers: bool = True
    becomes_ready: bool = True
    serves: bool = True
    takes_over: bool = True
    waits: bool = True
    cause: str = ""
    held_up: str = ""
    drains: bool = True
    halted: bool = False
    killable: bool = True
    reachable: bool = True
    lost_at: Step | None = None
    triggers: int = 0
    failures: int = 0
    lags: bool = False
    catches_up: bool = True
    breaks_after: int | None = None
    compared: OutputComparison | None = None
    sent: set[CommandKind] = field(default_factory=set)

    @property
    def writes(self) -> bool:
        return self.life is Life.ALIVE and self.state in (DriverState.SERVING, DriverState.DRAINING)

    def end(self, state: DriverState) -> None:
        self.life, self.state = Life.DEAD, state

    def seen(self) -> ObservedDriver:
        life = self.life if self.reachable or self.life is Life.ABSENT else Life.UNKNOWN
        status = None
        if self.state is not None:
            query = QueryStatus(
                query="q",
                version="v0001",
                epoch=1,
                triggers=self.triggers,
                failures=self.failures,
                error="it broke",
                behind=1000 * 3**self.triggers if self.lags else None,
            )
            status = DriverStatus(
                instance=self.name,
                release="r",
                generation=1,
                state=self.state,
                beat=1,
                at="",
                queries={"q": query},
                compared={"q": self.compared} if self.compared is not None else {},
                gathered=self.gathered,
                cause=self.cause,
                waiting=self.held_up,
            )
        ended = self.life is Life.DEAD and self.state is not None and self.state.terminal
        last = DriverExit(instance=self.name, state=self.state, code=0) if ended and self.state else None
        return ObservedDriver(
            liveness=Liveness(life=life, why=f"{self.name} {life.value}", halted=self.halted, frozen=self.halted),
            status=status,
            exit=last,
            described=self.described,
            sent=frozenset(self.sent),
        )


class World:
    """Runs one operation on a job that already runs r0001, unless ``serving`` is False."""

    def __init__(
        self,
        *,
        serving: bool = True,
        handover: Handover = Handover.WARM,
        dry_run: bool = False,
        verdict: Verdict = Verdict.RESUME,
        reverse: Verdict = Verdict.RESUME,
        traits: dict[str, dict[str, Any]] | None = None,
        way: Transition = Transition.RESUME,
        back: Transition | None = Transition.RESUME,
        answer: bool | None = True,
        request: dict[str, Any] | None = None,
        kind: RequestKind | None = None,
    ) -> None:
        self.state = JobState(job="j")
        self.verdict, self.reverse = verdict, reverse
        self.way, self.back, self.answer = way, back, answer
        self.drifts = self.breaks_at_go = self.opaque_code = False
        self.refusal = "there is no way" if verdict is Verdict.REFUSE else ""
        self.comparison = OutputComparison(old_rows=3, new_rows=3)
        self.traits = traits or {}
        self.instances: dict[str, Instance] = {}
        self.waited_s, self.on = 0.0, ""
        self.log: list[Decision] = []
        self.writers_seen = 0
        self.snapshots = True
        self.lost_back: dict[str, str] = {}
        if serving:
            self._serve_first()
        wanted = DeployRequest(job="j", handover=handover, dry_run=dry_run, **(request or {}))
        wanted = wanted.of_kind(kind or Deployment())
        self.record(OperationStarted(operation=OP, request=wanted, steps=()))

    def _serve_first(self) -> None:
        old = Instance("old", Life.ALIVE, DriverState.SERVING, triggers=3, **self.traits.get("old", {}))
        self.instances["old"] = old
        self.record(OperationStarted(operation="first", request=DeployRequest(job="j"), steps=()))
        self.record(InstancePlanned(operation="first", instance="old", release="r0001", role=Role.CANDIDATE))
        self.record(
            CheckpointVersionCreated(query="q", version="v0001", release="r0001", origin="fresh", state_format="")
        )
        self.record(InstanceAppointed(operation="first", instance="old", versions={"q": "v0001"}))
        self.record(ReleasePromoted(operation="first", release="r0001", instance="old"))
        self.record(ReleaseDescribed(release="r0001", manifests={}))
        self.record(OperationFinished(operation="first", outcome=Outcome.SUCCEEDED, sentence=""))

    @property
    def operation(self) -> OperationState:
        return self.state.operations[OP]

    def record(self, record: Record) -> None:
        self.state = fold(self.state, Entry(number=self.state.number + 1, at="", by="", record=record))

    def decide(self) -> Decision | None:
        step = current_step(self.operation)
        for each in self.instances.values():
            each.reachable = each.reachable and each.lost_at is not step
        seen = {name: each.seen() for name, each in self.instances.items()}
        shadows = [each for each in self.instances.values() if each.state is DriverState.SHADOW and each.triggers > 2]
        holds = any(each.catches_up for each in shadows)
        at = Observation(
            state=self.state,
            operation=self.operation,
            seen=seen,
            reached={"q": Reached(holds=holds, text="all of it" if holds else "3 of 4 files")},
            lost_back={} if self.state.owners or not self.operation.fall_back else self.lost_back,
            on=self.on,
            waited_s=self.waited_s,
        )
        return decide(at)

    def way_of(self) -> QueryTransition:
        """Return the transition of the one query, with its checkpoint versions."""
        return QueryTransition(
            way=self.way,
            before="v0001",
            version="v0002" if self.way.switches else "v0001",
            opaque=self.verdict is Verdict.BACKUP,
            opaque_code=self.opaque_code,
            back=self.back,
            no_way_back="" if self.back else "its output would get batches a second time",
        )

    def play(self, *, limit: int = 400, chaos: random.Random | None = None) -> OperationState:
        """Run the operation to its outcome, and check the one-writer rule after every act; ``chaos`` kills random
        instances occasionally.
        """
        for _ in range(limit):
            decision = self.decide()
            if decision is None:
                return self.operation
            self.log.append(decision)
            self.perform(decision)
            self.move()
            if self.instances and chaos is not None and chaos.random() < 0.05:
                victim = chaos.choice(list(self.instances.values()))
                if victim.life is Life.ALIVE:
                    victim.end(DriverState.FAILED)
            writers = [each.name for each in self.instances.values() if each.writes]
            self.writers_seen = max(self.writers_seen, len(writers))
            assert len(writers) <= 1, f"two drivers own the checkpoint: {writers}"
        raise AssertionError(f"no outcome after {limit} acts; last: {self.log[-3:]}")

    def move(self) -> None:
        """Advance the instances by what they do on their own between two acts."""
        for each in self.instances.values():
            if each.life is not Life.ALIVE:
                continue
            if each.state is DriverState.STARTING and each.becomes_ready and not each.cause:
                if "describer" not in each.name:
                    each.state = DriverState.STANDBY
                elif each.described and each.gathers:
                    each.gathered = True
                    each.end(DriverState.STOPPED)
                each.described = True
            elif each.state in (DriverState.SERVING, DriverState.SHADOW) and self._breaks(each):
                each.failures += 1
            elif each.state in (DriverState.SERVING, DriverState.SHADOW) and each.serves:
                each.triggers += 1
            elif each.state is DriverState.SERVING:
                each.failures += 1
            elif each.state is DriverState.DRAINING and each.drains:
                each.end(DriverState.DRAINED)

    def _breaks(self, each: Instance) -> bool:
        after_go = each.state is DriverState.SERVING and each.name == "op-candidate"
        return each.triggers == each.breaks_after or (self.breaks_at_go and after_go)

    def perform(self, decision: Decision) -> None:
        """Apply the effect of an act to the world."""
        if not isinstance(decision.action, Wait | Kill | Launch):
            self.waited_s, self.on = 0.0, ""
        match decision.action:
            case Register():
                self.record(step_done(OP, Step.BUNDLE, Bundled("r0002")))
            case Plan(instance=name, release=release, role=role):
                self.instances[name] = Instance(name, **self.traits.get(role.value, {}))
                self.record(InstancePlanned(operation=OP, instance=name, release=release, role=role))
            case Launch(instance=name, mode=LaunchMode()):
                self.instances[name].life, self.instances[name].state = Life.ALIVE, DriverState.STARTING
            case GiveUpStarting(instance=name):
                self.record(InstanceEnded(operation=OP, instance=name, proof="never started", exit=""))
            case RecordDescription():
                self.record(ReleaseDescribed(release="r0002", manifests={"q": "x"}))
            case Assess():
                ways = {} if self.verdict is Verdict.REFUSE else {"q": self.way_of()}
                self.record(
                    Assessed(
                        operation=OP,
                        verdict=self.verdict,
                        reverse=self.reverse,
                        sentence="s",
                        report="",
                        transitions=ways,
                        refusal=self.refusal,
                    )
                )
            case Send(instance=name, kind=kind):
                self._told(self.instances[name], kind)
            case Kill(instance=name):
                self.waited_s = self.waited_s + 10.0 if self.on == kill_wait(name) else 0.0
                self.on = kill_wait(name)
                if self.instances[name].killable:
                    self.instances[name].end(DriverState.FAILED)
            case RecordEnd(instance=name, proof=proof, exit=last):
                assert self.instances[name].seen().life is not Life.UNKNOWN, f"{name} was not proven dead"
                self.record(InstanceEnded(operation=OP, instance=name, proof=proof, exit=last))
            case Appoint(instance=name, versions=versions):
                assert all(owner.instance == name for owner in self.state.owners), "appointed beside a living owner"
                self._create(versions.get("q", "v0001"))
                self.record(InstanceAppointed(operation=OP, instance=name, versions=versions))
            case BackUp():
                self.record(step_done(OP, decision.step, StateKept({"q": "s0001"})))
            case CheckDrift():
                if self.drifts:
                    self.record(
                        FallBackDecided(
                            operation=OP, reason="the approval is void", outcome_if_untouched=Outcome.REFUSED
                        )
                    )
                else:
                    self.record(step_done(OP, decision.step))
            case Shadow(instance=name):
                self._create("v0002")
                self.record(ShadowAppointed(operation=OP, instance=name))
            case RestoreVersions():
                self._create("v0002" if decision.step is Step.RESTORE else "v0003")
                made = {"q": "v0002" if decision.step is Step.RESTORE else "v0003"}
                self.record(step_done(OP, decision.step, VersionsRestored(made)))
            case Promote(instance=name):
                release = self.state.instances[name].release
                self.record(ReleasePromoted(operation=OP, release=release, instance=name))
            case MarkBegun():
                self.record(StepBegun(operation=OP, step=decision.step.tag))
            case RecordLastBatches():
                self.record(step_done(OP, decision.step, LastBatches({"q": 7} if "old" in self.instances else {})))
            case TakeCutoverSnapshots():
                taken = CutoverSnapshots({"q": "s0001"}, {}) if self.snapshots else CutoverSnapshots({}, {"q": "full"})
                self.record(step_done(OP, decision.step, taken))
            case MarkDone(result=result):
                self.record(step_done(OP, decision.step, result))
            case FallBack(outcome_if_untouched=untouched):
                self.record(FallBackDecided(operation=OP, reason=decision.reason, outcome_if_untouched=untouched))
            case Finish(outcome=outcome):
                self.record(OperationFinished(operation=OP, outcome=outcome, sentence=decision.reason))
            case Wait(on=on, deadline_s=deadline):
                self.waited_s = self.waited_s + deadline / 3 if on == self.on else 0.0
                self.on = on
                if on == ANSWER and self.answer is not None:
                    about = About.OUTPUT if decision.step is Step.REVIEW else About.STATE
                    self.record(
                        ApprovalAnswered(
                            operation=OP,
                            approved=self.answer,
                            by="anna",
                            reason="seen",
                            bundle="b",
                            batches={"q": "7"},
                            about=about,
                        )
                    )

    def _create(self, version: str) -> None:
        self.record(
            CheckpointVersionCreated(
                query="q", version=version, release="r0002", origin="x", state_format="", serves=False
            )
        )

    def _told(self, instance: Instance, kind: CommandKind) -> None:
        instance.sent.add(kind)
        if instance.life is not Life.ALIVE or not instance.reachable:
            return
        match kind:
            case CommandKind.GO if self.state.appointed == instance.name and not instance.takes_over:
                cause = "dependency-down" if instance.waits else "failure"
                instance.state, instance.cause = DriverState.STARTING, cause
            case CommandKind.GO if self.state.appointed == instance.name:
                instance.state, instance.triggers = DriverState.SERVING, 0
            case CommandKind.SHADOW if self.state.shadow == instance.name:
                instance.state = DriverState.SHADOW
            case CommandKind.COMPARE:
                instance.compared = self.comparison
            case CommandKind.DRAIN:
                instance.state = DriverState.DRAINING
            case CommandKind.STOP if instance.drains:
                instance.end(DriverState.STOPPED)
