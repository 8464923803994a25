"""A supervisor's container in a driver's pod."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.model.runner_kinds.kubernetes_kind import GRACE, POD_UID
from streamkeeper.runners.container import Container


class PodContainer(Container):
    """The driver's container of a pod."""

    @property
    def id(self) -> str:
        """Implement ``Container.id``: the pod's uid."""
        return self._environ[POD_UID]

    @property
    def grace_s(self) -> float:
        """Implement ``Container.grace_s``: the pod's grace period."""
        return float(self._environ.get(GRACE, "0"))

    def log_path(self, log: Path) -> Path | None:
        """Implement ``Container.log_path``: the kubelet keeps the container's output."""
        del log
        return None
