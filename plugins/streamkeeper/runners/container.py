"""The container in which a supervisor runs: what differs there from a machine, where a supervisor has no container."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from streamkeeper.model.protocol.driver_messages import SECRETS, LaunchSpec
from streamkeeper.model.runner_kinds.known_runners import RUNNERS


class Container:
    """No container. A kind of runner with containers declares a subclass."""

    keeps_session: ClassVar[bool] = False
    """Whether the supervisor must stay in the session in which the cluster started it."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """``environ``: the environment of the supervisor, and of the drivers that it starts."""
        self._environ = environ

    @property
    def id(self) -> str:
        """The id that the cluster gives to this container and never reuses; empty if claims need none."""
        return ""

    @property
    def grace_s(self) -> float:
        """Seconds that the cluster allows between SIGTERM and SIGKILL, if a driver may use them to end between two
        batches; otherwise 0.
        """
        return 0.0

    def secrets(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the secrets of a launch by their references; its starter has put them into the environment."""
        del spec
        found: dict[str, str] = json.loads(self._environ.get(SECRETS) or "{}")
        return found

    def log_path(self, log: Path) -> Path | None:
        """Return the path of the driver's log; None if the cluster keeps the supervisor's output instead.

        ``log``: the path on a machine.
        """
        return log

    def why_gone(self) -> str:
        """Return why no driver can be started here any more; empty if a driver can be started."""
        return ""

    def reporting(self, log: Callable[[str], None]) -> AbstractContextManager[None]:
        """Return a context in which the cluster is told that the supervisor lives, if the cluster needs to be told.

        ``log``: writes a line into the log.
        """
        del log
        return nullcontext()


def container_of(environ: MutableMapping[str, str]) -> Container:
    """Return the container in which a process with this environment runs."""
    found = next((kind for kind in RUNNERS.values() if environ.get(kind.container_mark)), None)
    made: Container = load(found.container)(environ) if found is not None else Container(environ)
    return made


def load(name: str) -> Any:
    """Load a class that a kind of runner names as ``module:class``."""
    module, _, member = name.partition(":")
    return getattr(import_module(module), member)
