"""Whether a standalone cluster's masters are reachable for a driver."""

from __future__ import annotations

import socket

from streamkeeper.errors import TemporaryError

_ANSWER_S = 3.0


def check_master(master: str) -> None:
    """Raise TemporaryError unless one of ``spark://host:port[,host:port]`` accepts a connection.

    Spark itself tries for a minute, and then reports that all masters are unresponsive.
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
        hint="start it, or mend STREAMKEEPER_MASTER; what serves goes on",
    )
