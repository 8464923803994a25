"""Plays the acts one after the other, draws up the ledger after each, and writes the final report."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
import pendulum

from demo.acts.stage import Act, ActReport, Stage
from demo.show import Screen
from harness.checkout import read_origin
from harness.ledger import Account
from harness.places import ROOT, Places
from harness.system import System
from harness.waiting import wait_until
from streamkeeper.errors import DeployFailed

Ledger = Callable[[], list[Account]]
"""A function that returns the current accounts. It reads the output before the input, so that every row in the output
is already recorded as input.
"""


class LedgerReport(msgspec.Struct, frozen=True):
    """The sums over all accounts of the ledger."""

    produced: int
    lost: int
    duplicated: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``report.json``. ``ledger`` and ``accounts`` are the final ones, after all input was read.

    ``commit`` and ``code`` identify the checkout and are empty without one; ``taken_at`` is the time at which the
    report was written, in UTC; ``cores`` is the number of this machine's cores.
    """

    commit: str
    code: str
    taken_at: str
    cores: int
    ledger: LedgerReport
    accounts: list[Account]
    acts: list[ActReport]
    wall_s: float


@contextmanager
def from_nothing(places: Places, screen: Screen, settings: Mapping[str, str]) -> Iterator[System]:
    """Provide a system with new, empty folders. All processes that the body started are stopped at the end, even after
    an error.
    """
    system = System(places, screen.tell)
    system.environment.update(settings)
    system.stop()
    shutil.rmtree(places.root, ignore_errors=True)
    places.prepare()
    try:
        yield system
    finally:
        system.stop()


def play_all(stage: Stage, acts: Sequence[Act], ledger: Ledger, screen: Screen) -> list[ActReport]:
    """Run every act; raises if an act has an unexpected outcome, or has lost or duplicated a row."""
    reports: list[ActReport] = []
    for number, act in enumerate(acts, start=1):
        screen.tell(f"[bold]act {number} of {len(acts)}: {act.name}[/]: {act.promises}")
        reports.append(_play(stage, act, ledger))
        screen.show_act(reports[-1])
        wrong = [account for account in reports[-1].ledger if not account.clean]
        if wrong:
            text = "; ".join(f"{each.name}: {', '.join(each.examples)}" for each in wrong)
            raise DeployFailed(f"act {number}, {act.name}: the ledger is not clean: {text}")
    return reports


def settle(system: System, jobs: tuple[str, ...], ledger: Ledger, screen: Screen) -> list[Account]:
    """After the producers have stopped, wait until the jobs have read the remaining input, drain the jobs, and return
    the closed ledger.
    """
    wait_until(lambda: not any(each.in_flight for each in ledger()), timeout_s=600, poll_s=0.5)
    system.drain(jobs)
    screen.tell(f"drained: {', '.join(jobs)}")
    return [account.closed for account in ledger()]


def write_report(places: Places, acts: Sequence[ActReport], accounts: Sequence[Account], screen: Screen) -> bool:
    """Print the result and write ``report.json``; return whether the ledger is clean."""
    ledger = LedgerReport(
        sum(each.produced for each in accounts),
        sum(each.lost for each in accounts),
        sum(each.duplicated for each in accounts),
    )
    report = Report(
        **_origin(),
        taken_at=pendulum.now("UTC").to_iso8601_string(),
        cores=os.cpu_count() or 0,
        ledger=ledger,
        accounts=list(accounts),
        acts=list(acts),
        wall_s=round(screen.elapsed_s, 1),
    )
    encoded = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    # The report is about the checkout, wherever that is.
    places.report.write_bytes(encoded.replace(f"{ROOT}/".encode(), b""))
    screen.show_acts(acts)
    screen.show_ledger(accounts)
    screen.tell(f"report: {places.report}")
    return all(account.clean for account in accounts)


def _origin() -> dict[str, str]:
    try:
        return read_origin()
    except (OSError, subprocess.CalledProcessError):
        return {"commit": "", "code": ""}


def _play(stage: Stage, act: Act, ledger: Ledger) -> ActReport:
    began = time.monotonic()
    steps = act.play(stage)
    took_s = round(time.monotonic() - began, 1)
    return ActReport(name=act.name, steps=steps, ledger=ledger(), wall_s=took_s)
