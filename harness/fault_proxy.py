"""A proxy in front of an S3 server that injects faults: it answers with errors, and it loses answers."""

from __future__ import annotations

import http.client
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_BETWEEN_HOPS = frozenset({"connection", "expect", "keep-alive", "transfer-encoding"})
_MEETING_S = 45.0
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class Heard(NamedTuple):
    """A request that the proxy has received; ``path`` includes the query, ``client`` is the user agent."""

    method: str
    path: str
    client: str
    body: bytes


class FaultProxy:
    """Passes requests on to ``endpoint`` and injects the configured faults; ``made`` counts them by kind.

    ``overwrites``: a client of ``endpoint`` that deletes the existing object before a PUT with ``If-None-Match``, which
    simulates a store without support for this header. ``lose``: the number of answers to PUTs that are dropped from now
    on. ``refuse_share``: the share of all requests that are answered with 503 without being passed on; ``lose_share``:
    the share of writes whose answer is dropped; both are drawn from ``seed``. ``heard`` is called with every request as
    it arrives. ``meets``: a PUT of an object whose path matches waits for a second PUT of the same object, and both are
    passed on at once; after ``let_go`` no PUT waits any more.
    """

    def __init__(self, endpoint: str, *, seed: int = 0) -> None:
        parts = urlsplit(endpoint)
        self.target = (str(parts.hostname), int(parts.port or 80))
        self.overwrites: Any = None
        self.lose = 0
        self.refuse_share = 0.0
        self.lose_share = 0.0
        self.heard: Callable[[Heard], None] = lambda request: None
        self.meets: re.Pattern[str] | None = None
        self.made: Counter[str] = Counter()
        self._alone: set[str] = set()
        self._meeting = threading.Condition()
        self._drawn = random.Random(seed)
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting requests, and stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def refuses(self) -> bool:
        """Decide whether the next request is answered with an error, and count it."""
        with self._lock:
            return self._note("refused", self._drawn.random() < self.refuse_share)

    def loses(self, method: str) -> bool:
        """Decide whether the answer to a request that was passed on is dropped, and count it."""
        with self._lock:
            if method == "PUT" and self.lose:
                self.lose -= 1
                return self._note("lost", True)
            writes = method in ("PUT", "POST", "DELETE")
            return self._note("lost", writes and self._drawn.random() < self.lose_share)

    def let_go(self) -> None:
        """Release all waiting PUTs; later PUTs do not wait for a second writer any more."""
        with self._meeting:
            self.meets = None
            self._meeting.notify_all()

    def meet(self, path: str) -> None:
        """If the path matches ``meets``, wait until a second writer of this object has arrived, or the time limit is
        reached.
        """
        meets = self.meets
        if meets is None or not meets.search(path):
            return
        with self._meeting:
            if path in self._alone:
                self._alone.remove(path)
                self._note("met", True)
                self._meeting.notify_all()
                return
            self._alone.add(path)
            self._meeting.wait_for(lambda: path not in self._alone or self.meets is None, _MEETING_S)
            self._alone.discard(path)

    def _note(self, kind: str, happens: bool) -> bool:
        self.made[kind] += happens
        return happens


@contextmanager
def fault_proxy(endpoint: str, *, seed: int = 0) -> Iterator[FaultProxy]:
    """Provide a running proxy, and stop it at the end."""
    proxy = FaultProxy(endpoint, seed=seed)
    try:
        yield proxy
    finally:
        proxy.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: FaultProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a connection, such as a client that has disconnected."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server.proxy
        proxy.heard(Heard(self.command, self.path, self.headers.get("User-Agent", ""), body))
        if self.command == "PUT":
            proxy.meet(self.path.partition("?")[0])
        if proxy.refuses():
            self._answer(503, [("Content-Type", "application/xml")], _SLOW_DOWN)
            return
        if proxy.overwrites is not None and self.command == "PUT" and self.headers.get("If-None-Match"):
            bucket, _, key = self.path.partition("?")[0].lstrip("/").partition("/")
            proxy.overwrites.delete_object(Bucket=bucket, Key=key)
        connection = http.client.HTTPConnection(*proxy.target, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            # "Expect" is not passed on, nor is it signed: the server's leave would be taken for its answer.
            for name, value in self.headers.items():
                if name.lower() not in _BETWEEN_HOPS:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if proxy.loses(self.command):
            self.close_connection = True
            return
        self._answer(answer.status, answer.getheaders(), content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        said = {name.lower(): (name, value) for name, value in headers if name.lower() not in _BETWEEN_HOPS}
        if self.command != "HEAD":
            said["content-length"] = ("Content-Length", str(len(content)))
        for name, value in said.values():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""
