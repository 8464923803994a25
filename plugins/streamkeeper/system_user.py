"""Who this process is: the operating system's user, whatever the environment says."""

from __future__ import annotations

import os
import pwd


def user_name() -> str:
    """The name of the effective user, ``#1000`` where the system has none for the number.

    ``LOGNAME`` and ``USER``, which ``getpass`` believes, are for anybody to set.
    """
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"
