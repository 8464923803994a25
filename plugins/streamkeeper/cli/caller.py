"""The user who runs a command, according to the operating system and not to environment variables."""

from __future__ import annotations

from streamkeeper.model.settings.approvers import CLI
from streamkeeper.system.system_user import user_name


def caller() -> str:
    """Return the name under which requests and answers from the command line are recorded, such as ``cli:ada``."""
    return f"{CLI}{user_name()}"
