"""That a file declares a job, and the job's own thresholds of health, read from its text; nothing is executed.

The thresholds become part of the release, so that whoever watches a job need not run it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from streamkeeper.errors import JobUnusable
from streamkeeper.health.rules import check_thresholds
from streamkeeper.job_declarations import declarations

_HINT = 'write it out where the job is declared: health={"lag-seconds": 600, "frozen": None}'


def read_thresholds(source: str | bytes, job: str, *, where: str) -> dict[str, float | None]:
    """Rule -> threshold, None where switched off, as ``@streaming_job(name=job, health={...})`` says.

    Raises JobUnusable, naming file and line, for what is not written out; InvalidInput for an unknown rule or value.
    """
    for given in _given(ast.parse(source), job):
        try:
            found = ast.literal_eval(given)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise JobUnusable(
                f"{where}:{given.lineno}: the health of job {job} can only be known by running it", hint=_HINT
            )
        return check_thresholds(job, found)
    return {}


def declares_job(source: bytes, job: str) -> bool:
    """Whether a file holds ``@streaming_job(name=job)``, or one whose name only running it tells.

    Raises SyntaxError or ValueError for what is no Python.
    """
    return any(True for _ in declarations(ast.parse(source), job))


def _given(tree: ast.Module, job: str) -> Iterator[ast.expr]:
    """What is passed as ``health`` where this job is declared."""
    for given in declarations(tree, job):
        if "health" in given:
            yield given["health"]
