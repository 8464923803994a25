"""Rules about what leaves the query: output mode, columns, sink, trigger."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.rule import NEW_CHECKPOINT, Rule, change
from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import Manifest

_NOT_NULL = " not null"


def output_mode_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The sink holds rows of one mode; rows of another are emitted twice or never."""
    if old.output_mode != new.output_mode:
        yield Finding(
            rule="output-mode-changed",
            severity=Severity.BREAKING,
            where="output mode",
            evidence=change(old.output_mode, new.output_mode),
            hint=NEW_CHECKPOINT,
            reference="measured: win_added_update_to_append",
        )


def sink_kind_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Another kind of sink knows nothing of the batches written so far."""
    if old.sink.kind != new.sink.kind:
        yield Finding(
            rule="sink-kind-changed",
            severity=Severity.BREAKING,
            where="sink",
            evidence=change(old.sink.kind, new.sink.kind),
            hint=NEW_CHECKPOINT,
            reference="measured: sink_noop_to_file",
        )


def sink_output_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Another output would begin in the middle: what was written so far stays in the old one."""
    if old.sink.kind == new.sink.kind and old.sink.output != new.sink.output:
        yield Finding(
            rule="sink-output-changed",
            severity=Severity.BREAKING,
            where="sink",
            evidence=change(old.sink.output, new.sink.output),
            hint=NEW_CHECKPOINT,
            reference="measured: sink_dir_changed",
        )


def sink_options_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Another key, format or partitioning does not fit what is there."""
    if old.sink.kind != new.sink.kind:
        return
    for key in sorted(old.sink.options.keys() | new.sink.options.keys()):
        if old.sink.options.get(key) != new.sink.options.get(key):
            yield Finding(
                rule="sink-option-changed",
                severity=Severity.BREAKING,
                where=f"sink, option {key}",
                evidence=change(old.sink.options.get(key), new.sink.options.get(key)),
                hint=NEW_CHECKPOINT,
                reference="measured: sink_file_format, sink_partitionby_added",
            )


def output_columns_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The output was made for the deployed columns."""
    before, after = _columns(old), _columns(new)
    if before == after and list(before) == list(after):
        return
    removed, added = [each for each in before if each not in after], [each for each in after if each not in before]
    found: list[tuple[str, Severity, str]] = []
    if removed:
        found.append(("output-column-removed", Severity.BREAKING, change(removed, "")))
    if added:
        found.append(("output-column-added", Severity.BREAKING, change("", added)))
    for name in before:
        if name in after and before[name] != after[name]:
            found.append(_retyped(name, before[name], after[name]))
    if not removed and not added and list(before) != list(after):
        found.append(("output-columns-reordered", Severity.BREAKING, change(list(before), list(after))))
    for rule, severity, evidence in found:
        yield Finding(
            rule=rule,
            severity=severity,
            where="output columns",
            evidence=evidence,
            hint="write to a new output with a new checkpoint version" if severity is Severity.BREAKING else "",
        )


def trigger_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """When batches run is no part of what they compute."""
    if old.trigger != new.trigger:
        yield Finding(
            rule="trigger-changed",
            severity=Severity.NOTE,
            where="trigger",
            evidence=change(old.trigger, new.trigger),
            reference="measured: trig_an_to_ptime",
        )


RULES: tuple[Rule, ...] = (
    output_mode_changed,
    sink_kind_changed,
    sink_output_changed,
    sink_options_changed,
    output_columns_changed,
    trigger_changed,
)


def _columns(manifest: Manifest) -> dict[str, str]:
    """Name -> type; a name that comes twice keeps both."""
    found: dict[str, str] = {}
    for line in manifest.output_schema.splitlines():
        name, _, kind = line.partition(" ")
        found[name] = f"{found[name]}, {kind}" if name in found else kind
    return found


def _retyped(name: str, before: str, after: str) -> tuple[str, Severity, str]:
    if before.removesuffix(_NOT_NULL) == after.removesuffix(_NOT_NULL):
        stricter = after.endswith(_NOT_NULL)
        severity = Severity.NOTE if stricter else Severity.BREAKING
        return "output-column-nullability-changed", severity, change(f"{name} {before}", f"{name} {after}")
    return "output-column-type-changed", Severity.BREAKING, change(f"{name} {before}", f"{name} {after}")
