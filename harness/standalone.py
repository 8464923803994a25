"""``airflow standalone`` on SQLite, without its log servers: both listen on every address, and no setting changes that.

Nobody asks them here: scheduler, triggerer and API server share a disk, and logs are read from their files.
"""

from __future__ import annotations

from airflow.cli.commands.standalone_command import StandaloneCommand, SubCommand
from airflow.configuration import write_default_airflow_configuration_if_needed

from harness.airflow_process import DATABASE, LOCK_WAIT_S

_WITH_LOG_SERVERS = ("scheduler", "triggerer")
_API_LOCK_WAIT_S = 5
"""A request that waits for SQLite's lock holds up the event loop by which another request lets go of it, until it gives
up. Whoever else waits has to wait for longer, or the scheduler ends.
"""


class Parts(dict[str, SubCommand]):
    """Standalone's processes by their names, each told as it is added to serve no logs and how long to wait."""

    def __setitem__(self, name: str, part: SubCommand) -> None:
        if name in _WITH_LOG_SERVERS:
            part.command.append("--skip-serve-logs")
        if name == "api-server":
            waiting = part.env[DATABASE].replace(f"timeout={LOCK_WAIT_S}", f"timeout={_API_LOCK_WAIT_S}")
            part.env = {**part.env, DATABASE: waiting}
        super().__setitem__(name, part)


class Standalone(StandaloneCommand):  # type: ignore[misc]
    """Airflow's own, but for that."""

    def __init__(self) -> None:
        super().__init__()
        self.subcommands = Parts()


if __name__ == "__main__":
    write_default_airflow_configuration_if_needed()
    Standalone().run()
