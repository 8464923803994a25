"""Describes errors in one line: error class, root cause, and the file or the place in the job's code. Streamkeeper's
own errors are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from streamkeeper.authoring.job_code import locate
from streamkeeper.driver.causes import another_writers_file
from streamkeeper.driver.raised import Link, condition_of, is_of_spark, links_of, links_of_text, plain_message
from streamkeeper.errors import StreamkeeperError
from streamkeeper.system.hidden_secrets import mask_hidden

__all__ = ["condition_of", "describe_fault", "describe_links", "describe_text"]

_LONGEST = 500
_LONGEST_PART = 200
_WRAPPERS = frozenset(
    {
        *("Py4JJavaError", "Py4JException", "StreamingQueryException", "ForeachBatchUserFuncException"),
        *(
            "ForeachUserFuncException",
            "InvocationTargetException",
            "ExecutionException",
            "UndeclaredThrowableException",
        ),
        *("UncheckedIOException", "CompletionException", "UnknownException"),
    }
)
"""Classes that only wrap another failure."""
_JOB_ABORTED = ("Job aborted due to stage failure", "Exception thrown in awaitResult", "Writing job aborted")
_READING = "FAILED_READ_FILE"
_OF_WORKERS = "PYTHON_EXCEPTION"
_FILE = re.compile(r"(?:reading file|Failed to read file) (\S+?)\.?(?:\s|$)")
_NO_SESSION = "[SESSION_OR_CONTEXT_NOT_EXISTS]"
_WHERE_NO_SESSION = (
    " (a Python worker imports the job's file to find a function in it, and has no session for the file's other code. "
    "Use the decorator @udf, write types as IntegerType() instead of strings, or move the function to its own module)"
)
_WORKERS_OWN = ("/pyspark/", "/py4j/", "/lib/python", "/cloudpickle/", "<frozen", "<string>")


def describe_fault(error: BaseException, root: Path | None = None) -> str:
    """Describe an error in one line without secrets.

    ``root``: the directory of the job's code, in which the file and line of the error are searched.
    """
    if isinstance(error, StreamkeeperError):
        return mask_hidden(str(error))
    links = links_of(error)
    if any(link.java for link in links) or is_of_spark(error):
        return describe_links(links)
    return _clip(f"{mask_hidden(locate(error, root))}{_behind(_masked(links))}", _LONGEST)


def describe_text(text: str, condition: str = "") -> str:
    """Describe an error as ``describe_fault`` does, but from Spark's text of the error. Used if the JVM cannot be
    queried.
    """
    return describe_links(links_of_text(text, condition))


def describe_links(links: Sequence[Link]) -> str:
    """Describe an error that Spark raised. The description is one line without secrets."""
    links = _masked(links)
    if taken := another_writers_file(links):
        return f"another driver writes this checkpoint: {taken} existed before this driver wrote it"
    kept = [link for link in links if not _says_nothing(link)]
    with_message = (
        [link for link in kept if link.message] or kept or [link for link in links if link.message] or [*links]
    )
    if not with_message:
        return "no message"
    worker = next((link for link in with_message if not link.java and link.error is None), None)
    file = next(filter(None, (link.path or _file_in(link) for link in with_message)), "")
    named = [link for link in with_message if link.condition and not link.condition.startswith((_READING, _OF_WORKERS))]
    if worker is not None:
        condition = f"{_OF_WORKERS}: " if _has_condition(links, _OF_WORKERS) else ""
        line = f"{condition}{_of_worker(worker, with_message)}"
    elif named:
        head, last = named[0], with_message[-1]
        line = f"{head.condition}: {_message(head)}" if head is last else f"{head.condition}: {_short(last)}"
    else:
        first, last = with_message[0], with_message[-1]
        condition = f"{first.condition}: " if first.condition else ""
        line = f"{condition}{_short(last) if last is not first or not condition else _message(last)}"
    if file and file not in line:
        line = f"{_clip(line, _LONGEST - min(len(file), _LONGEST // 2) - 8)}; file {_clip(file, _LONGEST // 2)}"
    if worker is not None and _NO_SESSION in line:
        return f"{line}{_WHERE_NO_SESSION}"[: _LONGEST + len(_WHERE_NO_SESSION)]
    return _clip(line, _LONGEST)


def _masked(links: Sequence[Link]) -> Sequence[Link]:
    """Return the links with masked secrets. This must happen before any text is cut or joined into one line."""
    return [replace(link, message=mask_hidden(link.message), path=mask_hidden(link.path)) for link in links]


def _says_nothing(link: Link) -> bool:
    """Whether the link only wraps the next one."""
    if link.short in _WRAPPERS or (link.error is not None and is_of_spark(link.error) and not link.message):
        return True
    return link.message.startswith(_JOB_ABORTED) or (
        not link.java and link.error is not None and is_of_spark(link.error) and bool(link.condition)
    )


def _has_condition(links: Sequence[Link], condition: str) -> bool:
    return any(link.condition == condition for link in links)


def _of_worker(worker: Link, links: Sequence[Link]) -> str:
    """Return the place, class and message of a Python worker's error, and the first cause if the error is chained."""
    own = [frame for frame in worker.frames if not any(part in frame for part in _WORKERS_OWN)]
    file, _, line = own[0].rpartition(":") if own else ("", "", "")
    place = f"{Path(file).name}:{line}: " if own else ""
    chained = [link for link in links if not link.java and link.error is None]
    root = f", caused by {_short(chained[-1])}" if chained[-1] is not worker else ""
    return f"{place}{_short(worker)}{root}"


def _behind(links: Sequence[Link]) -> str:
    """Return the root cause of a Python error that was raised from another one; empty if there is no other cause to
    show.
    """
    root = links[-1] if links else None
    if root is None or root is links[0] or not root.message or root.message in links[0].message:
        return ""
    return f", caused by {_short(root)}"


def _short(link: Link) -> str:
    if link.condition and link.condition not in link.message[:4]:
        return f"{link.condition}: {_message(link)}"
    kind = link.kind if not link.java else link.short
    message = _message(link)
    return f"{kind}: {message}" if kind and message else kind or message


def _message(link: Link) -> str:
    """Return the message in one line, without Spark's additions."""
    lines = [line.strip() for line in plain_message(link).splitlines() if line.strip()]
    return _clip(" ".join(lines[:2]), _LONGEST_PART * 2) if lines else ""


def _file_in(link: Link) -> str:
    if not link.condition.startswith(_READING):
        return ""
    found = _FILE.search(link.message)
    return found[1] if found else ""


def _clip(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
