"""Tests that objects that only Python keeps alive in a driver's JVM are collected in time."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import gc, sys, time, weakref
from streamkeeper.driver.garbage import collect_regularly

class Batch:
    pass

def one():
    batch = Batch()
    batch.itself = batch
    return weakref.ref(batch)

gc.disable()
if sys.argv[1] == "collected":
    collect_regularly(0.05)
early = one()
time.sleep(0.5)
late = one()
time.sleep(0.5)
print([each() is None for each in (early, late)])
"""


@pytest.mark.parametrize(("how", "gone"), [("collected", True), ("left", False)])
def test_the_collecting_thread_frees_objects_in_reference_cycles(how: str, gone: bool) -> None:
    """The collecting thread frees objects in reference cycles at any time; negative control: without the thread they
    stay alive.
    """
    ran = subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == str([gone, gone])
