"""A driver without its fences, started only by the negative controls of the frozen-driver tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamkeeper.driver.driver_lifetime import main
from streamkeeper.driver.epoch import Claim
from streamkeeper.sinks.file import FileWriter
from streamkeeper.sinks.table_writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_write = TableWriter.write


def write_under_any_epoch(self: TableWriter, batch: DataFrame, batch_id: int) -> None:
    """Write a batch under the table's newest epoch, so that the table's fence, which compares the writer's epoch with
    the newest one, always passes.
    """
    newest = self.newest_claim()
    assert newest is not None
    self._context = replace(self._context, epoch=newest.epoch)
    _write(self, batch, batch_id)


if __name__ == "__main__":
    Claim.superseded_by = lambda self, state: ""  # type: ignore[method-assign]
    FileWriter.check_fence = lambda self: None  # type: ignore[method-assign]
    TableWriter.write = write_under_any_epoch  # type: ignore[method-assign]
    main(sys.argv[1:])
