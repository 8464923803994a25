"""Provides a web server on the loopback interface that stands in for a cluster: it records every request and returns
the responses that a test has set.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class ClusterServer:
    """A fake cluster's address, responses and requests.

    ``answers``: method and path -> body, bytes unchanged and anything else as JSON; any other request returns 404.
    ``asked``: method and path of every request, in order; ``bodies``: their JSON bodies.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.bodies: list[Any] = []


@contextmanager
def cluster_server() -> Iterator[ClusterServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = f"{self.command} {self.path.partition('?')[0]}"
            cluster.asked.append(request)
            cluster.bodies.append(json.loads(body) if body else None)
            known = request in cluster.answers
            answer = cluster.answers[request] if known else {}
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        cluster = ClusterServer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield cluster
        server.shutdown()
        thread.join()


def kubeconfig(folder: Path, server: str) -> dict[str, str]:
    """Write a configuration that names one Kubernetes cluster, and return the variable that names its file."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {"token": "none"}}],
    }
    (folder / "config").write_text(json.dumps(config))
    return {"KUBECONFIG": str(folder / "config")}
