"""Spark's layouts of state by name, which tests and captures use one after the other."""

from __future__ import annotations

_STATE = "spark.sql.streaming.stateStore."
_PROVIDER = f"{_STATE}providerClass"
_CHANGELOG = f"{_STATE}rocksdb.changelogCheckpointing.enabled"
_FORMAT = f"{_STATE}checkpointFormatVersion"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
_HDFS = f"{_PROVIDERS}HDFSBackedStateStoreProvider"
_ROCKSDB = f"{_PROVIDERS}RocksDBStateStoreProvider"
LAYOUTS = {
    "hdfs": {_PROVIDER: _HDFS, _CHANGELOG: "false", _FORMAT: "1"},
    "rocksdb": {_PROVIDER: _ROCKSDB, _CHANGELOG: "false", _FORMAT: "1"},
    "changelog": {_PROVIDER: _ROCKSDB, _CHANGELOG: "true", _FORMAT: "1"},
    "format-2": {_PROVIDER: _ROCKSDB, _CHANGELOG: "true", _FORMAT: "2"},
}
"""Every layout of state that Spark has, each with all of its settings, so that the session's own settings do not
matter.
"""
