"""The effect of a change that leaves an expression as it is, and only reads its input with another schema. Pure.

The sentences about changed expressions do not apply to it: the same expression may give the same values as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from streamkeeper.compatibility.effects import KEYED, NAME, STORED, UNCONDITIONAL, entries_of
from streamkeeper.compatibility.parser_schemas import changed_schema
from streamkeeper.model.manifests.finding import Finding


def _keyed(rows: str, groups: str) -> str:
    return (
        f"{rows} would not find the {groups} in the state, or would match wrong ones, if the same key expression gives "
        "other keys under the new schema"
    )


def _stored(rows: str) -> str:
    return (
        f"{rows} hold values that were read with the old schema: Spark would reject them if a stored type differs, and "
        "would else output them as they are"
    )


EFFECTS: dict[str, str] = {
    **{f"{noun}-changed": _keyed(rows, groups) for noun, (rows, groups, _) in KEYED.items()},
    **{f"{noun}-changed": _stored(rows) for noun, rows in STORED.items()},
    "aggregate-input-changed": "{name} of {groups} would combine old values with new ones, if the same expression "
    "gives other values under the new schema",
    "input-of-stateful-code-changed": "the code would receive other values in a column from which it has already built "
    "state, if the same expression gives other values under the new schema",
    "window-changed": "new rows would be assigned to other windows, if the same expression gives other times under the "
    "new schema; windows that are open now would be written without these rows",
    **{
        f"sink-{place}-redefined": "results would be written under other values of {name}, and existing rows would "
        "never be updated, if the same expression gives other values under the new schema"
        for place in ("key", "partition")
    },
    "output-column-redefined": "new results would have another {name}, if the same expression gives other values under "
    "the new schema; a deploy does not compute the {name} of earlier results again",
    "filter-below-state-changed": "the same filter may pass other new rows under the new schema; what the state holds "
    "of earlier rows stays",
    "filter-below-join-changed": "rows in the state that the same filter would reject under the new schema would still "
    "be joined",
    "filter-below-code-changed": "the same filter may pass other rows under the new schema; no check can prove that "
    "the results stay right",
    "upstream-changed": "{groups} would be combined with other rows than before, if the same joins, unions or other "
    "steps give other rows under the new schema",
}
"""Rule -> the effect if only the schema differs. The placeholders are those of ``effects``."""


def read_with_other_schema(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether two lists of expressions differ, and only in the schemas with which parsers or static tables are read."""
    pairs = [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]]
    return len(before) == len(after) and bool(pairs) and all(changed_schema(*pair) for pair in pairs)


def with_schema_effect(
    findings: Iterable[Finding], before: Sequence[str], after: Sequence[str], *, groups: str = "", name: str = NAME
) -> Iterator[Finding]:
    """Yield the findings. If their expressions differ only in a schema, their effect states that the expressions are
    the same.

    ``before``, ``after``: the expressions; ``groups``, ``name``: as in ``effects.effect_of``.
    """
    same = read_with_other_schema(before, after)
    for finding in findings:
        if not (same and finding.rule in EFFECTS) or finding.effect:
            yield finding
            continue
        effect = EFFECTS[finding.rule].format(groups=groups or entries_of(finding.where), name=name)
        holds = finding.rule in UNCONDITIONAL[finding.severity]
        yield msgspec.structs.replace(finding, effect=effect, unconditional=holds)
