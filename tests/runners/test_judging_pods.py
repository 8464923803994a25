"""Tests what the API server's report on a pod proves, case by case, without a cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamkeeper.model.protocol.driver_messages import ProcessRecord
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.runner_kinds.kubernetes_kind import Pod
from streamkeeper.runners.judging_pods import judge
from streamkeeper.runners.kubernetes_api import PodReport

POD = Pod(instance="one", cluster="https://a", namespace="streaming", name="sales-1")
CLAIM = ProcessRecord(instance="one", generation=1, machine="m", host="h", pid=1, started=2, container="u1")
NOW = 1_800_000_000.0
LONG_AGO, JUST_NOW = "2026-01-01T00:00:00Z", "2027-01-15T07:59:50Z"
RUNS: dict[str, Any] = {"running": {"startedAt": LONG_AGO}}
ENDED = {"terminated": {"exitCode": 137, "reason": "Error", "containerID": "containerd://1"}}


def report(driver: dict[str, Any], *, ready: bool = False, uid: str = "u1", **parts: Any) -> PodReport:
    """Return the API server's report on a pod.

    ``parts``: fields of metadata, spec or status, by their own names; ``mesh``: the state of a sidecar container.
    """
    states = {"driver": driver} | ({"mesh": parts.pop("mesh")} if "mesh" in parts else {})
    told = [{"name": name, "state": state, "ready": ready} for name, state in states.items()]
    metadata = {"name": "sales-1", "namespace": "streaming", "uid": uid, **parts.pop("metadata", {})}
    spec = {"nodeName": "n1", **parts.pop("spec", {})}
    return msgspec.convert(
        {"metadata": metadata, "spec": spec, "status": {"containerStatuses": told, **parts}}, PodReport
    )


NOT_READY = [{"type": "Ready", "status": "False"}]
CASES = [
    ("it runs", report(RUNS, ready=True, phase="Running"), Life.ALIVE, "runs on n1"),
    ("its container has ended", report(ENDED, phase="Failed"), Life.DEAD, "with code 137: supervisor 1"),
    ("what a mesh has added runs on", report(ENDED, mesh=RUNS, phase="Running"), Life.DEAD, "has ended"),
    ("only what is beside it has ended", report(RUNS, mesh=ENDED, phase="Running"), Life.ALIVE, "runs on"),
    (
        "it shares its processes",
        report(ENDED, spec={"shareProcessNamespace": True}),
        Life.UNKNOWN,
        "does not prove that its processes ended",
    ),
    (
        "it has the machine's processes",
        report(ENDED, spec={"hostPID": True}),
        Life.UNKNOWN,
        "does not prove that its processes ended",
    ),
    (
        "no pod",
        None,
        Life.UNKNOWN,
        "there is no pod streaming/sales-1 at https://a any more. That does not prove an end",
    ),
    ("another one", report(ENDED, uid="u2"), Life.UNKNOWN, "is not the pod that claimed"),
    (
        "the kubelet does not find it",
        report({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}, phase="Failed"),
        Life.UNKNOWN,
        "lost track",
    ),
    (
        "containerd does not find it",
        report({"terminated": {"exitCode": 255, "reason": "Unknown", "containerID": "containerd://1"}}),
        Life.UNKNOWN,
        "lost track",
    ),
    ("the node is silent", report(RUNS, ready=True, conditions=NOT_READY), Life.UNKNOWN, "no longer reports"),
    ("the collector says Failed", report(RUNS, ready=True, phase="Failed"), Life.UNKNOWN, "no longer reports"),
    ("it is overdue", report(RUNS, metadata={"deletionTimestamp": LONG_AGO}), Life.UNKNOWN, "no end was reported"),
    ("it is being ended", report(RUNS, metadata={"deletionTimestamp": JUST_NOW}), Life.ALIVE, "is being terminated"),
    ("nothing is said of it yet", report({}, phase="Pending"), Life.ALIVE, "runs on n1"),
]


@pytest.mark.parametrize(("found", "life", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_claimed_pod_is_dead_only_if_its_kubelet_reports_termination(
    found: PodReport | None, life: Life, why: str
) -> None:
    """A pod that has claimed its instance counts as dead only if its kubelet reports that the driver's container has
    terminated; every other report is alive or unknown.
    """
    seen = judge(POD, found, [CLAIM], NOW)
    assert seen.life is life
    assert why in seen.why


@pytest.mark.parametrize("found", [case[1] for case in CASES if case[2] is Life.UNKNOWN and case[1] is not None])
def test_a_pod_without_a_claim_is_never_unknown(found: PodReport) -> None:
    """A pod without a claim is never unknown, because it may still start and can claim nothing once it is killed."""
    assert judge(POD, found, [], NOW).life in (Life.ALIVE, Life.DEAD)


def test_a_missing_pod_of_a_different_cluster_is_unknown() -> None:
    """If a pod is missing but was recorded in a different cluster, its state is unknown and both clusters are named,
    whether or not it was claimed.
    """
    assert judge(POD, None, [], NOW).life is Life.ABSENT
    for recorded in ([], [CLAIM]):
        seen = judge(POD, None, recorded, NOW, elsewhere="https://b")
        assert seen.life is Life.UNKNOWN
        assert "pod streaming/sales-1 is in https://a, but KUBECONFIG names https://b" in seen.why


def test_a_kubelet_message_of_several_lines_is_reported_in_one() -> None:
    """A kubelet's message of several lines is reported in one line."""
    pulls = {"waiting": {"reason": "ErrImagePull", "message": "no such\n  image\n"}}
    seen = judge(POD, report(pulls, phase="Pending"), [], NOW)
    assert seen.why == "pod streaming/sales-1 does not run yet: ErrImagePull: no such image"
    rejected = report({}, phase="Failed", reason="OutOfcpu", message="Node didn't\nhave enough")
    assert "is Failed: OutOfcpu: Node didn't have enough" in judge(POD, rejected, [], NOW).why


def ended(reason: str = "Error", code: int = 137) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "containerID": "containerd://1"}}


DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "short"}]
SHORT = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 12Mi. "
GREEDY = "Container driver was using 5Gi, request is 2Gi, has larger consumption of memory. "
OWN = 'Usage of EmptyDir volume "streamkeeper-home" exceeds the limit "1Gi". '


@pytest.mark.parametrize(
    ("found", "fault", "why"),
    [
        (report(ended("OOMKilled"), phase="Failed"), Fault.OUT_OF_MEMORY, "with code 137 (OOMKilled: its container"),
        (report(ended("OOMKilled", 143), phase="Failed"), None, "with code 143 (OOMKilled"),
        (report(ended(), phase="Failed"), None, "with code 137: supervisor"),
        (
            report(ended(), phase="Failed", reason="Evicted", message=SHORT, conditions=DISRUPTED),
            Fault.EVICTED,
            "with code 137 (Evicted: The node was low on resource: memory",
        ),
        (
            report(ended(), phase="Failed", reason="Evicted", message=SHORT + GREEDY, conditions=DISRUPTED),
            Fault.OUT_OF_MEMORY,
            "has larger consumption of memory",
        ),
        (report(ended(), phase="Failed", reason="Evicted", message=OWN), Fault.DISK_FULL, "exceeds the limit"),
        (report(ended(), phase="Failed", conditions=DISRUPTED), Fault.EVICTED, "TerminationByKubelet: short"),
    ],
)
def test_the_reason_for_a_container_termination_is_reported_with_its_fault(
    found: PodReport, fault: Fault | None, why: str
) -> None:
    """The reason for a container's termination is reported, with a fault for its own memory or disk limit or for an
    eviction; a plain kill or a SIGTERM gets no fault.
    """
    seen = judge(POD, found, [CLAIM], NOW)
    assert (seen.life, seen.fault) == (Life.DEAD, fault)
    assert why in seen.why
