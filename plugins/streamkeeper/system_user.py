"""The user of this process: the operating system's, whatever the environment says."""

from __future__ import annotations

import os
import pwd


def user_name() -> str:
    """The name of the effective user, ``#1000`` if the system has no name for the number.

    ``LOGNAME`` and ``USER``, which ``getpass`` uses, can be set by anyone.
    """
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"
