"""Rules about the output mode, which determines which rows of the state are already written, and which would never be
written.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.effects import NO_ACTION
from streamkeeper.compatibility.rule import IF_READERS_ACCEPT, NEW_CHECKPOINT, Rule, breaking, note
from streamkeeper.compatibility.shown import change
from streamkeeper.model.manifests.evidence import Look
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, is_stateful
from streamkeeper.sinks.kinds.known_kinds import capabilities_of

_WHOLE = ("update", "complete")
_SAME_ROWS = ("deduplicate", "deduplicate-within-watermark", "limit")
"""Operators that emit each row once, in append mode and in update mode."""


def output_mode_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed output mode. In another mode, rows may be written a second time, or never."""
    before, after = old.output_mode, new.output_mode
    if before == after:
        return
    evidence = change(before, after)
    inner = ("join", "INNER")
    once = all(
        operator.kind in _SAME_ROWS or (operator.kind, operator.detail.get("type")) == inner
        for operator in (*old.operators, *new.operators)
    )
    if not is_stateful(old, new) or (once and {before, after} == {"append", "update"}):
        yield note("output-mode-changed", "output mode", evidence, hint="no action is needed")
    elif before in _WHOLE and after in _WHOLE and capabilities_of(new.sink.kind).delivers:
        yield _other_groups(before, after)
    elif before in _WHOLE and after in _WHOLE:
        measured = "agg_mode_update_to_complete, agg_mode_complete_to_update"
        effect = (
            "each batch would write the results of all groups, also of unchanged ones"
            if after == "complete"
            else "each batch would write only the groups that changed; the other results in the output stay valid"
        )
        yield note("output-mode-changed", "output mode", evidence, measured, _hint_for(new), effect)
    elif (before, after) == ("append", "complete") and not any(operator.may_have_evicted for operator in old.operators):
        hint = "no action is needed: no group has been evicted so far, so all are still in the state"
        yield note("output-mode-changed", "output mode", evidence, "win_mode_append_to_complete", hint)
    elif after == "append":
        windowed = any("window(" in key.meaning for operator in old.operators for key in operator.key_columns)
        finished = "windows" if windowed else "groups"
        effect = (
            f"finished {finished} would be written twice: {before} mode has written them, and append mode would again"
        )
        yield breaking(
            "output-mode-changed", "output mode", evidence, "win_added_update_to_append", NEW_CHECKPOINT, effect
        )
    elif after == "update":
        effect = "a window that is open now and gets no further row would never be written"
        yield breaking("output-mode-changed", "output mode", evidence, "win_mode_append_to_update", effect=effect)
    else:
        effect = "groups that append mode has already written and evicted would be missing from the output"
        yield breaking("output-mode-changed", "output mode", evidence, effect=effect)


def _other_groups(before: str, after: str) -> Finding:
    """Return the finding about an output that delivers rows: its readers may have to know which groups a batch has."""
    effect = (
        "each batch would send the results of all groups, so that readers would get unchanged results again"
        if after == "complete"
        else "each batch would send only the groups that changed: a reader that takes one batch as the whole result "
        "would miss the others"
    )
    return Finding(
        rule="output-mode-changed",
        severity=Severity.OPAQUE,
        # The place of findings that a handoff keeps.
        where=Look.SINK.value,
        evidence=change(before, after, "output mode"),
        hint=IF_READERS_ACCEPT,
        effect=effect,
    )


def _hint_for(new: Manifest) -> str:
    result = capabilities_of(new.sink.kind).result_of
    return f"{NO_ACTION}: {result}" if result else "check that the sink function replaces the earlier result of a group"


RULES: tuple[Rule, ...] = (output_mode_changed,)
