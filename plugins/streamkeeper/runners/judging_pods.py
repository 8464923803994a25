"""What the API server's words on a pod prove of its driver; nothing is asked here."""

from __future__ import annotations

from collections.abc import Sequence

from streamkeeper.model.control import Pod, ProcessRecord
from streamkeeper.runners.claims import is_barred
from streamkeeper.runners.contract import Life, Liveness
from streamkeeper.runners.kubernetes_api import ContainerStatus, PodReport, Terminated
from streamkeeper.runners.pod_template import CONTAINER

_LOST_SIGHT = ("ContainerStatusUnknown", "Unknown")
"""What is said of a container that the kubelet, or containerd as it starts, does not find: it may run on."""
_OVER = ("Succeeded", "Failed")
_OVERDUE_S = 60.0
"""After the end of its grace period; two clocks may be apart."""


def judge(
    pod: Pod, found: PodReport | None, recorded: Sequence[ProcessRecord], now: float, *, elsewhere: str = ""
) -> Liveness:
    """What the API server's words on an instance's pod prove; ``recorded``: who has claimed the instance; ``now``: in
    seconds since 1970; ``elsewhere``: the server that was asked, where it is not the one that the pod was created at.

    A pod that nobody has claimed it from is never UNKNOWN: once it is killed, nobody can.
    """
    if found is None and not recorded and not elsewhere:
        return Liveness(life=Life.ABSENT, why=f"launched, but {named(pod)} was not created")
    if found is None:
        asked = f"at {elsewhere}, and it is one of {pod.cluster}: KUBECONFIG names another cluster" if elsewhere else ""
        return _unknown(
            f"there is no {named(pod)} {asked or f'at {pod.cluster} any more'}, which proves nothing: its containers "
            "may run on, and the supervisor has not said how it ended"
        )
    if not is_pod_of(found, recorded):
        return _unknown(f"{named(pod)} is another one than the one that has claimed the instance ({recorded[-1].pod})")
    driver = next((each for each in found.status.container_statuses if each.name == CONTAINER), None)
    end = driver.state.terminated if driver is not None and _is_apart(found) else None
    if end is not None and _is_proof(end):
        return _ended(pod, found, end, recorded)
    doubt = _doubt(found, driver, now)
    if doubt and recorded:
        return _unknown(f"{named(pod)} {doubt}")
    return Liveness(life=Life.ALIVE, why=f"{named(pod)} {doubt or _doing(found)}")


def _doubt(found: PodReport, driver: ContainerStatus | None, now: float) -> str:
    """Why nobody knows how it stands, as a clause; empty where its kubelet can be believed."""
    if not _is_apart(found):
        return (
            "has its processes in a namespace that is not its driver's alone, so that no container's end proves theirs"
        )
    if driver is not None and driver.state.terminated is not None:
        return f"has a container that the kubelet of {found.spec.node_name} has lost sight of"
    if _is_silent(found):
        return f"was last seen running on {found.spec.node_name}, which is not heard of"
    if found.metadata.ends_before(now - _OVERDUE_S):
        return f"was to be ended by {found.metadata.deletion_timestamp}, and nobody has said so"
    return ""


def _ended(pod: Pod, found: PodReport, end: Terminated, recorded: Sequence[ProcessRecord]) -> Liveness:
    why = f"the kubelet of {found.spec.node_name} says that the driver's container of {named(pod)} has ended"
    why = f"{why} with code {end.exit_code}"
    if recorded:
        why = f"{why}: supervisor {recorded[-1].pid} and all it started ended with it"
    else:
        last = [line.strip() for line in end.message.splitlines() if line.strip()]
        why = f"{why}; it claimed nothing: {last[-1] if last else end.reason or 'no reason is told'}"
    return Liveness(life=Life.DEAD, why=why)


def _is_apart(found: PodReport) -> bool:
    """Whether the driver's processes are in a namespace of their container's own, which ends with it."""
    return not found.spec.share_process_namespace and not found.spec.host_pid


def _is_proof(end: Terminated) -> bool:
    return bool(end.container_id) and end.reason not in _LOST_SIGHT


def is_pod_of(found: PodReport, recorded: Sequence[ProcessRecord]) -> bool:
    """Whether it is the very pod that has claimed the instance, or nobody has."""
    return not recorded or is_barred(recorded) or found.metadata.uid == recorded[-1].pod


def _is_silent(found: PodReport) -> bool:
    """Whether somebody else has taken back that the pod runs or serves, while its kubelet's last word is that it does:
    Kubernetes does so of a node that is silent, and of one that is gone.
    """
    told = found.status.container_statuses
    serves = bool(told) and all(each.state.running is not None and each.ready for each in told)
    not_ready = any(each.type == "Ready" and each.status != "True" for each in found.status.conditions)
    return serves and (not_ready or found.status.phase in _OVER)


def _doing(found: PodReport) -> str:
    """What it does by its status, as a clause."""
    waits = [_waiting(each) for each in (*found.status.init_container_statuses, *found.status.container_statuses)]
    if found.status.phase in _OVER:
        told = ": ".join(filter(None, (found.status.reason, found.status.message)))
        return f"is {_in_a_line(f'{found.status.phase}: {told}')}, and its driver did not run"
    if reasons := [each for each in waits if each]:
        return f"does not run yet: {reasons[0]}"
    if found.metadata.deletion_timestamp:
        return "is being ended"
    unscheduled = [each for each in found.status.conditions if each.type == "PodScheduled" and each.status != "True"]
    if unscheduled:
        return f"waits for a node: {_in_a_line(unscheduled[0].message or unscheduled[0].reason)}"
    return f"runs on {found.spec.node_name}" if found.spec.node_name else "was created"


def _waiting(status: ContainerStatus) -> str:
    waiting = status.state.waiting
    return "" if waiting is None else _in_a_line(": ".join(filter(None, (waiting.reason, waiting.message))))


def _in_a_line(text: str) -> str:
    return " ".join(text.split())


def named(pod: Pod) -> str:
    """As everything that is said of it calls it."""
    return f"pod {pod.namespace}/{pod.name}"


def _unknown(why: str) -> Liveness:
    return Liveness(life=Life.UNKNOWN, why=why)
