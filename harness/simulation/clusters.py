"""Maps a setting to the place where drivers run: on the machines of their callers, in Kubernetes pods, or in YARN
containers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.simulation.cluster import Cluster
from harness.simulation.kubernetes import Kubernetes, SimulatedPods
from harness.simulation.runner import SimulatedRunner
from harness.simulation.yarn import SimulatedContainers, Yarn
from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.runner_kinds.kubernetes_kind import KUBERNETES
from streamkeeper.model.runner_kinds.yarn_kind import YARN
from streamkeeper.runners.by_launch import LaunchedRunner
from streamkeeper.runners.contract import Runner

if TYPE_CHECKING:
    from harness.simulation.world import World
    from streamkeeper.stores.contract import Store

_CLUSTERS: dict[str, type[Cluster]] = {LOCAL: Cluster, KUBERNETES: Kubernetes, YARN: Yarn}


def cluster_of(world: World, drivers: str) -> Cluster:
    """Return the cluster whose nodes run the drivers."""
    return _CLUSTERS[drivers](world)


def runner_of(world: World, store: Store) -> Runner:
    """Return the runner of one process."""
    local = SimulatedRunner(world, store)
    if world.settings.drivers == LOCAL:
        return local
    makers: dict[str, Callable[[], Runner]] = {
        LOCAL: lambda: local,
        KUBERNETES: lambda: SimulatedPods(world, store),
        YARN: lambda: SimulatedContainers(world, store),
    }
    return LaunchedRunner(store, makers, world.settings.drivers)
