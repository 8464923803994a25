"""Rules about code that no plan shows: Python functions, JVM functions, and rows that the job made itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from streamkeeper.compatibility.rule import APPROVE, NEW_CHECKPOINT, Rule, note, same_context
from streamkeeper.compatibility.shown import change
from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import ABOVE_STATE, BELOW_STATE, SINK_FUNCTION, UNREADABLE, Manifest

_MOST_NAMES, _LONGEST = 12, 120
_WORD = re.compile(r"\w\w")
_CODE = "its code, or a value that it reaches, is another"
_ABOVE = {
    "update": "results would be computed by the new code from each group's next row on; groups that get none keep what "
    "was written",
    "complete": "the next batch would write every group anew, computed by the new code",
}
_UNKNOWN = "what it holds cannot be looked into"


def code_in_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Python in or below a stateful operator decides what its state means, and its body cannot be compared."""
    for name, before, after in _changed(old, new, BELOW_STATE):
        if not _is_rows(name) and not _is_carried(name, old, new):
            yield Finding(
                rule="code-in-state-changed",
                line=new.written.get(name, ""),
                severity=Severity.OPAQUE,
                where=f"function {_shown(name)}, in or below a stateful operator",
                evidence=_code_change(name, before, after),
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
    for name, before, after in _changed(old, new, BELOW_STATE):
        if _is_carried(name, old, new):
            yield Finding(
                rule="code-beside-state-changed",
                line=new.written.get(name, ""),
                severity=Severity.NOTE,
                where=f"function {_shown(name)}, whose results the deduplication above it makes nothing of",
                evidence=_code_change(name, before, after),
                reference="measured: dedup_udf_carried, dedup_payload_expr",
            )


def rows_in_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Rows that the job joins below its state are part of what the state means."""
    for name, before, after in _changed(old, new, BELOW_STATE):
        if _is_rows(name):
            yield Finding(
                rule="rows-in-state-changed",
                severity=Severity.BREAKING,
                where="rows made in the job's code, below a stateful operator",
                evidence=change(before and "rows of the job", after and "other rows of the job"),
                hint=NEW_CHECKPOINT,
            )


def code_above_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Code outside of every stateful operator touches neither state nor offsets."""
    for name, before, after in _changed(old, new, ABOVE_STATE):
        yield Finding(
            rule="code-above-state-changed" if new.operators else "stateless-code-changed",
            line=new.written.get(name, ""),
            severity=Severity.NOTE,
            where=f"function {_shown(name)}",
            evidence=_code_change(name, before, after),
            reference="measured: proj_udf_change",
            effect=_ABOVE.get(new.output_mode, "") if new.operators else "",
        )


def sink_function_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The function that writes batches, where only what it makes of new rows has changed, its log or its tuning."""
    names = f", which names {_listed(new.sink_names)}" if new.sink_names else ""
    for name, before, after in _changed(old, new, SINK_FUNCTION):
        if _routes_alike(name, old, new):
            yield Finding(
                rule="sink-function-changed",
                line=new.written.get(name, ""),
                severity=Severity.NOTE,
                where=f"sink, {name.removeprefix(SINK_FUNCTION)}{names}",
                evidence=_code_change(name, before, after),
                hint="write so that a batch that comes twice does no harm",
            )


def sink_function_may_write_elsewhere(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """A function that writes to another table or path fills another output, which never gets the old rows.

    Opaque rather than breaking: what of its code is an output shows nowhere, and a sink that is a function cannot be
    read again to tell.
    """
    before, after = set(old.sink_names or ()), set(new.sink_names or ())
    for name, had, has in _changed(old, new, SINK_FUNCTION):
        if had is None or has is None or _routes_alike(name, old, new):
            continue
        if before != after:
            evidence = change(_listed(sorted(before - after)), _listed(sorted(after - before)))
        else:
            evidence = f"{_CODE}; it names the same: {_listed(new.sink_names)}"
        yield Finding(
            rule="sink-function-may-write-elsewhere",
            line=new.written.get(name, ""),
            severity=Severity.OPAQUE,
            where=f"sink, {name.removeprefix(SINK_FUNCTION)}",
            evidence=evidence,
            hint=f"{APPROVE}; if it writes elsewhere now, switch to a new checkpoint version: the rows so far stay "
            "behind",
        )


def sink_function_unreadable(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """What a function writes to may hide in what cannot be looked into, such as an open connection."""
    if same_context(old, new):
        return
    before = _sink_functions(old)
    for name, digest in _sink_functions(new).items():
        if name in before and UNREADABLE in (digest[: len(UNREADABLE)], before[name][: len(UNREADABLE)]):
            yield Finding(
                rule="sink-function-unreadable",
                severity=Severity.OPAQUE,
                where=f"sink, {name.removeprefix(SINK_FUNCTION)}",
                evidence=_UNKNOWN,
                hint=f"{APPROVE}; opened inside of the function, what it writes to can be compared the next time",
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
    sink_function_changed,
    sink_function_may_write_elsewhere,
    sink_function_unreadable,
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


def _sink_functions(manifest: Manifest) -> dict[str, str]:
    return {name: digest for name, digest in manifest.functions.items() if name.startswith(SINK_FUNCTION)}


def _routes_alike(name: str, old: Manifest, new: Manifest) -> bool:
    """Whether nothing changed in a sink's function that may decide where its rows go."""
    before, after = (old.sink_routing or {}).get(name), (new.sink_routing or {}).get(name)
    return before is not None and before == after


def _listed(names: Sequence[str] | None) -> str:
    """The first few names, each cut to what a line holds."""
    told = [name for name in names or () if _WORD.search(name)] or names
    shown = [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in told or ()]
    more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ", ".join(shown[:_MOST_NAMES]) + more


def _is_carried(name: str, *manifests: Manifest) -> bool:
    """Whether what has a function's place and number is only carried, wherever there is such."""
    return all(
        known in manifest.carried
        for manifest in manifests
        for known in manifest.functions
        if known.partition(" ")[0] == name.partition(" ")[0]
    )


def _is_rows(name: str) -> bool:
    return name.endswith(" rows")


def _shown(name: str) -> str:
    return name.partition(" ")[2] or name


def _code_change(name: str, before: str | None, after: str | None) -> str:
    """A digest says that code differs, and not where."""
    return _CODE if before and after else change(before and _shown(name), after and _shown(name))
