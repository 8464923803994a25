"""Reads from a file's text whether it declares a job, and the job's own health thresholds; no code is executed.

The thresholds become part of the release, so the watch does not need to run the job's code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from streamkeeper.authoring.job_declarations import declarations
from streamkeeper.errors import JobUnusable
from streamkeeper.health.rules import check_thresholds

_HINT = 'write a literal in the declaration of the job, such as health={"lag-seconds": 600, "frozen": None}'


def read_thresholds(source: str | bytes, job: str, *, where: str) -> dict[str, float | None]:
    """Return the threshold of each health rule that ``@streaming_job(name=job, health={...})`` in ``source`` sets.

    The threshold of a rule that is switched off is None. ``where``: the file, for messages. Raises JobUnusable with
    file and line for a value that is not a literal, and InvalidInput for an unknown rule or value.
    """
    for declared in _given(ast.parse(source), job):
        try:
            found = ast.literal_eval(declared)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise JobUnusable(
                f"{where}:{declared.lineno}: the health thresholds of job {job}"
                " cannot be read without running its code",
                hint=_HINT,
            )
        return check_thresholds(job, found)
    return {}


def declares_job(source: bytes, job: str) -> bool:
    """Whether a file contains ``@streaming_job(name=job)``, or a declaration whose name is known only at run time.

    Raises SyntaxError or ValueError for text that is not Python.
    """
    return any(True for _ in declarations(ast.parse(source), job))


def _given(tree: ast.Module, job: str) -> Iterator[ast.expr]:
    """Yield the argument ``health`` of this job's declarations."""
    for declared in declarations(tree, job):
        if "health" in declared:
            yield declared["health"]
