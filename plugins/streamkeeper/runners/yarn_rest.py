"""The runner's access to YARN over REST: the ResourceManager of one cluster, and the NodeManagers of its drivers."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests

from streamkeeper.errors import InvalidInput, NotFound, PermanentError, TemporaryError, Unsupported
from streamkeeper.model.coding import decoder_of
from streamkeeper.system.hadoop_conf import ANY_HOST, read_hadoop_conf
from streamkeeper.system.rest_client import RestClient, Server

_OF_A_NODE_S = (3.0, 5.0)
"""The timeouts of requests to a NodeManager. They are short, because a frozen node accepts connections, and every
observation of a driver waits for it.
"""
_MANAGER_HOST, _MANAGER_HTTP = "yarn.resourcemanager.hostname", "yarn.resourcemanager.webapp.address"
_MANAGER_PORT = 8088
_OVER = frozenset({"FINISHED", "FAILED", "KILLED"})
_HINT = (
    "check that YARN is running; its address is yarn.resourcemanager.webapp.address in HADOOP_CONF_DIR's yarn-site.xml"
)
_NODE_HINT = "check that the node is running, and that this machine can reach it by its registered name"
_DENIED = "use a cluster with simple authentication, and a user in HADOOP_USER_NAME that may submit applications"


class ApplicationReport(msgspec.Struct, frozen=True, rename="camel"):
    """The ResourceManager's report on an application."""

    id: str
    """The application's id."""
    state: str
    """Its state."""
    diagnostics: str = ""
    """Why it waits, or how it ended."""
    finished_time: int = 0
    """When it finished, in epoch milliseconds by the ResourceManager's clock; 0 until it has finished."""

    @property
    def over(self) -> bool:
        """Whether the ResourceManager counts the application as ended, which proves nothing about its processes."""
        return self.state in _OVER


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """An attempt to run an application's first container."""

    app_attempt_id: str
    """The attempt's id."""
    start_time: int
    """Its start in epoch milliseconds, by the ResourceManager's clock."""
    container_id: str = ""
    """The container's id; empty until there is a container."""
    node_http_address: str = ""
    """The address of its NodeManager; empty until it has one."""
    logs_link: str = ""
    """The URL of its logs; empty until there are logs."""


class ContainerReport(msgspec.Struct, frozen=True, rename="camel"):
    """A container as its NodeManager reports it."""

    id: str
    state: str


class _Report(msgspec.Struct):
    app: ApplicationReport


class _Attempts(msgspec.Struct, rename="camel"):
    app_attempt: list[Attempt] = []


class _AttemptList(msgspec.Struct, rename="camel"):
    app_attempts: _Attempts


class _Container(msgspec.Struct):
    container: ContainerReport


class _Node(msgspec.Struct, rename="camel"):
    nm_startup_time: int


class _NodeInfo(msgspec.Struct, rename="camel"):
    node_info: _Node


class _NewApplication(msgspec.Struct, rename="kebab"):
    application_id: str


class _Remote(msgspec.Struct):
    message: str = ""


class _Failure(msgspec.Struct, rename="pascal"):
    remote_exception: _Remote


class ResourceManager:
    """The ResourceManager of one cluster, at ``http://host:port``, queried as ``user``; threads may share it.

    Every call raises the errors of ``RestClient``. Connecting may take 5 s, and each wait for data 30 s; for a request
    to a NodeManager these limits are 3 s and 5 s.
    """

    def __init__(self, url: str, user: str) -> None:
        self.url = url
        self._user = user
        self._client = RestClient(self._server_at, reason_in=_reason_in)

    def must_answer(self) -> None:
        """Raise an error unless the ResourceManager answers."""
        self._ask("GET", "info")

    def new_application(self) -> str:
        """Return an unused application id. The ResourceManager records the application only when it is submitted."""
        return self._client.decoded(self._ask("POST", "apps/new-application", {}), _NewApplication).application_id

    def submit(self, context: dict[str, Any]) -> None:
        """Submit an application; a repeated submission of the same id has no effect."""
        try:
            self._ask("POST", "apps", context)
        except PermanentError:
            # Of two concurrent submissions, one gets the error that the application already exists.
            if self.find(context["application-id"]) is None:
                raise

    def find(self, application: str) -> ApplicationReport | None:
        """Return the report on an application; None if the application was not submitted, or if the ResourceManager has
        removed its record.
        """
        try:
            answer = self._ask("GET", f"apps/{application}")
        except NotFound:
            return None
        return self._client.decoded(answer, _Report).app

    def now(self) -> float:
        """Return the time of the ResourceManager's clock in epoch seconds, cut to whole seconds."""
        date = self._ask("GET", "info").headers.get("Date", "")
        try:
            return parsedate_to_datetime(date).timestamp()
        except ValueError as error:
            raise TemporaryError(f"ResourceManager {self.url} does not report a valid time", hint=_HINT) from error

    def attempts(self, application: str) -> list[Attempt]:
        """Return all attempts to run an application, in order."""
        try:
            answer = self._ask("GET", f"apps/{application}/appattempts")
        except NotFound:
            return []
        return self._client.decoded(answer, _AttemptList).app_attempts.app_attempt

    def end_container(self, container: str) -> None:
        """Make a container's NodeManager send SIGKILL to the container; a missing container is ignored."""
        self._ask("POST", f"containers/{container}/signal/FORCEFUL_SHUTDOWN", {})

    def withdraw(self, application: str) -> None:
        """Kill an application that has no container yet.

        Do not call this for an application with a container: the end of that container could no longer be determined.
        """
        self._ask("PUT", f"apps/{application}/state", {"state": "KILLED"})

    def look_at_container(self, attempt: Attempt) -> ContainerReport | None:
        """Return a container's state from its NodeManager; None if the NodeManager has no such container."""
        url = f"http://{attempt.node_http_address}/ws/v1/node/containers/{attempt.container_id}"
        try:
            return self._client.decoded(self._send("GET", url), _Container).container
        except NotFound:
            return None

    def node_started_at(self, attempt: Attempt) -> int:
        """Return when the attempt's NodeManager started, in epoch milliseconds by the NodeManager's clock."""
        url = f"http://{attempt.node_http_address}/ws/v1/node/info"
        return self._client.decoded(self._send("GET", url), _NodeInfo).node_info.nm_startup_time

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> requests.Response:
        return self._send(method, f"{self.url}/ws/v1/cluster/{path}", body)

    def _send(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> requests.Response:
        headers = {"Accept": "application/json"}
        return self._client.send(method, url, params={"user.name": self._user}, json=body, headers=headers)

    def _server_at(self, url: str) -> Server:
        # A request has its host in lower case, the Hadoop configuration may have it in upper case.
        if url.lower().startswith(f"{self.url}/".lower()):
            return Server(name=f"ResourceManager {self.url}", unanswered=_HINT, denied=_DENIED)
        address = urlsplit(url).netloc
        return Server(name=f"NodeManager {address}", unanswered=_NODE_HINT, denied=_DENIED, timeouts_s=_OF_A_NODE_S)


def _reason_in(body: bytes) -> str:
    try:
        return decoder_of(_Failure).decode(body).remote_exception.message
    except msgspec.MsgspecError:
        return ""


def manager_url(environ: Mapping[str, str]) -> str:
    """Return ``http://host:port`` of YARN's ResourceManager.

    Raises InvalidInput if ``HADOOP_CONF_DIR`` names no ResourceManager, Unsupported for several ResourceManagers,
    Kerberos or HTTPS.
    """
    conf = read_hadoop_conf(environ)
    if conf.get("yarn.resourcemanager.ha.enabled", "").lower() == "true":
        raise Unsupported(
            "yarn-site.xml names several ResourceManagers, which is not supported",
            hint="use a cluster with one ResourceManager",
        )
    if conf.get("hadoop.security.authentication", "simple").lower() != "simple":
        raise Unsupported(
            "HADOOP_CONF_DIR requires Kerberos, which is not supported for drivers on YARN",
            hint="use a cluster with simple authentication, or choose another STREAMKEEPER_DRIVERS",
        )
    if conf.get("yarn.http.policy", "").upper() == "HTTPS_ONLY":
        raise Unsupported("YARN is on HTTPS only, which is not supported", hint="set yarn.http.policy to HTTP_ONLY")
    named = conf.get(_MANAGER_HOST, "")
    host, _, port = conf.get(_MANAGER_HTTP, "").replace(f"${{{_MANAGER_HOST}}}", named).rpartition(":")
    host = named if host in ANY_HOST else host
    if not host or "${" in host:
        raise InvalidInput(
            "HADOOP_CONF_DIR names no ResourceManager",
            hint=f"set HADOOP_CONF_DIR to the directory whose yarn-site.xml has {_MANAGER_HTTP} or {_MANAGER_HOST}",
        )
    return f"http://{host}:{port or _MANAGER_PORT}"
