"""Decides what the API server's report on a pod proves about its driver; makes no request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from streamkeeper.model.protocol.driver_messages import ProcessRecord
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.runner_kinds.kubernetes_kind import Pod
from streamkeeper.runners.barred_instances import is_barred
from streamkeeper.runners.contract import Life, Liveness
from streamkeeper.runners.kubernetes_api import ContainerStatus, PodReport, Terminated
from streamkeeper.runners.pod_template import CONTAINER

_LOST_SIGHT = ("ContainerStatusUnknown", "Unknown")
"""Reasons that are reported for a container that the kubelet, or a starting containerd, cannot find; the container may
still run.
"""
_OUT_OF_MEMORY, _EVICTED, _DISRUPTED = "OOMKilled", "Evicted", "DisruptionTarget"
"""The reason of a container that exceeded its memory limit, the reason of an evicted pod, and the condition of a pod
that was terminated for a cause other than its own limits.
"""
_KILLED = 137
_GREEDY = {"memory": Fault.OUT_OF_MEMORY, "ephemeral-storage": Fault.DISK_FULL}
_OVER = ("Succeeded", "Failed")
_OVERDUE_S = 60.0
"""A pod counts as overdue when its deadline for ending has passed by this many seconds, because two clocks
may differ.
"""


def judge(
    pod: Pod, found: PodReport | None, recorded: Sequence[ProcessRecord], now: float, *, elsewhere: str = ""
) -> Liveness:
    """Return whether an instance is alive, judged from the API server's report on its pod.

    ``pod``: the recorded pod.
    ``found``: the report, None if there is no such pod.
    ``recorded``: the claims of the instance.
    ``now``: seconds since 1970.
    ``elsewhere``: the API server that was queried, if the pod was created at another server; otherwise empty.

    While the instance has no claim, an existing pod whose end is not proven is always ALIVE, even if its state is in
    doubt. UNKNOWN is not needed then, because after ``Runner.kill`` no process in the pod can claim the instance any
    more.
    """
    if found is None and not recorded and not elsewhere:
        return Liveness(life=Life.ABSENT, why=f"the instance was launched, but {named(pod)} was not created")
    if found is None:
        asked = f"{named(pod)} is in {pod.cluster}, but KUBECONFIG names {elsewhere}" if elsewhere else ""
        return _unknown(
            f"{asked or f'there is no {named(pod)} at {pod.cluster} any more'}. That does not prove an end: the pod's "
            "containers may still run, and the supervisor has recorded no end"
        )
    if not is_pod_of(found, recorded):
        return _unknown(f"{named(pod)} is not the pod that claimed the instance ({recorded[-1].container})")
    driver = next((each for each in found.status.container_statuses if each.name == CONTAINER), None)
    end = driver.state.terminated if driver is not None and _is_apart(found) else None
    if end is not None and _is_proof(end):
        return _ended(pod, found, end, recorded)
    doubt = _doubt(found, driver, now)
    if doubt and recorded:
        return _unknown(f"{named(pod)} {doubt}")
    return Liveness(life=Life.ALIVE, why=f"{named(pod)} {doubt or _doing(found)}")


def _doubt(found: PodReport, driver: ContainerStatus | None, now: float) -> str:
    """Return why the state of a pod without a proven end is in doubt, as a phrase; empty if its kubelet's report is
    reliable.
    """
    if not _is_apart(found):
        return (
            "shares its driver's process namespace, so the end of a container does not prove that its processes ended"
        )
    if driver is not None and driver.state.terminated is not None:
        return f"has a container that the kubelet of {found.spec.node_name} has lost track of"
    if _is_silent(found):
        return f"was last seen running on {found.spec.node_name}, which no longer reports"
    if found.metadata.ends_before(now - _OVERDUE_S):
        return f"was due to end by {found.metadata.deletion_timestamp}, but no end was reported"
    return ""


def _ended(pod: Pod, found: PodReport, end: Terminated, recorded: Sequence[ProcessRecord]) -> Liveness:
    why = f"the kubelet of {found.spec.node_name} reports that the driver's container of {named(pod)} has ended"
    why = f"{why} with code {end.exit_code}"
    reason, fault = why_ended(found, end)
    why = f"{why} ({reason})" if reason else why
    if recorded:
        why = f"{why}: supervisor {recorded[-1].pid} and all processes that it started ended with the container"
    else:
        last = [line.strip() for line in end.message.splitlines() if line.strip()]
        why = f"{why}; the supervisor had claimed nothing: {last[-1] if last else end.reason or 'no reason given'}"
    return Liveness(life=Life.DEAD, why=why, fault=fault)


def why_ended(found: PodReport, end: Terminated | None = None) -> tuple[str, Fault | None]:
    """Return Kubernetes' reason for a pod's end, as a phrase, and the kind of fault; without a reason, an empty text
    and None.

    ``end``: how the driver's container ended; if it is None, ``found`` is searched for it.
    """
    if end is None:
        end = next((each.state.terminated for each in found.status.container_statuses if each.name == CONTAINER), None)
    if end is not None and end.reason == _OUT_OF_MEMORY:
        # The runtime remembers a kill: a container that ends later with another code was not ended by it.
        killed = end.exit_code == _KILLED
        reason = f"{_OUT_OF_MEMORY}: its container reached its memory limit"
        return reason, Fault.OUT_OF_MEMORY if killed else None
    if found.status.reason == _EVICTED:
        return _in_a_line(f"{_EVICTED}: {found.status.message}"), _evicted_by(found)
    disrupted = next(
        (each for each in found.status.conditions if each.type == _DISRUPTED and each.status == "True"), None
    )
    if disrupted is not None:
        return _in_a_line(f"{disrupted.reason}: {disrupted.message}"), Fault.EVICTED
    return "", None


def _evicted_by(found: PodReport) -> Fault:
    """Return the fault of an eviction: the driver's own limit or request, which a restarted driver would exceed too, or
    a shortage of its node, which another node may not have.

    A kubelet sets a condition only for a shortage of its node, and names the containers that exceed their requests.
    """
    shortage = any(each.type == _DISRUPTED and each.status == "True" for each in found.status.conditions)
    if not shortage:
        return Fault.DISK_FULL
    greedy = re.findall(
        r"Container (\S+) was using [^,]+, request is [^,]+, has larger consumption of (\S+?)\. ",
        f"{found.status.message} ",
    )
    return next((_GREEDY[what] for name, what in greedy if name == CONTAINER and what in _GREEDY), Fault.EVICTED)


def _is_apart(found: PodReport) -> bool:
    """Whether the driver's processes are in their container's own pid namespace, so that they terminate with the
    container.
    """
    return not found.spec.share_process_namespace and not found.spec.host_pid


def _is_proof(end: Terminated) -> bool:
    return bool(end.container_id) and end.reason not in _LOST_SIGHT


def is_pod_of(found: PodReport, recorded: Sequence[ProcessRecord]) -> bool:
    """Whether the found pod is the pod that claimed the instance; also True if no pod has claimed the instance."""
    return not recorded or is_barred(recorded) or found.metadata.uid == recorded[-1].container


def _is_silent(found: PodReport) -> bool:
    """Whether a controller has withdrawn the report that the pod runs or is ready, although the kubelet's last report
    still contains it. Kubernetes does that for a silent or missing node.
    """
    statuses = found.status.container_statuses
    serves = bool(statuses) and all(each.state.running is not None and each.ready for each in statuses)
    not_ready = any(each.type == "Ready" and each.status != "True" for each in found.status.conditions)
    return serves and (not_ready or found.status.phase in _OVER)


def _doing(found: PodReport) -> str:
    """Return what the pod is doing now, according to its status, as a phrase."""
    waits = [_waiting(each) for each in (*found.status.init_container_statuses, *found.status.container_statuses)]
    if found.status.phase in _OVER:
        reason = ": ".join(filter(None, (found.status.reason, found.status.message)))
        return f"is {_in_a_line(f'{found.status.phase}: {reason}')}, and its driver did not run"
    if reasons := [each for each in waits if each]:
        return f"does not run yet: {reasons[0]}"
    if found.metadata.deletion_timestamp:
        return "is being terminated"
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
    """Return the pod's name as used in all messages."""
    return f"pod {pod.namespace}/{pod.name}"


def _unknown(why: str) -> Liveness:
    return Liveness(life=Life.UNKNOWN, why=why)
