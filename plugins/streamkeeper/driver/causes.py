"""What an error means for a restart: by its type, then by Spark's condition, then by the classes it was caused by.

Spark and its workers hand on a cause as text only: of that, the names of the exception classes are read, and what the
operating system calls a full disk or memory. Whatever is not known is a failure.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

from streamkeeper.driver.faults import another_writers_file, condition_of
from streamkeeper.errors import JobUnusable, PermanentError, SourceOutOfReach, StoreUnavailable
from streamkeeper.model.restarts import Cause

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EFBIG})
_AWAY = frozenset(
    {
        *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ETIMEDOUT),
        *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ESTALE),
    }
)
_NO_ROOM = (
    "No space left on device",
    "Disk quota exceeded",
    "Cannot allocate memory",
    "Too many open files",
    "unable to create native thread",
    "unable to create new native thread",
    "can't start new thread",
    "Resource temporarily unavailable",
)
_NEVER_BLINDLY = re.compile(
    r"(STREAM_CHECKPOINT|STREAMING_CHECKPOINT|MISSING_CHECKPOINT|CHECKPOINT_FILE_CHECKSUM|STATE_STORE|KAFKA_DATA_LOSS"
    r"|BATCH_METADATA_NOT_FOUND|CONCURRENT_STREAM_LOG_UPDATE|STATE_REPARTITION_INVALID|STATE_REWRITER_INVALID)"
)
"""Conditions of what is on disk, or is no longer in the source: the same start finds the same."""
_PASSING = frozenset({"STATE_STORE_COMMIT_VALIDATION_FAILED", "STATE_STORE_OPERATION_OUT_OF_ORDER"})
"""Conditions of one run only."""
_UNREACHABLE = frozenset(
    {
        # Python's, and those of the clients that a user's function is likely to use.
        *("ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "ConnectionAbortedError"),
        *("BrokenPipeError", "TimeoutError", "gaierror", "ConnectTimeout", "ReadTimeout", "NewConnectionError"),
        *("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "HTTPClientError"),
        *("StoreUnavailable", "SourceOutOfReach", "NoBrokersAvailable", "KafkaConnectionError", "KafkaTimeoutError"),
        # The JVM's, and Kafka's.
        *("ConnectException", "UnknownHostException", "SocketTimeoutException", "NoRouteToHostException"),
        *("SocketException", "PortUnreachableException", "ConnectTimeoutException", "HttpHostConnectException"),
        *("SQLTransientConnectionException", "SQLNonTransientConnectionException", "DisconnectException"),
        *("NetworkException", "BrokerNotAvailableException", "LeaderNotAvailableException"),
        # A NameNode that starts, or is not the one that serves.
        *("SafeModeException", "StandbyException"),
        *("org.apache.kafka.common.errors.TimeoutException", "SdkClientException", "ClosedChannelException"),
    }
)
_DATABASE = "OperationalError"
"""Of PostgreSQL and SQLite: what is asked is right, and the database cannot do it now."""
_DATABASE_AWAY = ("08", "53", "57P", "58")
"""SQLSTATE: connection, resources of the server, its shutdown or start, its own disk."""
_ASKED_IN_VAIN = ("25", "40", "55", "57014")
"""SQLSTATE: a transaction lost to another one; the next try may win."""
_SQLITE_AWAY = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PROTOCOL"})
_DATABASE_TOLD = ("connection", "server", "unable to open database file", "database is locked", "disk I/O error")
"""In the text of an OperationalError, where only text is left of it."""
_CLASS = re.compile(r"([A-Za-z_][\w.$]*(?:Error|Exception|Timeout|gaierror|SourceOutOfReach|StoreUnavailable))\b")


def cause_of_error(error: BaseException) -> Cause:
    """By the error's type, then by those it was caused by."""
    if isinstance(error, PermanentError):
        return _behind(error) if isinstance(error, JobUnusable) else Cause.PERMANENT
    for cause in _chain(error):
        found = _by_type(cause)
        if found is not None:
            return found
    condition = condition_of(error)
    return cause_of_text(str(error), condition) if condition or _of_spark(error) else Cause.FAILURE


def cause_of_text(text: str, condition: str = "") -> Cause:
    """Of what Spark tells of a run that ended; ``condition``: its error condition."""
    if another_writers_file(text):
        return Cause.PERMANENT
    if any(words in text for words in _NO_ROOM):
        return Cause.CAPACITY
    classes = _CLASS.findall(text)
    if any(kind in _UNREACHABLE or _short(kind) in _UNREACHABLE for kind in classes):
        return Cause.DEPENDENCY
    if any(_short(kind) == _DATABASE for kind in classes) and any(words in text for words in _DATABASE_TOLD):
        return Cause.DEPENDENCY
    if _NEVER_BLINDLY.match(condition) and condition.split(".")[0] not in _PASSING:
        return Cause.PERMANENT
    return Cause.FAILURE


def _behind(error: PermanentError) -> Cause:
    """A job whose code asks something that does not answer is not wrong."""
    cause = error.__cause__
    found = cause_of_error(cause) if cause is not None else Cause.PERMANENT
    return found if found in (Cause.DEPENDENCY, Cause.CAPACITY) else Cause.PERMANENT


def _by_type(error: BaseException) -> Cause | None:
    if isinstance(error, StoreUnavailable | SourceOutOfReach):
        return Cause.DEPENDENCY
    if isinstance(error, MemoryError):
        return Cause.CAPACITY
    if isinstance(error, OSError) and error.errno in _FULL:
        return Cause.CAPACITY
    if isinstance(error, OSError) and error.errno in _AWAY:
        return Cause.DEPENDENCY
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _UNREACHABLE:
        return Cause.DEPENDENCY
    if _DATABASE in names:
        return _of_database(error)
    if isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_ROOM):
        return Cause.CAPACITY
    return None


def _of_database(error: BaseException) -> Cause | None:
    """Of PostgreSQL by its SQLSTATE, of SQLite by its result code; the client wraps the one that has it."""
    sqlite = str(getattr(error, "sqlite_errorname", "") or "")
    if sqlite:
        if sqlite.startswith("SQLITE_FULL"):
            return Cause.CAPACITY
        return Cause.DEPENDENCY if sqlite.startswith(tuple(_SQLITE_AWAY)) else Cause.FAILURE
    if hasattr(error, "sqlstate"):
        state = str(error.sqlstate or "")
        if state.startswith(_ASKED_IN_VAIN):
            return Cause.FAILURE
        # None: the server was never reached.
        return Cause.DEPENDENCY if not state or state.startswith(_DATABASE_AWAY) else Cause.FAILURE
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised for, the nearest first; SQLAlchemy keeps its own in ``orig``."""
    seen: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        cause = left.pop(0)
        if cause is None or cause in seen:
            continue
        seen.append(cause)
        yield cause
        orig = getattr(cause, "orig", None)
        left += [orig if isinstance(orig, BaseException) else None, cause.__cause__]
        left += [] if cause.__suppress_context__ else [cause.__context__]


def _of_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))


def _short(name: str) -> str:
    return name.rpartition(".")[2].rpartition("$")[2]
