"""Finds the functions, values and files of a job's code that changed, with their old and new text. Pure.

Digests of whole functions decide whether code has changed (``python_code``); the parts of a manifest only locate the
change. A manifest of an older release has no parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from streamkeeper.compatibility.one_sided_calls import one_sided
from streamkeeper.compatibility.shown import change
from streamkeeper.compatibility.terms import text_pieces
from streamkeeper.model.manifests.manifest import IMPORT, MOST_PARTS, CodePart, Manifest

_MOST = 3
_WIDTHS = (88, 56, 40)
"""The number of characters shown of one side, by the number of parts that are shown."""
_NARROWER = {2: 56, 3: 40}
"""The number of characters shown of one side, by the number of changes of one part that are shown."""
_MOST_OF_SEVERAL = 240
"""Several changes of one part are shown if they fit into this number of characters."""
_WORD = re.compile(r"'[^']*'|\"[^\"]*\"|[\w.]+|[^\w\s]")
_ALIKE = 0.6
_SHORT_VALUE = 40
"""A value that a function holds is shown if it has at most this many characters."""
_LOCALS = ".<locals>"
_DEFINES = re.compile(r"(?:@.*\n)*(?:async )?(?P<kind>def|class)\b|(?P<lambda>\(?lambda\b)")
_MADE = ".__create_fn__."
"""A part of the name of every function that a dataclass generates."""
_METHOD = "builtins.method"
"""The name of a bound method whose class is not known."""
_CLASS = ("class ", "@")
_KINDS = {"def": "function", "class": "class", None: "function"}
_HELD = re.compile(r"(.+)\((returns|argument \w+|\w+)\)")
"""Names of parts inside a function: its return type, a bound argument, a default value or a closure's value."""
_PATTERN = re.compile(r"^(re\.compile\(.*, )(\d+)\)$", re.MULTILINE)

NO_RECORD = "the code differs; one of the two manifests does not record its parts"
NOT_IN_RECORD = f"the code differs beyond the first {MOST_PARTS} functions and values, which are all that is recorded"
NO_PART = "the code differs in a part that the manifests do not record; every recorded function and value is the same"


class CodeChange(NamedTuple):
    """A change of code. ``evidence``: the parts that differ; ``line``: ``file:line`` of the first such part in the
    candidate.
    """

    evidence: str
    line: str


class _Hunk(NamedTuple):
    """A run of differing lines of a part, before and after the change; ``position``: the index of the first of them in
    the new text.
    """

    old: list[str]
    new: list[str]
    position: int


class _Pair(NamedTuple):
    """A part of the code before and after the change; None on the side that lacks the part."""

    name: str
    before: CodePart | None
    after: CodePart | None
    renamed: str = ""


def code_change(name: str, old: Manifest, new: Manifest) -> CodeChange:
    """Return the change in a function's code.

    ``name``: the function's name in ``new``, or in ``old`` if the function was removed.
    """
    had, has = _key(old, name), _key(new, name)
    written = new.written.get(has, "")
    if not had or not has:
        return CodeChange(one_sided(had, has, old, new), written)
    before, after = _parts(old, had), _parts(new, has)
    if not before or not after:
        return CodeChange(NO_RECORD, written)
    last = _last_on_record(old.reached[had], new.reached[has])
    pairs = _told_once([pair for pair in _changed(before, after) if not last or pair.name < last])
    if not pairs:
        return CodeChange(NOT_IN_RECORD if last else NO_PART, written)
    shown = pairs[:_MOST]
    width = _WIDTHS[len(shown) - 1]
    rest = len(pairs) - _MOST
    more = f"; {rest} more changed part{'s' if rest > 1 else ''}" if rest > 0 else ""
    lines = [line for pair in shown if (line := _line(pair))]
    line = lines[0] if lines else written or _place_around(shown[0].name, new)
    return CodeChange("; ".join(_told(pair, width) for pair in shown) + more, line)


def _place_around(name: str, manifest: Manifest) -> str:
    """Return ``file:line`` of the class or function around a value that has no line of its own; empty if unknown."""
    while name := name.rpartition(".")[0]:
        if name in manifest.parts and manifest.parts[name].place:
            return manifest.parts[name].place
    return ""


def _key(manifest: Manifest, name: str) -> str:
    """Return the name of the function that has the same place and number in the manifest; empty if there is no such
    function.
    """
    if name in manifest.functions:
        return name
    place = name.partition(" ")[0]
    return next((key for key in manifest.functions if key.partition(" ")[0] == place), "")


def _last_on_record(*reached: Sequence[str]) -> str:
    """Return the name up to which both records are complete; empty if they are complete as a whole."""
    return min((_plain(names[-1]) for names in reached if len(names) >= MOST_PARTS), default="")


def _plain(name: str) -> str:
    """Return a part's name without the suffix that distinguishes parts of the same name."""
    return name.partition("#")[0]


def _parts(manifest: Manifest, key: str) -> dict[str, list[CodePart]]:
    """Return the parts by name. Parts that share a name (lambdas in one line, objects of one class) are in a fixed
    order.
    """
    found: dict[str, list[CodePart]] = {}
    for name in manifest.reached.get(key, ()):
        if name in manifest.parts:
            found.setdefault(_plain(name), []).append(manifest.parts[name])
    return {name: sorted(parts, key=lambda part: (part.place, part.text)) for name, parts in found.items()}


def _changed(before: Mapping[str, list[CodePart]], after: Mapping[str, list[CodePart]]) -> list[_Pair]:
    """Return the parts whose digests differ; if there are none, the parts whose texts differ where no digest covers
    them, such as annotations.

    Files and imports count only if no code differs. Moved or renamed parts count only if there is no other difference.
    """
    pairs, moved = _moved_apart(_compared(before, after))
    within = [pair for pair in pairs if not _is_beside(pair)]
    if within or pairs:
        return within or pairs
    annotated = (
        (name, old, new) for name in before for old, new in zip(before[name], after.get(name, ()), strict=False)
    )
    return [_Pair(name, old, new) for name, old, new in annotated if old.text != new.text] or moved


def _compared(before: Mapping[str, list[CodePart]], after: Mapping[str, list[CodePart]]) -> list[_Pair]:
    found: list[_Pair] = []
    for name in sorted(before.keys() | after.keys()):
        had, has = before.get(name, []), after.get(name, [])
        removed = [part for part in had if part.digest not in {other.digest for other in has}]
        added = [part for part in has if part.digest not in {other.digest for other in had}]
        for number in range(max(len(removed), len(added))):
            pair = (removed[number] if number < len(removed) else None, added[number] if number < len(added) else None)
            found.append(_Pair(name, *pair))
    return found


def _moved_apart(pairs: list[_Pair]) -> tuple[list[_Pair], list[_Pair]]:
    """Return the pairs that differ, and separately the pairs with the same text under another name or in another
    module.

    A removed part and a similar added part form one pair.
    """
    removed = [pair for pair in pairs if pair.after is None]
    found = [pair for pair in pairs if pair.before is not None and pair.after is not None]
    moved: list[_Pair] = []
    for pair in pairs:
        if pair.before is None and pair.after is not None:
            other = next((each for each in removed if _is_the_same(each, pair)), None)
            if other is None:
                found.append(pair)
                continue
            removed.remove(other)
            assert other.before is not None
            same = other.before.digest == pair.after.digest
            (moved if same else found).append(_Pair(pair.name, other.before, pair.after, other.name))
    return sorted([*found, *removed], key=_by_name), sorted(moved, key=_by_name)


def _by_name(pair: _Pair) -> tuple[bool, str]:
    """Return the sort key, which puts changed parts before added and removed ones."""
    return pair.before is None or pair.after is None, pair.name


def _told_once(pairs: list[_Pair]) -> list[_Pair]:
    """Return the pairs without repetitions. A repetition is a value that changes in the same way as another value of
    its name or as its class, or a function whose change is already shown for the function around it.
    """
    found: dict[tuple[object, ...], _Pair] = {}
    for pair in pairs:
        texts = tuple(part.text if part else None for part in (pair.before, pair.after))
        known = found.setdefault((_plain(pair.name), *texts), pair)
        if known.after is not None and pair.after is not None and not known.after.place:
            found[_plain(pair.name), *texts] = pair
    lines: dict[tuple[str, str], str] = {}
    for pair in found.values():
        lines.setdefault((_line(pair), _difference_of(pair, _WIDTHS[0])), pair.name)
    shown = {pair.name for pair in found.values() if not _difference_of(pair, 1) or pair.name in lines.values()}
    written = [pair for pair in found.values() if _MADE not in pair.name and pair.name in shown]
    classes = {pair.name for pair in pairs if pair.before and pair.after and pair.after.text.startswith(_CLASS)}
    return [
        pair
        for pair in written or found.values()
        if _plain(pair.name).rpartition(".")[0] not in classes or _defines(pair)
    ]


def _defines(pair: _Pair) -> bool:
    return any(part is not None and _DEFINES.match(part.text) is not None for part in (pair.before, pair.after))


def _is_the_same(removed: _Pair, added: _Pair) -> bool:
    assert removed.before is not None
    assert added.after is not None
    if removed.before.digest == added.after.digest:
        return True
    if not removed.before.lines or not added.after.lines:
        return False
    return SequenceMatcher(None, removed.before.text, added.after.text, autojunk=False).ratio() > _ALIKE


def _is_beside(pair: _Pair) -> bool:
    return all(part.beside for part in (pair.before, pair.after) if part is not None)


def _told(pair: _Pair, width: int) -> str:
    """Return the change of one part as text: the part's kind, name and line, and its changed text."""
    part = pair.after or pair.before
    assert part is not None
    name = _called(part, pair.name)
    place = f" ({_line(pair) or part.place})" if part.place and part.place != pair.name else ""
    if pair.before is None or pair.after is None:
        uses = "now uses" if pair.before is None else "no longer uses"
        held = f": `{part.text}`" if _HELD.fullmatch(_bare(pair.name)) and 0 < len(part.text) <= _SHORT_VALUE else ""
        return f"{uses} {name}{place}{held}"
    texts = _difference_of(pair, width)
    if pair.renamed:
        return f"{name}{place}, formerly {_bare(pair.renamed)}{f': {texts}' if texts else ', with the same text'}"
    if part.place == pair.name:
        return f"{name} changed (only its digest is recorded: compare it with the file in the deployed release)"
    return f"{name}{place}{': ' if texts else ' changed'}{texts}"


def _difference_of(pair: _Pair, width: int) -> str:
    if pair.before is None or pair.after is None:
        return ""
    return _difference(_text_before(pair), _readable(pair.after.text), width, counted=len(pair.after.lines) > 1)


def _bare(name: str) -> str:
    return _plain(name).replace(_LOCALS, "").removesuffix(IMPORT)


def _called(part: CodePart, name: str) -> str:
    """Return a part's name, with the part's kind if that is known."""
    bare = _bare(name)
    if name.endswith(IMPORT):
        return f"top-level code of module {bare}"
    if held := _HELD.fullmatch(bare):
        what = "return type" if held[2] == "returns" else held[2] if " " in held[2] else f"value {held[2]}"
        return what if held[1] == _METHOD else f"{what} of {held[1]}"
    if part.place == name or not part.text:
        return f"file {bare}" if part.place == name else bare
    found = _DEFINES.match(part.text)
    return f"{_KINDS[found['kind']] if found else 'value'} {bare}"


def _readable(text: str) -> str:
    """Return a part's text in which the flags of a compiled pattern are replaced by their names."""
    return _PATTERN.sub(_with_flags, text)


def _with_flags(found: re.Match[str]) -> str:
    flags = [f"re.{flag.name}" for flag in re.RegexFlag(int(found[2])) if flag.name and flag != re.RegexFlag.UNICODE]
    return f"{found[1] if flags else found[1].removesuffix(', ')}{' | '.join(flags)})"


def _text_before(pair: _Pair) -> str:
    """Return the old text with the new name, so that a mere rename shows no difference."""
    assert pair.before is not None
    old, new = (name.rpartition(".")[2] for name in (pair.renamed, pair.name))
    text = _readable(pair.before.text)
    return text.replace(f"def {old}(", f"def {new}(") if old else text


def _difference(before: str, after: str, width: int, *, counted: bool) -> str:
    """Return the lines that differ, and the number of further ones if ``counted``; empty if a text is missing or both
    are equal.
    """
    if not before or not after or before == after:
        return ""
    ranked = _ranked(list(_hunks(before.split("\n"), after.split("\n"))))
    shown = [_hunk_shown(ranked[0], width)]
    for number, narrow in _NARROWER.items() if counted else ():
        more = [_hunk_shown(hunk, min(width, narrow)) for hunk in sorted(ranked[:number], key=_position)]
        if number <= len(ranked) and sum(map(len, more)) <= _MOST_OF_SEVERAL:
            shown = more
    rest = sum(max(len(hunk.old), len(hunk.new)) for hunk in ranked[len(shown) :])
    listed = ", ".join(shown)
    return (
        f"{listed}{f' and {rest} more changed line' if rest and counted else ''}{'s' if rest > 1 and counted else ''}"
    )


def _hunk_shown(hunk: _Hunk, width: int) -> str:
    if hunk.old == hunk.new:
        return f"indentation of `{text_pieces(_one_line(hunk.old), _one_line(hunk.new), width)[1]}` changed"
    return change(*text_pieces(_one_line(hunk.old), _one_line(hunk.new), width))


def _position(hunk: _Hunk) -> int:
    return hunk.position


def _ranked(hunks: list[_Hunk]) -> list[_Hunk]:
    """Return the changed lines sorted: lines that only moved are last; among the others, lines that change literals or
    names are first.
    """
    removed = [line for hunk in hunks for line in hunk.old]
    added = [line for hunk in hunks for line in hunk.new]
    words = _words_apart(removed, added)

    def rank(hunk: _Hunk) -> tuple[bool, bool, int]:
        moved = all(line in added for line in hunk.old) and all(line in removed for line in hunk.new)
        return moved, not words & _words_apart(hunk.old, hunk.new), hunk.position

    return sorted(hunks, key=rank)


def _words_apart(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """Return the words, literals and signs that occur more often on one side than on the other."""
    had, has = (Counter(word for line in side for word in _WORD.findall(line)) for side in (before, after))
    return {*(had - has), *(has - had)}


def _one_line(lines: list[str]) -> str:
    """Return several lines of code as one line."""
    return "".join(f"{line}{' ' if line.endswith(':') else '; '}" for line in lines).removesuffix("; ").rstrip()


def _hunks(before: list[str], after: list[str]) -> Iterator[_Hunk]:
    """Yield the runs of lines that differ. Runs of equal length are compared line by line."""
    for tag, start, end, other, other_end in _matched(before, after).get_opcodes():
        if tag != "equal":
            old, new = ([line.strip() for line in lines] for lines in (before[start:end], after[other:other_end]))
            if len(old) == len(new):
                pairs = enumerate(zip(old, new, strict=True), other)
                yield from (_Hunk([left], [right], index) for index, (left, right) in pairs)
            else:
                yield _Hunk(old, new, other)


def _matched(before: list[str], after: list[str]) -> SequenceMatcher[str]:
    """Match the lines of two texts. Indentation counts only if the texts do not differ otherwise."""
    bare = [[line.strip() for line in lines] for lines in (before, after)]
    sides = bare if bare[0] != bare[1] else [before, after]
    return SequenceMatcher(None, sides[0], sides[1], autojunk=False)


def _line(pair: _Pair) -> str:
    """Return ``file:line`` of the candidate's differing line that is ranked first; empty for a removed part."""
    part = pair.after
    if part is None:
        return ""
    lines = part.text.split("\n")
    if pair.before is None or len(part.lines) != len(lines):
        return part.place
    hunks = _ranked(list(_hunks(_text_before(pair).split("\n"), _readable(part.text).split("\n"))))
    if not hunks:
        return part.place
    return f"{part.place.rpartition(':')[0]}:{part.lines[min(hunks[0].position, len(lines) - 1)]}"
