"""How a driver process terminates: the state and exit code of an error, and the final steps in their order."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TextIO

from streamkeeper.driver.causes import GivenUp, judge
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.progress import StatusReporter
from streamkeeper.driver.session import Session
from streamkeeper.errors import Fenced, StreamkeeperError
from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.system.crash_points import crash_point
from streamkeeper.system.log_lines import LineFormatter, own_logger

_CODES = {Cause.DEPENDENCY: ExitCode.DEPENDENCY_DOWN, Cause.CAPACITY: ExitCode.NO_CAPACITY}


class Ending(Exception):
    """Raised to terminate the driver, whether or not because of an error.

    ``cause``: None for an intended termination. ``query``: the query with the error, empty for an error of the driver
    itself.
    """

    def __init__(
        self,
        state: DriverState,
        code: ExitCode,
        error: str = "",
        *,
        cause: Cause | None = None,
        fault: Fault = Fault.UNCLASSIFIED,
        query: str = "",
    ) -> None:
        """``state``: the driver's final state.
        ``code``: the exit code.
        ``error``: the error in one line, empty for an intended end.
        ``cause``: the error's meaning for a restart.
        ``fault``: the kind of failure.
        ``query``: the query with the error.
        """
        super().__init__(error or state.value)
        self.state = state
        self.code = code
        self.error = error
        self.cause = cause
        self.fault = fault
        self.query = query


def ending_for(error: BaseException, line: str, root: Path | None = None) -> Ending:
    """Return the ending for an error; ``line``: the error as one line; ``root``: the directory of the job's code."""
    if isinstance(error, Ending):
        return error
    judged = judge(error, root)
    query = error.query if isinstance(error, GivenUp) else ""
    if isinstance(error, Fenced):
        return Ending(DriverState.FENCED, ExitCode.FENCED, line, cause=judged.cause, fault=judged.fault)
    if judged.cause is Cause.PERMANENT:
        return Ending(DriverState.FAILED, ExitCode.REFUSED, line, cause=judged.cause, fault=judged.fault, query=query)
    return will_restart(line, judged.cause, judged.fault)


def will_restart(
    error: str, cause: Cause = Cause.FAILURE, fault: Fault = Fault.UNCLASSIFIED, *, query: str = ""
) -> Ending:
    """Return an ending after which the supervisor restarts the driver, if it has a restart left."""
    code = _CODES.get(cause, ExitCode.FAILED)
    return Ending(DriverState.STARTING, code, error, cause=cause, fault=fault, query=query)


def jvm_ended(session: Session, more: str = "") -> Ending:
    """Return the ending of a driver whose JVM has terminated. The ending's error describes how the JVM terminated,
    followed by ``more``.
    """
    return will_restart(f"{session.last_word}{more}", fault=session.fault)


class _Stderr(logging.StreamHandler[TextIO]):
    """A log handler for stderr; if the job has closed stderr, only the line is lost."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        return


_LINES = _Stderr(sys.stderr)
_LOG = own_logger("streamkeeper", _LINES)


def log_as(job: str, instance: str) -> None:
    """Make every further log line of this process name the job and instance."""
    _LINES.setFormatter(LineFormatter({"job": job, "instance": instance}))


def log_line(text: str, *, query: str = "", level: int = logging.INFO) -> None:
    """Write one line to the instance's log."""
    _LOG.log(level, "%s", text, extra={"query": query})


def end_process(
    ending: Ending,
    *,
    session: Session | None,
    status_reporter: StatusReporter | None,
    channel: DriverChannel,
    scratch: Path | None,
) -> NoReturn:
    """End this process: kill the JVM first, so that it writes nothing more; then report, clean up and exit.

    Python's exit handlers are not run.

    ``ending``: the state, error and exit code.
    ``session``: the Spark session, if there is one.
    ``status_reporter``: composes the last status.
    ``channel``: the access to the store.
    ``scratch``: the directory to remove.
    """
    if session is not None:
        session.kill()
    if ending.error:
        log_line(f"{ending.state.value}: {ending.error}", level=logging.ERROR)
    if status_reporter is not None:
        status_reporter.state, status_reporter.error, status_reporter.waiting = ending.state, ending.error, ""
        status_reporter.cause = ending.cause.value if ending.cause is not None else ""
        status_reporter.fault = ending.fault.value if ending.error else ""
        status_reporter.failed_query = ending.query
        crash_point("driver.end.before")
        try:
            channel.write_status(status_reporter.compose)
        except StreamkeeperError as error:
            log_line(f"the last status could not be written: {error}", level=logging.WARNING)
        crash_point("driver.end.after")
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
    for stream in (sys.stdout, sys.stderr):
        # A job may have closed or replaced stderr; the process still exits with its code.
        with suppress(Exception):
            stream.flush()
    os._exit(ending.code)
