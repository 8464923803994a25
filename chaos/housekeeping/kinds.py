"""The calls that are killed: commands about a job whose driver has ended, and a pass of the watch that sends
notices.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from chaos.housekeeping.apart import Run, command
from chaos.housekeeping.house import JOB, LAST_DRIVER, RELEASE, SERIES, warehouse
from chaos.housekeeping.looks import OUTBOX
from streamkeeper.model.protocol.driver_messages import ProcessRecord
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.notices import GRACE_S, Message
from streamkeeper.registry.driver_control import Control

_OPERATION = "fourth"
WHY = ("--reason", "housekeeping")
KEEP_ONE = "last=1,hourly=0,daily=0,weekly=0,monthly=0"
DEAD_FOR_S, LATER_S = 600.0, 7200.0
"""Seconds after the creation of the installation at which a first pass of the watch raises incidents, and a second one
repeats them.
"""

Call = Callable[[], None]
Start = Callable[..., Run]
"""Runs a call on the installation in a process of its own, with these additional environment variables."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is killed at failpoints.

    ``call``: makes the call for an installation; ``again``: the call that carries on, by default the same one;
    ``points``: where it is killed; ``settings``: environment variables; ``prepare``: changes the installation first;
    ``done_at``: a point at which everything is done, so that running the call once more is a new call, and the final
    state must be that of two calls.
    """

    call: Callable[[Path], Call]
    points: tuple[str, ...]
    again: Callable[[Path], Call] | None = None
    settings: Mapping[str, str] = {}
    done_at: str = ""
    prepare: Callable[[Path, Start], None] = lambda site, start: None


def _both(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}.{when}" for name in names for when in ("before", "after"))


def typed(*words: str) -> Callable[[Path], Call]:
    """Return a command that is the same on every installation."""
    return lambda site: command(*words)


def _rebuild(site: Path) -> Call:
    return command("registry", "rebuild", "--output", warehouse(site), "--no-driver-elsewhere", *WHY)


def _lose_store(site: Path, start: Start) -> None:
    shutil.rmtree(site / "home/store")


def _lose_and_make_store(site: Path, start: Start) -> None:
    """Delete the store, and let a watch create a new one with an id of its own."""
    _lose_store(site, start)
    _must(start(command("watch", "--once")))


def _leave_open(site: Path, start: Start) -> None:
    """Leave an operation open that has no driver yet."""

    def begin() -> None:
        Deploy.open(Installation.from_environment(os.environ), _OPERATION, DeployRequest(job=JOB, release=RELEASE))

    _must(start(begin))


def _abort(site: Path) -> Call:
    """Return a call that does what ``--on-open abort`` does before it deploys; the deploy itself would start a
    driver.
    """

    def call() -> None:
        deploy = Deploy.load(Installation.from_environment(os.environ), JOB, _OPERATION)
        deploy.abort(requested_by="campaign", reason="housekeeping")
        print(deploy.run(until=Step.FALL_BACK))

    return call


def _stop(site: Path, start: Start) -> None:
    _must(start(command("stop", JOB, *WHY)))


def _lose_node(site: Path, start: Start) -> None:
    """Record that the last driver ran on a machine that cannot be checked."""

    def write() -> None:
        claim = ProcessRecord(
            instance=LAST_DRIVER, generation=1, machine="-:its-boot:4026531836:0", host="node-7", pid=7, started=1
        )
        Control(Installation.from_environment(os.environ).store, JOB, LAST_DRIVER).write_process(claim)

    _must(start(write))


def make_pass(after_s: float) -> Callable[[Path], Call]:
    """Return a pass of the watch with a clock that is ``after_s`` seconds ahead; its notifier writes to a file."""

    def call_on(site: Path) -> Call:
        def send(message: Message) -> None:
            with (site / OUTBOX).open("a") as file:
                file.write(f"{message.subject}\n")

        def clock() -> float:
            return time.time() + after_s

        def call() -> None:
            installation = Installation.from_environment(os.environ)
            run_pass(WatchPass(installation=installation, senders={"mail": send}, now=clock, acts=False, by="campaign"))

        return call

    return call_on


def _raise_incidents(site: Path, start: Start) -> None:
    _must(start(make_pass(DEAD_FOR_S)(site)))


def _must(run: Run) -> None:
    assert run.code == 0, run.printed


_REBUILD = _both("rebuild.installation", "rebuild.journal", "record.job-rebuilt")
_NEXT_S = GRACE_S + 30
"""Seconds after which a pass may send the notices of another pass."""
KINDS: Mapping[str, Kind] = {
    "prune": Kind(
        call=typed("prune"),
        settings={"STREAMKEEPER_KEEP": KEEP_ONE, "STREAMKEEPER_ENDED_DAYS": "1e-9"},
        points=(*_both("prune.batch"), "prune.record.before", "sweep.delete.before", "sweep.mark.before"),
    ),
    "prune-retired": Kind(
        call=typed("prune", JOB),
        settings={"STREAMKEEPER_RETIRED_DAYS": "1e-9"},
        points=_both("prune.directory", "prune.batch"),
    ),
    "prune-snapshots": Kind(
        call=typed("prune", SERIES, "--keep", KEEP_ONE, "--grace", "0"), points=("sweep.delete.before",)
    ),
    "abort": Kind(call=_abort, prepare=_leave_open, points=_both("record.abort-requested")),
    "forget": Kind(call=typed("forget", JOB, *WHY), prepare=_stop, points=_both("record.job-forgotten")),
    "rebuild": Kind(call=_rebuild, prepare=_lose_store, points=_REBUILD),
    "rebuild-elsewhere": Kind(call=_rebuild, prepare=_lose_and_make_store, points=_REBUILD),
    "restore": Kind(
        call=typed("snapshot", "restore", SERIES, "--accept-replay", "--accept-loss", *WHY),
        points=(*_both("restore.record"), *_both("restore.serve")),
        done_at="restore.serve.after",
    ),
    "state-death": Kind(
        call=typed("state-dead", JOB, LAST_DRIVER, "--accept", *WHY),
        prepare=_lose_node,
        points=("state-death.before",),
    ),
    "notices": Kind(
        call=make_pass(DEAD_FOR_S),
        again=make_pass(DEAD_FOR_S + _NEXT_S),
        points=(*_both("incident.raised", "incident.sent"), "watch.raised", "watch.indexed"),
    ),
    "repeated": Kind(
        call=make_pass(LATER_S),
        again=make_pass(LATER_S + _NEXT_S),
        prepare=_raise_incidents,
        points=(*_both("incident.repeated", "incident.sent"), "watch.indexed"),
    ),
}
