"""``python -m streamkeeper.driver.export <conf as JSON>``: a process that exports the state of checkpoints.

It reads an ExportRequest per line from stdin and answers each with an ExportAnswer per line on stdout, in the same
order, in one Spark session; stdout has no other output. ``conf``: settings that only a starting Spark accepts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.worker_server import answer_lines, end
from streamkeeper.inspection.state_export import export_state
from streamkeeper.model.coding import from_json
from streamkeeper.model.protocol.drill_messages import ExportAnswer, ExportRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Exporter:
    """Answers export requests, one after the other, in one Spark session."""

    def __init__(self, spark: SparkSession, scratch: Path, secrets: Mapping[str, str]) -> None:
        self._spark = spark

    def answer(self, line: bytes) -> ExportAnswer:
        """Return the state stores that were exported, or the reason for a failure. Raises no error."""
        try:
            request = from_json(line, ExportRequest, where="request")
            export = export_state(self._spark, tree_at(request.checkpoint), request.batch, Path(request.target))
            return ExportAnswer(stores=export.stores, batch=export.batch)
        except Exception as error:
            return ExportAnswer(error=" ".join(describe_fault(error).split()))


if __name__ == "__main__":
    end(answer_lines(sys.argv[1:], "export", lambda *arguments: Exporter(*arguments).answer))
