"""The storage of checkpoints: a disk, HDFS or an S3 bucket."""

from __future__ import annotations

from collections.abc import Callable

from harness.simulation.bucket import SimulatedBucket
from harness.simulation.scheduler import Scheduler
from harness.simulation.trees import Files, SharedTree, SimulatedTree
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import StoreUnavailable
from streamkeeper.locations import local_path, scheme_of
from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.runner_kinds.kubernetes_kind import KUBERNETES
from streamkeeper.model.runner_kinds.yarn_kind import YARN

ROOT = "/simulated"
"""The folder above every local path; the real disk has no such folder."""
_BUCKET = "s3a://simulated"
CHECKPOINTS = {
    LOCAL: f"{ROOT}/checkpoints",
    KUBERNETES: f"{_BUCKET}/checkpoints",
    YARN: "hdfs://namenode:8020/checkpoints",
}
"""Where drivers run -> the location of their checkpoints."""


class Storages:
    """All files of a world, and the trees through which they are accessed. ``lost``: returns the share of requests that
    fail.
    """

    def __init__(self, scheduler: Scheduler, lost: Callable[[], float]) -> None:
        self.files = Files(lambda: int(1e9 * scheduler.unix()))
        self._scheduler, self._lost = scheduler, lost
        self._trees: dict[str, Tree] = {}
        self._bucket = SimulatedBucket(self.files, seam=scheduler.seam, strikes=self._strikes)

    def tree_at(self, location: str, *, lasting: bool = True) -> Tree:
        """Return the tree at a location."""
        if location.startswith(_BUCKET):
            # It remembers listings, so that each user needs one of its own.
            return S3Tree(location, self._bucket)
        found = self._trees.get(location)
        if found is None:
            if scheme_of(location) == "hdfs":
                found = SharedTree(self.files, location, seam=self._reach_hdfs)
            else:
                root = local_path("checkpoint", location)
                found = SimulatedTree(self.files, root, lasting=lasting, seam=self._scheduler.seam)
            self._trees[location] = found
        return found

    def _strikes(self) -> bool:
        return self._scheduler.strikes(self._lost())

    def _reach_hdfs(self) -> None:
        self._scheduler.seam()
        if self._strikes():
            raise StoreUnavailable("simulated: HDFS does not answer")
