"""The runner's access to Kubernetes' API: pods and Secrets of a namespace.

The Python client of Kubernetes reads the configuration and its credentials, but does not send the requests (decision
37).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import requests

from streamkeeper.errors import InvalidInput, NotFound, TemporaryError, Unsupported
from streamkeeper.model.coding import decoder_of
from streamkeeper.system.rest_client import Refusal, RestClient, Server

_TIMEOUTS_S = (5.0, 15.0)
_IN_A_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_OF_A_PERSON = "~/.kube/config"
_HINT = "check that the API server is running; its address is in KUBECONFIG's file, or in a pod's service account"
_NO_ROOM = "exceeded quota"


class AlreadyThere(Exception):
    """Raised if an object with the same name already exists, or if the object has changed (HTTP status 409)."""


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """How a container ended, according to its kubelet."""

    exit_code: int
    """The exit code."""
    reason: str = ""
    """The kubelet's reason."""
    message: str = ""
    """The kubelet's message, or the container's last output."""
    container_id: str = msgspec.field(name="containerID", default="")
    """The container's id; empty if the kubelet could not find the container."""


class Waiting(msgspec.Struct, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container; at most one field is set."""

    running: dict[str, Any] | None = None
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True):
    """The kubelet's last report on a container. ``ready``: always true for a running container without a probe."""

    name: str
    ready: bool = False
    state: ContainerState = ContainerState()


class Condition(msgspec.Struct, frozen=True):
    """A condition of a pod."""

    type: str
    """The kind of condition."""
    status: str
    """True, False or Unknown."""
    reason: str = ""
    """The reason in one word."""
    message: str = ""
    """The reason as a sentence."""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a pod."""

    phase: str = ""
    """The phase. It is set by the kubelet, but also by the collector of pods whose node is missing."""
    reason: str = ""
    """The reason in one word."""
    message: str = ""
    """The reason as a sentence."""
    conditions: tuple[Condition, ...] = ()
    """The pod's conditions."""
    container_statuses: tuple[ContainerStatus, ...] = ()
    """The states of its containers."""
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    """The states of its init containers."""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a pod's specification. ``node_name``: empty until the pod is bound to a node."""

    node_name: str = ""
    share_process_namespace: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The identity of a pod."""

    name: str
    """Its name."""
    namespace: str
    """Its namespace."""
    uid: str
    """The id of this very object; ids are never reused."""
    annotations: dict[str, str] = {}
    """Its annotations."""
    finalizers: tuple[str, ...] = ()
    """Markers that keep the object after a deletion."""
    deletion_timestamp: str = ""
    """The time by which a deleted pod must have ended; empty if it was not deleted."""

    def ends_before(self, moment: float) -> bool:
        """Whether the pod has been deleted and its deadline for ending is earlier than ``moment``, in seconds since
        1970.
        """
        return bool(self.deletion_timestamp) and datetime.fromisoformat(self.deletion_timestamp).timestamp() < moment


class PodReport(msgspec.Struct, frozen=True):
    """A pod as the API server reports it."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus = PodStatus()


class _Refusal(msgspec.Struct):
    message: str = ""


class KubernetesApi:
    """The cluster that ``KUBECONFIG``, a pod's own service account or ``~/.kube/config`` names, in this order.

    Threads may share it. Every call raises the errors of ``RestClient``, TemporaryError if a quota leaves no room, and
    InvalidInput if no cluster is configured. Connecting may take 5 s, and each wait for data 15 s. With ``trying``, the
    API server only checks the request and does not execute it.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    @property
    def server(self) -> str:
        """The API server's URL."""
        return str(self._configuration.host)

    def create_pod(self, namespace: str, pod: Mapping[str, Any], *, trying: bool = False) -> PodReport:
        """Create a pod. Raises AlreadyThere if it exists, and PermanentError for a field that the API server does not
        recognise.
        """
        asked = {"fieldValidation": "Strict"} | _dry(trying)
        return self._client.decoded(self._ask("POST", f"{namespace}/pods", dict(pod), asked=asked), PodReport)

    def find_pod(self, namespace: str, name: str) -> PodReport | None:
        """Return the pod, or None if there is no pod with that name. A missing pod does not prove that the processes of
        an earlier pod have terminated.
        """
        try:
            return self._client.decoded(self._ask("GET", f"{namespace}/pods/{name}"), PodReport)
        except NotFound:
            return None

    def delete_pod(self, namespace: str, name: str, uid: str, *, grace_s: int, trying: bool = False) -> None:
        """Delete a pod, so that its node terminates it.

        ``namespace``: the pod's namespace.
        ``name``: its name.
        ``uid``: its id; a pod with another id is not deleted.
        ``grace_s``: seconds between SIGTERM and SIGKILL.
        ``trying``: only check the request.

        Raises NotFound if there is no such pod.
        """
        body = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": uid}}
        self._ask("DELETE", f"{namespace}/pods/{name}", body, asked=_dry(trying))

    def set_finalizers(
        self, namespace: str, name: str, uid: str, finalizers: Sequence[str], *, trying: bool = False
    ) -> None:
        """Set a pod's finalizers, which keep the pod's object after a deletion.

        ``namespace``: the pod's namespace.
        ``name``: its name.
        ``uid``: its id; a pod with another id is not changed.
        ``finalizers``: the new list.
        ``trying``: only check the request.

        Raises NotFound.
        """
        patch = {"metadata": {"uid": uid, "finalizers": list(finalizers) or None}}
        self._ask("PATCH", f"{namespace}/pods/{name}", patch, asked=_dry(trying))

    def create_secret(self, namespace: str, secret: Mapping[str, Any], *, trying: bool = False) -> None:
        """Create a Secret; raises AlreadyThere if it exists."""
        self._ask("POST", f"{namespace}/secrets", dict(secret), asked=_dry(trying))

    def replace_secret(self, namespace: str, secret: Mapping[str, Any]) -> None:
        """Create a Secret, or replace the existing one. No PATCH is used, because its response would contain the
        values.
        """
        try:
            self.create_secret(namespace, secret)
        except AlreadyThere:
            with suppress(NotFound):
                self.delete_secret(namespace, secret["metadata"]["name"])
            self.create_secret(namespace, secret)

    def delete_secret(self, namespace: str, name: str, *, trying: bool = False) -> None:
        """Remove a Secret; raises NotFound if it does not exist."""
        self._ask("DELETE", f"{namespace}/secrets/{name}", {}, asked=_dry(trying))

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, asked: Mapping[str, str] | None = None
    ) -> requests.Response:
        url = f"{self.server}/api/v1/namespaces/{path}"
        headers = {"Accept": "application/json"}
        headers |= {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        with self._client.translating_errors(url):
            # Renews a token that is about to expire.
            for each in self._configuration.auth_settings().values():
                headers[each["key"]] = each["value"]
        return self._client.send(method, url, judge=_judge, params=asked, json=body, headers=headers)

    @cached_property
    def _client(self) -> RestClient:
        found = self._configuration
        server = Server(
            name=f"Kubernetes at {self.server}",
            unanswered=_HINT,
            denied="grant the permissions in deploy/kubernetes/",
            wrong="correct the file that STREAMKEEPER_POD_TEMPLATE names",
            timeouts_s=_TIMEOUTS_S,
        )
        return RestClient(
            lambda _: server,
            reason_in=_reason_in,
            verify=(found.ssl_ca_cert or True) if found.verify_ssl else False,
            certificate=(found.cert_file, found.key_file) if found.cert_file else None,
            proxy=found.proxy or "",
        )

    @cached_property
    def _configuration(self) -> Any:
        # Installations without Kubernetes need not have these packages.
        try:
            from kubernetes import client, config
        except ImportError as error:
            raise NotFound(
                "drivers on Kubernetes need the Python client of Kubernetes",
                hint="run `pip install 'streamkeeper[kubernetes]'`",
            ) from error
        found, named = client.Configuration(), self._environ.get("KUBECONFIG", "")
        file = named or str(Path(_OF_A_PERSON).expanduser())
        try:
            if not named and _IN_A_POD.is_file():
                config.load_incluster_config(client_configuration=found)
            else:
                config.load_kube_config(config_file=file, client_configuration=found, persist_config=False)
        except Exception as error:  # a file of any content: its parser's errors have no common class
            reason = str(error).strip().partition("\n")[0]
            raise InvalidInput(
                f"no Kubernetes cluster is configured: {file}: {reason}",
                hint="set KUBECONFIG to a file whose current context names the cluster",
            ) from error
        if found.tls_server_name:
            raise Unsupported(
                f"{file}: tls-server-name is not supported", hint="use an address that is in the certificate"
            )
        return found


def _dry(trying: bool) -> dict[str, str]:
    return {"dryRun": "All"} if trying else {}


def _reason_in(body: bytes) -> str:
    try:
        return decoder_of(_Refusal).decode(body).message
    except msgspec.MsgspecError:
        return body.decode(errors="replace")


def _judge(refusal: Refusal) -> Exception | None:
    """Return the error for a refusal that has a special meaning on Kubernetes' servers; None for refusals that are
    treated as on other servers.
    """
    if refusal.status == HTTPStatus.CONFLICT:
        return AlreadyThere(refusal.reason)
    if refusal.status == HTTPStatus.FORBIDDEN and _NO_ROOM in refusal.reason:
        return TemporaryError(
            f"the namespace has no room: {refusal.server.name} refuses: {refusal.reason}",
            hint="raise the namespace's quota, or remove unused objects",
        )
    return None


def secret_of(name: str, values: Mapping[str, str], key: str, owner: PodReport | None = None) -> dict[str, Any]:
    """Return the object of a Secret named ``name``, which contains the values as one JSON object under ``key``.

    ``owner``: the pod with which Kubernetes deletes the Secret; None for a Secret that is deleted only by request.
    """
    metadata: dict[str, Any] = {"name": name}
    if owner is not None:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.metadata.name, "uid": owner.metadata.uid}
        metadata["ownerReferences"] = [reference]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "stringData": {key: json.dumps(dict(values))},
    }
