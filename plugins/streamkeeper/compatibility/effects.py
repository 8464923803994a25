"""The effect of a RESUME with each change: a sentence per rule and severity. Pure.

The placeholders in a sentence are ``{groups}``, the entries that the state keeps; ``{name}``, the output column
concerned; ``{where}``, the place that the finding names; and ``{option}``, the meaning of the sink's option. A finding
about damage has its own sentence: the effect that was measured at a start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from streamkeeper.compatibility import effects_of_notes
from streamkeeper.compatibility.effects_of_notes import NOTES, WITHOUT_EFFECT
from streamkeeper.model.manifests.finding import Finding, Severity

NO_ACTION = "no action is needed"
IF_INTENDED = f"{NO_ACTION} if this is intended"
"""The hint of a note for which no more specific hint exists."""
_ANY_SETTING = "operator-definition-changed"
GROUPS, NAME = "groups in the state", "results"
_ENTRIES = {"deduplication": "keys in the state", "join of two streams": "rows waiting in the join state"}
"""What the entries of an operator's state are called, by the operator's name in a finding's place, if they are not
groups.
"""
_OPTIONS = {"key": "key", "format": "file format", "partition_by": "partitioning"}
"""The meaning of a sink's option, by option."""

KEYED = {
    "grouping-key": ("rows", "groups", "group"),
    "deduplication-key": ("rows", "keys", "key"),
    "join-key": ("rows of either stream", "waiting rows", "waiting row"),
}
STORED = {"join-column": "rows waiting in the join state", "state-column": "rows in the state"}


def _keyed(noun: str, rows: str, groups: str, one: str) -> dict[str, str]:
    orphaned = f"{rows} would not find the {groups} in the state, or would match wrong ones"
    refused = f"Spark would reject the state or find none of its {groups}, because"
    return {
        f"{noun}s-changed": f"{orphaned}, because these are stored under the old keys",
        f"{noun}-changed": f"{orphaned}, because these are stored under the old key",
        f"{noun}-added": f"{refused} these are stored without the new key column",
        f"{noun}-removed": f"{refused} these are stored with the removed key column",
        f"{noun}s-reordered": f"{orphaned}, because one key column would be read as another",
        f"{noun}-type-changed": f"{refused} the key column has another type there",
        f"{noun}-became-nullable": "Spark would reject the state, because it was written for a key that is never null",
        f"{noun}-null-replaced": f"the {one} stored under a null key would never be matched again; its new rows would "
        "start from nothing under the constant",
    }


def _stored(noun: str, rows: str) -> dict[str, str]:
    return {
        f"{noun}-changed": f"{rows} hold values of the old expression: Spark would reject them, or output them as they "
        "are, mixed with values of the new one",
        f"{noun}-added": f"Spark would reject the state, because {rows} lack the new column",
        f"{noun}-removed": f"Spark would reject the state, because {rows} have one column more",
        f"{noun}s-reordered": f"Spark would reject the state, or read the columns of {rows} in the wrong order",
        f"{noun}-type-changed": f"Spark would reject or misread {rows}, because the column has another type there",
        f"{noun}-became-nullable": f"Spark would reject the state, because {rows} were written for a column that is "
        "never null",
    }


OTHER_COLUMNS = "Spark would reject the state, because {rows} were written with other columns than the query now stores"
"""The effect if columns were replaced by a different number of columns."""

_OLD_FILES = "existing files keep the old columns: a reader of the output would"
_ANEW = (
    "restart a group that was already evicted: a second result, which lacks the group's earlier rows, or a duplicate "
    "row would be written"
)
_SETTING = "new rows would be computed with the new value, while {groups} hold results of the old value"

OF_TABLE = "the first write would fail, because the output table has the old {what}"
"""The effect of columns that an output table does not accept. For files, ``BREAKING`` has one sentence per change."""

BREAKING: dict[str, str] = {
    "source-count-changed": "Spark would refuse to start, because the checkpoint holds one offset per deployed source",
    "source-order-changed": "each source would continue at the offset of another one: rows would be skipped or read "
    "twice",
    "source-renamed": "the source would be read again from its beginning under its new name: its rows would be "
    "processed twice",
    "source-naming-changed": "Spark would refuse to start, because it finds offsets either by position or by name",
    "source-kind-changed": "Spark would refuse to start, because the stored offsets belong to another kind of source",
    "source-location-changed": "Spark would reject the offsets of the old location, or skip rows or read rows twice in "
    "the new one",
    "source-selection-changed": "other files or rows would be selected from now on, or rows be read differently: some "
    "would be missed or misread",
    "source-reading-changed": "new rows would be parsed differently from those already in the state: {groups} would "
    "mix both",
    "source-order-of-files-changed": "files that still wait could be skipped as too old after newer ones were read",
    "source-columns-moved": "values would be read into the wrong columns without an error",
    "source-column-renamed": "the column would be null in all new rows, without an error",
    "source-column-type-changed": "values that do not fit the new type would become null without an error, or stop the "
    "query",
    "stateful-operator-added": "Spark would reject the state, or give one operator the state of another",
    "stateful-operator-removed": "Spark would reject the state, or give one operator the state of another",
    "stateful-operator-replaced": "Spark would reject the state, or read it as the state of another kind of operator",
    "stateful-operators-reordered": "Spark would give each operator the state of another one",
    **{rule: text for noun, texts in KEYED.items() for rule, text in _keyed(noun, *texts).items()},
    **{rule: text for noun, texts in STORED.items() for rule, text in _stored(noun, texts).items()},
    "window-changed": "new rows would be assigned to windows with other bounds; windows that are open now would be "
    "written without part of their rows",
    "state-expressions-changed": "{groups} hold results of the old expressions and would be updated by the new ones",
    "aggregate-function-changed": "Spark would reject the state, or the new function would continue from values of "
    "the old one: {name} would be wrong",
    "aggregate-input-changed": "{name} of {groups} would combine old values with values of the new expression",
    "aggregate-type-changed": "Spark would reject or misread the stored values of {name}, because they have another "
    "type or precision",
    "aggregate-added": "Spark would reject the state, or read the stored value of one aggregate as another's",
    "aggregate-removed": "Spark would reject the state, or read the stored value of one aggregate as another's",
    "aggregates-reordered": "Spark would reject the state, or continue each aggregate from the stored value of another",
    "state-value-became-nullable": "Spark would reject the state, because it was written for a value that is never "
    "null",
    "input-of-stateful-code-changed": "the code would receive different values in a column from which it has already "
    "built state",
    "input-of-stateful-code-retyped": "the code would receive another type in a column from which it has already built "
    "state",
    "join-type-changed": "rows waiting in the state would lack information that the new join type needs: some results "
    "would be wrong or missing",
    "operator-condition-changed": "rows that the old condition has already evicted would be missing from new matches",
    "operator-state-changed": "Spark would reject the state that the code has stored, or read it with the wrong schema",
    "operator-timeout-changed": "state that waits for a timeout of the old kind would expire too early or never",
    "operator-time-mode-changed": "timers set in the old time mode would fire at wrong times or never",
    "operator-definition-changed": "the operator would continue with state that was written under its old settings",
    "filter-below-join-changed": "rows that the old filter accepted are waiting in the state and would still be joined",
    "upstream-changed": "{groups} come from rows that the old joins, unions or other steps produced, and would be "
    "combined with rows of the new ones",
    "rows-in-state-changed": "{groups} come from the rows that the job created until now, and would be combined with "
    "the new ones",
    "watermark-changed": "rows would be dropped as late, and state evicted, at other times than before",
    "watermark-removed": f"a late row would {_ANEW}",
    "watermark-column-changed": "the stored watermark comes from the old column: rows would be dropped as late by the "
    "wrong time, or state would never be evicted",
    "watermark-delay-increased": f"a row that is no longer late would {_ANEW}",
    "watermark-delay-decreased": "stored keys keep their old expiry time: duplicates would be dropped for longer than "
    "the new delay",
    "output-mode-changed": "groups would be written twice or never",
    "sink-kind-changed": "the new sink would receive only new batches: rows written so far would be missing there",
    "sink-output-changed": "the new output would receive only new batches: rows written so far stay in the old one",
    "sink-option-changed": "new rows would be written with another {option} than existing ones",
    "sink-key-redefined": "results would be written under different keys: existing rows keep their old keys and are "
    "never updated",
    "sink-partition-redefined": "results would be written to different partitions: a reader of one partition would "
    "miss rows, and find rows that belong elsewhere",
    "output-column-added": f"{_OLD_FILES} miss the new column in old files",
    "output-column-removed": f"{_OLD_FILES} miss the removed column in new files",
    "output-column-type-changed": f"{_OLD_FILES} find two types in one column",
    "output-columns-reordered": f"{_OLD_FILES} read one column as another",
    "output-column-nullability-changed": "the write would fail at the first null, because the output's column does not "
    "allow nulls",
    "checkpoint-layout-changed": "Spark would refuse to start, because the checkpoint has the other layout",
    "setting-changed": _SETTING,
    "ansi-mode-changed": _SETTING,
    "time-zone-changed": _SETTING,
    "fails-inside-spark": "the first batch on this checkpoint would fail, and so would every restart",
    "refused-by-spark": "the query would fail at its start or in its first batch, as in the rehearsal on a copy of the "
    "checkpoint; no batch would be committed, and no row lost",
    "output-does-not-fit": "the first batch would fail, because the output does not accept its rows",
    "unexplained-difference": "the effect is unknown: no rule covers this difference",
    "output-changes-hands": "another query would write to this output from the beginning of its sources: rows would be "
    "duplicated",
    "query-removed": "another query would write to this output from the beginning of its sources: rows would be "
    "duplicated",
}

_LOOK = "Spark would start, but"
UNPROVEN = "; no check can prove that the two fit: results may become wrong, or the query may fail"
"""The end of the effect of changed code on state. It does not apply after a failed rehearsal, which does prove
something.
"""

OPAQUE: dict[str, str] = {
    "source-topic-created-again": "the query would continue at its old offsets and never read the new topic's records "
    "before them",
    "source-offsets-passed-over": "the query would continue with the oldest available record; earlier ones would never "
    "be processed",
    "unknown-operator": "Spark would continue with this operator's state; whether it reads it correctly was never "
    "measured",
    "unknown-in-plan": "Spark would continue; whether the rows that reach the state are computed as before cannot be "
    "determined",
    "code-in-state-changed": f"the changed code would continue with state that the old code wrote{UNPROVEN}",
    "filter-below-code-changed": "the code would receive rows that its state has never seen, or no longer receive some "
    "that it has; no check can prove that the results stay right",
    "code-in-state-unreadable": "the code would continue with the existing state; whether the code changed cannot be "
    "determined",
    "sink-function-may-write-elsewhere": "new batches may be written with other values or keys, or to another place; "
    "the function may also drop rows, write a repeated batch twice or hide an error",
    "sink-column-redefined": "new rows would have different values in a column that the function may use as a key, "
    "route or unit: they may go to another place or duplicate existing rows",
    "sink-function-unreadable": "new batches may go to another place: whether the function changed cannot be fully "
    "determined",
    "sink-key-redefined": "results would be written under new keys if the key values differ now, and existing rows "
    "would never be updated",
    "sink-partition-redefined": "results would be written to other partitions if the values differ now, and a reader "
    "of one partition would miss rows",
    "query-may-be-renamed": "if this is the same query under a new name, it starts with empty state and writes its "
    "rows a second time",
    "added-code-changed": "functions from these files would continue with state that another version of them may have "
    "written",
    "setting-changed": "a row that cannot be read would stop the query; until now it was skipped",
    "ansi-mode-changed": "a row that cannot be computed would stop the query; until now its result was null",
    "spark-version-not-measured": "the new Spark version would read state of the old one; whether it does so correctly "
    "was not measured for this pair",
    "rehearsal-timed-out": f"{_LOOK} whether the next batch succeeds is unknown",
    "not-rehearsed": f"{_LOOK} whether the next batch succeeds is unknown",
    "sink-server-not-on-record": "batches would be written to the server that the URL names now; the server of earlier "
    "batches is not recorded",
    "sink-kind-changed": "the new sink would receive only new batches: rows written so far stay in the old one",
    "sink-output-changed": "the new output would receive only new batches: rows written so far stay in the old one",
    "output-mode-changed": "each batch would send other groups than before",
    "output-placing-column-changed": "new records may be in other partitions, or have other keys, than records "
    "with the same content that were written so far",
    "release-not-on-record": "the candidate would continue with state of an unknown release; no check can prove that "
    "the two fit",
    "not-looked": "the effect is not fully known, because one of the checks could not run",
}

FATAL: dict[str, str] = {
    "source-cannot-be-replayed": "rows would be lost after a crash, because this source cannot be read a second time",
    "plan-not-deterministic": "the query that runs would differ from the one that was checked",
    "fails-on-the-last-batch": "the first batch of the new release would fail, and so would every restart",
    "fails-inside-spark": "the first batch would fail, and so would every restart",
    "sink-column-missing": "the first batch with rows would fail, and so would every restart: the function reads a "
    "column that the query does not produce",
    "open-batch-of-named-sources": "every start would fail before it reads any row",
    "checkpoint-lost": "Spark would start from the beginning or from an earlier batch: rows would be written twice",
    "checkpoint-of-another-installation": "drivers of two installations could write to one checkpoint at the same time",
    "input-cleaned-under-another-query": "files would be removed before the other query has read them: its rows would "
    "be lost without an error",
    "input-names-unreadable": "every start would stop at the open batch, because it would read files twice",
    "input-of-open-batch-gone": "the open batch would run without the missing rows, without an error",
    "source-no-longer-holds-offsets": "the first batch would fail, or skip the missing records without an error",
    "sink-out-of-reach": "the new release could not write, because the output, or another service that the query uses, "
    "does not answer",
    "source-out-of-reach": "the first batch would fail, because the source does not answer",
    "sink-ahead-of-checkpoint": "the sink would skip new batches without an error, because it already holds batches "
    "with their numbers",
    "output-lost": "the query would keep writing to an output that lacks earlier batches, without an error",
    "output-of-another-installation": "the output's fence would reject this installation's driver when it takes over",
    "output-name-taken": "internal tables or directories of the output would mix with rows that are not Streamkeeper's",
    "output-of-another-query": "the output accepts writes of its own query only: it would reject this query's driver "
    "when that takes over",
    "sink-log-missing": "new files would get a log without the old ones: readers would not see the old files",
}

UNCONDITIONAL: Mapping[Severity, frozenset[str]] = {
    Severity.NOTE: effects_of_notes.UNCONDITIONAL,
    Severity.OPAQUE: frozenset(
        {
            *("ansi-mode-changed", "not-looked", "not-rehearsed", "rehearsal-timed-out", "setting-changed"),
            *("unknown-in-plan", "unknown-operator"),
        }
    ),
    Severity.BREAKING: frozenset(
        {
            *(f"{noun}-{what}" for noun in KEYED for what in ("added", "removed", "type-changed")),
            *(f"{noun}-{what}" for noun in STORED for what in ("added", "changed", "removed", "type-changed")),
            *(f"{noun}-became-nullable" for noun in (*KEYED, *STORED, "state-value")),
            *(f"{noun}s-reordered" for noun in STORED),
            *("aggregate-added", "aggregate-function-changed", "aggregate-removed", "aggregate-type-changed"),
            *("aggregates-reordered", "checkpoint-layout-changed", "fails-inside-spark", "operator-state-changed"),
            *("output-column-nullability-changed", "output-does-not-fit", "refused-by-spark", "source-count-changed"),
            *("source-kind-changed", "source-location-changed", "source-naming-changed", "stateful-operator-added"),
            *("stateful-operator-removed", "stateful-operator-replaced", "unexplained-difference"),
        }
    ),
    Severity.FATAL: frozenset(FATAL),
}
"""Rules whose sentence also holds for a query that fails, because the sentence names the failure or denies
an effect.
"""

_OF = {Severity.NOTE: NOTES, Severity.OPAQUE: OPAQUE, Severity.BREAKING: BREAKING, Severity.FATAL: FATAL}


_SEVERAL_COLUMNS = re.compile(r"(?:\w+ )?columns (?:added|removed): ")
"""Matches evidence about several columns."""
_PLURALS = (
    (re.compile(r"\b(the|the new|the removed|the new key|the removed key) column\b"), r"\1 columns"),
    (re.compile(r"\b(lack|keep) it$"), r"\1 them"),
    (re.compile(r"\bone column more$"), "several columns more"),
)


def effect_of(rule: str, severity: Severity, *, where: str = "", groups: str = "", name: str = NAME) -> str:
    """Return the sentence that describes the effect of a rule's finding; empty for a rule without such a sentence.

    ``groups``: the entries of the state; if empty, they follow from ``where``.
    """
    known = _OF[severity]
    text = known.get(rule) or (known.get(_ANY_SETTING, "") if rule.startswith("operator-") else "")
    option = _OPTIONS.get(where.rpartition(" ")[2], "key, format or partitioning")
    return text.format(where=where, groups=groups or entries_of(where), name=name, option=option)


def entries_of(where: str) -> str:
    """Return what the entries are called in the state of the operator that a finding's place names."""
    return next((entries for operator, entries in _ENTRIES.items() if operator in where), GROUPS)


def with_effects(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return every finding with the sentence that describes its effect. A sentence that the rule has set is kept."""
    return tuple(_with_texts(finding) for finding in findings)


def with_effect(finding: Finding, *, groups: str = "", name: str = NAME) -> Finding:
    """Return the finding with the sentence of its rule and with ``unconditional``, which is set if that sentence also
    holds for a query that fails. A sentence that the rule has set is kept. ``groups`` and ``name`` are those of
    ``effect_of``.
    """
    if finding.effect:
        return finding
    effect = effect_of(finding.rule, finding.severity, where=finding.where, groups=groups, name=name)
    effect = _of_several(effect) if _SEVERAL_COLUMNS.match(finding.evidence) else effect
    holds = finding.rule in UNCONDITIONAL[finding.severity]
    return msgspec.structs.replace(finding, effect=effect, unconditional=holds)


def _of_several(effect: str) -> str:
    """Return the effect of one added or removed column, worded for several columns."""
    for one, several in _PLURALS:
        effect = one.sub(several, effect)
    return effect


def _with_texts(finding: Finding) -> Finding:
    calm = finding.severity is Severity.NOTE and not finding.hint
    hint = (NO_ACTION if finding.rule in WITHOUT_EFFECT else IF_INTENDED) if calm else finding.hint
    return msgspec.structs.replace(with_effect(finding), hint=hint)
