"""The declaration of the runner whose drivers are Kubernetes' pods."""

from __future__ import annotations

from typing import ClassVar

from streamkeeper.locations import local_path
from streamkeeper.model.runner_kinds.runner_kind import Place, RunnerKind, RunnerVariable

KUBERNETES = "kubernetes"
POD_TEMPLATE = "STREAMKEEPER_POD_TEMPLATE"
POD_UID, GRACE = "STREAMKEEPER_POD_UID", "STREAMKEEPER_POD_GRACE_S"
"""Variables in a driver's pod: its uid, and the seconds that its node allows it for terminating."""


class Pod(Place, frozen=True, kw_only=True):
    """The Kubernetes pod of an instance; ``cluster``: the URL of the API server, for people."""

    FILE: ClassVar[str] = "pod.json"
    namespace: str
    name: str


def _read_template(variable: str, value: str) -> str:
    return str(local_path(variable, value, hint="name a file on this machine"))


KUBERNETES_KIND = RunnerKind(
    name=KUBERNETES,
    title="Kubernetes",
    runner="streamkeeper.runners.kubernetes_pod:KubernetesRunner",
    place=Pod,
    variables=(
        RunnerVariable(
            name=POD_TEMPLATE,
            default="required with Kubernetes",
            description="File with the template of driver pods; start from `deploy/kubernetes/driver-pod.yaml`.",
            read=_read_template,
            required=f"set {POD_TEMPLATE} to the template file of driver pods; start from"
            " deploy/kubernetes/driver-pod.yaml",
        ),
    ),
    container="streamkeeper.runners.kubernetes_container:PodContainer",
    container_mark=POD_UID,
)
