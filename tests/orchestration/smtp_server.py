"""An SMTP server on a local port that accepts every mail, so that a notifier's client uses a real socket."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage


class _Session(socketserver.StreamRequestHandler):
    """The session of one client, according to RFC 5321."""

    def handle(self) -> None:
        """Answer commands until the client quits."""
        self._say("220 localhost ready")
        while line := self.rfile.readline():
            verb = line.strip().upper()
            if verb.startswith((b"EHLO", b"HELO")):
                self._say("250 localhost")
            elif verb == b"DATA":
                self._say("354 go on")
                body = b"".join(iter(self.rfile.readline, b".\r\n"))
                mail = message_from_bytes(body, policy=policy.default)
                assert isinstance(mail, EmailMessage)
                self.server.mails.append(mail)  # type: ignore[attr-defined]
                self._say("250 taken")
            elif verb == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def smtp_server() -> Iterator[tuple[int, list[EmailMessage]]]:
    """Run the server; yield its port and the list of the mails that it has accepted."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session) as server:
        server.daemon_threads = True
        mails: list[EmailMessage] = []
        server.mails = mails  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1], mails
        finally:
            server.shutdown()
            thread.join()
