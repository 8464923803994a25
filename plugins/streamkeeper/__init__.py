"""Streamkeeper: the lifecycle of PySpark streaming jobs, run from Airflow.

This package exports the public names for job authors. Each name is imported on first use, so that parsing a DAG never
imports pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamkeeper.authoring.definition import Param, Query, streaming_job
    from streamkeeper.sinks.append_table import AppendTableSink
    from streamkeeper.sinks.batch_headers import newest_attempts
    from streamkeeper.sinks.delta import DeltaSink
    from streamkeeper.sinks.file import FileSink, read_serving
    from streamkeeper.sinks.foreach import BatchContext, ForeachBatch
    from streamkeeper.sinks.kafka import KafkaSink
    from streamkeeper.sinks.table import TableSink

__all__ = [
    "AppendTableSink",
    "BatchContext",
    "DeltaSink",
    "FileSink",
    "ForeachBatch",
    "KafkaSink",
    "Param",
    "Query",
    "TableSink",
    "newest_attempts",
    "read_serving",
    "streaming_job",
]

_HOMES = {
    "AppendTableSink": "streamkeeper.sinks.append_table",
    "BatchContext": "streamkeeper.sinks.foreach",
    "DeltaSink": "streamkeeper.sinks.delta",
    "FileSink": "streamkeeper.sinks.file",
    "ForeachBatch": "streamkeeper.sinks.foreach",
    "KafkaSink": "streamkeeper.sinks.kafka",
    "Param": "streamkeeper.authoring.definition",
    "Query": "streamkeeper.authoring.definition",
    "TableSink": "streamkeeper.sinks.table",
    "newest_attempts": "streamkeeper.sinks.batch_headers",
    "read_serving": "streamkeeper.sinks.file",
    "streaming_job": "streamkeeper.authoring.definition",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'streamkeeper' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
