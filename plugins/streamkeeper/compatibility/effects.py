"""What a RESUME would do with each change: a sentence per rule and severity. Pure.

``{groups}``: what the state keeps, ``{name}``: the column of the output that is about, ``{where}``: the finding's own.
Of damage the sentence is what a start was measured to do; it comes with the finding.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streamkeeper.compatibility.effects_of_notes import NOTES
from streamkeeper.model.finding import Finding, Severity

_ANY_SETTING = "operator-definition-changed"
GROUPS, NAME = "groups in the state", "results"

_KEYED = {
    "grouping-key": ("rows", "groups", "a group"),
    "deduplication-key": ("rows", "keys", "a key that was seen"),
    "join-key": ("rows of both sides", "waiting rows", "a waiting row"),
}
_STORED = {"join-column": "rows that wait in the state", "state-column": "rows in the state"}


def _keyed(noun: str, rows: str, groups: str, one: str) -> dict[str, str]:
    refused = f"Spark would refuse the state, or find none of its {groups}: it is stored by"
    return {
        f"{noun}s-changed": f"{rows} would be looked up by other keys than the state was written by: they find none of "
        f"the old {groups}, or wrong ones",
        f"{noun}-changed": f"{rows} would be looked up by another key than the state was written by: they find none of "
        f"the old {groups}, or wrong ones",
        f"{noun}-added": f"{refused} fewer columns",
        f"{noun}-removed": f"{refused} more columns",
        f"{noun}s-reordered": f"one key column would be read as another: {rows} find none of the old {groups}, or "
        "wrong ones",
        f"{noun}-type-changed": f"{refused} a column of another type",
        f"{noun}-became-nullable": "Spark would refuse the state: it was written for a key that is never null",
        f"{noun}-null-replaced": f"{one} whose key is null would never be found again: its rows begin anew under the "
        "constant",
    }


def _stored(noun: str, rows: str) -> dict[str, str]:
    return {
        f"{noun}-changed": f"{rows} would come out with what the old expression gave, beside new rows with the new one",
        f"{noun}-added": f"Spark would refuse the state: {rows} lack the column",
        f"{noun}-removed": f"Spark would refuse the state: {rows} have a column more",
        f"{noun}s-reordered": f"{rows} would be read with one column's value in another's place",
        f"{noun}-type-changed": f"Spark would refuse the state, or misread {rows}: the column has another type there",
        f"{noun}-became-nullable": f"Spark would refuse the state: {rows} were written for a column that is never null",
    }


_OUTPUT = "the output was made for other columns: the write would fail, or readers would not find in new rows what they"
_ANEW = "start a group anew that has left the state: it comes out again with part of its rows, or a duplicate passes"
_SETTING = "new rows would be computed under the new value, and {groups} hold results of the old one: they would mix"

BREAKING: dict[str, str] = {
    "source-count-changed": "Spark would refuse to start: the checkpoint holds one offset for each deployed source",
    "source-order-changed": "each source would go on at another one's offset: rows are skipped, or read twice",
    "source-renamed": "the source would be read from its beginning under its new name: its rows come out twice",
    "source-naming-changed": "Spark would refuse to start: offsets are kept by position or by name, not by both",
    "source-kind-changed": "Spark would refuse to start: the offsets are those of another kind of source",
    "source-location-changed": "offsets that were reached in the old place would be used in the new one: Spark refuses "
    "them, or rows are skipped or read twice",
    "source-selection-changed": "other files or rows would be read from now on, and some would be missed or misread",
    "source-reading-changed": "new rows would be read in another way than those in the state: {groups} would mix both",
    "source-order-of-files-changed": "files that still wait could be passed over as too old once newer ones were read",
    "source-columns-moved": "each column would be filled with what stands in its place now, without an error",
    "source-column-renamed": "the column would be null in every row from now on, without an error",
    "source-column-type-changed": "values that do not fit the new type would become null without an error",
    "stateful-operator-added": "Spark would refuse the state, or give an operator the state of another one",
    "stateful-operator-removed": "Spark would refuse the state, or give an operator the state of another one",
    "stateful-operator-replaced": "Spark would refuse the state, or read it as what another kind of operator keeps",
    "stateful-operators-reordered": "Spark would give each operator the state of another one",
    **{rule: text for noun, told in _KEYED.items() for rule, text in _keyed(noun, *told).items()},
    **{rule: text for noun, told in _STORED.items() for rule, text in _stored(noun, told).items()},
    "window-changed": "new rows would be counted into windows of other bounds: those that are open now stay as they "
    "are, and come out with part of their rows",
    "state-expressions-changed": "{groups} would go on from what the old expressions have stored, and mix both",
    "aggregate-function-changed": "{groups} would go on from what the old function has stored: their {name} would be "
    "wrong",
    "aggregate-input-changed": "{groups} would mix old and new {name}",
    "aggregate-type-changed": "Spark would refuse the state, or misread what it holds of {name}: its type differs",
    "aggregate-added": "Spark would refuse the state, or take a stored value of one aggregate for another's",
    "aggregate-removed": "Spark would refuse the state, or take a stored value of one aggregate for another's",
    "aggregates-reordered": "each aggregate would go on from the values of another one, without an error",
    "state-value-became-nullable": "Spark would refuse the state: it was written for a value that is never null",
    "input-of-stateful-code-changed": "the code would find another value under a name by which it has built its state",
    "input-of-stateful-code-retyped": "the code would find a value of another type than it has built its state from",
    "join-type-changed": "rows that wait in the state lack what the new type of join has to know of them: some would "
    "come out wrong, or never",
    "operator-condition-changed": "rows that the old condition has let go of would be missing among the new pairs",
    "operator-state-changed": "what the code has stored would be read by another schema than it was written by",
    "operator-timeout-changed": "state that waits for the old kind of timeout would never be timed out, or too early",
    "operator-time-mode-changed": "timers that were set in the old mode would fire at other times, or never",
    "operator-definition-changed": "the operator would go on with state that was made under other settings of its own",
    "filter-below-join-changed": "rows that wait in the state were let in by the old filter, and would still be joined",
    "upstream-changed": "new rows would be made in another way than those in the state: {groups} would mix both",
    "rows-in-state-changed": "{groups} were made with the old rows and would go on with the new ones: they would mix",
    "watermark-changed": "late rows would be judged, and groups leave the state, in another way than until now",
    "watermark-removed": f"a late row would {_ANEW}",
    "watermark-column-changed": "the watermark that the old column has reached would judge the times of the new one: "
    "rows are dropped as late, or groups never leave the state",
    "watermark-delay-increased": f"a row that is no longer late would {_ANEW}",
    "watermark-delay-decreased": "keys in the state keep the expiry that they were stored with: rows would be dropped "
    "as duplicates for longer than the new delay says",
    "output-mode-changed": "groups would come out twice, or never",
    "sink-kind-changed": "the new sink would begin in the middle: what was written so far is not in it",
    "sink-output-changed": "the new output would begin in the middle: what was written so far stays in the old one",
    "sink-option-changed": "new rows would be written by another key, format or partitioning than those that are there",
    "sink-key-redefined": "results would be written under other keys: the rows that are there stay under the old ones "
    "and are never updated",
    "sink-partition-redefined": "results would land in other partitions than before: a reader of one partition would "
    "find a part of its rows, and rows that belong elsewhere",
    "output-column-added": f"{_OUTPUT} look for",
    "output-column-removed": f"{_OUTPUT} found in the old ones",
    "output-column-type-changed": f"{_OUTPUT} expect",
    "output-columns-reordered": f"{_OUTPUT} look for in their places",
    "output-column-nullability-changed": "the output was made for a column that is never null: the write would fail at "
    "the first null",
    "checkpoint-layout-changed": "Spark would refuse to start: the checkpoint has the other layout",
    "setting-changed": _SETTING,
    "ansi-mode-changed": _SETTING,
    "time-zone-changed": _SETTING,
    "fails-inside-spark": "the first batch on this checkpoint would fail, and every restart after it",
    "refused-by-spark": "Spark would refuse the checkpoint, as it did when this was tried on a copy: nothing would be "
    "written any more",
    "output-does-not-fit": "the first batch would fail: the output does not take these rows",
    "unexplained-difference": "what would happen is not known: no rule covers this difference",
    "output-changes-hands": "another query would fill the output from the beginning of its sources: rows double",
    "query-removed": "another query would fill the output from the beginning of its sources: rows double",
}

_LOOK = "nothing would keep Spark from going on, and"

OPAQUE: dict[str, str] = {
    "source-offsets-passed-over": "it would go on with the oldest record that is left: those before it never come out",
    "unknown-operator": "Spark would go on with this operator's state; whether it is read rightly was never measured",
    "unknown-in-plan": "Spark would go on; whether what reaches the state is what it was cannot be told",
    "code-in-state-changed": "the new code would go on from what the old code has left in the state; only its author "
    "knows whether both agree",
    "filter-below-code-changed": "the code would meet rows of a kind that is not in its state, or none of a kind that "
    "is; only its author knows whether that agrees",
    "code-in-state-unreadable": "the code would go on from its state; whether it is the same code cannot be told",
    "sink-function-may-write-elsewhere": "new batches may go to another place, which lacks the rows so far, or be "
    "written under other keys",
    "sink-column-redefined": "new rows would have another value in a column by which the function may find, send or "
    "count them: they may go elsewhere, or stand beside the rows that they should replace",
    "sink-function-unreadable": "new batches may go to another place: an object in the function cannot be compared",
    "sink-key-redefined": "results may be written under other keys: then rows that are there stay under the old ones "
    "and are never updated",
    "sink-partition-redefined": "results may land in other partitions than before: then a reader of one partition "
    "finds a part of its rows",
    "query-may-be-renamed": "if it is the same query under another name, its state begins anew and it writes again "
    "what was written already",
    "added-code-changed": "functions of these files would go on from state that another version of them may have made",
    "setting-changed": "a row of which something cannot be read would stop the query; until now it was passed over",
    "ansi-mode-changed": "a row of which something cannot be computed would stop the query; until now it gave null",
    "spark-version-not-measured": "the new Spark would read what the old one wrote; whether it does so rightly was not "
    "measured for these two versions",
    "rehearsal-timed-out": f"{_LOOK} how the next batch ends is not known",
    "not-rehearsed": f"{_LOOK} how the next batch ends is not known",
    "sink-server-not-on-record": "batches would be written to the server that the URL names now; whether earlier "
    "batches were is not on record",
    "release-not-on-record": "it would go on from what an unknown release has left; only who knows that one can say "
    "whether both agree",
    "not-looked": "what would happen is not wholly known: one of the looks is missing",
}

FATAL: dict[str, str] = {
    "source-cannot-be-replayed": "after a crash, rows would be missing: this source cannot be read a second time",
    "plan-not-deterministic": "another query would run than the one that was checked",
    "fails-on-the-last-batch": "the first batch would fail, and every restart after it",
    "fails-inside-spark": "the first batch would fail, and every restart after it",
    "sink-column-missing": "the first batch with rows would fail, and every restart after it: the function reads a "
    "column that the query does not produce",
    "open-batch-of-named-sources": "every start would fail before it reads anything",
    "checkpoint-lost": "Spark would begin anew, or at an earlier batch: rows come out twice",
    "checkpoint-of-another-installation": "two drivers that know nothing of each other could write one checkpoint",
    "input-cleaned-under-another-query": "files would be gone before the other query has read them: its rows would be "
    "missing, without an error",
    "input-names-unreadable": "the open batch would be stopped at every start: it would read files twice",
    "input-of-open-batch-gone": "the batch that is open would run without the missing rows, without an error",
    "source-no-longer-holds-offsets": "the first batch would fail, or leave out what is gone without an error",
    "source-out-of-reach": "the first batch would fail: the source does not answer",
    "sink-ahead-of-checkpoint": "the sink would take new batches for those it has, and skip them without an error",
    "output-lost": "the output would go on without the rows of the batches that it lacks, without an error",
    "output-of-another-installation": "its fence would refuse this installation's driver at the takeover",
    "output-name-taken": "internal tables or directories of the output would mix with rows that are not Streamkeeper's",
    "output-of-another-query": "the output's fence would refuse this query's driver when it takes over",
    "sink-log-missing": "new files would get a log that does not know the old ones: readers would not see those",
}

_OF = {Severity.NOTE: NOTES, Severity.OPAQUE: OPAQUE, Severity.BREAKING: BREAKING, Severity.FATAL: FATAL}


def effect_of(rule: str, severity: Severity, *, where: str = "", groups: str = GROUPS, name: str = NAME) -> str:
    """The sentence for a rule's finding; empty for a rule that has none."""
    known = _OF[severity]
    text = known.get(rule) or (known.get(_ANY_SETTING, "") if rule.startswith("operator-") else "")
    return text.format(where=where, groups=groups, name=name)


def with_effects(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Every finding with its sentence; one that a rule has given itself stays."""
    return tuple(
        finding
        if finding.effect
        else msgspec.structs.replace(finding, effect=effect_of(finding.rule, finding.severity, where=finding.where))
        for finding in findings
    )
