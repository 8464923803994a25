"""Renders the change of a plan as evidence: only the lines that differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from streamkeeper.compatibility.parser_schemas import changed_schema_of_line
from streamkeeper.compatibility.plan_lines import plan_line
from streamkeeper.compatibility.shown import (
    MOST,
    SEVERAL,
    WIDTH,
    and_more,
    before_and_after,
    counted,
    quoted,
    shortened,
    with_part,
)
from streamkeeper.compatibility.terms import CUT, Term, leaf, only_part, pieces

SAME_WORDS = "the plans differ in a detail that their text does not show"
_AS = " AS "


def lines_change(before: Sequence[str], after: Sequence[str], *, linear: bool = False) -> str:
    """Return the evidence of a changed plan.

    ``before``, ``after``: the lines that only the old or only the new plan has; ``linear``: whether each line is below
    the one before it, so that the evidence can name the place of the changed lines.
    """
    if before and len(before) == len(after):
        for schemas in (False, True):
            pairs = [
                (plan_line(left, schemas=schemas), plan_line(right, schemas=schemas))
                for left, right in zip(before, after, strict=True)
            ]
            # A change often passes through several nodes of a plan.
            texts = list(dict.fromkeys(_line_pair(*pair) for pair in pairs if pair[0] != pair[1]))
            if texts:
                return f"{'; '.join(texts[:MOST])}{and_more(len(texts) - MOST, 'line')}"
        return SAME_WORDS
    if same := _same_nodes(before, after):
        rest = [
            [line for line in side if line not in paired] for side, paired in zip((before, after), same, strict=True)
        ]
        place = _place_of(same, rest, before, after) if linear else ""
        return f"{lines_change(*rest)}; {place}{lines_change(*same)}"
    had, has = ([_line_alone(plan_line(line)) for line in side] for side in (before, after))
    sides = [line for line in had if line not in has], [line for line in has if line not in had]
    return before_and_after(counted(sides[0]), counted(sides[1])) or before_and_after(counted(had), counted(has))


def _line_pair(before: Term, after: Term) -> str:
    """Return the difference of two lines. If one of them only lacks a part that does not fit, return that part and the
    line's keyword.
    """
    keyword = before.before.strip()
    place = f" (in `{keyword}`)" if keyword.isalpha() else ""
    if fields := changed_schema_of_line(before, after):
        return f"{fields}{place}"
    left, right = pieces(before, after, WIDTH)
    part = only_part(before, after)
    if part is None or part[1] in f"{left}{right}" or len(part[1]) > SEVERAL:
        left, right = with_part(left, right, part)
        return before_and_after(quoted(left), quoted(right))
    return f"{part[0]}: `{part[1]}`{place}"


def _same_nodes(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Return the lines whose kind of node occurs equally often in both plans; None if no kind does, or if these are all
    lines.
    """
    kinds = [[line.removeprefix("~").partition(" ")[0] for line in side] for side in (before, after)]
    both = {kind for kind in kinds[0] if kinds[0].count(kind) == kinds[1].count(kind)}
    same = [
        [line for line, kind in zip(side, of, strict=True) if kind in both]
        for side, of in zip((before, after), kinds, strict=True)
    ]
    return (same[0], same[1]) if both and [len(before), len(after)] != [len(side) for side in same] else None


def _place_of(
    lines: Sequence[Sequence[str]], others: Sequence[Sequence[str]], before: Sequence[str], after: Sequence[str]
) -> str:
    """Where the changed lines are in relation to the lines that were only added or only removed; empty if it differs.

    ``lines``, ``others``: each as the lines of the old and of the new plan, which are ``before`` and ``after``.
    """
    if all(others):
        return ""
    plan, side = (after, 1) if others[1] else (before, 0)
    positions = [[plan.index(line) for line in each[side]] for each in (lines, others)]
    them = "it" if len(others[side]) == 1 else "these"
    if min(positions[0]) > max(positions[1]):
        return f"below {them}: "
    return f"above {them}: " if max(positions[0]) < min(positions[1]) else ""


def _line_alone(term: Term) -> str:
    return shortened(term if len(str(term)) <= WIDTH else _computed(term))


def _computed(term: Term) -> Term:
    """Return a line without the columns that it only passes on unchanged."""
    kept = [part for part in term.parts if _AS in str(part)] if term.before.endswith("[") else []
    if 0 < len(kept) < len(term.parts):
        return Term(term.before, (leaf(CUT), *kept), term.between, term.after)
    return Term(term.before, tuple(map(_computed, term.parts)), term.between, term.after)
