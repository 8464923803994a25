"""Renders evidence: the changed piece of the author's expression, before and after. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from streamkeeper.compatibility.function_names import NO_NAMES, UNNAMED, Named, Names
from streamkeeper.compatibility.parser_schemas import changed_schema
from streamkeeper.compatibility.sql_words import without_digests
from streamkeeper.compatibility.terms import CUT, Term, only_part, pieces, short, text_pieces
from streamkeeper.compatibility.user_terms import LABELLED, Detail, side_label, term_of, type_term

WIDTH = 72
"""Approximate number of characters of one side."""
SEVERAL = 48
"""Approximate number of characters of one side if several expressions are shown."""
MOST = 3
_NULL_CHECK = re.compile(r"(?:(?:left|right|branch \d+): )?isnotnull\(")
_COLUMN = re.compile(r"((?:source|static) (?:\d+|\"[^\"]*\"))\.(\w+)")
_MEANINGS = frozenset({"meaning", "rows", "shape"})
"""Parts of an operator that are expressions over the sources."""
_UPSTREAM = "upstream"
"""The part of an operator that is a plan as text."""
_UNSET = "not set"
ARROW = " → "
"""Separates old and new text; code and types contain ``->``, but never this arrow."""
OTHERWISE = " (defined differently)"
OTHER_WINDOW = " (another gap, offset or time column)"
_PLURALS = {
    "aggregate": "aggregates",
    "column": "columns",
    "column and delay": "columns and delays",
    "column of the input": "columns of the input",
    "filter": "filters",
    "key column": "key columns",
    "name": "names",
    "stored column": "stored columns",
}
"""What can be added or removed -> several of them."""
_SIDE = re.compile(r"(?:(?:left|right) side of the join|branch \d+): ")
"""Matches the side of a join or union, which is not part of an author's expression."""
_REMARKS = (OTHERWISE, OTHER_WINDOW)
_PART = re.compile(r"(.*)( \((?:added|removed): `.*`\))", re.DOTALL)
"""Matches an expression, and the part that only this expression or only the other one has."""
_ARGUMENT = re.compile(r"\b([A-Za-z]\w*)=(\w+)")
_FUNCTION = re.compile(r"(?:, evalType=\w+)?, func=(\d+)")
"""Matches the text that follows the type of a Python function's results."""
_SOURCE_NAME = re.compile(r'\b(source|static) "name="([^"]*)""')
_FIELD = re.compile(r'\{"metadata":\{\},"name":"([^"]*)","nullable":(?:true|false),"type":"?([^{}"]*)"?\}')
_STRUCT = re.compile(r'\{"fields":\[([^\[\]]*)\],"type":"struct"\}')
_RAW_TYPE = '"fields":'
_ROWS = "rows made in the job's code"
_RUN_AS = {"100": "row by row", "101": "through Arrow", "200": "as pandas"}
"""Spark's ``evalType`` of a Python function."""


def change(before: object, after: object, noun: str = "") -> str:
    """Return the evidence of a changed value: ``noun: `before` → `after```. If only one value is given, the evidence
    states that it was added or removed.
    """
    count = max(len(side) if isinstance(side, tuple | list) else 1 for side in (before, after))
    return before_and_after(_listed(before), _listed(after), noun, count)


def given_change(before: str | None, after: str | None, noun: str = "") -> str:
    """Return the evidence of a changed setting or option. None means that it is not set."""
    left, right = (_UNSET if value is None else quoted(value) or "empty" for value in (before, after))
    return before_and_after(left, right, noun)


def expression_change(before: str, after: str, noun: str = "", named: Named = UNNAMED) -> str:
    """Return the evidence of a changed expression, reduced to the difference."""
    if fields := changed_schema(before, after):
        return f"{noun}{': ' if noun else ''}{_parsed(after, fields, named)}"
    left, right = _changed(before, after, named=named)
    return before_and_after(quoted(left), quoted(right), noun)


def _parsed(canonical: str, fields: str, named: Named) -> str:
    """Return the evidence for an expression over parsed text or for a static table: the expression and the fields of
    its schema that differ.
    """
    return f"{quoted(expression(canonical, named.after))}, which is read with another schema: {fields}"


def _all_parsed(meanings: Sequence[str], schemas: Sequence[str], named: Named) -> str:
    """Return the evidence for several expressions. If the same fields differ for all of them, these fields are shown
    once.
    """
    if len(meanings) > 1 and len(set(schemas)) == 1:
        expressions = counted(expression(canonical, named.after) for canonical in meanings)
        return f"{expressions}, which are read with another schema: {schemas[0]}"
    texts = [_parsed(canonical, fields, named) for canonical, fields in zip(meanings, schemas, strict=True)]
    return f"{'; '.join(texts[:MOST])}{and_more(len(texts) - MOST)}"


def text_change(before: str, after: str, noun: str = "") -> str:
    """Return the evidence of a changed text, which may be long, reduced to the words around the first difference."""
    left, right = text_pieces(before, after, WIDTH)
    return before_and_after(quoted(left), quoted(right), noun)


def before_and_after(before: str, after: str, noun: str = "", count: int = 1) -> str:
    """Return two quoted texts, either of which may be empty, as before and after. ``count``: how many of ``noun`` they
    list.
    """
    if before and after:
        return f"{noun}{': ' if noun else ''}{before}{ARROW}{after}"
    verb = "added" if after else "removed"
    nouns = _PLURALS.get(noun, noun) if count > 1 else noun
    return f"{nouns}{' ' if noun else ''}{verb}: {after or before}" if before or after else ""


def quoted(text: str) -> str:
    """Return a text in backticks. The side of a join or union and a remark about the text stand outside of the
    backticks. Return an empty text for an empty one.
    """
    if (side := _SIDE.match(text)) and len(text) > side.end():
        return f"{side[0]}{quoted(text[side.end() :])}"
    if found := _PART.fullmatch(text):
        return f"`{found[1]}`{found[2]}"
    for remark in _REMARKS:
        if text.endswith(remark):
            return f"`{text.removesuffix(remark)}`{remark}"
    return f"`{text}`" if text else ""


def _written(meanings: Sequence[str]) -> Sequence[str]:
    """The expressions without the null checks that Spark adds to a condition; all of them if there are no others."""
    return [canonical for canonical in meanings if not _NULL_CHECK.match(canonical)] or meanings


def typed_change(before: tuple[str, str], after: tuple[str, str], named: Named = UNNAMED) -> str:
    """Return the evidence of a changed expression or, if it is the same, of its changed type in the state.

    ``before``, ``after``: the expression and its type.
    """
    if fields := changed_schema(before[0], after[0]):
        return _parsed(after[0], fields, named)
    left, right = _changed(before[0], after[0], named=named)
    if left != right:
        return before_and_after(quoted(left), quoted(right))
    return before_and_after(f"`{_type(before[1])}`", f"`{_type(after[1])}`", f"type of `{left}`")


def type_change(before: str, after: str) -> str:
    """Return the evidence of a changed type; empty if both are structs, whose fields are not shown."""
    left, right = f"`{_type(before)}`", f"`{_type(after)}`"
    return before_and_after(left, right, "type") if left != right else ""


def schema_change(before: str, after: str) -> str:
    """Return the evidence of a changed schema of state; both schemas are JSON."""
    left, right = pieces(type_term(before), type_term(after), WIDTH)
    return before_and_after(quoted(left), quoted(right))


def expressions_change(before: Sequence[str], after: Sequence[str], noun: str = "", named: Named = UNNAMED) -> str:
    """Return the evidence of a changed list of expressions. Lists of equal length are compared one expression at a
    time.
    """
    if len(before) == len(after) and before:
        differing = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
        width = WIDTH if len(differing) == 1 else SEVERAL
        schemas = [changed_schema(*pair) for pair in differing]
        if schemas and all(schemas):
            return f"{noun}{': ' if noun else ''}{_all_parsed([pair[1] for pair in differing], schemas, named)}"
        pairs = [_changed(*pair, width, named) for pair in differing or zip(before, after, strict=True)]
        sides = [counted([pair[side] for pair in pairs]) for side in (0, 1)]
    else:
        sides = [
            counted([expression(canonical, names) for canonical in _written(side)])
            for side, names in ((before, named.before), (after, named.after))
        ]
    return before_and_after(sides[0], sides[1], noun, max(len(before), len(after)))


def parts_change(before: object, after: object) -> str:
    """Return the evidence of a changed value made of dicts and lists. Only the parts that differ are shown, by their
    names.
    """
    parts = list(_parts_apart(before, after))
    sides = [without_digests(", ".join(pair[side] for pair in parts if pair[side])) for side in (0, 1)]
    left, right = text_pieces(sides[0], sides[1], WIDTH)
    return before_and_after(quoted(left), quoted(f"{right}{OTHERWISE}" if left == right else right))


def expression(canonical: str, names: Names = NO_NAMES) -> str:
    """Return one expression as its author would write it."""
    named = _named(canonical)
    return shortened(term_of(named, labels=_ambiguous(named), names=names))


def _changed(before: str, after: str, width: int = WIDTH, named: Named = UNNAMED) -> tuple[str, str]:
    if before == after:
        return expression(before, named.before), expression(after, named.after)
    if (side := LABELLED.match(before)) and after.startswith(side[0]):
        texts = _changed(before[side.end() :], after[side.end() :], width, named)
        return f"{side_label(side)}{texts[0]}", f"{side_label(side)}{texts[1]}"
    before, after = _named(before), _named(after)
    labels = _ambiguous(before, after)
    for detail in Detail:
        left = term_of(before, detail, labels=labels, names=named.before)
        right = term_of(after, detail, labels=labels, names=named.after)
        if str(left) != str(right):
            typed = _with_types(before), _with_types(after)
            if _RAW_TYPE in f"{left}{right}" and typed[0] != typed[1] and typed != (before, after):
                return _changed(*typed, width, named)
            return with_part(*pieces(left, right, width), only_part(left, right))
    same = expression(before, named.before)
    if same.startswith(("window(", "session_window(")):
        return same, f"{same}{OTHER_WINDOW}"
    if _ROWS in same:
        return same, same.replace(_ROWS, f"other {_ROWS}", 1)
    return _by_argument(same, before, after, named)


def with_part(before: str, after: str, part: tuple[str, str] | None) -> tuple[str, str]:
    """Return two shortened expressions, and add the part that only one of them has. Without it, the shortened texts
    could look as if that part had replaced another one.
    """
    if part is None or CUT not in f"{before}{after}" or len(part[1]) > SEVERAL:
        return before, after
    return before, f"{after} ({part[0]}: `{part[1]}`)"


def _by_argument(same: str, before: str, after: str, named: Named) -> tuple[str, str]:
    """Return two expressions that render equally, each with the first hidden argument that differs."""
    for left, right in zip(_ARGUMENT.finditer(before), _ARGUMENT.finditer(after), strict=False):
        (name, had), (other, has) = left.groups(), right.groups()
        if name == other and had != has and len(had) + len(has) < WIDTH:
            if name == "evalType" and had in _RUN_AS and has in _RUN_AS:
                return f"{same} run {_RUN_AS[had]}", f"{same} run {_RUN_AS[has]}"
            if name == "dataType" and (called := _FUNCTION.match(before, left.end())):
                function = named.before.get(int(called[1]), "the function")
                return f"{same}, where {function} returns {had}", f"{same}, where {function} returns {has}"
            return f"{same}, {name}={had}", f"{same}, {name}={has}"
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
    if name == _UPSTREAM:
        return "the plan below it"
    text = ("no", "yes")[value] if isinstance(value, bool) else str(value)
    return f"{name.replace('_', ' ')}: {text}" if name else text


def _named(canonical: str) -> str:
    """An expression with named sources by name only."""
    return _SOURCE_NAME.sub(r'\1 "\2"', canonical)


def _with_types(canonical: str) -> str:
    """An expression with structs in SQL syntax."""
    text = canonical
    while (shorter := _STRUCT.sub(_struct, text)) != text:
        text = shorter
    return text


def _struct(found: re.Match[str]) -> str:
    if _FIELD.sub("", found[1]).strip(","):
        return found[0]
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in _FIELD.findall(found[1]))}>"


def _ambiguous(*meanings: str) -> bool:
    """Whether two sources have a column with the same name."""
    found = {(column[1], column[2]) for text in meanings for column in _COLUMN.finditer(text)}
    return len({name for _, name in found}) < len(found)


def shortened(term: Term) -> str:
    """Return a term in about ``WIDTH`` characters."""
    return short(term, WIDTH)


def counted(texts: Iterable[str]) -> str:
    """Return the first texts in backticks, and the number of further ones. A side of a join or union that several
    consecutive texts have is shown once.
    """
    kept, last = list[str](), ""
    for text in texts:
        found = _SIDE.match(text)
        side = found[0] if found else ""
        kept.append(quoted(text.removeprefix(side) if side == last and len(text) > len(side) else text))
        last = side
    return ", ".join(kept[:MOST]) + and_more(len(kept) - MOST)


def and_more(count: int, noun: str = "") -> str:
    """Return the end of a list that omits ``count`` entries; empty if it omits none."""
    if count <= 0:
        return ""
    return f" and {count} more{f' changed {noun}' if noun else ''}{'s' if noun and count > 1 else ''}"


def _type(kind: str) -> str:
    """A type in the state, without the fields of a struct."""
    null = " not null" if kind.endswith(" not null") else ""
    bare = kind.removesuffix(" not null")
    return f"{'struct' if bare.startswith('{') else bare if len(bare) <= WIDTH else f'{bare[:24]}…'}{null}"


def _listed(value: object) -> str:
    values = list(map(str, value)) if isinstance(value, tuple | list) else [str(value)]
    return ", ".join(map(quoted, values)) if value not in ("", None) else ""
