"""``python -m streamkeeper.driver.declaring``: what a job's file declares, told in a second and without Spark.

``<root> <entry> <job> <answer>``: writes a Declaration as JSON into the file ``answer``. An error is told only where a
driver would meet the same one: a file that needs Spark while it is imported is for a driver to load.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from streamkeeper.definition import load_job
from streamkeeper.errors import JobUnusable, StreamkeeperError
from streamkeeper.model.coding import to_json
from streamkeeper.model.control import SECRETS
from streamkeeper.model.declaration import Declaration, declaration_of

_CERTAIN = (
    *(SyntaxError, ImportError, NameError, LookupError, ArithmeticError, ValueError, SystemExit, RecursionError),
    *(FileNotFoundError, NotADirectoryError, PermissionError),
)
"""What a session would not have kept from being raised; code that got None for one fails by its type or attributes."""


class _SparkNeeded(BaseException):
    """The file starts Spark while it is imported; no handler in it takes this for its own."""


def read_declaration(root: Path, entry: str, job: str) -> Declaration:
    """Load the job as a driver does; empty where only a driver can."""
    try:
        with _without_spark():
            return declaration_of(load_job(root, entry, job).params)
    except _SparkNeeded:
        return Declaration()
    except JobUnusable as error:
        return Declaration(error=str(error)) if _is_certain(error.__cause__) else Declaration()


def _is_certain(cause: BaseException | None) -> bool:
    """Whether a driver would meet it too; without a cause it is the file's text that is refused."""
    if cause is None or isinstance(cause, StreamkeeperError):
        return True
    return isinstance(cause, _CERTAIN) and not type(cause).__module__.startswith(("pyspark", "py4j"))


@contextmanager
def _without_spark() -> Iterator[None]:
    """No JVM is started meanwhile: that takes long, and in a driver the file finds one running."""
    from pyspark.core import context

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise _SparkNeeded

    launch, context.launch_gateway = context.launch_gateway, refuse
    try:
        yield
    finally:
        context.launch_gateway = launch


def main(arguments: Sequence[str]) -> NoReturn:
    """Write the answer and leave at once, whatever threads the file has started."""
    os.environ.pop(SECRETS, None)
    root, entry, job, answer = arguments
    Path(answer).write_bytes(to_json(read_declaration(Path(root), entry, job), in_order=True))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
