"""The user who runs a command: that of the operating system, independent of the environment."""

from __future__ import annotations

from streamkeeper.model.approvers import CLI
from streamkeeper.system_user import user_name


def caller() -> str:
    """``cli:ada``: the name under which requests and answers from the command line are recorded."""
    return f"{CLI}{user_name()}"
