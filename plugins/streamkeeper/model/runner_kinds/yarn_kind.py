"""The declaration of the runner whose drivers are YARN's containers."""

from __future__ import annotations

import re
from typing import ClassVar

from streamkeeper.errors import InvalidInput
from streamkeeper.model.runner_kinds.runner_kind import Place, RunnerKind, RunnerVariable

YARN = "yarn"
QUEUE = "STREAMKEEPER_QUEUE"
IN_A_CONTAINER = "STREAMKEEPER_CONTAINER"
"""The variable that marks processes in a driver's container."""
_QUEUE = re.compile(r"[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*")


class Application(Place, frozen=True, kw_only=True):
    """The YARN application whose first container runs an instance; ``cluster``: the ResourceManager's HTTP address."""

    FILE: ClassVar[str] = "application.json"
    id: str


def _read_queue(variable: str, value: str) -> str:
    if not _QUEUE.fullmatch(value):
        raise InvalidInput(
            f"{variable}={value} is not the name of a queue", hint="write the name as in YARN, such as root.streaming"
        )
    return value


YARN_KIND = RunnerKind(
    name=YARN,
    title="YARN",
    runner="streamkeeper.runners.yarn_application:YarnRunner",
    place=Application,
    variables=(
        RunnerVariable(
            name=QUEUE,
            default="YARN's default",
            description="YARN queue of new drivers, such as `root.streaming`.",
            read=_read_queue,
        ),
    ),
    container="streamkeeper.runners.yarn_container:YarnContainer",
    container_mark=IN_A_CONTAINER,
)
