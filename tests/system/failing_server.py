"""A real HTTP server on loopback that returns a given status, a malformed answer or none at all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

WAITS = b"waits"
"""Send no answer and keep the connection open."""
CLOSES = b"closes"
"""Close the connection without an answer."""
NO_HTTP = b"\x15\x03\x01\x00\x02\x02\r\n\r\n"
"""Bytes that are not an HTTP answer, as from a port with a different protocol."""
CUT_OFF = b'HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{"app": '
"""Close the connection within the content of the answer."""
CHUNK_CUT_OFF = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"app": \r\n'
WAITS_WITHIN = b"waits within"
"""As ``CUT_OFF``, but keep the connection open."""


def status(code: int, body: bytes = b"") -> bytes:
    """Return an answer with this status and content."""
    return b"HTTP/1.1 %d Told\r\nContent-Length: %d\r\n\r\n%s" % (code, len(body), body)


class FailingServer:
    """``answers``: the answers to successive requests, of which the last is repeated. ``requests``: the number of
    requests received.
    """

    def __init__(self, answers: tuple[bytes, ...]) -> None:
        self.requests = 0
        self._answers = answers
        self._done = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def serve(self) -> None:
        while not self._done.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if not connection.recv(65536):
                return
            answer = self._answers[min(self.requests, len(self._answers) - 1)]
            self.requests += 1
            if answer not in (WAITS, CLOSES):
                connection.sendall(CUT_OFF if answer is WAITS_WITHIN else answer)
            if answer in (WAITS, WAITS_WITHIN):
                self._done.wait(30)

    def close(self) -> None:
        self._done.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def failing_server(*answers: bytes) -> Iterator[FailingServer]:
    """Run a server with these answers within a block."""
    server = FailingServer(answers)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


def refusing_url() -> str:
    """Return a URL with a port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
