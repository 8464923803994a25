"""The check whether the masters of a standalone Spark cluster are reachable from this machine."""

from __future__ import annotations

import socket

from streamkeeper.errors import TemporaryError

_ANSWER_S = 3.0


def check_master(master: str) -> None:
    """Raise TemporaryError unless one of ``spark://host:port[,host:port]`` accepts a connection.

    Without this check Spark tries for a minute, and then reports that all masters are unresponsive.
    """
    failures = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_ANSWER_S).close()
        except (OSError, OverflowError) as error:
            failures.append(f"{place}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    raise TemporaryError(
        f"the master {master} does not answer ({'; '.join(failures)})",
        hint="start the master, or correct STREAMKEEPER_MASTER; running drivers continue meanwhile",
    )
