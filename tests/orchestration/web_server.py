"""Provides a web server on the loopback interface that keeps what is posted to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

Hook = tuple[str, list[dict[str, Any]], list[int]]


@contextmanager
def web_server() -> Iterator[Hook]:
    """Yield the server's address, the list of posted bodies, and the list whose last element is the status code of the
    next responses (200 at first).
    """
    posted: list[dict[str, Any]] = []
    answers: list[int] = [200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if answers[-1] == 200:
                posted.append(json.loads(body))
            self.send_response(answers[-1])
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/oncall", posted, answers
        server.shutdown()
        thread.join()
