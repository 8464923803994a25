"""Tests drawn schedules of the simulated control plane: the real code breaks no rule, and each known bug that is put
back breaks one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from harness.places import ROOT
from harness.simulation import known_bugs
from harness.simulation.known_bugs import BUGS, Bug, Change, put_back
from harness.simulation.plan import (
    CLUSTER_FAULTS,
    FAULTS,
    INPUT_FAULTS,
    REQUESTS,
    STRANGE_FAULTS,
    TOPIC_FAULTS,
    OutputKind,
    draw,
)
from harness.simulation.playing import Told, play, shrink, timeline
from harness.simulation.world import World
from streamkeeper.driver import epoch
from streamkeeper.system import clock

BLOCK = 25
PLAYED = range(1, 401)
"""The seeds that each run of the tests plays; ``make simulate`` plays the others."""
SEEDS_OF_BUGS = {
    "unknown-is-proof": 598,
    "unknown-is-the-end": 15,
    "unknown-is-stopped": 24,
    "no-proof": 1,
    "stale-journal": 1,
    "no-question": 1,
    "two-owners": 1,
    "no-fence": 1,
    "second-operation": 1,
    "every-supervisor": 129,
    "drift-ignored": 79,
    "no-approval": 464,
    "hold-ignored": 49,
    "older-store": 2342,
    "endless-fall-back": 648,
    "uncut-files": 88,
    "log-with-a-gap": 448,
    "files-read-again": 122,
    "older-state": 2,
    "prune-beside-an-operation": 295,
    "older-generation": 129,
    "cleaner-in-a-drill": 45,
    "claims-of-the-copy": 24399,
    "restored-without-its-input": 388,
    "silent-node-is-the-end": 123,
    "lost-container-is-the-end": 123,
    "stated-end-unseen": 2685,
    "missing-pod-is-the-end": 20,
    "lost-node-is-the-end": 13315,
    "unlisted-is-the-end": 13315,
    "another-topic": 29,
    "another-topic-at-a-restart": 2249,
    "rebuilt-from-another-topic": 137,
    "approved-unseen": 1745,
}
"""The name of each known bug and a seed that finds it; ``bench/results/simulation-bugs.jsonl`` lists the first such
seeds for one state of the code.
"""


def digest(told: Told) -> str:
    """Return a hash of a trace."""
    lines = [(event.at, event.actor, event.what) for event in told.trace]
    return sha256(repr(lines).encode()).hexdigest()


@pytest.mark.parametrize("first", PLAYED[::BLOCK])
def test_no_schedule_breaks_a_rule(first: int) -> None:
    """None of 400 drawn schedules breaks a rule, with simultaneous and repeated requests on two machines, killed and
    frozen processes, lost answers and restored older copies.
    """
    for seed in range(first, first + BLOCK):
        told = play(draw(seed))
        assert not told.broken, timeline(shrink(told))


def test_every_kind_of_move_is_drawn() -> None:
    """The drawn plans contain every kind of request, fault, output and runner, so that no rule holds only because
    nothing happens.
    """
    plans = [draw(seed) for seed in range(1, 2001)]
    assert {move.kind for plan in plans for move in plan.moves} == {
        *REQUESTS,
        *FAULTS,
        *INPUT_FAULTS,
        *TOPIC_FAULTS,
        *STRANGE_FAULTS,
        *(kind for faults in CLUSTER_FAULTS.values() for kind in faults),
    }
    assert {plan.output for plan in plans} == set(OutputKind)
    assert max(plan.lost for plan in plans) > 0
    assert max(plan.unseen for plan in plans) > 0
    assert any(plan.cleaner for plan in plans)
    assert {plan.drivers for plan in plans} == set(CLUSTER_FAULTS)


@pytest.mark.parametrize("name", SEEDS_OF_BUGS)
def test_a_reintroduced_bug_breaks_a_rule_in_the_schedule_of_its_seed(name: str) -> None:
    """Negative control: with a known bug put back, the schedule of its seed breaks a rule; without the bug it breaks
    none.
    """
    plan = draw(SEEDS_OF_BUGS[name])
    with put_back(name):
        assert play(plan).broken
    assert not play(plan).broken


@pytest.mark.parametrize("name", [bug.name for bug in BUGS])
def test_every_recorded_bug_can_be_put_back_into_the_present_code(name: str) -> None:
    """Every known bug can be put back, because the text that it changes still exists in the code."""
    with put_back(name) as bug:
        assert bug.what.endswith(".")


def test_a_bug_whose_text_is_missing_in_the_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Putting back a bug whose text is missing in the code fails, and the message names the function and the text."""
    change = Change("driver.epoch", "open_writer", "never.written()", "nothing()")
    monkeypatch.setattr(known_bugs, "BUGS", (Bug("old", "It fits no more.", (change,)),))
    with (
        pytest.raises(ValueError, match=r"driver.epoch.open_writer has the text 'never.written\(\)' 0 times"),
        put_back("old"),
    ):
        raise AssertionError("nothing was put back")


def test_a_broken_schedule_is_shrunk_to_a_timeline() -> None:
    """A schedule that breaks a rule is shrunk to the fewest moves that still break it, and its timeline names the rule,
    the moves and the actors.
    """
    with put_back("second-operation"):
        whole = play(draw(SEEDS_OF_BUGS["second-operation"]))
        short = shrink(whole)
    assert short.broken
    assert [move.kind for move in short.plan.moves] == ["deploy", "deploy"]
    assert len(whole.plan.moves) > 2
    first, *lines = timeline(short).splitlines()
    assert "starts beside the open operation" in first
    assert len([line for line in lines if line.startswith("  move ")]) == 2
    assert any("BROKEN: " in line for line in lines)


def test_a_seed_gives_the_same_schedule_in_every_process() -> None:
    """A seed produces the same schedule in every process, even if the order of Python's sets differs."""
    code = (
        "import logging; logging.disable(50)\n"
        "from tests.simulation.test_schedules import digest, draw, play\n"
        "print(*(digest(play(draw(seed))) for seed in (3, 24, 46, 66)))"
    )
    told = []
    for order in ("1", "2"):
        environ = os.environ | {"PYTHONHASHSEED": order, "PYTHONPATH": f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"}
        run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-2000:]
        told.append(run.stdout.split())
    assert told[0] == told[1] == [digest(play(draw(seed))) for seed in (3, 24, 46, 66)]


def test_a_schedule_on_s3_needs_no_connectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule on S3 plays without the connector jars, because simulated drivers load none, so the fast tests pass in
    a clone without them.
    """
    with_jars = digest(play(draw(11)))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    alone = play(draw(11))
    assert not alone.broken
    assert digest(alone) == with_jars


def test_a_thread_of_another_test_is_left_alone() -> None:
    """A thread of a different test that sleeps in real time and passes a failpoint while a schedule is played neither
    fails nor changes the schedule.
    """
    seen: list[BaseException] = []
    playing = threading.Event()

    def go_on() -> None:
        try:
            while not playing.wait(0.001):
                clock.sleep(0.001)
                epoch.crash_point("driver.claim.before")
        except BaseException as error:
            seen.append(error)

    alone = digest(play(draw(3)))
    with World.opened(3):
        other = threading.Thread(target=go_on)
        other.start()
        beside = digest(play(draw(3)))
        playing.set()
        other.join()
    assert not seen
    assert beside == alone
