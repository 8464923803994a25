"""Decides an error's cause, which controls the restart, and its kind of fault. No other module decides that.

The decision uses the error's chain of links: the class of each link, Spark's error condition, and the frame that raised
the link. A message's text counts only if it comes from the operating system, the JVM or a connector, never from a class
that the job's code may raise. Kinds of sinks and sources declare how errors of their clients are judged. An unknown
error is a failure, and unclassified.
"""

from __future__ import annotations

import builtins
import errno
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from streamkeeper.driver.raised import Link, links_of, links_of_text, short_name
from streamkeeper.errors import (
    CheckpointDamaged,
    CheckpointLost,
    Fenced,
    JobUnusable,
    OtherTopic,
    OutputLost,
    OutputOutOfReach,
    PermanentError,
    SinkAhead,
    SourceOutOfReach,
    StoreUnavailable,
)
from streamkeeper.model.protocol.fault_kinds import Fault, Judged
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.sinks.kinds.known_kinds import judge_client_error
from streamkeeper.sinks.kinds.sink_kind import ClientError
from streamkeeper.sources.known_sources import LOST_CONDITIONS, SOURCE_ERRORS

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EFBIG})
_AWAY = frozenset(
    {
        *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ETIMEDOUT),
        *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ESTALE),
    }
)
_NO_MEMORY = "Cannot allocate memory"
_NO_ROOM = (
    "No space left on device",
    "Disk quota exceeded",
    _NO_MEMORY,
    "Too many open files",
    "Resource temporarily unavailable",
)
"""Texts in the operating system's messages about an exhausted resource, which the JVM passes on."""
_NO_THREAD = "can't start new thread"
_OUT_OF_MEMORY = frozenset({"OutOfMemoryError", "SparkOutOfMemoryError"})
_OUT_OF_MEMORY_CODE = "exited with code 52"
"""An executor's exit code, which Spark uses after an OutOfMemoryError."""
_NEVER_BLINDLY = re.compile(
    r"(STREAM_CHECKPOINT|STREAMING_CHECKPOINT|MISSING_CHECKPOINT|CHECKPOINT_FILE_CHECKSUM|STATE_STORE"
    r"|BATCH_METADATA_NOT_FOUND|CONCURRENT_STREAM_LOG_UPDATE|STATE_REPARTITION_INVALID|STATE_REWRITER_INVALID)"
)
"""Spark's conditions for data on disk. Every restart fails with the same condition, as it does for lost input."""
_DAMAGE = re.compile(
    r"(CANNOT_LOAD_STATE_STORE|STATE_STORE_|STDS_|INVALID_LOG_VERSION|BATCH_METADATA_NOT_FOUND|CHECKPOINT_FILE_CHECKSUM"
    r"|MISSING_CHECKPOINT)"
)
_PASSING = frozenset({"STATE_STORE_COMMIT_VALIDATION_FAILED", "STATE_STORE_OPERATION_OUT_OF_ORDER"})
"""Spark's conditions for a problem of one run only."""
_READS_CHECKPOINT = re.compile(
    r"org\.apache\.spark\.sql\.execution\.streaming\.(\w+\.)*"
    r"(state\.|checkpointing\.|\w*MetadataLog|OffsetSeq|CommitLog|CommitMetadata|\w*FileStreamLog|FileStreamSourceLog"
    r"|StreamMetadata)"
)
"""Frames that read and write a checkpoint's logs and state."""
_UNREACHABLE = frozenset(
    {
        # Python's own, and those of clients that a user's function is likely to use.
        *("ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "ConnectionAbortedError"),
        *("BrokenPipeError", "TimeoutError", "gaierror", "ConnectTimeout", "ReadTimeout", "NewConnectionError"),
        *("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "HTTPClientError"),
        *("StoreUnavailable", "OutputOutOfReach", "SourceOutOfReach"),
        # Those of the JVM.
        *("ConnectException", "UnknownHostException", "SocketTimeoutException", "NoRouteToHostException"),
        *("SocketException", "PortUnreachableException", "ConnectTimeoutException", "HttpHostConnectException"),
        *("SQLTransientConnectionException", "SQLNonTransientConnectionException", "DisconnectException"),
        # From a NameNode that is starting, or is not active.
        *("SafeModeException", "StandbyException"),
        *("SdkClientException", "ClosedChannelException"),
    }
).union(*(errors.unreachable_classes for errors in SOURCE_ERRORS))
_TIMED_OUT = ("timed out", "The read operation timed out", "The handshake operation timed out")
"""Messages of a socket timeout; such an error has no number."""
_ERRNO = re.compile(r"\[Errno (\d+)\]")
_LOST_WORKER, _PYTHON_RUNNER = "Python worker exited unexpectedly", "org.apache.spark.api.python."
_TAKEN = re.compile(r"(\S+): another writer was first")
"""The message of ``CreateOnlyCheckpointFileManager``."""
_OUR_MANAGER = "streamkeeper.jvm"
_BY_TYPE: tuple[tuple[type[BaseException], Fault], ...] = (
    (Fenced, Fault.FENCED),
    (SinkAhead, Fault.SINK_AHEAD),
    (OutputLost, Fault.OUTPUT_LOST),
    (CheckpointLost, Fault.CHECKPOINT_LOST),
    (CheckpointDamaged, Fault.CHECKPOINT_DAMAGED),
    (OtherTopic, Fault.SOURCE_LOST),
)


class GivenUp(PermanentError):
    """Raised for a query that is not restarted; ``fault`` is the kind of fault that ended the query's last run."""

    def __init__(self, query: str, error: str, fault: Fault) -> None:
        super().__init__(f"query {query}: {error}")
        self.query = query
        self.fault = fault


def judge(error: BaseException, root: Path | None = None) -> Judged:
    """Return the cause and the fault of an error, found in its chain of causes.

    ``root``: the directory of the job's own code. The names of classes defined there are ignored.
    """
    if isinstance(error, GivenUp):
        return Judged(Cause.PERMANENT, error.fault)
    if isinstance(error, PermanentError):
        behind = judge(error.__cause__, root) if error.__cause__ is not None else Judged()
        fault = next((fault for kind, fault in _BY_TYPE if isinstance(error, kind)), behind.fault)
        # Job code that needs an unavailable dependency is not faulty.
        passes = isinstance(error, JobUnusable) and behind.cause in (Cause.DEPENDENCY, Cause.CAPACITY)
        return Judged(behind.cause if passes else Cause.PERMANENT, fault)
    return judge_links(links_of(error), root)


def judge_text(text: str, condition: str = "") -> Judged:
    """Return the cause and the fault of a terminated run, found in Spark's text of the error. Used if the JVM cannot be
    queried.

    ``condition``: Spark's error condition.
    """
    return judge_links(links_of_text(text, condition))


def judge_links(links: Sequence[Link], root: Path | None = None) -> Judged:
    """Return the cause and fault of a chain of links.

    If the chain contains several causes, a lack of capacity takes precedence over an unreachable dependency, and both
    take precedence over the error condition that they led to. ``root``: as in ``judge``.
    """
    if another_writers_file(links):
        return Judged(Cause.PERMANENT)
    for look in (_no_room, _no_memory, _unreachable, _by_sinks):
        for link in links:
            found = look(link, links, root)
            if found is not None:
                return found
    return next(filter(None, map(_by_condition, links)), None) or next(filter(None, map(_by_frame, links)), Judged())


def is_lost_worker(links: Sequence[Link]) -> bool:
    """Whether a Python worker terminated without a message, because it crashed or was killed."""
    raised = (link.raised_in for link in links if link.java and link.message.startswith(_LOST_WORKER))
    return any(frame.startswith(_PYTHON_RUNNER) for frame in raised)


def another_writers_file(links: Sequence[Link]) -> str:
    """Return the checkpoint file that the failed run could not create, because another driver had already written it.
    Return an empty text for any other error.
    """
    for link in links:
        ours = not link.frames or any(frame.startswith(_OUR_MANAGER) for frame in link.frames)
        found = _TAKEN.match(link.message) if ours and link.short == "FileAlreadyExistsException" else None
        if found is not None:
            return found[1]
    return ""


def _no_room(link: Link, _: Sequence[Link], root: Path | None) -> Judged | None:
    if link.java:
        foreign = link.kind and not link.kind.startswith(("org.apache.spark.", "py4j."))
        sign = next((words for words in _NO_ROOM if words in link.message), "") if foreign else ""
        if sign:
            return Judged(Cause.CAPACITY, Fault.OUT_OF_MEMORY if sign == _NO_MEMORY else Fault.DISK_FULL)
        if link.short in _OUT_OF_MEMORY and "native thread" in link.message:
            return Judged(Cause.CAPACITY, Fault.OUT_OF_MEMORY)
        return None
    if _is_builtin(link, MemoryError) and not (link.message and _is_raised_by_job(link, root)):
        return Judged(Cause.CAPACITY, Fault.OUT_OF_MEMORY)
    if _errno(link) in _FULL:
        return Judged(Cause.CAPACITY, Fault.OUT_OF_MEMORY if _errno(link) == errno.ENOMEM else Fault.DISK_FULL)
    if (found := _by_sinks(link, (), root)) is not None and found.cause is Cause.CAPACITY:
        return found
    by_threading = Path(link.raised_in.rpartition(":")[0]).name == "threading.py"
    if link.kind == "RuntimeError" and by_threading and link.message == _NO_THREAD:
        return Judged(Cause.CAPACITY, Fault.OUT_OF_MEMORY)
    return None


def _no_memory(link: Link, _: Sequence[Link], root: Path | None) -> Judged | None:
    full = link.java and (
        link.short in _OUT_OF_MEMORY or (link.kind == "ExecutorLostFailure" and _OUT_OF_MEMORY_CODE in link.message)
    )
    return Judged(Cause.FAILURE, Fault.OUT_OF_MEMORY) if full else None


def _unreachable(link: Link, links: Sequence[Link], root: Path | None) -> Judged | None:
    if link.java and any(each.is_refusal(link.kind, link.message) for each in SOURCE_ERRORS):
        return None
    named = not _is_raised_by_job(link, root) and any(_is_known(name) for name in _names(link, root))
    away = _errno(link) in _AWAY or named
    if not away and not (link.java and any(each.is_unreachable(link.kind, link.message) for each in SOURCE_ERRORS)):
        return None
    if isinstance(link.error, StoreUnavailable) and not isinstance(link.error, OutputOutOfReach):
        return Judged(Cause.DEPENDENCY, Fault.STORE_LOST)
    return Judged(Cause.DEPENDENCY, _what_is_down(links))


def _what_is_down(links: Sequence[Link]) -> Fault:
    """Return SOURCE_DOWN if the source's own client or check failed. Otherwise return SINK_DOWN, which also stands for
    other dependencies of the job.

    A task that writes to the same kind of server as it reads from has the frames of both. The innermost one failed.
    """
    java = [link for link in links if link.java]
    if any(each.is_of_writer(link.kind, link.message) for each in SOURCE_ERRORS for link in java):
        return Fault.SINK_DOWN
    readers = tuple(prefix for each in SOURCE_ERRORS for prefix in each.reader_frames)
    for frame in (frame for link in reversed(java) for frame in link.frames):
        # Frames of a writer may begin like those of the reader.
        if any(each.writer_frames.match(frame) for each in SOURCE_ERRORS):
            return Fault.SINK_DOWN
        if frame.startswith(readers):
            return Fault.SOURCE_DOWN
    clients = tuple(prefix for each in SOURCE_ERRORS for prefix in each.client_classes)
    reads = any(link.kind.startswith(clients) for link in java)
    reads = reads or any(isinstance(link.error, SourceOutOfReach) for link in links)
    return Fault.SOURCE_DOWN if reads else Fault.SINK_DOWN


def _is_known(name: str) -> bool:
    return name in _UNREACHABLE or short_name(name) in _UNREACHABLE


def _names(link: Link, root: Path | None) -> list[str]:
    """Return the classes that identify a link, without those that the job's own code defines."""
    names = link.names or (link.kind,)
    return list(names) if link.java else [name for name in names if not _is_own(name, root)]


def _is_own(name: str, root: Path | None) -> bool:
    """Whether the job defines a class. The location of the class's module decides; a class without a module is the
    job's own if its name is not that of a builtin.
    """
    module = name.rpartition(".")[0]
    if not module:
        return not hasattr(builtins, name)
    first = module.split(".")[0]
    if first == "__main__":
        return True
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if root is not None and isinstance(loaded, str):
        # A folder of jobs may have the same name as a library.
        return Path(loaded).is_relative_to(root)
    return root is not None and (Path(root, f"{first}.py").is_file() or Path(root, first).is_dir())


def _is_builtin(link: Link, kind: type[BaseException]) -> bool:
    return isinstance(link.error, kind) if link.error is not None else link.kind == kind.__name__


def _is_raised_by_job(link: Link, root: Path | None) -> bool:
    """Whether the job's own line raises one of Python's errors by name, as in ``raise TimeoutError("shop 7 is
    closed")``.

    An error that the operating system raises has a number, and a socket's timeout has one of a few fixed messages.
    """
    if link.java or root is None or not hasattr(builtins, link.kind):
        return False
    own = Path(link.raised_in.rpartition(":")[0]).is_relative_to(root)
    return own and not _errno(link) and link.message not in _TIMED_OUT


def _errno(link: Link) -> int:
    """Return the operating system's number of a Python error; a worker's error has the number in its text."""
    if link.java:
        return 0
    if link.error is not None:
        return (link.error.errno or 0) if isinstance(link.error, OSError) else 0
    kind = getattr(builtins, link.kind, None)
    matched = _ERRNO.match(link.message) if isinstance(kind, type) and issubclass(kind, OSError) else None
    return int(matched[1]) if matched else 0


def _by_sinks(link: Link, _: Sequence[Link], root: Path | None) -> Judged | None:
    """Judge an error of the client of a sink, by the sink's kind."""
    if link.java:
        return None
    names = tuple(short_name(name) for name in _names(link, root))
    return judge_client_error(ClientError(names=names, message=link.message, error=link.error))


def _by_condition(link: Link) -> Judged | None:
    condition = link.condition
    if not condition or condition.split(".")[0] in _PASSING:
        return None
    # A missing file has another condition, because it may belong to a static table; the next run checks the batch's
    # own files first.
    if condition.startswith(LOST_CONDITIONS):
        return Judged(Cause.PERMANENT, Fault.SOURCE_LOST)
    cause = Cause.PERMANENT if _NEVER_BLINDLY.match(condition) else Cause.FAILURE
    if _DAMAGE.match(condition):
        return Judged(cause, Fault.CHECKPOINT_DAMAGED)
    return Judged(cause) if cause is Cause.PERMANENT else None


def _by_frame(link: Link) -> Judged | None:
    """Judge JVM errors without a condition by the frame that raised them."""
    if not link.java:
        return None
    frame = link.raised_in
    if any(link.short in each.lost_classes or each.is_lost(frame, link.message) for each in SOURCE_ERRORS):
        return Judged(Cause.FAILURE, Fault.SOURCE_LOST)
    if _READS_CHECKPOINT.match(frame) and not link.condition and "Interrupt" not in link.short:
        return Judged(Cause.FAILURE, Fault.CHECKPOINT_DAMAGED)
    return None
