"""What a runner needs of Kubernetes, over its API: pods and Secrets of a namespace, every failure told in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import requests

from streamkeeper.errors import InvalidInput, NotFound, PermanentError, TemporaryError, Unsupported
from streamkeeper.model.coding import decoder_of

T = TypeVar("T")
_TIMEOUTS_S = (5.0, 15.0)
_IN_A_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_OF_A_PERSON = "~/.kube/config"
_HINT = "check that its API server is running; its address is in KUBECONFIG's file, in a pod in the service account"
_NO_ROOM = "exceeded quota"


class AlreadyThere(Exception):
    """There is an object of that name."""


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """How a container ended, in its kubelet's words; ``container_id``: empty where it could not find the container."""

    exit_code: int
    reason: str = ""
    message: str = ""
    container_id: str = msgspec.field(name="containerID", default="")


class Waiting(msgspec.Struct, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """At most one of these is set."""

    running: dict[str, Any] | None = None
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True):
    """What the kubelet said last of a container; ``ready``: that it serves, which one without a probe always does."""

    name: str
    ready: bool = False
    state: ContainerState = ContainerState()


class Condition(msgspec.Struct, frozen=True):
    """``status``: True, False or Unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """``phase``: written by the kubelet, but also by the collector of pods whose node is gone."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """``node_name``: empty until it is bound to one."""

    node_name: str = ""
    share_process_namespace: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """``uid``: of this very object, never used again; ``deletion_timestamp``: until when it is to be gone."""

    name: str
    namespace: str
    uid: str
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str = ""

    def ends_before(self, moment: float) -> bool:
        """Whether it is to be gone by then, seconds since 1970."""
        return bool(self.deletion_timestamp) and datetime.fromisoformat(self.deletion_timestamp).timestamp() < moment


class PodReport(msgspec.Struct, frozen=True):
    """A pod as the API server has it."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus = PodStatus()


class _Refusal(msgspec.Struct):
    message: str = ""


class KubernetesApi:
    """The cluster that ``KUBECONFIG``, a pod's own service account or ``~/.kube/config`` name, in this order.

    Threads may share it. Every call raises TemporaryError where nobody answers, or there is no room by a quota, and
    PermanentError where the answer is no; InvalidInput where no cluster is named. Connecting is bounded by 5 s, a
    silence by 15 s. ``trying``: the API server checks everything, and keeps nothing.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._configuration.host)

    def create_pod(self, namespace: str, pod: Mapping[str, Any], *, trying: bool = False) -> PodReport:
        """Create it; raises AlreadyThere, and for a field that there is none of."""
        asked = {"fieldValidation": "Strict"} | _dry(trying)
        return _decoded(self._ask("POST", f"{namespace}/pods", dict(pod), asked=asked), PodReport)

    def find_pod(self, namespace: str, name: str) -> PodReport | None:
        """The pod; None where there is none of that name, which says nothing of the processes of one that was there."""
        try:
            return _decoded(self._ask("GET", f"{namespace}/pods/{name}"), PodReport)
        except NotFound:
            return None

    def delete_pod(self, namespace: str, name: str, uid: str, *, grace_s: int, trying: bool = False) -> None:
        """Let its node end it: SIGTERM, and SIGKILL after ``grace_s``; not one of another ``uid``. Raises NotFound."""
        body = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": uid}}
        self._ask("DELETE", f"{namespace}/pods/{name}", body, asked=_dry(trying))

    def set_finalizers(
        self, namespace: str, name: str, uid: str, finalizers: Sequence[str], *, trying: bool = False
    ) -> None:
        """What keeps the object in place after a deletion; not of one of another ``uid``. Raises NotFound."""
        patch = {"metadata": {"uid": uid, "finalizers": list(finalizers) or None}}
        self._ask("PATCH", f"{namespace}/pods/{name}", patch, asked=_dry(trying))

    def create_secret(self, namespace: str, secret: Mapping[str, Any], *, trying: bool = False) -> None:
        """Create it; raises AlreadyThere."""
        self._ask("POST", f"{namespace}/secrets", dict(secret), asked=_dry(trying))

    def replace_secret(self, namespace: str, secret: Mapping[str, Any]) -> None:
        """Create it, in the place of one of that name; never by a patch, whose answer holds the values."""
        try:
            self.create_secret(namespace, secret)
        except AlreadyThere:
            with suppress(NotFound):
                self.delete_secret(namespace, secret["metadata"]["name"])
            self.create_secret(namespace, secret)

    def delete_secret(self, namespace: str, name: str, *, trying: bool = False) -> None:
        """Remove it; raises NotFound."""
        self._ask("DELETE", f"{namespace}/secrets/{name}", {}, asked=_dry(trying))

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, asked: Mapping[str, str] | None = None
    ) -> bytes:
        configuration, session = self._configuration, self._session
        headers = {"Accept": "application/json"}
        headers |= {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        url = f"{configuration.host}/api/v1/namespaces/{path}"
        try:
            # Renews a token that is about to expire.
            for each in configuration.auth_settings().values():
                headers[each["key"]] = each["value"]
            answer = session.request(method, url, params=asked, json=body, headers=headers, timeout=_TIMEOUTS_S)
        except (requests.RequestException, OSError) as error:
            raise TemporaryError(f"{self._who} does not answer: {type(error).__name__}", hint=_HINT) from error
        if answer.ok:
            return answer.content
        raise self._refused(answer.status_code, answer.text)

    def _refused(self, status: int, text: str) -> Exception:
        told = _first_line(text) or f"HTTP {status}"
        why = f"{self._who} refuses: {told}"
        match status:
            case HTTPStatus.NOT_FOUND:
                return NotFound(f"{self._who}: {told}")
            case HTTPStatus.CONFLICT:
                return AlreadyThere(told)
            case HTTPStatus.FORBIDDEN if _NO_ROOM in told:
                return TemporaryError(
                    f"no room: {why}", hint="raise the namespace's quota, or remove what is not needed"
                )
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                return PermanentError(why, hint="deploy/kubernetes/ contains the required permissions")
            case _ if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return TemporaryError(why, hint=_HINT)
            case _:
                return PermanentError(why, hint="correct the file that STREAMKEEPER_POD_TEMPLATE names")

    @property
    def _who(self) -> str:
        return f"Kubernetes at {self.server}"

    @cached_property
    def _session(self) -> requests.Session:
        """With the certificates of the configuration."""
        configuration, session = self._configuration, requests.Session()
        # Neither a proxy nor a password that somebody keeps in .netrc is meant for a cluster.
        session.trust_env = False
        session.verify = configuration.ssl_ca_cert or configuration.verify_ssl if configuration.verify_ssl else False
        if configuration.cert_file:
            session.cert = (configuration.cert_file, configuration.key_file)
        if configuration.proxy:
            session.proxies = {"https": configuration.proxy}
        return session

    @cached_property
    def _configuration(self) -> Any:
        # Imports that installations without Kubernetes need not have.
        try:
            from kubernetes import client, config
        except ImportError as error:
            raise NotFound(
                "drivers on Kubernetes need its Python client", hint="pip install 'streamkeeper[kubernetes]'"
            ) from error
        found, named = client.Configuration(), self._environ.get("KUBECONFIG", "")
        file = named or str(Path(_OF_A_PERSON).expanduser())
        try:
            if not named and _IN_A_POD.is_file():
                config.load_incluster_config(client_configuration=found)
            else:
                config.load_kube_config(config_file=file, client_configuration=found, persist_config=False)
        except Exception as error:  # a file of any content: its parser's errors have no common class
            raise InvalidInput(
                f"no Kubernetes cluster is named: {file}: {_first_line(str(error))}",
                hint="set KUBECONFIG to a file whose current context is the cluster's",
            ) from error
        if found.tls_server_name:
            raise Unsupported(f"{file}: tls-server-name is not supported", hint="use an address in its certificate")
        return found


def _dry(trying: bool) -> dict[str, str]:
    return {"dryRun": "All"} if trying else {}


def _first_line(text: str) -> str:
    """The message of an answer, or of an error, cut to its first line."""
    with suppress(msgspec.MsgspecError):
        text = decoder_of(_Refusal).decode(text).message
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return decoder_of(kind).decode(data)
    except msgspec.MsgspecError as error:
        raise TemporaryError(f"Kubernetes' answer cannot be read: {error}", hint=_HINT) from error


def secret_of(name: str, values: Mapping[str, str], key: str, owner: PodReport | None = None) -> dict[str, Any]:
    """A Secret that holds the values as one JSON object under ``key``; it goes with its ``owner``."""
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
