"""The user of this process according to the operating system, whatever the environment variables are."""

from __future__ import annotations

import os
import pwd


def user_name() -> str:
    """Return the name of the effective user, or ``#1000`` if the system has no name for the number 1000.

    The variables ``LOGNAME`` and ``USER``, which ``getpass`` reads, are not used: anyone can set them.
    """
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"
