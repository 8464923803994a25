"""A real Redis server as Celery's broker; none of its data is kept."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.processes import free_ports
from harness.waiting import wait_for

PROGRAM = "redis-server"


def find_program() -> str | None:
    """Return the path of the server's program, or None if it is not installed."""
    return shutil.which(PROGRAM)


@contextmanager
def redis_server(home: Path, address: str) -> Iterator[str]:
    """Provide a new server that listens on ``address`` only, with its log in ``home``; yields
    ``redis://<address>:<port>``.
    """
    port = free_ports(1)[0]
    settings = {"bind": address, "port": port, "save": "", "appendonly": "no", "protected-mode": "no", "dir": home}
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    with open(home / "redis.log", "wb") as log:
        server = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for("Redis", lambda: _answers(server, address, port), 30)
        yield f"redis://{address}:{port}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _answers(server: subprocess.Popen[bytes], address: str, port: int) -> bool:
    assert server.poll() is None, "Redis ended"
    try:
        with socket.create_connection((address, port), timeout=5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
