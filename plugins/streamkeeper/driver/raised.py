"""Represents an error as a chain of links: the error in Python, the JVM's errors that caused it, and the errors of
Python workers on executors.

A link has a class, a message, Spark's error condition and the frame that raised it. The JVM's throwables are read one
by one: their text cannot be split safely, because a job's own message may contain anything. Text is parsed only if an
error has left no other information, such as for the traceback of a Python worker.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from streamkeeper.sinks.kinds.known_kinds import cause_attributes

_DEEPEST = 12
_FRAMES = 24
_OF_PYTHON = frozenset({"PythonException", "Py4JException"})
"""Classes of the JVM's errors whose message is a Python traceback."""
_HEADER = "Traceback (most recent call last):"
_BETWEEN = re.compile(
    r"\n\n(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):\n\n(?=Traceback)"
)
_RAISED = re.compile(r"([A-Za-z_][\w.]*)(?:: ?(.*))?", re.DOTALL)
_CAUSED_BY = re.compile(r"(?:\A|\n)Caused by: ")
_FRAME = re.compile(r'  File "(.+?)", line (\d+)(?:, in (.+))?$')
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] ?")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}\s*(?:\n== .*)?\Z", re.DOTALL)
_JAVA_CLASS = re.compile(r"([A-Za-z_][\w$]*(?:\.[\w$]+)+)(?:\(([\w.$]+)\))?")
"""Matches a Java class in a text. For a ``RemoteException``, it also matches the class of the error that Hadoop's
server raised.
"""
_REMOTE = "org.apache.hadoop.ipc.RemoteException"
_OF_WORKERS = "PYTHON_EXCEPTION"
_TASK = re.compile(
    r"Job aborted due to stage failure: .*? most recent failure: Lost task [^()]*\(TID \d+\) \([^)]*\): "
)
_LOST_EXECUTOR = re.compile(r"ExecutorLostFailure \((executor \S+) exited[^)]*\)(?: Reason: (.*))?")
_NO_FRAMES_OF = (
    "java.",
    "jdk.",
    "sun.",
    "scala.",
    "org.apache.hadoop.",
    "org.rocksdb.",
    "com.fasterxml.",
    "org.json4s.",
)


@dataclass(frozen=True, slots=True)
class Link:
    """One error in a chain of causes."""

    kind: str
    """The error's class with its module or package; a Python builtin has no module here."""
    message: str = ""
    """The error's message."""
    condition: str = ""
    """Spark's error condition; empty if the error has none."""
    path: str = ""
    """The path of the file that Spark was reading, empty if unknown."""
    frames: tuple[str, ...] = ()
    """The innermost frames of the error's stack, innermost first: ``file:line`` for Python, class and method for the
    JVM.
    """
    names: tuple[str, ...] = ()
    """The names of the error's class and its base classes."""
    error: BaseException | None = None
    """The exception object itself, if the error was raised in this Python process."""
    java: bool = False
    """Whether the error was raised in the JVM."""

    @property
    def short(self) -> str:
        """The name of the error's class without its module or package."""
        return short_name(self.kind)

    @property
    def raised_in(self) -> str:
        """The innermost frame of the error's stack. For an error of the JVM, frames of Java, Scala and other libraries
        that Spark calls are skipped.
        """
        if not self.java:
            return self.frames[0] if self.frames else ""
        return next((frame for frame in self.frames if not frame.startswith(_NO_FRAMES_OF)), "")


def short_name(name: str) -> str:
    """Return the name of a class without its package or module."""
    return name.rpartition(".")[2].rpartition("$")[2]


def links_of(error: BaseException) -> tuple[Link, ...]:
    """Return the error and all its causes, the nearest first."""
    found: list[Link] = []
    for each in _chain(error):
        found.append(_of_python(each))
        throwable = _throwable(each)
        if throwable is not None:
            found += links_of_throwable(throwable) or links_of_text(str(each), condition_of(each))
        elif is_of_spark(each):
            found += links_of_text(str(each), condition_of(each))
    return tuple(found)


def links_of_throwable(throwable: Any) -> tuple[Link, ...]:
    """Return the chain of errors of a JVM object, read over py4j; empty if the JVM does not answer."""
    found: list[Link] = []
    try:
        while throwable is not None and len(found) < _DEEPEST:
            found.append(_of_throwable(throwable))
            throwable = throwable.getCause()
    except Exception:
        # A JVM that is ending does not answer any more.
        return _expanded(found)
    return _expanded(found)


def links_of_text(text: str, condition: str = "") -> tuple[Link, ...]:
    """Return the chain of errors in Spark's text of an exception. Callers use this if the exception itself is no longer
    available.

    ``condition``: Spark's condition of the outermost error.
    """
    if text.lstrip().startswith(_HEADER):
        return worker_links(text)
    found: list[Link] = []
    for part in _CAUSED_BY.split(text):
        head, _, stack = part.partition("\n\tat ")
        kind, _, message = head.strip().partition(": ")
        named = _JAVA_CLASS.fullmatch(kind)
        kind, message = (named[1], message) if named else ("", head.strip())
        frames = tuple(line.strip().removeprefix("at ") for line in stack.splitlines()[:_FRAMES])
        names = tuple(filter(None, named.groups())) if named else ()
        link = Link(kind=kind, message=message, frames=frames, names=names, java=True)
        found.append(replace(link, condition=condition if not found and condition else _condition_in(message)))
    return _expanded(found)


def worker_links(text: str) -> tuple[Link, ...]:
    """Return the chain of errors in a Python worker's traceback, starting with the error that terminated the worker."""
    start = text.find(_HEADER)
    if start < 0:
        return ()
    blocks = _BETWEEN.split(text[start:])
    return tuple(filter(None, (_of_traceback(block) for block in reversed(blocks))))


def condition_of(error: BaseException) -> str:
    """Return Spark's error condition; empty if the error has none."""
    for name in ("getCondition", "getErrorClass"):
        ask = getattr(error, name, None)
        if callable(ask):
            found = ask()
            if found:
                return str(found)
    return ""


def is_of_spark(error: BaseException) -> bool:
    """Whether PySpark or py4j raised the error."""
    return type(error).__module__.startswith(("pyspark", "py4j"))


def plain_message(link: Link) -> str:
    """Return the message of an error without the leading condition and the trailing SQLSTATE."""
    text = link.message.strip()
    if link.condition:
        text = text.removeprefix(f"[{link.condition}]").strip()
    return _SQLSTATE.sub("", text).strip()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, the nearest first. A sink's client may store a cause in an attribute of its
    error; such a cause is included.
    """
    seen: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        cause = left.pop(0)
        if cause is None or cause in seen:
            continue
        seen.append(cause)
        yield cause
        stored = [getattr(cause, name, None) for name in cause_attributes()]
        left += [each for each in stored if isinstance(each, BaseException)]
        left += [cause.__cause__]
        left += [] if cause.__suppress_context__ else [cause.__context__]


def _of_python(error: BaseException) -> Link:
    frames = reversed([(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)])
    return Link(
        kind=_qualified(type(error)),
        message=_told(error),
        condition=condition_of(error) if is_of_spark(error) else "",
        frames=tuple(f"{file}:{line}" for file, line in frames),
        names=tuple(_qualified(kind) for kind in type(error).__mro__),
        error=error,
    )


def _told(error: BaseException) -> str:
    try:
        # For a throwable, py4j would request the whole stack from the JVM.
        return "" if _throwable(error) is not None else str(error)
    except Exception:
        return ""


def _qualified(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _throwable(error: BaseException) -> Any:
    """Return the JVM's object behind an error of py4j or PySpark; None if there is no such object."""
    if not is_of_spark(error):
        return None
    behind = getattr(error, "java_exception", None)
    return behind if behind is not None else getattr(error, "_origin", None)


def _of_throwable(throwable: Any) -> Link:
    kind, stack = str(throwable.getClass().getName()), throwable.getStackTrace()
    of_spark = kind.startswith("org.apache.spark.")
    frames = tuple(str(stack[number].toString()) for number in range(min(len(stack), _FRAMES)))
    return Link(
        kind=kind,
        message=str(throwable.getMessage() or ""),
        condition=_asked_condition(throwable) if of_spark else "",
        path=_asked_path(throwable) if of_spark else "",
        # Without the names of loaders and modules.
        frames=tuple(frame.rpartition("/")[2] for frame in frames),
        names=(kind, str(throwable.getClassName())) if kind == _REMOTE else (kind,),
        java=True,
    )


def _asked_condition(throwable: Any) -> str:
    for name in ("getCondition", "getErrorClass"):
        try:
            found = getattr(throwable, name)()
        except Exception:
            continue
        if found:
            return str(found)
    return ""


def _asked_path(throwable: Any) -> str:
    try:
        return str(throwable.getMessageParameters().get("path") or "")
    except Exception:
        return ""


def _condition_in(message: str) -> str:
    found = _CONDITION.match(message)
    return found[1] if found else ""


def _expanded(links: list[Link]) -> tuple[Link, ...]:
    """Return the links with those added that only a text reveals: the errors of Python workers, and the error of a task
    whose exception did not reach the driver.
    """
    found: list[Link] = []
    for number, link in enumerate(links):
        found.append(link)
        if link.short in _OF_PYTHON or link.condition == _OF_WORKERS:
            found += worker_links(plain_message(link))
        elif number == len(links) - 1:
            found += _of_lost_task(link)
    return tuple(found)


def _of_lost_task(link: Link) -> tuple[Link, ...]:
    task = _TASK.match(link.message)
    if task is None:
        return ()
    message = link.message[task.end() :].partition("\nDriver stacktrace:")[0]
    lost = _LOST_EXECUTOR.match(message)
    if lost is not None:
        return (Link(kind="ExecutorLostFailure", message=f"{lost[1]}: {lost[2] or 'no reason given'}", java=True),)
    return links_of_text(message)


def _of_traceback(block: str) -> Link | None:
    lines = block.strip("\n").split("\n")
    frames: list[str] = []
    for number, line in enumerate(lines[1:], start=1):
        if (frame := _FRAME.match(line)) is not None:
            frames.append(f"{frame[1]}:{frame[2]}")
        elif not line.startswith(" "):
            raised = _RAISED.fullmatch("\n".join(lines[number:]))
            if raised is None:
                return None
            return Link(kind=raised[1], message=(raised[2] or "").strip(), frames=tuple(reversed(frames)))
    return None
