"""The effect of a RESUME with each change that is safe: a sentence per rule. Pure."""

from __future__ import annotations

_NEW_ROWS = "new rows would be computed by the changed query; rows already written stay as they are"
_SAME = "no effect on the state: it is computed from the same values as before; a changed output has its own finding"
_NULLS = "no effect: Spark accepts values that are never null where the state allows null"

NOTES: dict[str, str] = {
    "output-lost": "accepted loss: the query would keep writing after the last committed batch; the missing rows stay "
    "missing",
    "named-source-added": "the new source would be read from its beginning; the others continue at their offsets",
    "named-source-removed": "the source would no longer be read; its rows in the state stay there",
    "named-sources-reordered": "no effect: Spark finds the offsets of named sources by name",
    "source-location-changed": "the new location would be read from now on; no file is skipped or read twice",
    "topics-named-otherwise": "every partition read so far would continue at its offset",
    "topics-added": "the new topics would be read from their earliest offsets; the others continue at theirs",
    "brokers-moved": "the topics would be read at the new addresses from the same offsets",
    "source-order-of-files-changed": "each file would still be read once, in another order",
    "source-start-changed": "no effect: each source continues at the offset in the checkpoint",
    "sink-key-reordered": "no effect: rows are found by the same columns",
    "sink-option-changed": "new batches would be written with the new value; rows written so far stay as they are",
    "source-upkeep-changed": "the same rows would be read; only fetching, cleanup or extra columns differ",
    "source-selection-changed": "every file that matches now and was not read yet would be read",
    "source-reading-changed": "new rows would be parsed differently; no state is computed from the values concerned",
    "malformed-rows-dropped": "malformed rows would be dropped from now on, without an error or a count",
    "source-option-spelled-out": "no effect: the option states a default that already applies",
    "source-columns-added": "new rows would have the new columns; rows read before are not read again",
    "source-columns-removed": "what was removed would no longer be read; no state is computed from it",
    "source-columns-reordered": "no effect: columns are read by name",
    "source-column-widened": "the same values would be read into a wider type",
    "source-fields-changed": "new rows would have the changed fields; no state is computed from them",
    "rate-limit-changed": "batches would have another size; the same rows would be read",
    "rows-at-risk": "rows can be lost or duplicated without an error, or a checkpoint can become unusable",
    "source-deletes-its-input": "files that were read would be moved or deleted, as in the deployed query",
    "source-begins-to-delete-its-input": "files would be moved or deleted after they are read, from the first batch "
    "on; no query can read them again",
    "input-cleaned-under-another-query": "files may be removed before the other query has read them, as until now",
    "function-has-effects": "Spark would continue from the last state; the rehearsal stopped before the end of its "
    "batch",
    "grouping-key-null-replaced": "every group would still be found: the state holds no null key",
    "deduplication-key-null-replaced": "every key would still be found: the state holds no null key",
    "join-key-null-replaced": "every waiting row would still be found: the state holds no null key",
    "grouping-key-became-not-null": _NULLS,
    "deduplication-key-became-not-null": _NULLS,
    "join-key-became-not-null": _NULLS,
    "join-column-became-not-null": _NULLS,
    "state-column-became-not-null": _NULLS,
    "state-value-became-not-null": _NULLS,
    "fields-renamed": "no effect on the state: it stores fields by position, not by name",
    "aggregate-function-changed": "{name} would be correct from now on: both functions keep the same state",
    "first-became-last": "{name} would be correct for each group from its next row on; other groups keep their old "
    "result",
    "aggregated-field-widened": "{name} would continue as before: the stored type is the same",
    "percentile-changed": "{name} would be correct from now on: all percentiles keep the same state",
    "null-summed-as-zero": "sums would stay the same; a group that holds only nulls becomes zero at its next row",
    "columns-of-stateful-code-changed": "the code would receive other columns; it fails if it reads a removed one",
    "join-type-changed": "rows waiting in the state would be joined by the new join type from now on",
    "join-range-narrowed": "matches outside the new range would no longer be produced; existing results stay",
    "limit-changed": "the row count would continue under the new limit; rows dropped before stay dropped",
    "filter-below-state-changed": "the new filter would apply to new rows only; what the state holds of earlier rows "
    "stays",
    "rewritten-below-state": _SAME,
    "above-state-changed": _NEW_ROWS,
    "stateless-change": _NEW_ROWS,
    "watermark-changed": "no effect: no state depends on the difference",
    "watermark-added": "late rows would be dropped and finished groups evicted from now on",
    "watermark-removed": "late rows would be accepted from now on and added to their groups in the state",
    "watermark-delay-increased": "as soon as the watermark moves on, rows up to the longer delay would be "
    "accepted; results would come later",
    "watermark-delay-decreased": "results would come sooner, and rows would count as late sooner, from now on",
    "output-mode-changed": "results would be written in the new mode from now on; no row is lost or duplicated",
    "code-above-state-changed": _NEW_ROWS,
    "code-beside-state-changed": _NEW_ROWS,
    "stateless-code-changed": _NEW_ROWS,
    "local-variables-renamed": "no effect: the code computes the same values",
    "code-rewritten-equally": "no effect: the function does the same; only its spelling, or a value that it does not "
    "use, differs",
    "rows-reordered": "no effect: each row of the stream finds the same match",
    "function-renamed": "no effect: the code is the same",
    "sink-function-changed": "new batches would go to the same place; a deploy repeats no batch; only if the old "
    "driver is killed during a batch, the new code writes that batch again, as after any failure",
    "sink-function-renamed": "new batches would be written by the new function; rows written so far stay as they are",
    "output-column-redefined": "new results would be computed by the new expression; rows already written stay as they "
    "are",
    "output-column-added": "new rows would have the new column; rows already written lack it",
    "output-column-removed": "new rows would lack the column; rows already written keep it",
    "output-column-type-changed": "new rows would have the new type; rows already written keep the old one",
    "output-columns-reordered": "new rows would have their columns in the new order",
    "output-column-nullability-changed": "the same rows would be written; only whether the column may be null differs",
    "trigger-changed": "batches would start at other times; the same rows would be written",
    "setting-pinned": "no effect: the value in the checkpoint applies until there is a new checkpoint version",
    "setting-changed": "Spark would run with the new value from now on; rows already written stay as they are",
    "ansi-mode-changed": "errors would become null from now on; rows already written stay as they are",
    "time-zone-changed": "new rows would be computed in the new time zone; rows already written stay as they are",
    "tuning-changed": "batches would run faster, slower or at other times; the same rows would be written",
    "settings-respelled": "no effect: Spark reads the same values",
    "added-code-changed": "new rows would be computed by the new files; the query keeps no state",
    "spark-version-changed": "the new Spark version would read the state of the old one: measured for this pair",
    "rehearsed-without-rows": "errors in the candidate's functions would first appear at the next batch with rows",
    "not-rehearsed": "Spark would continue from the last state; this was not rehearsed, because the last batch cannot "
    "be run again",
    "checkpoint-elsewhere": "the query would continue in the checkpoint where it is now",
    "input-of-last-batch-gone": "no effect: the batch that read the missing files is committed",
    "input-not-checked": "the batch would run without any of these files that is missing, and without an error",
    "history-gone": "no effect on a resume; a rebuild would lack the missing input",
    "query-added": "the query would start with a new checkpoint at the beginning of its sources",
    "query-removed": "the query would stop; its checkpoint and its output stay as they are",
}

WITHOUT_EFFECT = frozenset(
    {
        "code-rewritten-equally",
        "deduplication-key-became-not-null",
        "fields-renamed",
        "function-renamed",
        "grouping-key-became-not-null",
        "history-gone",
        "input-of-last-batch-gone",
        "join-column-became-not-null",
        "join-key-became-not-null",
        "local-variables-renamed",
        "named-sources-reordered",
        "rewritten-below-state",
        "rows-reordered",
        "setting-pinned",
        "settings-respelled",
        "sink-key-reordered",
        "source-columns-reordered",
        "source-option-spelled-out",
        "source-start-changed",
        "state-column-became-not-null",
        "state-value-became-not-null",
        "watermark-changed",
    }
)
"""Rules about changes that are visible neither in the output nor in the state, unless the rule itself
states an effect.
"""
UNCONDITIONAL = WITHOUT_EFFECT | {"function-has-effects", "not-rehearsed", "output-lost", "query-removed"}
"""Rules whose effect also holds for a query that fails."""
