"""The callers of operations: commands, tasks that are retried after their process dies, the watch, and people who
answer approval questions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.simulation.releases import JOB, QUERY
from harness.simulation.scheduler import Process, Scheduler
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import OperationRefused, StreamkeeperError, TemporaryError
from streamkeeper.model.records.snapshot import series_of_query
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.backups.drills import drill, released_job
from streamkeeper.operations.backups.pruning import plan_prune, prune
from streamkeeper.operations.deploys.approval import answer_approval, asked_about
from streamkeeper.operations.deploys.deaths import state_death
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.deploys.stopping import stop_job
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.operations.jobs.carriers import note_carrier, this_process
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.operations.recovery.recovering import RecoveryRequest, open_recovery
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.retention import Policy

if TYPE_CHECKING:
    from harness.simulation.world import World
    from streamkeeper.operations.jobs.installation import Installation

_RETRY_S = 5.0
_PASS_S = 30.0
_LOOKS = 8
CATCH_UP_S, APPROVE_S = 300.0, 200.0
"""How long a dual run may take to catch up, and how long an approval question stays open."""

Act = Callable[["Installation"], Any]
"""A request, made by a process with its own view of the installation."""


class Caller:
    """A process that carries out one request, and is replaced by a new process if it dies, as Airflow retries a
    task.
    """

    def __init__(self, world: World, name: str, act: Act, *, machine: str = "m1", retries: int = 8) -> None:
        self._world, self._name, self.act, self._left = world, name, act, retries
        self.process = Process(name, machine)
        self.result: Any = None
        self.refusal = ""
        self.done = False

    def start(self, *, after_s: float = 0.0) -> Caller:
        """Start the caller; a watcher outside of the process restarts it after it has died."""
        scheduler = self._world.scheduler
        scheduler.start(self.process, self._name, self._run, after_s=after_s)
        return self

    def revive(self) -> None:
        """Restart the caller after its process has died, if retries are left."""
        if not self.done and not self.process.alive and self._left > 0:
            self._left -= 1
            self.process = Process(self._name, self.process.machine)
            self.start(after_s=_RETRY_S)

    def _run(self) -> None:
        scheduler = self._world.scheduler
        while True:
            try:
                self.result = self.act(self._world.site_of(self.process))
                scheduler.say(f"ends: {getattr(self.result, 'sentence', self.result)}")
                break
            except TemporaryError as error:
                scheduler.say(f"fails for now: {error}")
                if self._left <= 0:
                    self.refusal = str(error)
                    break
                self._left -= 1
                scheduler.sleep(_RETRY_S)
            except StreamkeeperError as error:
                self.refusal = str(error)
                scheduler.say(f"is refused: {error}")
                break
            except Exception as error:
                scheduler.break_rule(f"{self._name} fails with {type(error).__name__}: {error}")
        self.done = True


class Watching:
    """A process that runs one pass of the watch after another, and is replaced by a new process if it dies."""

    done = False

    def __init__(self, world: World, machine: str) -> None:
        self._world, self._machine = world, machine
        self.process = Process(f"watch-{machine}", machine)

    def start(self) -> Watching:
        """Start the watch's process."""
        self._world.scheduler.start(self.process, self.process.name, self._run, after_s=_RETRY_S)
        return self

    def revive(self) -> None:
        """Restart the watch after its process has died."""
        if not self.process.alive:
            self.process = Process(self.process.name, self._machine)
            self.start()

    def _run(self) -> None:
        scheduler = self._world.scheduler
        while True:
            try:
                report = run_pass(WatchPass(installation=self._world.site_of(self.process), by=self.process.name))
                for line in report.lines:
                    scheduler.say(line)
            except StreamkeeperError as error:
                scheduler.say(f"the pass fails: {error}")
            except Exception as error:
                scheduler.break_rule(f"a pass of the watch fails with {type(error).__name__}: {error}")
            scheduler.sleep(_PASS_S)


def deploy(operation: str, request: DeployRequest, *, on_open: OnOpen = OnOpen.REFUSE) -> Act:
    """Return a request that deploys or rolls back, or continues that operation."""

    def act(installation: Installation) -> Any:
        return Deploy.open(installation, operation, request, on_open=on_open).run()

    return act


def stop(operation: str) -> Act:
    """Return a request that stops the job."""

    def act(installation: Installation) -> Any:
        return stop_job(installation, JOB, requested_by="ada", reason="simulated", operation=operation)

    return act


def start(operation: str) -> Act:
    """Return a request that starts the job."""

    def act(installation: Installation) -> Any:
        opened = open_start(installation, JOB, requested_by="ada", reason="simulated", operation=operation)
        if opened is None:
            return None
        note_carrier(installation.store, JOB, opened.operation, this_process())
        return opened.run(Step.FALL_BACK)

    return act


def state_end(instance: str) -> Act:
    """Return a request by which a person states that a driver has terminated, although nothing proves it."""

    def act(installation: Installation) -> Any:
        return state_death(installation, JOB, instance, by="ada", reason="its node was off", accept=True)

    return act


def resume(operation: str) -> Act:
    """Return a request that continues an open operation until it finishes."""

    def act(installation: Installation) -> Any:
        return Deploy.load(installation, JOB, operation).run()

    return act


def recover(operation: str, action: RecoveryAction) -> Act:
    """Return a request that recovers the job; a person accepts that rows are written twice, but no loss of rows. A
    rebuild whose input is deleted while it runs never catches up, and stops at its deadline.
    """
    asked = RecoveryRequest(
        request=DeployRequest(
            job=JOB,
            reason="simulated",
            requested_by="ada",
            catch_up_s=CATCH_UP_S,
            approve_s=APPROVE_S,
            probation_batches=1,
        ),
        action=action,
        queries=() if action is RecoveryAction.RESTART else (QUERY,),
        accepted_by="eve",
        accept_replay=True,
    )

    def act(installation: Installation) -> Any:
        return open_recovery(installation, operation, asked).run()

    return act


def save() -> Act:
    """Return a request that takes a snapshot of the job's query."""

    def act(installation: Installation) -> Any:
        return back_up(installation.snapshots, query_target(installation, JOB, QUERY))

    return act


def clean(world: World) -> Act:
    """Return a request that deletes old snapshots and old batches, by the strictest policy that a user can choose."""

    def act(installation: Installation) -> Any:
        before = world.rules.state
        run = plan_prune(installation, policy=Policy(keep_last=1, hourly=0, daily=0, weekly=0, monthly=0))
        world.rules.pruned({tree_at(plan.directory).name for plan in run.directories if plan.files}, before)
        return prune(installation.snapshots, run, installation)

    return act


def try_out() -> Act:
    """Return a request that runs a drill of the newest snapshot."""

    def act(installation: Installation) -> Any:
        catalogue = Catalogue(installation.snapshots, series_of_query(JOB, QUERY))
        snapshot = catalogue.newest()
        if snapshot is None:
            raise OperationRefused("there is no snapshot")
        return drill(catalogue, snapshot, released_job(installation, snapshot), {}).message

    return act


def answer(scheduler: Scheduler, *, approved: bool, think_s: float) -> Act:
    """Return a request that answers the approval question that is open or will be open soon, ``think_s`` seconds after
    reading it.
    """

    def act(installation: Installation) -> Any:
        for _ in range(_LOOKS):
            state = installation.journal(JOB, "eve").state()
            operation = state.open_operation
            about = asked_about(operation) if operation is not None else None
            if operation is not None and about is not None:
                break
            scheduler.sleep(_RETRY_S)
        else:
            raise OperationRefused("nothing is asked")
        bundle = state.releases[operation.release].content.bundle
        scheduler.sleep(think_s)
        return answer_approval(
            installation,
            JOB,
            operation.operation,
            approved=approved,
            by="eve",
            reason="simulated",
            bundle=bundle,
            about=about,
        )

    return act
