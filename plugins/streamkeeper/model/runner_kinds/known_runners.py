"""Every kind of runner by its name in settings and launches. Other packages do not name a kind, but look it up here."""

from __future__ import annotations

from streamkeeper.model.runner_kinds.kubernetes_kind import KUBERNETES_KIND
from streamkeeper.model.runner_kinds.local_kind import LOCAL_KIND
from streamkeeper.model.runner_kinds.runner_kind import RunnerKind
from streamkeeper.model.runner_kinds.yarn_kind import YARN_KIND

RUNNERS: dict[str, RunnerKind] = {kind.name: kind for kind in (LOCAL_KIND, YARN_KIND, KUBERNETES_KIND)}
"""Name -> kind."""


def runner_kind(name: str) -> RunnerKind:
    """Return a kind of runner by its name.

    For a name that is not declared, the result contains only the name, and its drivers may run on any node.
    """
    return RUNNERS.get(name) or RunnerKind(name=name, title=name, runner="")


def clusters() -> list[RunnerKind]:
    """Return the kinds whose drivers run on the nodes of a cluster."""
    return [kind for kind in RUNNERS.values() if kind.on_nodes]
