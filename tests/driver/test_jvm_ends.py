"""Tests of how an unexpected exit of the JVM is described, of which only the exit code is known."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from streamkeeper.driver.session import Session, describe_end
from streamkeeper.health.told_errors import find_fault
from streamkeeper.model.protocol.fault_kinds import Fault


@pytest.mark.parametrize(
    ("code", "fault"), [(52, Fault.OUT_OF_MEMORY), (3, Fault.OUT_OF_MEMORY), (1, None), (-9, None), (None, None)]
)
def test_a_jvm_out_of_memory_is_recognized_by_its_exit_code(code: int | None, fault: Fault | None) -> None:
    """The exit codes 52 and 3 of the JVM are described as out of memory, so that the watch recognizes it; any other
    code or a kill is not.
    """
    assert find_fault(describe_end(code)) is fault


def test_a_session_reports_the_exit_code_of_its_jvm() -> None:
    """A session reports the exit code of its own JVM process and its meaning."""
    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(52)"])
    ended.wait()
    gateway = SimpleNamespace(proc=ended)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway))
    session = Session(spark)
    assert session.dead
    assert session.last_word == "the JVM exited on its own: java.lang.OutOfMemoryError (exit code 52)"
