"""Runs ``airflow standalone`` on SQLite without its log servers: both of them listen on every address, and no setting
changes that.

The log servers are not needed here: scheduler, triggerer and API server share a disk, and logs are read from their
files.
"""

from __future__ import annotations

from airflow.cli.commands.standalone_command import StandaloneCommand, SubCommand
from airflow.configuration import write_default_airflow_configuration_if_needed

from harness.airflow_process import DATABASE, LOCK_WAIT_S

_WITH_LOG_SERVERS = ("scheduler", "triggerer")
_API_LOCK_WAIT_S = 5
"""How long the API server waits for SQLite's lock. A request that waits for the lock blocks the event loop in which a
different request would release it, until the wait is given up. All other processes must wait for longer, or the
scheduler terminates.
"""


class Parts(dict[str, SubCommand]):
    """Standalone's processes by their names; as each one is added, it is set up to run no log server and to wait for
    the right time.
    """

    def __setitem__(self, name: str, part: SubCommand) -> None:
        if name in _WITH_LOG_SERVERS:
            part.command.append("--skip-serve-logs")
        if name == "api-server":
            waiting = part.env[DATABASE].replace(f"timeout={LOCK_WAIT_S}", f"timeout={_API_LOCK_WAIT_S}")
            part.env = {**part.env, DATABASE: waiting}
        super().__setitem__(name, part)


class Standalone(StandaloneCommand):  # type: ignore[misc]
    """Airflow's own standalone command, except for its processes' log servers and waiting times."""

    def __init__(self) -> None:
        super().__init__()
        self.subcommands = Parts()


if __name__ == "__main__":
    write_default_airflow_configuration_if_needed()
    Standalone().run()
