"""Runs a call in a forked process that has the code loaded already, so that a command takes a tenth of a second."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from chaos.unprotected import switch_off

LIMIT_S = 120
"""The most seconds that a call may take; SIGALRM then ends it."""


class Run(NamedTuple):
    """How a process ended (its exit code, or the negative number of the signal) and what it printed."""

    code: int
    printed: str

    @property
    def was_killed(self) -> bool:
        """Whether the process was killed by SIGKILL."""
        return self.code == -signal.SIGKILL


def run_apart(call: Callable[[], None], environment: Mapping[str, str], transcript: Path, *, off: str = "") -> Run:
    """Run a call in a forked process and wait for it.

    ``environment`` contains all of its variables; ``transcript`` is a file for its output; ``off`` lists protections
    that are switched off in it.
    """
    with transcript.open("wb") as file, warnings.catch_warnings():
        # Python 3.12 warns of a fork beside threads; the child uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            os._exit(_become(call, environment, file.fileno(), off))
    _, status = os.waitpid(child, 0)
    return Run(os.waitstatus_to_exitcode(status), transcript.read_text(errors="replace"))


def _become(call: Callable[[], None], environment: Mapping[str, str], output: int, off: str) -> int:
    """Run the call in the forked process and return its exit code."""
    try:
        signal.alarm(LIMIT_S)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.clear()
        os.environ.update(environment)
        switch_off(off)
        call()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def command(*words: str) -> Callable[[], None]:
    """Return a call that runs the ``streamkeeper`` command as a user would type it."""

    def call() -> None:
        from streamkeeper.cli.main import main

        sys.argv = ["streamkeeper", *words]
        main()

    return call
