"""Who runs a command: the operating system's user, whatever the environment says."""

from __future__ import annotations

from streamkeeper.model.approvers import CLI
from streamkeeper.system_user import user_name


def caller() -> str:
    """``cli:ada``: as requests and answers from the command line are signed."""
    return f"{CLI}{user_name()}"
