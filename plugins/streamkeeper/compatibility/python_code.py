"""Rules about code that no plan shows: Python functions, JVM functions, and rows that the job made itself."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.code_changes import code_change
from streamkeeper.compatibility.rule import APPROVE, NEW_CHECKPOINT, Rule, is_rows, note, same_context
from streamkeeper.compatibility.shown import change
from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import ABOVE_STATE, BELOW_STATE, UNREADABLE, Manifest

_ABOVE = {
    "update": "results would be computed by the new code from each group's next row on; groups that get none keep what "
    "was written",
    "complete": "the next batch would write every group anew, computed by the new code",
}
_UNKNOWN = "it holds an object that cannot be compared"


def code_in_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Python in or below a stateful operator decides what its state means, and its body cannot be compared."""
    for name, _, _ in _changed(old, new, BELOW_STATE):
        if not is_rows(name) and not _is_carried(name, old, new):
            changed = code_change(name, old, new)
            yield Finding(
                rule="code-in-state-changed",
                line=changed.line,
                severity=Severity.OPAQUE,
                where=f"function {_shown(name)}, in or below a stateful operator",
                evidence=changed.evidence,
                hint=APPROVE,
                reference="measured: apws_logic, tws_logic",
            )


def code_in_state_unreadable(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Code that cannot be looked into may have changed although its digest has not.

    It has not where everything that it was made from is the same: the whole bundle, interpreter, packages, params,
    confs and environment.
    """
    if same_context(old, new):
        return
    for name, digest in new.functions.items():
        same = digest.startswith(UNREADABLE) and old.functions.get(name) == digest
        if name.startswith(BELOW_STATE) and same and not _is_carried(name, old, new):
            yield Finding(
                rule="code-in-state-unreadable",
                severity=Severity.OPAQUE,
                where=f"{_shown(name)}, in or below a stateful operator",
                evidence=_UNKNOWN,
                hint=APPROVE,
            )


def code_beside_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The state of a deduplication holds keys: what is carried past it beside them is new with every row."""
    for name, _, _ in _changed(old, new, BELOW_STATE):
        if _is_carried(name, old, new):
            changed = code_change(name, old, new)
            yield Finding(
                rule="code-beside-state-changed",
                line=changed.line,
                severity=Severity.NOTE,
                where=f"function {_shown(name)}, whose results the deduplication above it does not use",
                evidence=changed.evidence,
                reference="measured: dedup_udf_carried, dedup_payload_expr",
            )


def rows_in_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Rows that the job joins below its state are part of what the state means."""
    for name, before, after in _changed(old, new, BELOW_STATE):
        if is_rows(name):
            yield Finding(
                rule="rows-in-state-changed",
                severity=Severity.BREAKING,
                where="rows made in the job's code, below a stateful operator",
                evidence=change(before and "rows of the job", after and "other rows of the job"),
                hint=NEW_CHECKPOINT,
            )


def code_above_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Code outside of every stateful operator touches neither state nor offsets."""
    for name, _, _ in _changed(old, new, ABOVE_STATE):
        changed = code_change(name, old, new)
        yield Finding(
            rule="code-above-state-changed" if new.operators else "stateless-code-changed",
            line=changed.line,
            severity=Severity.NOTE,
            where=f"function {_shown(name)}",
            evidence=changed.evidence,
            reference="measured: proj_udf_change",
            effect=_ABOVE.get(new.output_mode, "") if new.operators else "",
        )


def function_renamed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The same code under another name."""
    for place in (BELOW_STATE, ABOVE_STATE):
        for before, after in _by_position(old, new, place):
            if before and after and before[0] != after[0] and before[1] == after[1]:
                yield note("function-renamed", "Python functions", change(_shown(before[0]), _shown(after[0])))


RULES: tuple[Rule, ...] = (
    code_in_state_changed,
    code_in_state_unreadable,
    code_beside_state_changed,
    rows_in_state_changed,
    code_above_state_changed,
    function_renamed,
)


def _changed(old: Manifest, new: Manifest, place: str) -> Iterator[tuple[str, str | None, str | None]]:
    for before, after in _by_position(old, new, place):
        had, has = before[1] if before else None, after[1] if after else None
        if had != has:
            yield (after or before or ("", ""))[0], had, has


def _by_position(
    old: Manifest, new: Manifest, place: str
) -> Iterator[tuple[tuple[str, str] | None, tuple[str, str] | None]]:
    """Functions of a place, by their number there."""
    before, after = _numbered(old, place), _numbered(new, place)
    for number in sorted(before.keys() | after.keys()):
        yield before.get(number), after.get(number)


def _numbered(manifest: Manifest, place: str) -> dict[str, tuple[str, str]]:
    found = {name: digest for name, digest in manifest.functions.items() if name.startswith(place)}
    return {name.partition(" ")[0]: (name, digest) for name, digest in found.items()}


def _is_carried(name: str, *manifests: Manifest) -> bool:
    """Whether what has a function's place and number is only carried, wherever there is such."""
    return all(
        known in manifest.carried
        for manifest in manifests
        for known in manifest.functions
        if known.partition(" ")[0] == name.partition(" ")[0]
    )


def _shown(name: str) -> str:
    return name.partition(" ")[2] or name
