"""Tests reading ``/proc``: which processes live, which catch a signal, and which are signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.waiting import wait_for
from streamkeeper.runners import process_tree
from streamkeeper.runners.process_tree import (
    Process,
    Root,
    catches,
    find_tree,
    kill_tree,
    mark,
    read_above,
    read_process,
    send,
    wait_gone,
)
from tests.runners.launching import is_running

LEADER_GONE = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@contextmanager
def started(*command: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env={**os.environ, **environ}, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def living(pid: int) -> Process:
    found = read_process(pid)
    assert found is not None
    return found


def test_a_process_whose_first_thread_has_ended_is_alive(tmp_path: Path) -> None:
    """A process whose first thread has exited counts as alive while another thread runs, although its state letter is
    that of a zombie.
    """
    with started(sys.executable, "-c", LEADER_GONE) as process:
        wait_for("a zombie's state letter", lambda: not is_running(process.pid))
        found = living(process.pid)
        assert find_tree(mark("nothing", "at-all"), [Root(pid=process.pid, started=found.started)]) == [found]


def test_a_zombie_of_which_nothing_is_left_is_dead() -> None:
    """A zombie without any running thread counts as dead, even if its parent never collects it."""
    with started("/bin/sleep", "300") as process:
        living(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        wait_for("its death", lambda: read_process(process.pid) is None)
        assert Path(f"/proc/{process.pid}").exists()


def test_a_stopped_process_is_alive_and_reported_as_frozen() -> None:
    """A stopped process counts as alive and is reported as frozen."""
    with started("/bin/sleep", "300") as process:
        os.kill(process.pid, signal.SIGSTOP)
        wait_for("its freezing", lambda: living(process.pid).frozen)


def test_all_ancestors_of_a_process_are_found() -> None:
    """All ancestors of a process are found, up to the first process of the machine or container."""
    with started("/bin/sleep", "300") as process:
        above = read_above(process.pid)
        assert os.getpid() in above
        assert above == {each.pid for each in psutil.Process(process.pid).parents()}
    assert read_above(4_000_000) == set()


def test_a_mark_matches_as_a_whole() -> None:
    """A mark matches only the exact variable and value: neither a longer instance name nor a variable with a longer
    name matches.
    """
    with (
        started("/bin/sleep", "300", STREAMKEEPER_INSTANCE="pt/one") as one,
        started("/bin/sleep", "300", STREAMKEEPER_INSTANCE="pt/one-b"),
        started("/bin/sleep", "300", OLD_STREAMKEEPER_INSTANCE="pt/one"),
    ):
        assert [each.pid for each in find_tree(mark("pt", "one"))] == [one.pid]


def test_a_process_of_another_installation_is_not_ours(tmp_path: Path) -> None:
    """Drivers of a copied store with the same job and instance are told apart by the installation, or by the store for
    a driver of an older Streamkeeper. The mark alone finds all of them.
    """
    ours, theirs = str(tmp_path / "ours"), (tmp_path / "theirs").as_uri()
    for each in ("ours", "theirs"):
        (tmp_path / each).mkdir()
    marked = {"STREAMKEEPER_INSTANCE": "pt/copied"}
    with (
        started("/bin/sleep", "300", **marked, STREAMKEEPER_INSTALLATION="a1") as mine,
        started("/bin/sleep", "300", **marked, STREAMKEEPER_INSTALLATION="b2", STREAMKEEPER_STORE=ours) as other,
        started("/bin/sleep", "300", **marked, STREAMKEEPER_STORE=(tmp_path / "ours").as_uri()) as older,
        started("/bin/sleep", "300", **marked, STREAMKEEPER_STORE=theirs) as others_older,
    ):
        everybody = sorted(each.pid for each in (mine, other, older, others_older))
        wait_for("their starts", lambda: len(find_tree(mark("pt", "copied"))) == len(everybody))
        assert [each.pid for each in find_tree(mark("pt", "copied"))] == everybody
        found = find_tree(mark("pt", "copied", installation="a1", store=ours))
        assert [each.pid for each in found] == sorted((mine.pid, older.pid))


def test_an_installation_without_an_id_finds_only_drivers_of_its_store(tmp_path: Path) -> None:
    """An installation without an id finds only the drivers of its own store. Negative control: without the store, the
    mark finds the drivers of every installation.
    """
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for each in (ours, theirs):
        each.mkdir()
    marked = {"STREAMKEEPER_INSTANCE": "pt/no-id"}
    with (
        started("/bin/sleep", "300", **marked, STREAMKEEPER_STORE=str(ours)) as mine,
        started("/bin/sleep", "300", **marked, STREAMKEEPER_STORE=str(theirs)) as other,
        started("/bin/sleep", "300", **marked, STREAMKEEPER_STORE=str(theirs), STREAMKEEPER_INSTALLATION="b2") as known,
    ):
        everybody = sorted(each.pid for each in (mine, other, known))
        wait_for("their starts", lambda: len(find_tree(mark("pt", "no-id"))) == len(everybody))
        roots = [Root(pid=pid, started=living(pid).started) for pid in everybody]
        assert [each.pid for each in find_tree(mark("pt", "no-id", store=str(ours)), roots)] == [mine.pid]
        assert [each.pid for each in find_tree(mark("pt", "no-id"), roots)] == everybody


def test_a_session_with_a_member_of_a_different_installation_is_not_matched() -> None:
    """A session recorded by pid is not matched if one of its members is marked with a different installation."""
    with started("/bin/sleep", "300", STREAMKEEPER_INSTANCE="pt/s", STREAMKEEPER_INSTALLATION="b2") as process:
        root = Root(pid=process.pid, started=living(process.pid).started)
        wait_for("its start", lambda: find_tree(mark("pt", "s")))
        assert [each.pid for each in find_tree(mark("nothing", "else"), [root])] == [process.pid]
        assert find_tree(mark("nothing", "else", installation="a1"), [root]) == []


@pytest.mark.parametrize("looks", [0, 8])
def test_a_process_in_the_middle_of_an_exec_is_seen(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """A process whose environment reads as empty during an exec (37 of 1500 reads) is found by reading it again.
    Negative control: without further reads it is missed.
    """
    read = process_tree._environment
    with started("/bin/sleep", "300", STREAMKEEPER_INSTANCE="pt/exec") as one:
        wait_for("its start", lambda: find_tree(mark("pt", "exec")))
        blank = [one.pid] * 3
        monkeypatch.setattr(
            process_tree,
            "_environment",
            lambda pid: b"\0\0" if blank and pid == blank[-1] and blank.pop() else read(pid),
        )
        monkeypatch.setattr(process_tree, "_LOOKS_AT_BLANK", looks)
        assert [each.pid for each in find_tree(mark("pt", "exec"))] == ([one.pid] if looks else [])


def test_only_a_handler_counts_as_catching() -> None:
    """A process catches a signal only if it has a handler; the default action and ignoring the signal do not count."""
    assert not catches(os.getpid(), signal.SIGUSR1)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        assert catches(os.getpid(), signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        assert not catches(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not catches(4_000_000, signal.SIGUSR1)


def test_a_signal_is_for_one_process_not_for_its_pid() -> None:
    """A signal is sent only if the pid still belongs to the process with the same start time."""
    with started("/bin/sleep", "300") as process:
        now = living(process.pid)
        before = Process(pid=now.pid, parent=1, session=now.pid, started=now.started - 1, frozen=False)
        send(before, signal.SIGKILL)
        assert read_process(process.pid) == now
        send(now, signal.SIGKILL)
        assert process.wait(timeout=20) == -signal.SIGKILL
        send(now, signal.SIGKILL)


def test_killing_a_tree_repeats_until_no_new_process_is_found() -> None:
    """Killing a tree repeats the search until no new process is found, so that processes started in between are killed
    too.
    """
    with started("/bin/sleep", "300") as one, started("/bin/sleep", "300") as two, started("/bin/sleep", "300") as late:
        first, second, third = living(one.pid), living(two.pid), living(late.pid)
        looks = [[first, second], [first, second, third], [third]]
        kill_tree(lambda: looks.pop(0), first=two.pid)
        assert [each.wait(timeout=20) for each in (one, two, late)] == [-signal.SIGKILL] * 3
        assert looks == []


def test_waiting_stops_at_the_last_termination_or_the_time_limit() -> None:
    """Waiting for processes stops when the last one has terminated or the time limit is reached, and terminated
    processes are not waited for.
    """
    with started("/bin/sleep", "300") as one, started("/bin/sleep", "300") as two:
        both = [living(one.pid), living(two.pid)]
        began = time.monotonic()
        wait_gone(both, seconds=0.05)
        assert time.monotonic() - began > 0.04
        for each in (one, two):
            each.kill()
        wait_gone(both, seconds=20.0)
        assert [read_process(each.pid) for each in both] == [None, None]
        two.wait()
        wait_gone(both, seconds=20.0)
        assert time.monotonic() - began < 15.0


def test_a_session_with_a_reused_leader_pid_is_not_matched() -> None:
    """A session whose leader has a different start time than recorded is not matched."""
    with started("/bin/sleep", "300") as process:
        now = living(process.pid)
        assert find_tree(mark("nothing", "at-all"), [Root(pid=now.pid, started=now.started - 1)]) == []
        assert find_tree(mark("nothing", "at-all"), [Root(pid=0, started=0)]) == []
