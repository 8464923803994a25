"""Errors as one line: Streamkeeper's own as they are, Spark's with their error class first."""

from __future__ import annotations

import re
from pathlib import Path

from streamkeeper.errors import StreamkeeperError
from streamkeeper.job_code import locate

_PYTHON = re.compile(r"^\s*([\w.]*(?:Error|Exception|Exit|Warning)\b:? ?.*)$", re.MULTILINE)
_LONGEST = 500
_TAKEN = re.compile(r"FileAlreadyExistsException: (\S+): another writer was first")
"""What ``CreateOnlyCheckpointFileManager`` says, somewhere in Spark's text."""
_NO_SESSION = "[SESSION_OR_CONTEXT_NOT_EXISTS]"
_WHERE_NO_SESSION = (
    " (a Python worker imports the job's file to find a function in it, and has no session for what stands beside it: "
    "use the decorator @udf, name types as IntegerType() and not as text, or move the function to a module of its own)"
)


def describe_fault(error: BaseException, root: Path | None = None) -> str:
    """One line; ``root``: where the job's own code lies, to name its file and line."""
    if isinstance(error, StreamkeeperError):
        return str(error)
    condition = condition_of(error)
    if condition or type(error).__module__.startswith(("pyspark", "py4j")):
        return describe_text(str(error), condition or type(error).__name__)
    return locate(error, root)[:_LONGEST]


def describe_text(text: str, condition: str = "") -> str:
    """One line of what Spark says; of a Python traceback in it, its last line."""
    if taken := another_writers_file(text):
        return f"another driver writes this checkpoint: {taken} was there before it was written"
    python = _PYTHON.findall(text) if "Traceback (most recent call last)" in text else []
    line = (
        python[-1]
        if python
        else next((text_line for text_line in text.splitlines() if text_line.strip()), "no message")
    )
    line = line.strip().removeprefix(f"[{condition}]").strip()
    if python and _NO_SESSION in line:
        line += _WHERE_NO_SESSION
    return (f"{condition}: {line}" if condition else line)[:_LONGEST]


def another_writers_file(text: str) -> str:
    """The file of its checkpoint that a run has found written by another driver, as Spark tells it; empty otherwise."""
    found = _TAKEN.search(text)
    return found[1] if found else ""


def condition_of(error: BaseException) -> str:
    """Spark's error condition; empty where the error has none."""
    for name in ("getCondition", "getErrorClass"):
        ask = getattr(error, name, None)
        if callable(ask):
            found = ask()
            if found:
                return str(found)
    return ""
