"""The broker of a campaign: started when a piece first needs it, ended with the campaign."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from harness.kafka_broker import running_broker


class BrokerOnDemand:
    """A broker below ``home``, which is empty before and gone afterwards: no topic outlives the block."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._open = ExitStack()
        self._servers = ""

    def __enter__(self) -> BrokerOnDemand:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def servers(self) -> str:
        """Its address; raises as running_broker does when it cannot be had."""
        if not self._servers:
            shutil.rmtree(self._home, ignore_errors=True)
            self._open.callback(shutil.rmtree, self._home, ignore_errors=True)
            self._servers = self._open.enter_context(running_broker(self._home)).servers
        return self._servers
