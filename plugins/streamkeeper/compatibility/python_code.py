"""Rules about code that plans do not show: Python functions, JVM functions, and rows that the job creates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest

import msgspec

from streamkeeper.compatibility.code_changes import NO_PART, CodeChange, code_change
from streamkeeper.compatibility.effects import UNPROVEN
from streamkeeper.compatibility.function_names import short_name
from streamkeeper.compatibility.one_sided_calls import ADDED_CALL, MOVED, REMOVED_CALL
from streamkeeper.compatibility.rule import (
    APPROVE,
    NEW_CHECKPOINT,
    Rule,
    is_rows,
    note,
    operator_name,
    same_context,
)
from streamkeeper.compatibility.shown import change
from streamkeeper.compatibility.stateful_operators import settings_apart
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import ABOVE_STATE, BELOW_STATE, UNREADABLE, Manifest

_ABOVE = {
    "update": "each group's result would be computed by the new code from its next row on; groups without new rows "
    "keep their old result in the output",
    "complete": "the next batch would write every group again, computed by the new code",
}
_MOVED = "another function of the query may now be called in its place"
_SAME_TEXT = "every recorded function and value is the same; the code is called with other settings of the operator:"
_UNKNOWN = "the code holds an object that cannot be compared"
_WRAPPER = "transformWithStateUDF"
"""PySpark's wrapper function around the author's class."""
_PROCESSOR = "StatefulProcessor"
_HEADER = re.compile(r"^class \w+\(([^()]*)\):", re.MULTILINE)
_APPROVE_MEANING = (
    f"{APPROVE}. Approve if the new code can use what the old code has stored, and if results may combine values of "
    f"the old code with values of the new code. If not, {NEW_CHECKPOINT}"
)
_APPROVE_CALL = (
    f"{APPROVE}. Approve if results may combine values computed with this function and values computed without it. If "
    f"not, {NEW_CHECKPOINT}"
)
_WITH = f"state that was computed without this function would be continued with it{UNPROVEN}"
_WITHOUT = f"state that was computed with this function would be continued without it{UNPROVEN}"
_CALLS = {ADDED_CALL: _WITH, MOVED[ABOVE_STATE]: _WITH, REMOVED_CALL: _WITHOUT, MOVED[BELOW_STATE]: _WITHOUT}
"""Maps the beginning of the evidence to the effect of a function that only one of the two queries calls in or below a
stateful operator."""
_NO_STATE = "this function would continue no state of the deployed query, because the {side} keeps none"


def code_in_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed Python code in or below a stateful operator.

    Such code determines the state, and the effect of a change of the code on the state is unknown.
    """
    names: dict[CodeChange, list[str]] = {}
    others_moved = _others_moved(old, new)
    for name, had, has in _changed(old, new, BELOW_STATE):
        if not is_rows(name) and not _is_carried(name, old, new):
            changed = code_change(name, *_that_call(name, had, has, old, new))
            settings = "; ".join(settings_apart(old, new)) if changed.evidence == NO_PART else ""
            shown = changed._replace(evidence=f"{_SAME_TEXT} {settings}") if settings else changed
            if None in (had, has) and others_moved:
                shown = shown._replace(evidence=f"{shown.evidence}; {_MOVED}")
            names.setdefault(shown, []).append(function_called(name, new))
    for changed, functions in names.items():
        effect = next((text for call, text in _CALLS.items() if changed.evidence.startswith(call)), "")
        if not (old.operators and new.operators):
            effect = _NO_STATE.format(side="candidate" if old.operators else "deployed query")
        yield Finding(
            rule="code-in-state-changed",
            line=changed.line,
            severity=Severity.OPAQUE,
            where=f"{' and '.join(dict.fromkeys(functions))}, {_decides_on_state(new if new.operators else old)}",
            evidence=changed.evidence,
            hint=_APPROVE_CALL if effect else _APPROVE_MEANING,
            effect=effect,
            reference="measured: apws_logic, tws_logic",
        )


def code_in_state_unreadable(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report code that cannot be inspected. Such code may have changed although its digest is the same.

    The code counts as unchanged if everything that it was built from is the same: the whole bundle, interpreter,
    packages, params, confs and environment.
    """
    if same_context(old, new):
        return
    for name, digest in new.functions.items():
        same = digest.startswith(UNREADABLE) and old.functions.get(name) == digest
        if name.startswith(BELOW_STATE) and same and not _is_carried(name, old, new):
            yield Finding(
                rule="code-in-state-unreadable",
                severity=Severity.OPAQUE,
                where=f"{function_called(name, new)}, {_decides_on_state(new)}",
                evidence=_UNKNOWN,
                hint=f"{_APPROVE_MEANING}. To let later checks compare the code, create such objects in the function",
            )


def _decides_on_state(manifest: Manifest) -> str:
    """Return a relative clause about code in or below a stateful operator, which names the operators."""
    names = dict.fromkeys(operator_name(operator.kind) for operator in manifest.operators)
    owners = [f"the {name}" if name.islower() else name for name in names]
    return f"on which the state of {' or '.join(owners) or 'a stateful operator'} depends"


def code_beside_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed code of columns that a deduplication passes on. The deduplication's state contains only keys, so
    all other columns come from the new rows.
    """
    for name, _, _ in _changed(old, new, BELOW_STATE):
        if _is_carried(name, old, new):
            changed = code_change(name, old, new)
            yield Finding(
                rule="code-beside-state-changed",
                line=changed.line,
                severity=Severity.NOTE,
                where=f"{function_called(name, new)}, whose result is not part of a deduplication key",
                evidence=changed.evidence,
                reference="measured: dedup_udf_carried, dedup_payload_expr",
            )


def rows_in_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a change of rows that the job's own code creates below a stateful operator. These rows determine the
    state.
    """
    for name, before, after in _changed(old, new, BELOW_STATE):
        if is_rows(name):
            yield Finding(
                rule="rows-in-state-changed",
                severity=Severity.BREAKING,
                where=f"rows created in the job's code, {_decides_on_state(new)}",
                evidence=f"the rows that the job creates {_how_rows_differ(before, after)}",
                hint=NEW_CHECKPOINT,
            )


def code_above_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed code outside of all stateful operators. It affects neither state nor offsets."""
    for name, _, _ in _changed(old, new, ABOVE_STATE):
        changed = code_change(name, old, new)
        yield Finding(
            rule="code-above-state-changed" if new.operators else "stateless-code-changed",
            line=changed.line,
            severity=Severity.NOTE,
            where=function_called(name, new),
            evidence=changed.evidence,
            reference="measured: proj_udf_change",
            effect=_ABOVE.get(new.output_mode, "") if new.operators else "",
        )


def function_renamed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a function whose name changed but whose code did not."""
    for place in (BELOW_STATE, ABOVE_STATE):
        for before, after in _by_position(old, new, place):
            if before and after and _shown(before[0]) != _shown(after[0]) and before[1] == after[1]:
                yield note("function-renamed", "Python functions", change(_shown(before[0]), _shown(after[0]), "name"))


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


def _that_call(name: str, had: str | None, has: str | None, old: Manifest, new: Manifest) -> tuple[Manifest, Manifest]:
    """Return the two manifests. If one of the queries does not call the function, its manifest is returned without the
    function that has the same number in that query.
    """
    place = name.partition(" ")[0]
    before, after = (
        msgspec.structs.replace(
            side, functions={other: each for other, each in side.functions.items() if other.partition(" ")[0] != place}
        )
        if digest is None
        else side
        for side, digest in zip((old, new), (had, has), strict=True)
    )
    return before, after


def _others_moved(old: Manifest, new: Manifest) -> bool:
    """Whether a function in or below a stateful operator has the same code as before, but another number in
    the query.
    """
    pairs = [(had[0], has[0]) for had, has in _by_position(old, new, BELOW_STATE) if had and has and had[1] == has[1]]
    return any(before.partition(" ")[0] != after.partition(" ")[0] for before, after in pairs)


def _by_position(
    old: Manifest, new: Manifest, place: str
) -> Iterator[tuple[tuple[str, str] | None, tuple[str, str] | None]]:
    """Yield pairs of functions at one place, paired by their number at this place.

    If the two lists differ only by additions or only by removals, the functions are paired by their code instead. They
    are still paired by number if any of them creates rows of the job, or if the results of any function are only
    carried: rules depend on the numbers of such functions.
    """
    before, after = _numbered(old, place), _numbered(new, place)
    names = [name for side in (before, after) for name, _ in side.values()]
    if not (old.carried or new.carried or any(map(is_rows, names))):
        sides = [[side[number] for number in sorted(side, key=_number)] for side in (before, after)]
        digests = [[digest for _, digest in side] for side in sides]
        steps = SequenceMatcher(None, digests[0], digests[1], autojunk=False).get_opcodes()
        if {step for step, *_ in steps} in ({"equal", "insert"}, {"equal", "delete"}):
            for _, start, end, other, other_end in steps:
                yield from zip_longest(sides[0][start:end], sides[1][other:other_end])
            return
    for number in sorted(before.keys() | after.keys()):
        yield before.get(number), after.get(number)


def _numbered(manifest: Manifest, place: str) -> dict[str, tuple[str, str]]:
    found = {name: digest for name, digest in manifest.functions.items() if name.startswith(place)}
    return {name.partition(" ")[0]: (name, digest) for name, digest in found.items()}


def _number(place: str) -> tuple[int, str]:
    digits = place.rpartition("/")[2]
    return (int(digits) if digits.isdecimal() else 0), place


def _is_carried(name: str, *manifests: Manifest) -> bool:
    """Whether deduplications only carry the results of every function with this place and number, in each manifest."""
    return all(
        known in manifest.carried
        for manifest in manifests
        for known in manifest.functions
        if known.partition(" ")[0] == name.partition(" ")[0]
    )


def _shown(name: str) -> str:
    return name.partition(" ")[2] or name


def function_called(name: str, manifest: Manifest) -> str:
    """Return the text by which a finding refers to a function.

    For the function that PySpark generates for ``transformWithState``, the text names the class that the job's author
    passed to it, if that class can be found.
    """
    shown = _shown(name)
    if shown == _WRAPPER:
        found = _processors(name, manifest)
        return f"class {found[0]} (transformWithState)" if len(found) == 1 else "the class given to transformWithState"
    return f"Python function {short_name(name, manifest)}"


def _processors(name: str, manifest: Manifest) -> list[str]:
    """Return the author's stateful classes that a wrapper function reaches, without their base classes."""
    texts = {part: manifest.parts[part].text for part in manifest.reached.get(name, ()) if part in manifest.parts}
    headers = {part: found for part, text in texts.items() if (found := _HEADER.search(text))}
    bases = {part: {base.strip().rpartition(".")[2] for base in found[1].split(",")} for part, found in headers.items()}
    known = {_PROCESSOR}
    for _ in bases:
        known |= {part.rpartition(".")[2] for part, of in bases.items() if of & known}
    above = {base for of in bases.values() for base in of}
    return [part for part in bases if part.rpartition(".")[2] in known - above]


def _how_rows_differ(before: str | None, after: str | None) -> str:
    if before is None or after is None:
        return "were added" if before is None else "were removed"
    return "differ (manifests record only a digest of them)"
