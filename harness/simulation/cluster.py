"""A Kubernetes cluster of two nodes, as its API server reports it: also wrong, late, or not at all.

A kubelet starts each pod's supervisor on its node, ends it when its pod is deleted, and reports its end once every
process of the container has ended. While a node is cut off, its processes run on, and the API server withdraws their
readiness, deletes their pods, and cannot say whether they have ended. A node that has restarted may have forgotten its
containers. A pod that is deleted by force, and without its finalizer, is gone while its processes may run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from harness.simulation.plan import Move
from harness.simulation.runner import Watched
from harness.simulation.scheduler import Process
from streamkeeper.errors import NotFound, TemporaryError
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

NODES = ("n1", "n2")
_NAMESPACE = "streaming"
_SILENT_S, _EVICTED_S = 40.0, 300.0
"""After how long without a report a node's pods count as not ready, and after how long they are deleted."""
_HALF = 0.5
_LOST = Terminated(exit_code=137, reason="ContainerStatusUnknown", message="The container could not be located")
_FORGOTTEN = Terminated(exit_code=255, reason="Unknown", container_id="containerd://1")


@dataclass(eq=False)
class _Pod:
    """A pod as the API server knows it, and what its kubelet does."""

    metadata: PodMetadata
    node: str
    deletes_at: float | None = None
    """The virtual time by which a deleted pod has to end; None unless it is deleted."""
    root: Process | None = None
    """The supervisor; None until the kubelet has started it."""
    reported: bool = False
    """Whether the kubelet has reported that the supervisor runs."""
    end: Terminated | None = None
    """The end that the kubelet has reported."""
    forgotten: bool = False
    """Whether the node no longer knows how the container ended."""
    lost: bool = False
    """Whether the kubelet has lost track of the container, which runs on, and can no longer end it."""

    @property
    def of(self) -> str:
        """Its instance."""
        return self.metadata.annotations[INSTANCE]


@dataclass
class _Node:
    """``cut_from``: since when it cannot reach the API server; None while it can."""

    cut_from: float | None = None
    pods: list[_Pod] = field(default_factory=list)


class Cluster:
    """The API server's objects, and what runs on its nodes."""

    def __init__(self, world: World) -> None:
        self._world, self._scheduler = world, world.scheduler
        self._pods: dict[str, _Pod] = {}
        self._nodes = {name: _Node() for name in NODES}
        self._made = 0

    # Requests

    def create(self, manifest: Mapping[str, Any]) -> PodReport:
        """Create a pod, which one of the nodes starts soon."""
        told = manifest["metadata"]
        name = told["name"]
        if name in self._pods:
            raise AlreadyThere(f'pods "{name}" already exists')
        self._made += 1
        metadata = PodMetadata(
            name=name,
            namespace=_NAMESPACE,
            uid=f"uid-{self._made}",
            annotations=dict(told["annotations"]),
            finalizers=tuple(told["finalizers"]),
        )
        pod = self._pods[name] = _Pod(metadata, NODES[self._made % len(NODES)])
        self._nodes[pod.node].pods.append(pod)
        kubelet = Process(f"kubelet of {name}", pod.node)
        self._scheduler.start(kubelet, kubelet.name, lambda: self._run(pod), after_s=self._scheduler.chance.random())
        return self._report(pod)

    def find(self, name: str) -> PodReport | None:
        """Report a pod."""
        pod = self._pods.get(name)
        return self._report(pod) if pod is not None else None

    def delete(self, name: str, uid: str, grace_s: float) -> None:
        """Make a pod end."""
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
        """Remove a deleted pod that has ended and that no finalizer keeps."""
        if pod.deletes_at is not None and pod.end is not None and not pod.metadata.finalizers:
            self._pods.pop(pod.metadata.name, None)

    # What happens to nodes and pods

    def strike(self, move: Move) -> None:
        """Let a fault of POD_FAULTS happen."""
        node, half = NODES[move.machine == "m2"], move.which < _HALF
        match move.kind:
            case "node-cut":
                self._cut_off(node, 2.0 * move.seconds, alone=half)
            case "node-boot":
                self._scheduler.say(f"fault: {node} is rebooted{' and forgets its containers' if half else ''}")
                for pod in self._nodes[node].pods:
                    pod.forgotten |= half and pod.root is not None and pod.root.alive
                self._world.boot(node)
            case "pod-lost":
                self._lose_sight(move)
            case kind if there := [pod for pod in self._pods.values() if pod.end is None]:
                self._remove(there[int(move.which * len(there))], None if kind == "pod-forced" else move.seconds / 10.0)

    def _cut_off(self, node: str, seconds: float, *, alone: bool) -> None:
        """Let a node not reach the API server; ``alone``: nor the store."""
        what = "the API server or the store" if alone else "the API server"
        self._scheduler.say(f"fault: {node} cannot reach {what} for {seconds:g} s")
        self._nodes[node].cut_from = self._scheduler.now_s
        self._scheduler.start(Process("world", "-"), "world", lambda: self.join(node), after_s=seconds)
        for each in self._world.processes() if alone else ():
            if each.machine == node:
                each.blind_until = self._scheduler.now_s + seconds

    def join(self, node: str) -> None:
        """Let a node reach the API server again."""
        self._note_silence(self._nodes[node])
        self._nodes[node].cut_from = None
        self._scheduler.wake()

    def _lose_sight(self, move: Move) -> None:
        """Let a kubelet report that it does not find a container, which runs on."""
        there = [pod for pod in self._pods.values() if pod.reported and pod.end is None]
        if there:
            pod = there[int(move.which * len(there))]
            self._scheduler.say(f"fault: the kubelet loses track of pod {pod.metadata.name}")
            pod.lost = True
            self._end(pod, _LOST)

    def _remove(self, pod: _Pod, grace_s: float | None) -> None:
        """Delete a pod, as the drain of a node does; None: by force, after its finalizer was removed."""
        name = pod.metadata.name
        self._scheduler.say(f"fault: pod {name} is {'removed by force' if grace_s is None else 'deleted'}")
        if grace_s is None:
            del self._pods[name]
            pod.deletes_at = self._scheduler.now_s
            self._scheduler.wake()
        else:
            self.delete(name, pod.metadata.uid, grace_s)

    def is_beyond_proof(self, instance: str) -> bool:
        """Whether an instance has ended, and no report will ever prove it."""
        started = [pod for node in self._nodes.values() for pod in node.pods if pod.of == instance]
        return any(
            (pod.end in (_LOST, _FORGOTTEN) or pod.metadata.name not in self._pods)
            and (pod.root is None or not pod.root.alive)
            for pod in started
        )

    # The kubelet

    def _run(self, pod: _Pod) -> None:
        """Start a pod's supervisor, end it when the pod is deleted, and report its end."""
        node, scheduler, world = self._nodes[pod.node], self._scheduler, self._world
        scheduler.wait(lambda: node.cut_from is None)
        if pod.deletes_at is not None:
            self._end(pod, _LOST)
            return
        job = pod.metadata.annotations[JOB]
        root = pod.root = world.start_supervisor(job, pod.of, machine=pod.node, pod=pod.metadata.uid)
        scheduler.seam()
        scheduler.wait(lambda: node.cut_from is None or not root.alive)
        if node.cut_from is None:
            pod.reported = True
        scheduler.wait(lambda: not root.alive or self._must_end(pod))
        if root.alive:
            scheduler.wait(lambda: not root.alive, max(0.0, (pod.deletes_at or 0.0) - scheduler.now_s))
        code = root.code if not root.alive else -9
        for each in root.tree():
            # The kernel ends a pid namespace with its first process.
            scheduler.kill(each, -9)
        scheduler.seam()
        scheduler.wait(lambda: node.cut_from is None)
        exit_code = 128 - code if code is not None and code < 0 else code or 0
        told = Terminated(
            exit_code=exit_code, reason="Error" if exit_code else "Completed", container_id="containerd://1"
        )
        self._end(pod, _FORGOTTEN if pod.forgotten else told)

    def _must_end(self, pod: _Pod) -> bool:
        """Whether the kubelet knows that it has to end a pod, and finds the pod's container."""
        return self._nodes[pod.node].cut_from is None and pod.deletes_at is not None and not pod.lost

    def _end(self, pod: _Pod, end: Terminated) -> None:
        pod.end = pod.end or end
        self._collect(pod)

    # Reports

    def _note_silence(self, node: _Node) -> None:
        """Delete the pods of a node that has been silent for long."""
        if node.cut_from is None or self._scheduler.now_s < node.cut_from + _SILENT_S + _EVICTED_S:
            return
        for pod in node.pods:
            if pod.deletes_at is None and pod.end is None:
                pod.deletes_at = node.cut_from + _SILENT_S + _EVICTED_S

    def _report(self, pod: _Pod) -> PodReport:
        node = self._nodes[pod.node]
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
            spec=PodSpec(node_name=pod.node),
            status=PodStatus(
                phase=phase,
                conditions=(Condition(type="Ready", status=str(ready and not silent)),),
                container_statuses=(ContainerStatus(name=CONTAINER, ready=ready, state=state),),
            ),
        )


class SimulatedApi:
    """One process's access to the API server; as ``KubernetesApi``. Requests fail as often as those to the store."""

    server = "https://simulated"

    def __init__(self, world: World) -> None:
        self._world = world

    def create_pod(self, _namespace: str, pod: Mapping[str, Any], *, trying: bool = False) -> PodReport | None:
        """As in ``KubernetesApi``; a try creates nothing and reports nothing."""
        found: PodReport | None = self._ask("create", lambda cluster: None if trying else cluster.create(pod))
        return found

    def find_pod(self, _namespace: str, name: str) -> PodReport | None:
        """As in ``KubernetesApi``."""
        found: PodReport | None = self._ask("find", lambda cluster: cluster.find(name))
        return found

    def delete_pod(self, _namespace: str, name: str, uid: str, *, grace_s: int, trying: bool = False) -> None:
        """As in ``KubernetesApi``."""
        self._ask("delete", lambda cluster: None if trying else cluster.delete(name, uid, grace_s))

    def set_finalizers(
        self, _namespace: str, name: str, uid: str, finalizers: Sequence[str], *, trying: bool = False
    ) -> None:
        """As in ``KubernetesApi``."""
        self._ask("patch", lambda cluster: None if trying else cluster.set_finalizers(name, uid, finalizers))

    def create_secret(self, _namespace: str, _secret: Mapping[str, Any], *, trying: bool = False) -> None:
        """No simulated job has secrets."""

    def delete_secret(self, _namespace: str, name: str, *, trying: bool = False) -> None:
        """No simulated job has secrets."""
        raise NotFound(f'secrets "{name}" not found')

    def _ask(self, what: str, answer: Any) -> Any:
        scheduler = self._world.scheduler
        scheduler.seam()
        if scheduler.strikes(self._world.lost / 2):
            raise TemporaryError(f"simulated: no answer of Kubernetes to {what}")
        found = answer(self._world.cluster)
        scheduler.seam()
        if scheduler.strikes(self._world.lost / 2):
            scheduler.say(f"Kubernetes' answer to {what} is lost")
            raise TemporaryError(f"simulated: the answer of Kubernetes to {what} is lost")
        return found


class SimulatedPods(Watched, KubernetesRunner):
    """The real runner of pods; only the API server is simulated."""

    def __init__(self, world: World, store: Store) -> None:
        super().__init__(store, world.settings, {})
        self._world = world
        self._simulated = SimulatedApi(world)

    @property
    def _api(self) -> Any:
        return self._simulated

    def _template(self) -> PodTemplate:
        return PodTemplate({"metadata": {"namespace": _NAMESPACE}, "spec": {}})

    def _manifest(self, template: PodTemplate, name: str, whose: Mapping[str, str], *_: Any, **__: Any) -> Any:
        del template
        return {"metadata": {"name": name, "annotations": dict(whose), "finalizers": [FINALIZER]}}
