"""Tests of how a driver process exits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamkeeper.model.protocol.driver_messages import ExitCode

_PROGRAM = """
import sys
from streamkeeper.driver.ending import Ending, end_process, log_line
from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode

exec(sys.argv[1])
log_line("still told")
ending = Ending(DriverState.DRAINED, ExitCode.DRAINED)
end_process(ending, session=None, status_reporter=None, channel=None, scratch=None)
"""


@pytest.mark.parametrize("done", ["pass", "sys.stdout.close()", "sys.stdout = None", "sys.stderr.close()"])
def test_a_driver_exits_with_its_code_even_if_streams_were_closed(done: str) -> None:
    """A driver exits with its own code even if the job has closed or replaced stdout or stderr; otherwise a drained
    driver would count as failed and be restarted.
    """
    ran = subprocess.run([sys.executable, "-c", _PROGRAM, done], capture_output=True, text=True, timeout=60)
    assert ran.returncode == ExitCode.DRAINED
    assert ("still told" in ran.stderr) is (done != "sys.stderr.close()")
