"""Rules about output columns outside the key, if the state below them stays the same."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.changed_line import with_line
from streamkeeper.compatibility.function_names import names_of_both
from streamkeeper.compatibility.other_schemas import EFFECTS
from streamkeeper.compatibility.output_columns import (
    RESULT_OF_CODE,
    STATE_BY_POSITION,
    computed_in_other_state,
    is_known,
    output_columns,
    redefines_state,
    renames_state_alone,
    same_meaning,
    told_by_state,
)
from streamkeeper.compatibility.output_keys import kept_by
from streamkeeper.compatibility.parser_schemas import changed_schema
from streamkeeper.compatibility.rule import RECOMPUTE, Rule, keeps_python_state, note, same_kinds
from streamkeeper.compatibility.shown import expression_change
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest, is_stateful

OLD_VALUES = {
    "update": "new results would have the new {name}; groups without new rows keep the old {name} in the output",
    "complete": "the next batch would write every group again, with the new {name}",
}
"""Maps an output mode to the effect of a redefined column on existing values. Append mode is left out, because it
writes each result only once.
"""
_FOLLOW = "follow the finding about the state"
_WITH_STATE = "; the change also redefines a value in the state, which another finding reports"
_OF_STATE_TOO = "; results from rows already in the state may still have the old {name}, or combine both"
_OF_CODE = {
    "update": "new results would have another {name}, if the stateful code now returns one; groups without new rows "
    "keep the old {name} in the output",
    "complete": "the next batch would write every group again, with another {name} if the stateful code now returns "
    "one",
}
_ONCE_OF_CODE = (
    "new results would have another {name}, if the stateful code now returns one; rows already written keep the old "
    "{name}"
)
"""The effects on a column that stateful code returns: the check cannot tell whether the code returns other values."""
_WRITTEN_ONCE = "new results would have the new {name}; rows already written keep the old {name}"


def values_redefined(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report an output column that is computed differently above the state, that is, after the stateful operators. A
    row that is already written keeps its old value until the query rewrites the row.
    """
    for name in redefined_values(old, new):
        before, after = output_columns(old)[name].meaning, output_columns(new)[name].meaning
        if _told_of_code(before, after, old, new):
            continue
        of_state = redefines_state(before, after, old, new)
        found = note(
            "output-column-redefined",
            f"output column {name}",
            expression_change(before, after, named=names_of_both(old, new)),
            "sink_table_value_above",
            _FOLLOW if of_state else RECOMPUTE if new.output_mode == "update" else "",
            _effect(name, before, after, old, new, of_state=of_state),
        )
        yield from with_line([found], old, new, [before], [after])


def _effect(name: str, before: str, after: str, old: Manifest, new: Manifest, *, of_state: bool) -> str:
    if all(map(RESULT_OF_CODE.fullmatch, (before, after))):
        effect = _OF_CODE.get(new.output_mode, _ONCE_OF_CODE)
        effect += STATE_BY_POSITION if renames_state_alone(before, after) else ""
    elif changed_schema(before, after):
        effect = EFFECTS["output-column-redefined"]
    else:
        effect = OLD_VALUES.get(new.output_mode, _WRITTEN_ONCE)
    if of_state:
        effect += _WITH_STATE
    elif computed_in_other_state(before, after, old, new):
        effect += _OF_STATE_TOO
    return effect.format(name=name)


def _told_of_code(before: str, after: str, old: Manifest, new: Manifest) -> bool:
    """Whether two columns are the same result of stateful Python code whose change another rule reports."""
    results = [RESULT_OF_CODE.fullmatch(canonical) for canonical in (before, after)]
    kept = [
        [(each.key_columns, each.values, each.detail) for each in manifest.operators if keeps_python_state(each)]
        for manifest in (old, new)
    ]
    return len({found[1] if found else None for found in results}) == 1 and None not in results and kept[0] != kept[1]


def redefined_values(old: Manifest, new: Manifest) -> list[str]:
    """Return the output columns that a change above the state redefines, that is, a change after the stateful
    operators. Columns that determine where the output stores a row are left out. Other rules report changes inside the
    state.
    """
    if not is_stateful(old, new) or not same_kinds(old, new):
        return []
    had, has = output_columns(old), output_columns(new)
    pairs = {name: (had[name].meaning, has[name].meaning) for name in has if name in had}
    return [
        name
        for name, pair in pairs.items()
        if name not in kept_by(new)
        and all(map(is_known, pair))
        and not same_meaning(*pair, old, new)
        and not told_by_state(*pair, old, new, keys_alone=False)
    ]


RULES: tuple[Rule, ...] = (values_redefined,)
