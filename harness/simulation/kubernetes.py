"""A Kubernetes cluster of two nodes as its API server reports it; the reports may be wrong, late, or missing.

A kubelet starts each pod's supervisor on its node, stops it when its pod is deleted, and reports its end once every
process of the container has terminated. While a node is cut off, its processes keep running, and the API server marks
its pods as not ready, deletes them, and cannot report whether they have terminated. A node that has restarted may have
lost the record of its containers. A pod that is deleted by force, and without its finalizer, disappears from the API
server while its processes may still run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from harness.simulation.cluster import NODES, Access, Cluster, Node, exit_code_of
from harness.simulation.plan import Move
from harness.simulation.runner import Watched
from harness.simulation.scheduler import Process
from streamkeeper.errors import NotFound
from streamkeeper.model.runner_kinds.kubernetes_kind import GRACE, POD_UID
from streamkeeper.runners.kubernetes_api import (
    AlreadyThere,
    Condition,
    ContainerState,
    ContainerStatus,
    PodMetadata,
    PodReport,
    PodSpec,
    PodStatus,
    Terminated,
    Waiting,
)
from streamkeeper.runners.kubernetes_pod import KubernetesRunner
from streamkeeper.runners.pod_template import CONTAINER, FINALIZER, INSTANCE, JOB, PodTemplate

if TYPE_CHECKING:
    from harness.simulation.world import World
    from streamkeeper.stores.contract import Store

_NAMESPACE = "streaming"
_GRACE_S = 30
"""How long a deleted pod may take to terminate, in seconds."""
_SILENT_S, _EVICTED_S = 40.0, 300.0
"""The seconds without a report after which a node's pods count as not ready, and the further seconds after which they
are deleted.
"""
_LOST = Terminated(exit_code=137, reason="ContainerStatusUnknown", message="The container could not be located")
_FORGOTTEN = Terminated(exit_code=255, reason="Unknown", container_id="containerd://1")


@dataclass(eq=False)
class _Pod:
    """A pod as the API server has recorded it, and the state of its kubelet."""

    metadata: PodMetadata
    node: Node
    deletes_at: float | None = None
    """The virtual time by which a deleted pod has to terminate; None unless it is deleted."""
    root: Process | None = None
    """The supervisor; None until the kubelet has started it."""
    reported: bool = False
    """Whether the kubelet has reported that the supervisor is running."""
    end: Terminated | None = None
    """The termination that the kubelet has reported."""
    forgotten: bool = False
    """Whether the node has lost the record of how the container terminated."""
    lost: bool = False
    """Whether the kubelet has lost track of the container, which keeps running and which the kubelet can no longer
    stop.
    """

    @property
    def of(self) -> str:
        """Return the instance that the pod runs."""
        return self.metadata.annotations[INSTANCE]


class Kubernetes(Cluster):
    """The API server's objects, and the processes that run on its nodes."""

    name = "the API server"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods: dict[str, _Pod] = {}
        self._started: list[_Pod] = []
        """Every pod that was ever created."""

    # Requests

    def create(self, manifest: Mapping[str, Any]) -> PodReport:
        """Create a pod, which one of the nodes starts shortly afterwards."""
        told = manifest["metadata"]
        name = told["name"]
        if name in self._pods:
            raise AlreadyThere(f'pods "{name}" already exists')
        metadata = PodMetadata(
            name=name,
            namespace=_NAMESPACE,
            uid=f"uid-{len(self._started) + 1}",
            annotations=dict(told["annotations"]),
            finalizers=tuple(told["finalizers"]),
        )
        pod = self._pods[name] = _Pod(metadata, self._nodes[NODES[(len(self._started) + 1) % len(NODES)]])
        self._started.append(pod)
        kubelet = Process(f"kubelet of {name}", pod.node.name)
        self._scheduler.start(kubelet, kubelet.name, lambda: self._run(pod), after_s=self._scheduler.chance.random())
        return self._report(pod)

    def find(self, name: str) -> PodReport | None:
        """Return the report of a pod; None if the API server does not have it."""
        pod = self._pods.get(name)
        return self._report(pod) if pod is not None else None

    def delete(self, name: str, uid: str, grace_s: float) -> None:
        """Mark a pod as deleted, so that its kubelet stops it."""
        pod = self._named(name, uid)
        due = self._scheduler.now_s + grace_s
        pod.deletes_at = due if pod.deletes_at is None else min(due, pod.deletes_at)
        self._scheduler.wake()
        self._collect(pod)

    def set_finalizers(self, name: str, uid: str, finalizers: Sequence[str]) -> None:
        """Replace a pod's finalizers."""
        pod = self._named(name, uid)
        pod.metadata = replace(pod.metadata, finalizers=tuple(finalizers))
        self._collect(pod)

    def _named(self, name: str, uid: str) -> _Pod:
        pod = self._pods.get(name)
        if pod is None:
            raise NotFound(f'pods "{name}" not found')
        if uid != pod.metadata.uid:
            raise AlreadyThere("the UID in the precondition does not match")
        return pod

    def _collect(self, pod: _Pod) -> None:
        """Remove a deleted pod that has terminated and that no finalizer holds."""
        if pod.deletes_at is not None and pod.end is not None and not pod.metadata.finalizers:
            self._pods.pop(pod.metadata.name, None)

    # What happens to nodes and pods

    def _strike(self, node: Node, move: Move) -> None:
        del node
        if move.kind == "pod-lost":
            self._lose_sight(move)
        elif there := [pod for pod in self._pods.values() if pod.end is None]:
            pod = there[int(move.which * len(there))]
            self._remove(pod, None if move.kind == "pod-forced" else move.seconds / 10.0)

    def _rebooted(self, node: Node, *, forgets: bool) -> str:
        for pod in self._started:
            pod.forgotten |= forgets and pod.node is node and pod.root is not None and pod.root.alive
        return " and forgets its containers" if forgets else ""

    def _lose_sight(self, move: Move) -> None:
        """Make a kubelet report that it cannot find a container, which keeps running."""
        there = [pod for pod in self._pods.values() if pod.reported and pod.end is None]
        if there:
            pod = there[int(move.which * len(there))]
            self._scheduler.say(f"fault: the kubelet loses track of pod {pod.metadata.name}")
            pod.lost = True
            self._end(pod, _LOST)

    def _remove(self, pod: _Pod, grace_s: float | None) -> None:
        """Delete a pod, as draining its node does; ``grace_s`` None: by force, after its finalizer was removed."""
        name = pod.metadata.name
        self._scheduler.say(f"fault: pod {name} is {'removed by force' if grace_s is None else 'deleted'}")
        if grace_s is None:
            del self._pods[name]
            pod.deletes_at = self._scheduler.now_s
            self._scheduler.wake()
        else:
            self.delete(name, pod.metadata.uid, grace_s)

    def is_beyond_proof(self, instance: str) -> bool:
        """Return whether an instance has terminated in such a way that no report will ever prove it."""
        started = [pod for pod in self._started if pod.of == instance]
        return any(
            (pod.end in (_LOST, _FORGOTTEN) or pod.metadata.name not in self._pods)
            and (pod.root is None or not pod.root.alive)
            for pod in started
        )

    # The kubelet

    def _run(self, pod: _Pod) -> None:
        """Start a pod's supervisor, send it a SIGTERM when the pod is deleted, and report its termination."""
        node, scheduler = pod.node, self._scheduler
        scheduler.wait(lambda: node.cut_from is None)
        if pod.deletes_at is not None:
            self._end(pod, _LOST)
            return
        environ = {POD_UID: pod.metadata.uid, GRACE: str(_GRACE_S)}
        job = pod.metadata.annotations[JOB]
        root = pod.root = self._world.start_supervisor(job, pod.of, machine=node.name, environ=environ)
        scheduler.seam()
        scheduler.wait(lambda: node.cut_from is None or not root.alive)
        if node.cut_from is None:
            pod.reported = True
        scheduler.wait(lambda: not root.alive or self._must_end(pod))
        if root.alive:
            scheduler.ask_to_end(root)
            scheduler.wait(lambda: not root.alive, max(0.0, (pod.deletes_at or 0.0) - scheduler.now_s))
        scheduler.kill(root, -9)
        exit_code = exit_code_of(root)
        for each in root.tree():
            # The kernel ends a pid namespace with its first process.
            scheduler.kill(each, -9)
        scheduler.seam()
        scheduler.wait(lambda: node.cut_from is None)
        told = Terminated(
            exit_code=exit_code, reason="Error" if exit_code else "Completed", container_id="containerd://1"
        )
        self._end(pod, _FORGOTTEN if pod.forgotten else told)

    def _must_end(self, pod: _Pod) -> bool:
        """Return whether the kubelet has received the order to stop a pod and can still find its container."""
        return pod.node.cut_from is None and pod.deletes_at is not None and not pod.lost

    def _end(self, pod: _Pod, end: Terminated) -> None:
        pod.end = pod.end or end
        self._collect(pod)

    # Reports

    def _note_silence(self, node: Node) -> None:
        if node.cut_from is None or self._scheduler.now_s < node.cut_from + _SILENT_S + _EVICTED_S:
            return
        for pod in self._started:
            if pod.node is node and pod.deletes_at is None and pod.end is None:
                pod.deletes_at = node.cut_from + _SILENT_S + _EVICTED_S

    def _report(self, pod: _Pod) -> PodReport:
        node = pod.node
        self._note_silence(node)
        silent = node.cut_from is not None and self._scheduler.now_s > node.cut_from + _SILENT_S
        if pod.end is not None:
            state, phase = ContainerState(terminated=pod.end), "Failed" if pod.end.exit_code else "Succeeded"
        elif pod.reported:
            state, phase = ContainerState(running={}), "Running"
        else:
            state, phase = ContainerState(waiting=Waiting(reason="ContainerCreating")), "Pending"
        metadata = pod.metadata
        if pod.deletes_at is not None:
            due = datetime.fromtimestamp(self._scheduler.unix() - self._scheduler.now_s + pod.deletes_at, UTC)
            metadata = replace(metadata, deletion_timestamp=due.isoformat())
        ready = pod.reported and pod.end is None
        return PodReport(
            metadata=metadata,
            spec=PodSpec(node_name=node.name),
            status=PodStatus(
                phase=phase,
                conditions=(Condition(type="Ready", status=str(ready and not silent)),),
                container_statuses=(ContainerStatus(name=CONTAINER, ready=ready, state=state),),
            ),
        )


class SimulatedApi(Access):
    """One process's access to the API server, with the interface of ``KubernetesApi``."""

    server = "https://simulated"

    def __init__(self, world: World, cluster: Kubernetes) -> None:
        super().__init__(world, "Kubernetes")
        self._cluster = cluster

    def create_pod(self, _namespace: str, pod: Mapping[str, Any], *, trying: bool = False) -> PodReport | None:
        """Create a pod as ``KubernetesApi`` does; with ``trying``, nothing is created and None is returned."""
        return self._ask("create", lambda: None if trying else self._cluster.create(pod))

    def find_pod(self, _namespace: str, name: str) -> PodReport | None:
        """Return the report of a pod as ``KubernetesApi`` does."""
        return self._ask("find", lambda: self._cluster.find(name))

    def delete_pod(self, _namespace: str, name: str, uid: str, *, grace_s: int, trying: bool = False) -> None:
        """Delete a pod as ``KubernetesApi`` does."""
        self._ask("delete", lambda: None if trying else self._cluster.delete(name, uid, grace_s))

    def set_finalizers(
        self, _namespace: str, name: str, uid: str, finalizers: Sequence[str], *, trying: bool = False
    ) -> None:
        """Replace a pod's finalizers as ``KubernetesApi`` does."""
        self._ask("patch", lambda: None if trying else self._cluster.set_finalizers(name, uid, finalizers))

    def create_secret(self, _namespace: str, _secret: Mapping[str, Any], *, trying: bool = False) -> None:
        """Do nothing, because no simulated job has secrets."""

    def delete_secret(self, _namespace: str, name: str, *, trying: bool = False) -> None:
        """Raise NotFound, because no simulated job has secrets."""
        raise NotFound(f'secrets "{name}" not found')


class SimulatedPods(Watched, KubernetesRunner):
    """The real Kubernetes runner; only the API server is simulated."""

    def __init__(self, world: World, store: Store) -> None:
        super().__init__(store, world.settings, {})
        self._world = world
        assert isinstance(world.cluster, Kubernetes)
        self._simulated = SimulatedApi(world, world.cluster)

    @property
    def _api(self) -> Any:
        return self._simulated

    def _template(self) -> PodTemplate:
        return PodTemplate({"metadata": {"namespace": _NAMESPACE}, "spec": {}})

    def _manifest(self, template: PodTemplate, name: str, whose: Mapping[str, str], *_: Any, **__: Any) -> Any:
        del template
        return {"metadata": {"name": name, "annotations": dict(whose), "finalizers": [FINALIZER]}}
