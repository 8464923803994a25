"""``airflow standalone`` without its log servers: both listen on every address, and no setting changes that.

Nobody asks them here: scheduler, triggerer and API server share a disk, and logs are read from their files.
"""

from __future__ import annotations

from airflow.cli.commands.standalone_command import StandaloneCommand, SubCommand
from airflow.configuration import write_default_airflow_configuration_if_needed

_WITH_LOG_SERVERS = ("scheduler", "triggerer")


class Parts(dict[str, SubCommand]):
    """Standalone's processes by their names, each told to serve no logs as it is added."""

    def __setitem__(self, name: str, part: SubCommand) -> None:
        if name in _WITH_LOG_SERVERS:
            part.command.append("--skip-serve-logs")
        super().__setitem__(name, part)


class Standalone(StandaloneCommand):  # type: ignore[misc]
    """Airflow's own, but for that."""

    def __init__(self) -> None:
        super().__init__()
        self.subcommands = Parts()


if __name__ == "__main__":
    write_default_airflow_configuration_if_needed()
    Standalone().run()
