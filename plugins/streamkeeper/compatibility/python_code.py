"""Rules about code that no plan shows: Python functions, JVM functions, and rows that the job made itself."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.rule import Rule, change, note
from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import ABOVE_STATE, BELOW_STATE, SINK_FUNCTION, UNREADABLE, Manifest

_APPROVE = "take a snapshot and have a person approve: nothing can prove what the new code makes of the old state"


def code_in_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Python in or below a stateful operator decides what its state means, and its body cannot be compared."""
    for name, before, after in _changed(old, new, BELOW_STATE):
        if not _is_rows(name):
            yield Finding(
                rule="code-in-state-changed",
                severity=Severity.OPAQUE,
                where=f"function {_shown(name)}, in or below a stateful operator",
                evidence=change(_short(before), _short(after)),
                hint=_APPROVE,
                reference="measured: apws_logic, tws_logic",
            )


def code_in_state_unreadable(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Code that cannot be looked into may have changed although its digest has not."""
    for name, digest in new.functions.items():
        if name.startswith(BELOW_STATE) and digest.startswith(UNREADABLE) and old.functions.get(name) == digest:
            yield Finding(
                rule="code-in-state-unreadable",
                severity=Severity.OPAQUE,
                where=f"{_shown(name)}, in or below a stateful operator",
                evidence=change(_short(digest), _short(digest)),
                hint=_APPROVE,
            )


def rows_in_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Rows that the job joins below its state are part of what the state means."""
    for name, before, after in _changed(old, new, BELOW_STATE):
        if _is_rows(name):
            yield Finding(
                rule="rows-in-state-changed",
                severity=Severity.BREAKING,
                where="rows made in the job's code, below a stateful operator",
                evidence=change(_short(before), _short(after)),
                hint="switch this query to a new checkpoint version, or take the change back",
            )


def code_above_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Code outside of every stateful operator touches neither state nor offsets."""
    for name, before, after in _changed(old, new, ABOVE_STATE):
        yield Finding(
            rule="code-above-state-changed" if new.operators else "stateless-code-changed",
            severity=Severity.NOTE,
            where=f"function {_shown(name)}",
            evidence=change(_short(before), _short(after)),
            hint="holds for new rows; what was written before is not computed again",
            reference="measured: proj_udf_change",
        )


def sink_function_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The function that writes batches is the author's own promise."""
    for name, before, after in _changed(old, new, SINK_FUNCTION):
        yield Finding(
            rule="sink-function-changed",
            severity=Severity.NOTE,
            where=f"sink, {name.removeprefix(SINK_FUNCTION)}",
            evidence=change(_short(before), _short(after)),
            hint="the batch that is open at the handover may be written by both versions",
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
    rows_in_state_changed,
    code_above_state_changed,
    sink_function_changed,
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
    """Functions of a place, by their number there; a sink's by their name."""
    before, after = _numbered(old, place), _numbered(new, place)
    for number in sorted(before.keys() | after.keys()):
        yield before.get(number), after.get(number)


def _numbered(manifest: Manifest, place: str) -> dict[str, tuple[str, str]]:
    found = {name: digest for name, digest in manifest.functions.items() if name.startswith(place)}
    return {name.partition(" ")[0]: (name, digest) for name, digest in found.items()}


def _is_rows(name: str) -> bool:
    return name.endswith(" rows")


def _shown(name: str) -> str:
    return name.partition(" ")[2] or name


def _short(digest: str | None) -> str | None:
    if digest is None:
        return None
    prefix = UNREADABLE if digest.startswith(UNREADABLE) else ""
    return prefix + digest.removeprefix(UNREADABLE)[:12]
