"""Requests to the REST interfaces of clusters: one set of timeouts and retries, and one map from failures to errors.

The modules of Kubernetes, YARN and WebHDFS contain what is particular to their servers: paths, bodies, names, remedies,
and the refusals that mean something else there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import BadStatusLine, RemoteDisconnected
from typing import Any, TypeVar

import msgspec
import requests
from requests.adapters import HTTPAdapter

from streamkeeper.errors import NotFound, PermanentError, TemporaryError
from streamkeeper.model.coding import decoder_of
from streamkeeper.system import clock

T = TypeVar("T")
CONNECT_S, READ_S = 5.0, 30.0
_PAUSES_S = (0.2, 0.4)
"""The pauses before the second and the third try."""
_CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """How errors name a server, and what they advise."""

    name: str
    """The server's name and address, such as ``ResourceManager http://one:8088``."""
    unanswered: str = ""
    """The remedy if the server does not answer."""
    denied: str = ""
    """The remedy if the server does not accept the caller's identity or rights."""
    wrong: str = ""
    """The remedy if the server does not accept the request."""
    timeouts_s: tuple[float, float] = (CONNECT_S, READ_S)
    """How long a connection, and the wait for further bytes of an answer, may take, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A server's answer with a status of 400 or above."""

    server: Server
    status: int
    reason: str
    """The first line of the server's reason; without one, the status in words."""
    body: bytes
    doing: str
    """What was being done, as the beginning of a message; may be empty."""


class RestClient:
    """Sends requests, and raises one of the errors below for each request that fails. Threads may share it.

    - ``unavailable``, a TemporaryError: the server does not answer in time, breaks off its answer, sends an
      unreadable answer, has too many requests (429), or fails (500 and above).
    - NotFound: the server does not have the object (404).
    - PermanentError: the server refuses for any other reason, such as missing rights (401, 403).

    A GET is tried three times if its connection is refused or closed, but not if it times out. No other request is
    repeated. Redirections and the content of an answer count as parts of the request. Proxies and passwords of the
    environment are not used.
    """

    def __init__(
        self,
        server_at: Callable[[str], Server],
        *,
        reason_in: Callable[[bytes], str],
        unavailable: type[TemporaryError] = TemporaryError,
        verify: bool | str = True,
        certificate: tuple[str, str] | None = None,
        proxy: str = "",
    ) -> None:
        """``server_at``: returns the server at an address.
        ``reason_in``: returns the reason in the body of an answer; empty without one.
        ``unavailable``: the error for a server that cannot serve a request now.
        ``verify``: whether to check the server's certificate, or the file of the authorities that may sign it.
        ``certificate``: the files of the caller's certificate and key; None without one.
        ``proxy``: the proxy of requests by HTTPS; empty without one.
        """
        self._server_at, self._reason_in = server_at, reason_in
        self._unavailable = unavailable
        self._session = requests.Session()
        # Proxies and passwords in .netrc are not meant for a cluster.
        self._session.trust_env = False
        self._session.verify = verify
        self._session.cert = certificate
        self._session.proxies = {"https": proxy} if proxy else {}
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))

    def send(
        self,
        method: str,
        url: str,
        *,
        doing: str = "",
        judge: Callable[[Refusal], Exception | None] | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        data: bytes | Iterable[bytes] | None = None,
        redirect: bool = True,
        stream: bool = False,
        any_status: bool = False,
    ) -> requests.Response:
        """Return a server's answer with a status below 400.

        ``method``, ``url``, ``params``, ``headers``: the request.
        ``doing``: what is being done, as the beginning of a message, such as ``cannot read /a: ``.
        ``judge``: returns the error of a refusal; None for the one of the general map.
        ``json``: the body, sent as JSON; None without one.
        ``data``: the body as bytes; the errors of an iterator are raised as they are.
        ``redirect``: follow a redirection.
        ``stream``: leave the answer's content unread; read it inside of ``translating_errors``.
        ``any_status``: return an answer of any status.
        """
        broken: list[OSError] = []
        request = partial(
            self._session.request,
            method,
            url,
            params=params,
            headers=headers,
            json=json,
            data=data if data is None or isinstance(data, bytes) else _noting(data, broken),
            timeout=self._server_at(url).timeouts_s,
            allow_redirects=redirect,
            stream=True,
        )
        try:
            with self.translating_errors(url, doing):
                answer = _tried(request, _PAUSES_S if method == "GET" else ())
        except self._unavailable:
            if broken:
                raise broken[0] from None
            raise
        failed = answer.status_code >= HTTPStatus.BAD_REQUEST and not any_status
        if failed or not stream:
            with self.translating_errors(answer.url, doing):
                _ = answer.content
        if not failed:
            return answer
        refusal = self._refusal(answer, doing)
        raise (judge(refusal) if judge is not None else None) or self._error(refusal)

    @contextmanager
    def translating_errors(self, url: str, doing: str = "") -> Iterator[None]:
        """Raise ``unavailable`` if a request fails in the body of the ``with`` statement."""
        try:
            yield
        except OSError as error:
            request = getattr(error, "request", None)
            server = self._server_at(str(request.url) if request is not None else url)
            raise self._unavailable(
                f"{doing}{server.name} does not answer ({_reason(error)})", hint=server.unanswered
            ) from error

    def decoded(self, answer: requests.Response, kind: type[T], doing: str = "") -> T:
        """Decode an answer; raises ``unavailable`` for an answer of another form, such as the page of a proxy."""
        try:
            return decoder_of(kind).decode(answer.content)
        except msgspec.MsgspecError as error:
            server = self._server_at(str(answer.url))
            raise self._unavailable(
                f"{doing}the answer of {server.name} cannot be read: {error}", hint=server.unanswered
            ) from error

    def _refusal(self, answer: requests.Response, doing: str) -> Refusal:
        lines = (line.strip() for line in self._reason_in(answer.content).splitlines())
        reason = next(filter(None, lines), "") or f"HTTP {answer.status_code} {answer.reason or ''}".strip()
        return Refusal(
            server=self._server_at(str(answer.url)),
            status=answer.status_code,
            reason=reason,
            body=answer.content,
            doing=doing,
        )

    def _error(self, refusal: Refusal) -> Exception:
        server, status, doing = refusal.server, refusal.status, refusal.doing
        if status == HTTPStatus.NOT_FOUND:
            return NotFound(f"{doing}{server.name}: {refusal.reason}")
        why = f"{doing}{server.name} refuses: {refusal.reason}"
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return self._unavailable(why, hint=server.unanswered)
        denied = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        return PermanentError(why, hint=server.denied if denied else server.wrong)


def _tried(request: Callable[[], requests.Response], pauses_s: Iterable[float]) -> requests.Response:
    """Send a request. If its connection is refused or closed, retry it after each pause."""
    for pause_s in pauses_s:
        try:
            return request()
        except requests.Timeout:
            raise
        except requests.ConnectionError:
            clock.sleep(pause_s)
    return request()


def _noting(content: Iterable[bytes], broken: list[OSError]) -> Iterator[bytes]:
    """Yield the content, and record the content's own errors, which the client would mistake for connection errors."""
    try:
        yield from content
    except OSError as error:
        broken.append(error)
        raise


def _reason(error: BaseException) -> str:
    """Return why a request failed, as a phrase; for an error of the operating system, its own message."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, requests.Timeout | TimeoutError):
            return "timed out"
        if isinstance(cause, RemoteDisconnected):
            return "the connection was closed"
        if isinstance(cause, BadStatusLine):
            return "the answer is not HTTP"
        if isinstance(cause, requests.exceptions.ChunkedEncodingError):
            return "the answer was cut off"
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__ if isinstance(error, requests.RequestException) else str(error)
