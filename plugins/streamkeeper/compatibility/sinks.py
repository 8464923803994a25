"""Rules about a query's output: columns, sink, trigger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamkeeper.compatibility.changed_line import with_line
from streamkeeper.compatibility.effects import OF_TABLE
from streamkeeper.compatibility.rule import APPROVE, IF_READERS_ACCEPT, NEW_CHECKPOINT, Rule, breaking, note
from streamkeeper.compatibility.shown import change, given_change, text_change
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription, columns_of, is_schema
from streamkeeper.model.manifests.sink_capabilities import ColumnChange, needs_no_copy
from streamkeeper.sinks.kinds.known_kinds import capabilities_of

_KEY, _ENDS = "key", "availablenow"
_NOT_NULL = " not null"
_ONLY_NEW_ROWS = (
    f"{APPROVE}. Approve if the readers of the new output need only new rows. Rows written so far stay in {{output}}"
)
_ONCE_NO_LONGER = (
    "the new sink would receive only new batches, at least once: after a crash it may contain the rows of a batch twice"
)
_OTHER_PLACE = (
    f"{APPROVE}. Approve if readers accept that new records with the same content are in other partitions or have "
    "other keys than the records written so far"
)
_HISTORY = (
    "no action is needed if the output's readers accept old and new rows side by side; otherwise revert the change"
)


def sink_kind_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report another kind of sink. The new sink has no record of the batches written so far."""
    if old.sink.kind != new.sink.kind:
        evidence = change(f"{old.sink.kind} {old.sink.output}", f"{new.sink.kind} {new.sink.output}")
        yield _moved("sink-kind-changed", old, new, evidence, "sink_noop_to_file")


def sink_output_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report another output. The new output would receive only new batches, and the rows written so far would stay in
    the old output.
    """
    if old.sink.kind != new.sink.kind:
        return
    if old.sink.output == new.sink.output:
        yield from _server_changed(old.sink, new.sink)
        return
    evidence = text_change(old.sink.output, new.sink.output)
    if not capabilities_of(new.sink.kind).names_place:
        hint = "check that it writes to the same place: rows written so far are not copied to another one"
        yield note("sink-function-renamed", "sink", evidence, hint=hint)
    else:
        yield _moved("sink-output-changed", old, new, evidence, "sink_dir_changed")


def _moved(rule: str, old: Manifest, new: Manifest, evidence: str, measured: str) -> Finding:
    """Return a finding about another output, which needs only an approval if the new output needs no copy of the rows
    written so far.
    """
    if not _needs_no_copy(old, new):
        return breaking(rule, "sink", evidence, measured)
    before, after = capabilities_of(old.sink.kind), capabilities_of(new.sink.kind)
    place = old.sink.output if before.names_place else f"the output of function {old.sink.output}"
    return Finding(
        rule=rule,
        severity=Severity.OPAQUE,
        where="sink",
        evidence=evidence,
        hint=_ONLY_NEW_ROWS.format(output=place),
        effect="; ".join(filter(None, (_ONCE_NO_LONGER, after.read_once_by)))
        if before.takes_again and not after.takes_again
        else "",
    )


def _needs_no_copy(old: Manifest, new: Manifest) -> bool:
    return needs_no_copy(capabilities_of(old.sink.kind), capabilities_of(new.sink.kind))


def _server_changed(old: SinkDescription, new: SinkDescription) -> Iterator[Finding]:
    """Report the same recorded output on another server or schema. Older versions did not record the server."""
    was, now = old.server, new.server
    if was == now or (was is None and not now) or (now is None and not was):
        return
    evidence = change(f"{old.output} {was or ''}".strip(), f"{new.output} {now or ''}".strip())
    if None not in (was, now) or is_schema(now or was or ""):
        yield breaking("sink-output-changed", "sink", evidence, "sink_dir_changed")
    else:
        yield Finding(
            rule="sink-server-not-on-record",
            severity=Severity.OPAQUE,
            where="sink",
            evidence=evidence,
            hint="approve if the job has always written to this server. Streamkeeper records the server from this"
            " deploy onwards",
        )


def sink_options_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed key, format or partitioning of the output. The existing rows do not fit such a change, unless
    only the order of the key's columns has changed, or the output delivers rows and keeps no place for them. Readers of
    such an output may have to know of the change.
    """
    if old.sink.kind != new.sink.kind:
        return
    can = capabilities_of(new.sink.kind)
    for key in sorted(old.sink.options.keys() | new.sink.options.keys()):
        was, now = old.sink.options.get(key), new.sink.options.get(key)
        if was == now:
            continue
        if key == _KEY and was and now and sorted(was.split(",")) == sorted(now.split(",")):
            yield note("sink-key-reordered", "sink", change(was, now))
        elif key in can.approved_options:
            yield Finding(
                rule="sink-option-changed",
                severity=Severity.OPAQUE,
                where=f"sink, option {key}",
                evidence=given_change(was, now),
                hint=IF_READERS_ACCEPT,
                effect=can.approved_options[key],
            )
        elif can.delivers:
            yield note("sink-option-changed", f"sink, option {key}", given_change(was, now))
        else:
            yield Finding(
                rule="sink-option-changed",
                severity=Severity.BREAKING,
                where=f"sink, option {key}",
                evidence=given_change(was, now),
                hint=NEW_CHECKPOINT,
                reference="measured: sink_file_format, sink_partitionby_added",
            )


def output_columns_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed columns of the output. Whether the existing output accepts them depends on the kind of sink."""
    before, after = _columns(old), _columns(new)
    if before == after and list(before) == list(after):
        return
    same = old.sink.kind == new.sink.kind
    takes = _takes(new) if same or _needs_no_copy(old, new) else frozenset()
    removed, added = [name for name in before if name not in after], [name for name in after if name not in before]
    meanings = [{column.name: column.meaning for column in each.columns} for each in (old, new)]
    if same:
        yield from _placing_columns_changed(removed, added, new)
    if removed:
        yield _columns_finding(ColumnChange.REMOVED, takes, new, change(removed, "", "column"))
    if added:
        found = _columns_finding(ColumnChange.ADDED, takes, new, change("", added, "column"))
        yield from with_line([found], old, new, meanings[0].values(), [meanings[1].get(name, "") for name in added])
    for name in before:
        if name in after and before[name] != after[name]:
            found = _retyped(name, before[name], after[name], takes, new)
            sides = ([side.get(name, "")] for side in meanings)
            yield from with_line([found], old, new, *sides)
    if not removed and not added and list(before) != list(after):
        order = change(list(before), list(after), "order of columns")
        yield _columns_finding(ColumnChange.REORDERED, takes, new, order)


def _placing_columns_changed(removed: Sequence[str], added: Sequence[str], new: Manifest) -> Iterator[Finding]:
    """Report added and removed columns that determine a row's place by their names. Where one is missing, the output
    decides.
    """
    for name in capabilities_of(new.sink.kind).placing_columns:
        if name in (*removed, *added):
            yield Finding(
                rule="output-placing-column-changed",
                severity=Severity.OPAQUE,
                where=f"sink, column {name}",
                evidence=change(name, "", "column") if name in removed else change("", name, "column"),
                hint=_OTHER_PLACE,
            )


def trigger_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed trigger. The time at which batches run does not change their results."""
    if old.trigger != new.trigger:
        yield Finding(
            rule="trigger-changed",
            severity=Severity.NOTE,
            where="trigger",
            evidence=change(old.trigger, new.trigger),
            effect=_trigger_effect(old.trigger, new.trigger),
            reference="measured: trig_an_to_ptime",
        )


def _trigger_effect(before: str, after: str) -> str:
    """Return the effect of a change to or from the trigger with which a query terminates; empty for a change of the
    interval.
    """
    ends = [trigger.lower() == _ENDS for trigger in (before, after)]
    if ends == [False, True]:
        return "the query would read all available input and then end; the same rows would be written"
    if ends == [True, False]:
        return "the query would keep running and read new input at this interval; the same rows would be written"
    return ""


RULES: tuple[Rule, ...] = (
    sink_kind_changed,
    sink_output_changed,
    sink_options_changed,
    output_columns_changed,
    trigger_changed,
)


def _columns(manifest: Manifest) -> dict[str, str]:
    """Name -> type; a duplicated name keeps both types."""
    found: dict[str, str] = {}
    for name, kind in columns_of(manifest.output_schema):
        found[name] = f"{found[name]}, {kind}" if name in found else kind
    return found


def _takes(manifest: Manifest) -> frozenset[ColumnChange]:
    """Return the kinds of column changes that an output accepts."""
    sink = manifest.sink
    return capabilities_of(sink.kind).columns.get(sink.options.get("format", ""), frozenset())


def _columns_finding(what: ColumnChange, takes: frozenset[ColumnChange], new: Manifest, evidence: str) -> Finding:
    rule = f"output-column{'s' if what is ColumnChange.REORDERED else ''}-{what.value}"
    if what in takes:
        return note(rule, "output columns", evidence, "proj_add_col, proj_rename_col", _HISTORY)
    return _not_taken(rule, new, evidence)


def _not_taken(rule: str, new: Manifest, evidence: str, what: str = "columns") -> Finding:
    effect = OF_TABLE.format(what=what) if capabilities_of(new.sink.kind).one_place else ""
    return breaking(rule, "output columns", evidence, effect=effect, unconditional=bool(effect))


def _retyped(name: str, before: str, after: str, takes: frozenset[ColumnChange], new: Manifest) -> Finding:
    evidence = change(before, after, f"type of column {name}")
    if before.removesuffix(_NOT_NULL) == after.removesuffix(_NOT_NULL):
        if after.endswith(_NOT_NULL) or ColumnChange.NULLABLE in takes:
            return note("output-column-nullability-changed", "output columns", evidence)
        return breaking("output-column-nullability-changed", "output columns", evidence, "", NEW_CHECKPOINT)
    if ColumnChange.RETYPED in takes:
        return note("output-column-type-changed", "output columns", evidence, "proj_retype_col", _HISTORY)
    return _not_taken("output-column-type-changed", new, evidence, f"type of {name}")
