"""Rules about the session's settings: those a checkpoint pins, and those that change what rows mean."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamkeeper.compatibility.rule import (
    NEW_CHECKPOINT,
    Rule,
    breaking,
    change,
    is_stateful,
    note,
    source_label,
    state_uses,
)
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

_SHOWN_IN_PLAN = (
    "spark.sql.caseSensitive",
    "spark.sql.cbo.",
    "spark.sql.decimalOperations.",
    "spark.sql.optimizer.",
    "spark.sql.sources.",
)
"""What they change shows in the plan, where the other rules see it."""

_STREAMING = "spark.sql.streaming."
"""A streaming setting that is neither pinned nor refused says when or how batches run, never what they compute."""

ANSI = "spark.sql.ansi.enabled"
TIME_ZONE = "spark.sql.session.timeZone"
_TIMES = re.compile(r"\b(?:date|timestamp|timestamp_ntz)\b")
_TEXT_FORMATS = frozenset({"csv", "json", "text", "xml"})


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


def ansi_mode_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Values are the same in both modes; only what cannot be computed is an error in one and null in the other.

    State that was made without ANSI may hold sums that wrapped around: with it nobody expects them.
    """
    for key, before, after in _changed(old, new):
        if key != ANSI:
            continue
        evidence = change(before, after)
        if after == "false":
            hint = "from now on what cannot be computed is null or wraps around"
            yield note("ansi-mode-changed", key, evidence, "conf_ansi_off_agg", hint)
        elif is_stateful(old, new):
            yield breaking("ansi-mode-changed", key, evidence)
        else:
            yield note("ansi-mode-changed", key, evidence, hint="from now on what cannot be computed is an error")


def time_zone_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Days, hours and texts of times mean something else in another zone; state keeps the old meaning."""
    for key, before, after in _changed(old, new):
        if key != TIME_ZONE:
            continue
        if is_stateful(old, new) and _depends_on_zone(new):
            yield breaking("time-zone-changed", key, change(before, after))
        else:
            hint = "nothing in the state depends on the time zone" if is_stateful(new) else "holds for new rows"
            yield note("time-zone-changed", key, change(before, after), hint=hint)


def setting_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Settings that change what new rows mean: the state keeps the old meaning."""
    for key, before, after in _changed(old, new):
        if key in PINNED or key in REFUSED or key in (ANSI, TIME_ZONE):
            continue
        evidence = change(before, after)
        if key.startswith(_STREAMING):
            yield note("streaming-setting-changed", key, evidence, "conf_nodata, conf_checkcorrectness")
        elif key.startswith(_SHOWN_IN_PLAN) or not is_stateful(old, new):
            yield note("setting-changed", key, evidence, hint="holds for new rows")
        else:
            yield breaking("setting-changed", key, evidence)


def _depends_on_zone(manifest: Manifest) -> bool:
    """Whether an expression in or below the state uses the session's zone, or times are read from text in it."""
    for each in manifest.operators:
        columns = [*each.key_columns, *each.values]
        texts = [*(column.meaning for column in columns), *each.rows, *each.shape, each.detail.get("condition", "")]
        if not each.resolved or any(_IN_SESSION_ZONE in text for text in texts):
            return True
    return any(
        state_uses(f"{source_label(number, source)}.{line.partition(' ')[0]}", manifest)
        for number, source in enumerate(manifest.sources)
        if source.options.get("format") in _TEXT_FORMATS and "timezone" not in source.options
        for line in source.schema.splitlines()
        if _TIMES.search(line)
    )


_IN_SESSION_ZONE = "in session"


RULES: tuple[Rule, ...] = (
    setting_pinned,
    checkpoint_layout_changed,
    ansi_mode_changed,
    time_zone_changed,
    setting_changed,
)


def _changed(old: Manifest, new: Manifest) -> Iterator[tuple[str, str | None, str | None]]:
    for key in sorted(old.confs.keys() | new.confs.keys()):
        before, after = old.confs.get(key), new.confs.get(key)
        if before != after:
            yield key, before, after
