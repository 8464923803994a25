"""Runs a plan in a world: its requests and faults, and then a quiet end after which everything must be in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from harness.simulation import callers
from harness.simulation.callers import APPROVE_S, CATCH_UP_S, Act, Caller, Watching
from harness.simulation.cluster import NODES
from harness.simulation.coverage import kind_of
from harness.simulation.input import InputFiles, told
from harness.simulation.plan import CLUSTER_FAULTS, REQUESTS, Move, OutputKind, Plan
from harness.simulation.releases import JOB
from harness.simulation.restoring import check_snapshots
from harness.simulation.scheduler import Process, Violation
from harness.simulation.world import World
from streamkeeper.lifecycle.approval_steps import answer_about
from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.requests.request import Deployment, DeployRequest, Handover, RequestKind, Rollback, Strategy
from streamkeeper.operations.deploys.approval import asked_about
from streamkeeper.operations.deploys.deploy import OnOpen
from streamkeeper.operations.fleet.watching import ELSEWHERE_S
from streamkeeper.registry.incidents import IncidentLog

T = TypeVar("T")

_FIRST_S = 40.0
"""How long the first deploy may take without faults; in virtual seconds, as all times in this module."""
_QUIET_S = 1500.0
"""How long everything may take to finish after the last fault; longer than every deadline of an operation."""
_WATCHED_S = 120.0
_MENDING = (RecoveryAction.RESTART, RecoveryAction.RESTORE, RecoveryAction.REPLAN, RecoveryAction.REBUILD)
_STARTS = 3
"""How often the job is restarted at the end, as the watch would do after a failure."""
_LOOK_S = 5.0


class Schedule:
    """The run of one plan in one world."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world, self._plan, self._scheduler = world, plan, world.scheduler
        self._callers: list[Caller] = []
        self._watches: list[Watching] = []
        self._copies: list[dict[str, bytes]] = []
        self._trees: list[dict[str, bytes]] = []
        self._outputs: list[Any] = []
        self._answering: Caller | None = None
        self._stated: set[str] = set()
        """Instances whose end a person has stated."""
        self._outdated = False
        """Whether an older copy was put back: then a refusal is right."""

    def run(self) -> None:
        """Run the schedule; raises Violation."""
        request = DeployRequest(job=JOB, release="r0001", reason="simulated", probation_batches=1)
        first = self._request(callers.deploy("op0", request))
        while self._scheduler.now_s < _FIRST_S and not first.done:
            self._until(self._scheduler.now_s + _LOOK_S)
        if not self._world.state.serving_release:
            raise Violation("the first deploy has not succeeded, although nothing has failed")
        self._world.lost, self._world.unseen = self._plan.lost, self._plan.unseen
        for machine in self._plan.watches:
            self._watches.append(callers.Watching(self._world, machine).start())
        for move in self._plan.moves:
            self._until(self._scheduler.now_s + move.pause_s)
            self._copies.append(self._world.disk.copy())
            self._trees.append(self._world.copy_checkpoints())
            self._outputs.append(self._world.copy_output())
            if move.kind in REQUESTS and not self._world.rules.gap:
                self._world.covered.pairs.add(f"{kind_of(self._world.state.open_operation)} + {move.kind}")
            if move.kind in CLUSTER_FAULTS[self._plan.drivers]:
                self._world.cluster.strike(move)
            else:
                getattr(self, f"_{move.kind.replace('-', '_')}")(move)
        self._heal()
        self._settle()

    # Requests

    def _deploy(self, move: Move) -> None:
        given = move.request
        handover, strategy = Handover(given["handover"]), Strategy(given["strategy"])
        self._open("op", move, release=given["release"], catch_up_s=CATCH_UP_S, handover=handover, strategy=strategy)

    def _rollback(self, move: Move) -> None:
        self._open("back", move, Rollback())

    def _open(self, prefix: str, move: Move, kind: RequestKind | None = None, **fields: Any) -> None:
        """Open the operation of a deploy, or of a request of a different kind. ``fields``: further parameters of the
        request.
        """
        request = DeployRequest(
            job=JOB,
            reason="simulated",
            requested_by="ada",
            probation_batches=1,
            approve_s=APPROVE_S,
            accept_risk=move.request["accept_risk"],
            **fields,
        ).of_kind(kind or Deployment())
        act = callers.deploy(f"{prefix}{len(self._callers)}", request, on_open=OnOpen(move.request["on_open"]))
        self._request(act, machine=move.machine)

    def _recover(self, move: Move) -> None:
        act = callers.recover(f"mend{len(self._callers)}", RecoveryAction(move.request["action"]))
        self._request(act, machine=move.machine)

    def _backup(self, move: Move) -> None:
        self._request(callers.save(), machine=move.machine)

    def _prune(self, move: Move) -> None:
        self._request(callers.clean(self._world), machine=move.machine)

    def _drill(self, move: Move) -> None:
        self._request(callers.try_out(), machine=move.machine)

    def _answer(self, move: Move) -> None:
        act = callers.answer(self._scheduler, approved=move.request["approved"], think_s=move.seconds)
        self._request(act, machine=move.machine)

    def _stop(self, move: Move) -> None:
        self._request(callers.stop(f"stop{len(self._callers)}"), machine=move.machine)

    def _start(self, move: Move) -> None:
        self._request(callers.start(f"start{len(self._callers)}"), machine=move.machine)

    def _repeat(self, move: Move) -> None:
        self._request(_pick(self._callers, move.which).act, machine=move.machine)

    def _request(self, act: Act, *, machine: str = "m1") -> Caller:
        caller = Caller(self._world, f"caller-{len(self._callers)}", act, machine=machine).start()
        self._callers.append(caller)
        return caller

    # Faults

    def _kill(self, move: Move) -> None:
        if living := self._world.processes():
            self._end(_pick(living, move.which))

    def _caller(self, move: Move) -> None:
        if living := self._calling():
            self._end(_pick(living, move.which))

    def _end(self, process: Process) -> None:
        self._scheduler.say(f"fault: {process.name} is killed")
        self._scheduler.kill(process, -9)

    def _freeze(self, move: Move) -> None:
        if living := [*self._world.processes(), *self._calling()]:
            victim = _pick(living, move.which)
            self._scheduler.say(f"fault: {victim.name} is frozen for {move.seconds:g} s")
            victim.frozen = True
            thaw = Process("world", "-")
            self._scheduler.start(thaw, "world", lambda: self._scheduler.thaw(victim), after_s=move.seconds)

    def _blind(self, move: Move) -> None:
        if living := self._world.processes():
            victim = _pick(living, move.which)
            self._scheduler.say(f"fault: {victim.name} cannot reach the store for {move.seconds:g} s")
            victim.blind_until = self._scheduler.now_s + move.seconds

    def _slow(self, move: Move) -> None:
        self._scheduler.say(f"fault: the output is slow for {move.seconds:g} s")
        self._world.slow_until_s = self._scheduler.now_s + move.seconds

    def _boot(self, move: Move) -> None:
        self._scheduler.say(f"fault: {move.machine} is rebooted")
        self._world.boot(move.machine)
        for each in self._calling():
            if each.machine == move.machine:
                self._scheduler.kill(each, -9)

    def _suspend(self, move: Move) -> None:
        days = 1.0 + 8.0 * move.which
        self._scheduler.say(f"fault: both machines stand still for {days:.1f} days")
        self._world.suspend(days * 86400.0)

    def _drift(self, move: Move) -> None:
        del move
        self._scheduler.say("fault: an unknown change is found from here on")
        self._world.drifts += 1

    def _removed_input(self, move: Move) -> None:
        """Delete the oldest files whose batches are committed, as a person who archives them does."""
        rows, files = self._world.rows_committed(), self._world.input
        if isinstance(files, InputFiles) and rows:
            gone = rows[: int(move.which * len(rows)) + 1]
            self._scheduler.say(f"fault: the files of {told(gone)} are deleted")
            files.removed |= set(gone)

    def _moved_input(self, move: Move) -> None:
        """Move away all files whose batches are not committed and those that arrive until then, and move them back
        after a while.
        """
        files, rows = self._world.input, self._world.rows_committed()
        if isinstance(files, InputFiles) and rows:
            first = rows[-1] + 1
            self._scheduler.say(f"fault: the files from row {first} on are elsewhere for {move.seconds:g} s")
            files.away.append(first)
            back = Process("world", "-")
            self._scheduler.start(back, "world", files.away.clear, after_s=move.seconds)

    def _dropped_records(self, move: Move) -> None:
        """Drop the oldest records whose batches are committed, as the topic's retention does."""
        topic = self._world.input
        # The offsets of a checkpoint may belong to an earlier topic.
        if not topic.begin and (rows := self._world.rows_committed()):
            topic.first = max(topic.first, rows[int(move.which * len(rows))] + 1)
            self._scheduler.say(f"fault: the topic drops the records before {topic.first}")

    def _recreated_topic(self, move: Move) -> None:
        """Delete the topic and recreate it, as after the loss of all brokers."""
        del move
        self._world.input.create_again(self._world.rows_seen())
        self._scheduler.say(f"fault: the topic is created again, and begins with row {self._world.input.begin}")

    def _late_input(self, move: Move) -> None:
        """Make the next files arrive after later ones; one time in three, they have a modification time of long ago."""
        files = self._world.input
        if isinstance(files, InputFiles):
            rows = range(files.end() + 1, files.end() + 2 + int(4 * move.which))
            files.late |= dict.fromkeys(rows, self._scheduler.now_s + move.seconds)
            files.old |= set(rows) if move.which * 30 % 3 < 1 else set()
            aged = ", and are old" if files.old.issuperset(rows) else ""
            self._scheduler.say(f"fault: the files of {told(rows)} arrive {move.seconds:g} s late{aged}")

    def _damage(self, move: Move) -> None:
        """Delete or truncate a file of the current checkpoint, or delete the whole checkpoint."""
        if what := self._world.damage(move.which):
            self._scheduler.say(f"fault: {what}")
            self._outdated = True

    def _older_store(self, move: Move) -> None:
        self._scheduler.say("fault: an older copy of the store is put back")
        self._world.put_back(_pick(self._copies, move.which))
        self._outdated = True

    def _older_checkpoint(self, move: Move) -> None:
        self._scheduler.say("fault: an older copy of the checkpoints is put back")
        self._world.put_back_checkpoints(_pick(self._trees, move.which))
        self._outdated = True

    def _older_output(self, move: Move) -> None:
        self._scheduler.say("fault: an older copy of the output is put back")
        self._put_back_output(_pick(self._outputs, move.which))

    def _lost_output(self, move: Move) -> None:
        del move
        self._scheduler.say("fault: the output is gone")
        self._put_back_output(None)

    def _put_back_output(self, copy: Any) -> None:
        if self._world.kind is not OutputKind.FUNCTION:
            self._world.put_back_output(copy)
            self._outdated = True

    # The end

    def _heal(self) -> None:
        self._scheduler.say("quiet: no more faults")
        self._world.lost = self._world.unseen = self._world.slow_until_s = 0.0
        if isinstance(self._world.input, InputFiles):
            self._world.input.away.clear()
        for node in NODES:
            self._world.cluster.join(node)
        for process in [*self._world.processes(), *self._calling()]:
            process.blind_until = 0.0
            if process.frozen:
                self._scheduler.thaw(process)

    def _settle(self) -> None:
        """Wait for every request, continue an operation that is still open, start the job, and compare the rows."""
        end = self._scheduler.now_s + _QUIET_S
        while self._scheduler.now_s < end and not all(caller.done for caller in self._callers):
            self._until(self._scheduler.now_s + _LOOK_S)
            self._attend()
        if waiting := [caller for caller in self._callers if not caller.done and caller.process.alive]:
            raise Violation(f"{len(waiting)} requests have not ended {_QUIET_S:g} s after the last fault")
        if self._world.rules.gap:
            return
        if self._watches and not self._outdated:
            self._watched()
        self._end_watches()
        left = self._world.state.open_operation
        if left is not None:
            last = self._follow(callers.resume(left.operation))
            if self._world.state.open_operation is not None and not self._outdated:
                raise Violation(f"operation {left.operation} stays open: {last.refusal or last.result}")
        # A version that has not read records that were dropped meanwhile cannot go on, which is an incident.
        self._outdated |= self._world.lacks_records()
        last = self._follow(callers.start("start-last"))
        if self._outdated and last.refusal:
            # A person tries each recovery. Whatever is possible, no row may be written twice or left out.
            for number, action in enumerate(_MENDING):
                self._follow(callers.recover(f"mend-last{number}", action))
        elif self._world.state.serving_release and not (self._runs() or self._brought_back()) and last.refusal:
            # A driver that nothing can observe may run.
            raise Violation(f"the job cannot be started again: {last.refusal}")
        self._world.input.close()
        if self._world.state.serving_release:
            self._catch_up()
            if not self._outdated or self._runs():
                self._world.check_complete()
            # The rows of a batch are not known once its topic is gone.
            if not self._outdated and not self._world.input.begin:
                check_snapshots(self._world)

    def _brought_back(self, number: int = 0) -> bool:
        """Bring back a job whose driver cannot be observed, and return whether the job runs afterwards. A stop reaches
        a driver that nothing observes; a restored copy replaces a checkpoint that may still be written by a driver
        whose end was only stated. ``number``: the number of the attempt.
        """
        if self._plan.drivers != LOCAL:
            self._follow(callers.stop(f"stop-unseen{number}"))
            if not self._follow(callers.start(f"start-unseen{number}")).refusal and self._runs():
                return True
        if not self._stated:
            return False
        self._follow(callers.save())
        return not self._follow(callers.recover(f"mend-copy{number}", RecoveryAction.RESTORE)).refusal

    def _runs(self) -> bool:
        """Return whether the current driver runs and no operation is about to change that."""
        state = self._world.state
        return state.open_operation is None and self._world.is_running(state.serving_instance)

    def _watched(self) -> None:
        """Check that the watch keeps a job running that should run, or has an open incident about it.

        A job that can only be observed from a machine without a watch is reported later.
        """
        self._until(self._scheduler.now_s + _WATCHED_S)
        end = self._scheduler.now_s + (0.0 if len(self._watches) > 1 else ELSEWHERE_S)
        while not self._is_cared_for():
            if self._scheduler.now_s >= end:
                raise Violation("the job should run and does not, and the watch has no open incident")
            self._until(self._scheduler.now_s + _WATCHED_S)

    def _is_cared_for(self) -> bool:
        state = self._world.state
        if not state.wanted or state.open_operation is not None or self._world.is_running(state.serving_instance):
            return True
        return bool(IncidentLog(self._world.store_of(None), JOB).state().open)

    def _end_watches(self) -> None:
        for watch in self._watches:
            self._scheduler.kill(watch.process, -9)
        self._watches.clear()

    def _catch_up(self) -> None:
        for number in range(_STARTS):
            end = self._scheduler.now_s + CATCH_UP_S
            while self._scheduler.now_s < end and not self._world.is_complete():
                self._until(self._scheduler.now_s + _LOOK_S)
            if self._world.is_complete() or (self._outdated and not self._runs()):
                return
            if self._follow(callers.start(f"start-watch{number}")).refusal and not self._runs():
                self._brought_back(number + 1)

    def _follow(self, act: Act) -> Caller:
        """Make a request, and repeat it on the other machine if the refusal recommends that."""
        last = self._wait_for(self._request(act))
        if "run the command on m2" in last.refusal:
            last = self._wait_for(self._request(act, machine="m2"))
        return last

    def _wait_for(self, caller: Caller) -> Caller:
        end = self._scheduler.now_s + _QUIET_S
        while self._scheduler.now_s < end and not caller.done:
            self._until(self._scheduler.now_s + _LOOK_S)
            self._attend()
        if not caller.done:
            raise Violation("the last request has not ended")
        return caller

    def _attend(self) -> None:
        """Do everything that only a person can do."""
        self._approve()
        self._state_ends()

    def _approve(self) -> None:
        """Answer the open approval question, as a person at work does."""
        if self._world.rules.gap:
            return
        operation = self._world.state.open_operation
        about = asked_about(operation) if operation is not None else None
        if operation is None or about is None or (self._answering is not None and not self._answering.done):
            return
        if answer_about(operation, about) is None:
            act = callers.answer(self._scheduler, approved=True, think_s=_LOOK_S)
            self._answering = self._request(act)

    def _state_ends(self) -> None:
        """State the end of drivers whose end nothing can prove any more, as a person does after checking."""
        if self._world.rules.gap:
            return
        for name, instance in self._world.state.instances.items():
            if not instance.ended and name not in self._stated and self._world.cluster.is_beyond_proof(name):
                self._stated.add(name)
                self._request(callers.state_end(name))

    def _outside(self) -> list[Caller | Watching]:
        return [*self._callers, *self._watches]

    def _calling(self) -> list[Process]:
        """Return the living processes of callers and watches that have not finished."""
        return [each.process for each in self._outside() if not each.done and each.process.alive]

    def _until(self, moment: float) -> None:
        while self._scheduler.now_s < moment:
            self._scheduler.run(min(moment, self._scheduler.now_s + _LOOK_S))
            for each in self._outside():
                each.revive()


def _pick(things: Sequence[T], which: float) -> T:
    return things[int(which * len(things))]
