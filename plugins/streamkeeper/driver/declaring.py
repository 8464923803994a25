"""``python -m streamkeeper.driver.declaring``: reads a job file's declarations within a second and without Spark.

Arguments ``<root> <entry> <job> <answer>``: it writes a Declaration as JSON into the file ``answer``. An error is
reported only if a driver would meet the same error. A file that needs Spark during its import is left to a driver.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from streamkeeper.authoring.definition import load_job
from streamkeeper.errors import JobUnusable, StreamkeeperError
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.declaration import Declaration, declaration_of
from streamkeeper.model.protocol.driver_messages import SECRETS

_CERTAIN = (
    *(SyntaxError, ImportError, NameError, LookupError, ArithmeticError, ValueError, SystemExit, RecursionError),
    *(FileNotFoundError, NotADirectoryError, PermissionError),
)
"""Errors that a Spark session would not prevent. TypeError and AttributeError are missing, because code that gets None
instead of a session raises them.
"""


class _SparkNeeded(BaseException):
    """Raised when the file starts Spark during its import. No ``except Exception`` in the file catches it."""


def read_declaration(root: Path, entry: str, job: str) -> Declaration:
    """Load the job's file without starting Spark, and return the declaration of the job's params.

    If loading fails with an error that a driver would meet, too, return a declaration with that error. If only a driver
    can load the file, for instance because the file starts Spark, return an empty declaration.
    """
    try:
        with _without_spark():
            return declaration_of(load_job(root, entry, job).params)
    except _SparkNeeded:
        return Declaration()
    except JobUnusable as error:
        return Declaration(error=str(error)) if _is_certain(error.__cause__) else Declaration()


def _is_certain(cause: BaseException | None) -> bool:
    """Whether a driver would meet the same error. This is also true of an error without a cause, which refuses the text
    of the file itself.
    """
    if cause is None or isinstance(cause, StreamkeeperError):
        return True
    return isinstance(cause, _CERTAIN) and not type(cause).__module__.startswith(("pyspark", "py4j"))


@contextmanager
def _without_spark() -> Iterator[None]:
    """Prevent the start of a JVM, which takes long; in a driver the file would find a running JVM."""
    from pyspark.core import context

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise _SparkNeeded

    launch, context.launch_gateway = context.launch_gateway, refuse
    try:
        yield
    finally:
        context.launch_gateway = launch


def main(arguments: Sequence[str]) -> NoReturn:
    """Write the job's declaration to the answer file and exit at once, regardless of threads that the job's file has
    started.
    """
    os.environ.pop(SECRETS, None)
    root, entry, job, answer = arguments
    Path(answer).write_bytes(to_json(read_declaration(Path(root), entry, job), in_order=True))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
