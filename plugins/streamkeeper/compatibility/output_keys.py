"""Rules about the columns that determine a row's place in the output: the key of a table, the partitions of files.

They correspond to the grouping keys of state. If a change gives the same input another key, existing rows keep the old
key and are never updated or removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from streamkeeper.compatibility.changed_line import with_line
from streamkeeper.compatibility.code_changes import code_change
from streamkeeper.compatibility.function_names import names_of_both
from streamkeeper.compatibility.other_schemas import with_schema_effect
from streamkeeper.compatibility.output_columns import (
    RESULT_OF_CODE,
    STATE_BY_POSITION,
    is_known,
    output_columns,
    renames_state_alone,
    same_meaning,
    same_static_tables,
    told_by_state,
    without_texts,
)
from streamkeeper.compatibility.rule import (
    APPROVE,
    IF_READERS_ACCEPT,
    NEW_CHECKPOINT,
    Rule,
    is_rows,
    same_context,
    source_label,
)
from streamkeeper.compatibility.session_settings import (
    LENIENT,
    PYTHON,
    WRITING,
    changed_settings,
    setting_changed,
    value_change,
)
from streamkeeper.compatibility.shown import change, expression, expression_change, expressions_change
from streamkeeper.compatibility.source_options import says_of_values
from streamkeeper.compatibility.sources import source_options_changed
from streamkeeper.compatibility.state_keys import fills_nulls
from streamkeeper.compatibility.stateful_operators import settings_apart
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import (
    BELOW_STATE,
    SINK_FUNCTION,
    UNREADABLE,
    Manifest,
    StateColumn,
    is_stateful,
)
from streamkeeper.model.secret_references import MASK
from streamkeeper.model.settings.spark_confs import CODE, SQL, TIME_ZONE, ConfRole
from streamkeeper.sinks.kinds.known_kinds import capabilities_of

_STATIC, _PYTHON, _IN_SESSION = "static ", "pythonud", "in session"
_UNKNOWN = "unknown "
_GROUPS = re.compile(r"\bgroupingAttributes=\[([^\[\]()]*)\]")
"""Matches the grouping columns of stateful code in an expression, if none of these columns is computed."""

_OF_CODE = (
    "results would be written under other values of {name}, and existing rows would never be updated, if the stateful "
    "code, as changed, returns such values; if it returns the same values, this finding is harmless"
)
_OF_RECORDS = (
    "new records would get other keys or partitions than earlier ones with the same content: readers of one partition "
    "would miss records, the order of the records of one key would no longer be kept, and compaction would keep the "
    "old key's last record"
)


class KeyCause(NamedTuple):
    """Why a column may have other values; ``line``: ``file:line`` of the changed code, if known."""

    severity: Severity
    evidence: str
    line: str = ""


def output_keys_redefined(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a column that determines in both releases where the output stores a row, and is now computed differently.

    A column that cannot be proven to be computed as before is reported as well.
    """
    if not old.sink.same_place(new.sink):
        return
    had, has = output_columns(old), output_columns(new)
    for name in kept_by(new):
        if name not in placing_columns(old):
            continue
        before, after = had[name], has[name]
        for severity, evidence, line in _causes(before, after, old, new):
            can = capabilities_of(new.sink.kind)
            found = _finding(can.place, name, severity, evidence, line)
            if can.delivers:
                found = _of_records(found)
            elif severity is Severity.BREAKING and _are_results_of_code(before, after):
                stays = STATE_BY_POSITION if renames_state_alone(before.meaning, after.meaning) else ""
                found = msgspec.structs.replace(found, effect=f"{_OF_CODE.format(name=name)}{stays}")
            elif severity is Severity.BREAKING:
                (found,) = with_schema_effect([found], [before.meaning], [after.meaning], name=name)
            yield from with_line([found], old, new, [before.meaning], [after.meaning])
            break


def kept_by(manifest: Manifest) -> tuple[str, ...]:
    """Return the columns whose values determine where the output stores a row. Return none if every batch replaces all
    rows of the output.
    """
    replaced = capabilities_of(manifest.sink.kind).complete_replaces and manifest.output_mode == "complete"
    return () if replaced else placing_columns(manifest)


def placing_columns(manifest: Manifest) -> tuple[str, ...]:
    """Return the output columns whose values determine where the output stores a row. Either they have fixed names, or
    a sink option lists them.

    If that option cannot be parsed, for instance because a column's name contains a comma, return all output columns.
    If no such option is known for the kind of sink, return the columns of every option that lists columns.
    """
    columns = output_columns(manifest)
    can = capabilities_of(manifest.sink.kind)
    if can.placing_columns:
        return tuple(name for name in can.placing_columns if name in columns)
    if option := can.placed_by:
        names = manifest.sink.options.get(option, "").split(",")
        return tuple(names if all(name in columns for name in names) else columns) if any(names) else ()
    lists = [value.split(",") for value in manifest.sink.options.values()]
    return tuple(name for names in lists if all(name in columns for name in names) for name in names)


RULES: tuple[Rule, ...] = (output_keys_redefined,)


def _are_results_of_code(*columns: StateColumn) -> bool:
    return all(RESULT_OF_CODE.fullmatch(column.meaning) for column in columns)


def _finding(place: str, name: str, severity: Severity, evidence: str, line: str) -> Finding:
    opaque = f"{APPROVE}. Approve if every row keeps its {place}; otherwise {NEW_CHECKPOINT}"
    return Finding(
        rule=f"sink-{place}-redefined",
        severity=severity,
        where=f"sink, {place} column {name}",
        evidence=evidence,
        line=line,
        hint=NEW_CHECKPOINT if severity is Severity.BREAKING else opaque,
        reference="measured: sink_table_key_window_end, sink_table_key_upper, sink_table_key_format",
    )


def _of_records(found: Finding) -> Finding:
    """Return the finding for an output that delivers rows: no state and no row of it depends on earlier rows, so a
    person can approve the change.
    """
    return msgspec.structs.replace(
        found, severity=Severity.OPAQUE, hint=IF_READERS_ACCEPT, effect=_OF_RECORDS, reference=""
    )


def _causes(before: StateColumn, after: StateColumn, old: Manifest, new: Manifest) -> Iterator[KeyCause]:
    """Yield the possible causes of other values in a column, the most certain first."""
    yield from _of_meaning(before, after, old, new)
    yield from _of_time_zone(before, after, old, new)
    yield from _of_functions(before, after, old, new)
    yield from _of_static_tables(before, after, old, new)
    yield from _of_source_options(before, after, old, new)
    yield from _of_settings(before, after, old, new)


def _of_meaning(before: StateColumn, after: StateColumn, old: Manifest, new: Manifest) -> Iterator[KeyCause]:
    was, now = before.meaning, after.meaning
    if not (is_known(was) and is_known(now)):
        if old.plan != new.plan:
            yield KeyCause(Severity.OPAQUE, _unknown(was, now))
    elif not same_meaning(was, now, old, new):
        refused = fills_nulls(before, after) and capabilities_of(new.sink.kind).needs_place
        if not refused and not told_by_state(was, now, old, new, keys_alone=True):
            if _are_results_of_code(before, after):
                shown = _result_change(was, now, old, new)
            else:
                shown = expression_change(was, now, "", names_of_both(old, new))
            yield KeyCause(Severity.BREAKING, shown)
    elif (MASK in now or _UNKNOWN in without_texts(now)) and old.plan != new.plan and not same_context(old, new):
        yield KeyCause(Severity.OPAQUE, "a part of its expression cannot be compared")


def _result_change(was: str, now: str, old: Manifest, new: Manifest) -> str:
    """Return the change of a column that stateful code returns: its settings, else its groups, else its expression."""
    noun = "result of the stateful code"
    if settings := "; ".join(settings_apart(old, new)):
        return f"the stateful code that returns it has a changed setting or state: {settings}"
    before, after = (
        [expression(column) for found in _GROUPS.findall(canonical) for column in found.split(", ")]
        for canonical in (was, now)
    )
    if before and after and before != after:
        return change(before, after, "groups of the stateful code")
    return expression_change(was, now, noun, names_of_both(old, new))


def _unknown(was: str, now: str) -> str:
    if not was and now:
        return "the deployed release's manifest does not record its expression"
    return "its expression cannot be determined"


def _of_time_zone(before: StateColumn, after: StateColumn, old: Manifest, new: Manifest) -> Iterator[KeyCause]:
    for key, was, now in changed_settings(old, new, ConfRole.MEANING):
        if key != TIME_ZONE or _is_told(key, old, new):
            continue
        evidence = value_change(was, now, key)
        if _IN_SESSION in before.meaning and _IN_SESSION in after.meaning:
            yield KeyCause(Severity.BREAKING, evidence)
        elif _PYTHON in after.meaning:
            yield KeyCause(Severity.OPAQUE, evidence)


def _of_functions(before: StateColumn, after: StateColumn, old: Manifest, new: Manifest) -> Iterator[KeyCause]:
    """Yield a cause if Python code that computes the column changed. An expression contains only the numbers of
    functions, not their code.
    """
    if None in (before.functions, after.functions):
        before, after = (msgspec.structs.replace(column, functions=None) for column in (before, after))
    had, has = _functions(before, old), _functions(after, new)
    if [digest for _, digest in had] != [digest for _, digest in has]:
        names = [name for name, digest in has if digest not in {each for _, each in had}]
        names = names or [name for name, _ in has or had]
        changed = code_change(names[0], old, new)
        yield KeyCause(Severity.OPAQUE, f"Python code that computes it changed: {changed.evidence}", changed.line)
    elif any(digest.startswith(UNREADABLE) for _, digest in has) and not same_context(old, new):
        yield KeyCause(Severity.OPAQUE, "the code that computes it holds an object that cannot be compared")


def _functions(column: StateColumn, manifest: Manifest) -> list[tuple[str, str]]:
    """Return the name and digest of each function that computes a column; if these functions are not known, of each
    function that may compute it. Functions in state are left out, because other rules cover them.
    """
    known = column.functions
    if known is None:
        computed = not is_known(column.meaning) or _PYTHON in column.meaning
        known = tuple(name for name in manifest.functions if computed and not name.startswith(SINK_FUNCTION))
    kept = [name for name in known if not name.startswith(BELOW_STATE) or name in manifest.carried]
    return [(name, manifest.functions[name]) for name in kept if name in manifest.functions and not is_rows(name)]


def _of_static_tables(before: StateColumn, after: StateColumn, old: Manifest, new: Manifest) -> Iterator[KeyCause]:
    """Yield a cause if a static table of the expression changed. The expression contains only the table's number; the
    table itself and its join are in the output's shape.
    """
    if not (_STATIC in before.meaning or _STATIC in after.meaning):
        return
    if _rows_of_job(old) != _rows_of_job(new):
        yield KeyCause(Severity.OPAQUE, "it comes from rows that the job creates, and these differ")
    elif old.output_shape is None or new.output_shape is None:
        if old.plan != new.plan:
            yield KeyCause(
                Severity.OPAQUE,
                "it comes from a static table; the deployed release's manifest does not record the join with it",
            )
    elif old.output_shape != new.output_shape:
        removed = [part for part in old.output_shape if part not in new.output_shape]
        added = [part for part in new.output_shape if part not in old.output_shape]
        sides = (removed, added) if removed or added else (old.output_shape, new.output_shape)
        evidence = expressions_change(
            sides[0], sides[1], "filter, join or grouping that its rows pass", names_of_both(old, new)
        )
        yield KeyCause(Severity.OPAQUE, evidence)
    elif not same_static_tables(before.meaning, after.meaning):
        yield KeyCause(
            Severity.BREAKING, expression_change(before.meaning, after.meaning, named=names_of_both(old, new))
        )


def _rows_of_job(manifest: Manifest) -> list[str]:
    return sorted(digest for name, digest in manifest.functions.items() if is_rows(name))


def _of_source_options(before: StateColumn, after: StateColumn, old: Manifest, new: Manifest) -> Iterator[KeyCause]:
    """Yield a cause for each changed reader option that affects the values from which the key is computed."""
    if any(each.severity is Severity.BREAKING for each in source_options_changed(old, new)):
        return
    for number, (was, now) in enumerate(zip(old.sources, new.sources, strict=False)):
        label = f"{source_label(number, now)}."
        if label in before.meaning and label in after.meaning:
            for option, had, has in says_of_values(was, now, after.meaning, number):
                yield KeyCause(Severity.OPAQUE, value_change(had, has, f"option {option} of {label[:-1]}"))


def _of_settings(before: StateColumn, after: StateColumn, old: Manifest, new: Manifest) -> Iterator[KeyCause]:
    """Yield a cause for each changed setting that may affect an expression. A column without an expression has the
    value that was read; an expression may depend on any setting that is not recorded as harmless.
    """
    for key, was, now in changed_settings(old, new, ConfRole.MEANING):
        if key == TIME_ZONE or key in LENIENT or key in WRITING or _is_told(key, old, new):
            continue
        python = _PYTHON in after.meaning and (key.startswith(PYTHON) or key in CODE)
        of_sql = key.startswith(SQL) and not key.startswith((*PYTHON, f"{SQL}streaming."))
        if python or (of_sql and "(" in after.meaning and not is_stateful(old, new)):
            yield KeyCause(Severity.OPAQUE, value_change(was, now, key))


def _is_told(key: str, old: Manifest, new: Manifest) -> bool:
    """Whether the rule about this setting already requires a SWITCH."""
    found = (each for each in setting_changed(old, new) if each.where == key)
    return any(each.severity is Severity.BREAKING for each in found)
