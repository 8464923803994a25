"""A connection to a local server that can be cut: a process that forwards bytes and whose exit closes every connection.

Run as a program: ``wire.py PORT SERVER_PORT``.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time


class Wire:
    """A connection to a local server; ``port`` is its near end, which refuses connections while it is cut."""

    def __init__(self, server_port: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port, self._server_port = int(probe.getsockname()[1]), server_port
        self._process: subprocess.Popen[bytes] | None = None
        self.mend()

    def mend(self) -> None:
        """Accept connections, and return once one succeeds."""
        words = [sys.executable, __file__, str(self.port), str(self._server_port)]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the wire was not mended within 30 s")

    def cut(self) -> None:
        """Close every connection, and refuse new ones."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _serve(port: int, server_port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            here, _ = listener.accept()
            there = socket.create_connection(("127.0.0.1", server_port))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=_pass_on, args=pair, daemon=True).start()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
