"""Evidence: the piece of the author's expression that a change is about, before and after. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from streamkeeper.compatibility.plan_lines import plan_line
from streamkeeper.compatibility.sql_words import without_digests
from streamkeeper.compatibility.terms import Term, pieces, short, text_pieces
from streamkeeper.compatibility.user_terms import Detail, term_of, type_term

WIDTH = 72
"""Characters of one side, about."""
_MOST = 3
_NULL_CHECK = re.compile(r"(?:(?:left|right|branch \d+): )?isnotnull\(")
_COLUMN = re.compile(r"((?:source|static) (?:\d+|\"[^\"]*\"))\.(\w+)")
_MEANINGS = frozenset({"meaning", "rows", "shape"})
"""Parts of an operator that are expressions over the sources."""
NOTHING = "nothing"
OTHERWISE = ", not made of the same"
SAME_WORDS = "the plan reads the same; a type, a schema, a literal or a setting in it is another"


def change(before: object, after: object) -> str:
    """Evidence as ``before -> after``; what is empty reads as ``nothing``."""
    return f"{_listed(before)} -> {_listed(after)}"


def expression_change(before: str, after: str) -> str:
    """The same of two meanings, cut down to what differs."""
    return " -> ".join(_changed(before, after))


def _written(meanings: Sequence[str]) -> Sequence[str]:
    """Without the checks for null that Spark adds beside a condition."""
    return [meaning for meaning in meanings if not _NULL_CHECK.match(meaning)] or meanings


def typed_change(before: tuple[str, str], after: tuple[str, str]) -> str:
    """The same of two meanings with their types as state has them."""
    shown = _changed(before[0], after[0])
    if shown[0] != shown[1]:
        return " -> ".join(shown)
    return " -> ".join(f"{text} ({_type(kind)})" for text, kind in zip(shown, (before[1], after[1]), strict=True))


def schema_change(before: str, after: str) -> str:
    """The same of two schemas of state, as JSON has them."""
    return " -> ".join(pieces(type_term(before), type_term(after), WIDTH))


def expressions_change(before: Sequence[str], after: Sequence[str]) -> str:
    """The same of two lists of meanings; equally many are compared one by one."""
    if len(before) == len(after) and before:
        pairs = [_changed(*pair) for pair in zip(before, after, strict=True)]
        return " -> ".join(_counted([pair[side] for pair in pairs]) for side in (0, 1))
    return " -> ".join(
        _counted([expression(meaning) for meaning in _written(side)]) or NOTHING for side in (before, after)
    )


def parts_change(before: object, after: object) -> str:
    """The same of two values of one shape, of dicts and lists: only the parts that differ, by their names."""
    parts = list(_parts_apart(before, after))
    sides = [without_digests(", ".join(pair[side] for pair in parts if pair[side])) for side in (0, 1)]
    left, right = text_pieces(sides[0], sides[1], WIDTH)
    return f"{left or NOTHING} -> {right or NOTHING}{OTHERWISE if left == right else ''}"


def lines_change(before: Sequence[str], after: Sequence[str]) -> str:
    """The same of lines that only one of two plans has."""
    if before and len(before) == len(after):
        pairs = [(plan_line(left), plan_line(right)) for left, right in zip(before, after, strict=True)]
        shown = [pieces(*pair, WIDTH) for pair in pairs if pair[0] != pair[1]]
        return f"{' -> '.join(shown[0])}{_more(len(shown) - 1)}" if shown else SAME_WORDS
    return " -> ".join(_counted([_whole(plan_line(line)) for line in side]) or NOTHING for side in (before, after))


def expression(meaning: str) -> str:
    """One meaning in its author's words."""
    return _whole(term_of(meaning, labels=_ambiguous(meaning)))


def _changed(before: str, after: str) -> tuple[str, str]:
    if before == after:
        return expression(before), expression(after)
    labels = _ambiguous(before, after)
    for detail in Detail:
        left, right = term_of(before, detail, labels=labels), term_of(after, detail, labels=labels)
        if str(left) != str(right):
            return pieces(left, right, WIDTH)
    same = expression(before)
    if same.startswith("window("):
        return same, f"{same}, of another gap, offset or time"
    return same, f"{same}{OTHERWISE}"


def _parts_apart(before: object, after: object, name: str = "") -> Iterator[tuple[str, str]]:
    if before == after:
        return
    match before, after:
        case (dict() | None as old, dict() | None as new):
            had, has = old or {}, new or {}
            for key in sorted(had.keys() | has.keys()):
                yield from _parts_apart(had.get(key), has.get(key), key)
        case (list() | tuple() | None as old, list() | tuple() | None as new):
            for pair in zip_longest(old or (), new or ()):
                yield from _parts_apart(*pair, name)
        case _:
            yield _part(name, before), _part(name, after)


def _part(name: str, value: object) -> str:
    if value is None or value == "":
        return ""
    if name in _MEANINGS:
        return expression(str(value))
    told = ("no", "yes")[value] if isinstance(value, bool) else str(value)
    return f"{name.replace('_', ' ')}: {told}" if name else told


def _ambiguous(*meanings: str) -> bool:
    """Whether two sources have a column of one name."""
    found = {(column[1], column[2]) for text in meanings for column in _COLUMN.finditer(text)}
    return len({name for _, name in found}) < len(found)


def _whole(term: Term) -> str:
    return short(term, WIDTH)


def _counted(texts: Iterable[str]) -> str:
    kept = list(texts)
    return ", ".join(kept[:_MOST]) + _more(len(kept) - _MOST)


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _type(kind: str) -> str:
    """A type as state keeps it, without what is inside of a struct."""
    null = " not null" if kind.endswith(" not null") else ""
    bare = kind.removesuffix(" not null")
    return f"{'struct' if bare.startswith('{') else bare if len(bare) <= WIDTH else f'{bare[:24]}…'}{null}"


def _listed(value: object) -> str:
    if isinstance(value, tuple | list):
        value = ", ".join(str(part) for part in value)
    return str(value) if value not in ("", None) else NOTHING
