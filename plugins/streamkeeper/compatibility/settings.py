"""Rules about the session's settings: those a checkpoint pins, and those that change what rows mean."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.rule import NEW_CHECKPOINT, Rule, change, is_stateful
from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import Manifest

PINNED = frozenset(
    {
        "spark.sql.function.protobufExtensions.enabled",
        "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
        "spark.sql.shuffle.partitions",
        "spark.sql.streaming.aggregation.stateFormatVersion",
        "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
        "spark.sql.streaming.join.stateFormatVersion",
        "spark.sql.streaming.multipleWatermarkPolicy",
        "spark.sql.streaming.stateStore.compression.codec",
        "spark.sql.streaming.stateStore.encodingFormat",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.streaming.stateStore.rocksdb.formatVersion",
        "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion",
        "spark.sql.streaming.stateStore.rowChecksum.enabled",
        "spark.sql.streaming.statefulOperator.useStrictDistribution",
    }
)
"""Written into every offset file; Spark takes them from there and ignores the session."""

REFUSED = frozenset(
    {
        "spark.sql.streaming.queryEvolution.enableSourceEvolution",
        "spark.sql.streaming.stateStore.checkpointFormatVersion",
    }
)
"""Not taken from the checkpoint, and refused when they differ from what it was written with."""

HARMLESS = frozenset({"spark.sql.streaming.noDataMicroBatches.enabled"})
"""When results come, never which."""


def setting_pinned(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The checkpoint's own value wins until there is a new checkpoint version."""
    for key, before, after in _changed(old, new):
        if key in PINNED:
            yield Finding(
                rule="setting-pinned",
                severity=Severity.NOTE,
                where=key,
                evidence=change(before, after),
                hint="has no effect: the checkpoint pins this setting",
                reference="measured: conf_shuffle_up, conf_provider_hdfs_to_rocks, conf_compression",
            )


def checkpoint_layout_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Spark cannot go on in a checkpoint of another layout."""
    for key, before, after in _changed(old, new):
        if key in REFUSED:
            yield Finding(
                rule="checkpoint-layout-changed",
                severity=Severity.BREAKING,
                where=key,
                evidence=change(before, after),
                hint=NEW_CHECKPOINT,
                reference="measured: conf_ckptformat_1_2, conf_ckptformat_2_1",
            )


def setting_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Time zone, ANSI mode and their like change what new rows mean; state keeps the old meaning."""
    for key, before, after in _changed(old, new):
        if key in PINNED or key in REFUSED:
            continue
        safe = key in HARMLESS or not is_stateful(old, new)
        yield Finding(
            rule="setting-changed",
            severity=Severity.NOTE if safe else Severity.BREAKING,
            where=key,
            evidence=change(before, after),
            hint="holds for new rows" if safe else NEW_CHECKPOINT,
            reference="measured: conf_nodata" if key in HARMLESS else "",
        )


RULES: tuple[Rule, ...] = (setting_pinned, checkpoint_layout_changed, setting_changed)


def _changed(old: Manifest, new: Manifest) -> Iterator[tuple[str, str | None, str | None]]:
    for key in sorted(old.confs.keys() | new.confs.keys()):
        before, after = old.confs.get(key), new.confs.get(key)
        if before != after:
            yield key, before, after
