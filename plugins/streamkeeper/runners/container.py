"""The container in which a supervisor runs, and how it differs from a machine, where a supervisor has no container."""

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
    """The place of a supervisor that runs directly on a machine, without a container. Each kind of runner that uses
    containers declares a subclass.
    """

    keeps_session: ClassVar[bool] = False
    """Whether the supervisor must stay in the session in which the cluster started it."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """``environ``: the environment of the supervisor, and of the drivers that it starts."""
        self._environ = environ

    @property
    def id(self) -> str:
        """The id that the cluster gives to this container and never reuses; empty if claims need no id."""
        return ""

    @property
    def grace_s(self) -> float:
        """The seconds that the cluster allows between SIGTERM and SIGKILL, if a driver may use them to stop between two
        batches; otherwise 0.
        """
        return 0.0

    def secrets(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the secrets of a launch by their references. The process that started the supervisor has put them into
        the environment.
        """
        del spec
        found: dict[str, str] = json.loads(self._environ.get(SECRETS) or "{}")
        return found

    def log_path(self, log: Path) -> Path | None:
        """Return the path of the driver's log; None if the cluster keeps the supervisor's output instead.

        ``log``: the path that the log has on a machine.
        """
        return log

    def why_gone(self) -> str:
        """Return why no further driver can be started in this container; empty if one can be started."""
        return ""

    def reporting(self, log: Callable[[str], None]) -> AbstractContextManager[None]:
        """Return a context that keeps reporting to the cluster that the supervisor is alive, if the cluster needs such
        reports.

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
