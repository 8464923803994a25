"""The broker of a campaign: started when a piece first needs it, stopped with the campaign."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from harness.kafka_broker import running_broker


class BrokerOnDemand:
    """A broker in the folder ``home``, which is emptied before and deleted afterwards: no topic outlives the block."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._open = ExitStack()
        self._servers = ""

    def __enter__(self) -> BrokerOnDemand:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def servers(self) -> str:
        """Return the broker's address and start it if necessary; raises like running_broker if it cannot start."""
        if not self._servers:
            shutil.rmtree(self._home, ignore_errors=True)
            self._open.callback(shutil.rmtree, self._home, ignore_errors=True)
            self._servers = self._open.enter_context(running_broker(self._home)).servers
        return self._servers
