"""Which functions, values and files of a job's code have changed, with the old and the new text of each. Pure.

Digests of whole functions decide that code has changed (``python_code``); the parts of a manifest only say where. A
manifest of an older release has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from streamkeeper.compatibility.shown import change
from streamkeeper.compatibility.terms import text_pieces
from streamkeeper.model.manifest import IMPORT, MOST_PARTS, CodePart, Manifest

_MOST = 3
_WIDTHS = (88, 56, 40)
"""Characters of one side, by how many parts are shown."""
_MOST_OF_TWO = 150
"""Characters up to which two changes of one part are shown."""
_ALIKE = 0.6
_LOCALS = ".<locals>"
_DEFINES = re.compile(r"(?:@.*\n)*(?:async )?(?P<kind>def|class)\b|(?P<lambda>\(?lambda\b)")
_MADE = ".__create_fn__."
"""In the name of a function that a dataclass has made."""
_METHOD = "builtins.method"
"""What a bound method is called of which no class is known."""
_CLASS = ("class ", "@")
_KINDS = {"def": "function", "class": "class", None: "function"}
_HELD = re.compile(r"(.+)\((returns|argument \d+|\w+)\)")
"""Names of what a function holds: its return type, an argument that it was given, a default or a closure's value."""
_PATTERN = re.compile(r"^(re\.compile\(.*, )(\d+)\)$", re.MULTILINE)

NO_RECORD = "the code differs; one of the two manifests does not record its parts"
NOT_IN_RECORD = f"the code differs beyond the first {MOST_PARTS} functions and values, which are all that is recorded"
NO_PART = "the code differs in a part that the manifests do not record; every recorded function and value is the same"


class CodeChange(NamedTuple):
    """``evidence``: the parts that differ; ``line``: ``file:line`` of the first of them in the candidate."""

    evidence: str
    line: str


class _Pair(NamedTuple):
    """A part before and after; None: on one side only."""

    name: str
    before: CodePart | None
    after: CodePart | None
    renamed: str = ""


def code_change(name: str, old: Manifest, new: Manifest) -> CodeChange:
    """What changed in the code of a function; ``name`` as ``new`` has it, or as ``old`` has it if it is gone."""
    had, has = _key(old, name), _key(new, name)
    written = new.written.get(has, "")
    if not had or not has:
        return CodeChange(change(_shown(had), _shown(has)), written)
    before, after = _parts(old, had), _parts(new, has)
    if not before or not after:
        return CodeChange(NO_RECORD, written)
    last = _last_on_record(old.reached[had], new.reached[has])
    pairs = _told_once([pair for pair in _changed(before, after) if not last or pair.name < last])
    if not pairs:
        return CodeChange(NOT_IN_RECORD if last else NO_PART, written)
    shown = pairs[:_MOST]
    width = _WIDTHS[len(shown) - 1]
    more = f"; {len(pairs) - _MOST} more" if len(pairs) > _MOST else ""
    lines = [line for pair in shown if (line := _line(pair))]
    return CodeChange("; ".join(_told(pair, width) for pair in shown) + more, lines[0] if lines else written)


def _key(manifest: Manifest, name: str) -> str:
    """The function that has the same place and number."""
    if name in manifest.functions:
        return name
    place = name.partition(" ")[0]
    return next((key for key in manifest.functions if key.partition(" ")[0] == place), "")


def _shown(key: str) -> str:
    return key.partition(" ")[2] or key


def _last_on_record(*reached: Sequence[str]) -> str:
    """The name before which both records are whole; empty where they are whole altogether."""
    return min((_plain(names[-1]) for names in reached if len(names) >= MOST_PARTS), default="")


def _plain(name: str) -> str:
    """A part's name without what tells it from others of that name."""
    return name.partition("#")[0]


def _parts(manifest: Manifest, key: str) -> dict[str, list[CodePart]]:
    """Parts by name; those that share one (lambdas in one line, objects of one class) in a fixed order."""
    found: dict[str, list[CodePart]] = {}
    for name in manifest.reached.get(key, ()):
        if name in manifest.parts:
            found.setdefault(_plain(name), []).append(manifest.parts[name])
    return {name: sorted(parts, key=lambda part: (part.place, part.text)) for name, parts in found.items()}


def _changed(before: Mapping[str, list[CodePart]], after: Mapping[str, list[CodePart]]) -> list[_Pair]:
    """Parts that differ: by digest, else in what no digest of a part covers, such as annotations; what only lies beside
    the code (files, imports) where nothing else differs; what was moved or renamed where that is all."""
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
        gone = [part for part in had if part.digest not in {other.digest for other in has}]
        come = [part for part in has if part.digest not in {other.digest for other in had}]
        for number in range(max(len(gone), len(come))):
            pair = (gone[number] if number < len(gone) else None, come[number] if number < len(come) else None)
            found.append(_Pair(name, *pair))
    return found


def _moved_apart(pairs: list[_Pair]) -> tuple[list[_Pair], list[_Pair]]:
    """Pairs that differ, and those of the same text under another name or in another module.

    A part that went and one alike that came are one.
    """
    gone = [pair for pair in pairs if pair.after is None]
    found = [pair for pair in pairs if pair.before is not None and pair.after is not None]
    moved: list[_Pair] = []
    for pair in pairs:
        if pair.before is None and pair.after is not None:
            other = next((each for each in gone if _is_the_same(each, pair)), None)
            if other is None:
                found.append(pair)
                continue
            gone.remove(other)
            assert other.before is not None
            same = other.before.digest == pair.after.digest
            (moved if same else found).append(_Pair(pair.name, other.before, pair.after, other.name))
    return sorted([*found, *gone], key=_by_name), sorted(moved, key=_by_name)


def _by_name(pair: _Pair) -> tuple[bool, str]:
    """What changed comes before what was added or removed."""
    return pair.before is None or pair.after is None, pair.name


def _told_once(pairs: list[_Pair]) -> list[_Pair]:
    """Without values that change as another one of their name, or as the class that they belong to, and without
    functions whose change is that of a function around them."""
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


def _is_the_same(gone: _Pair, come: _Pair) -> bool:
    assert gone.before is not None
    assert come.after is not None
    if gone.before.digest == come.after.digest:
        return True
    if not gone.before.lines or not come.after.lines:
        return False
    return SequenceMatcher(None, gone.before.text, come.after.text, autojunk=False).ratio() > _ALIKE


def _is_beside(pair: _Pair) -> bool:
    return all(part.beside for part in (pair.before, pair.after) if part is not None)


def _told(pair: _Pair, width: int) -> str:
    """One part: what it is, its name and line, and how its text differs."""
    part = pair.after or pair.before
    assert part is not None
    name = _called(part, pair.name)
    place = f" ({_line(pair) or part.place})" if part.place and part.place != pair.name else ""
    if pair.before is None:
        return f"now uses {name}{place}"
    if pair.after is None:
        return f"no longer uses {name}{place}"
    texts = _difference_of(pair, width)
    if pair.renamed:
        return f"{name}{place}, formerly {_bare(pair.renamed)}{f': {texts}' if texts else ', with the same text'}"
    return f"{name}{place}{': ' if texts else ' changed'}{texts}"


def _difference_of(pair: _Pair, width: int) -> str:
    if pair.before is None or pair.after is None:
        return ""
    return _difference(_text_before(pair), _readable(pair.after.text), width, counted=len(pair.after.lines) > 1)


def _bare(name: str) -> str:
    return _plain(name).replace(_LOCALS, "").removesuffix(IMPORT)


def _called(part: CodePart, name: str) -> str:
    """What a part is, as far as that is known, and its name."""
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
    """A part's text, with the flags of a compiled pattern by their names."""
    return _PATTERN.sub(_with_flags, text)


def _with_flags(found: re.Match[str]) -> str:
    flags = [f"re.{flag.name}" for flag in re.RegexFlag(int(found[2])) if flag.name and flag != re.RegexFlag.UNICODE]
    return f"{found[1] if flags else found[1].removesuffix(', ')}{' | '.join(flags)})"


def _text_before(pair: _Pair) -> str:
    """The old text; the new name in it is no difference."""
    assert pair.before is not None
    old, new = (name.rpartition(".")[2] for name in (pair.renamed, pair.name))
    text = _readable(pair.before.text)
    return text.replace(f"def {old}(", f"def {new}(") if old else text


def _difference(before: str, after: str, width: int, *, counted: bool) -> str:
    """The first lines that differ, and how many more do (``counted``); empty where a text is not known or both are the
    same."""
    if not before or not after or before == after:
        return ""
    hunks = list(_hunks(before.split("\n"), after.split("\n")))
    shown = [change(*text_pieces(_one_line(old), _one_line(new), width)) for old, new in hunks]
    fit = 2 if counted and sum(map(len, shown[:2])) <= _MOST_OF_TWO else 1
    more = sum(max(len(gone), len(come)) for gone, come in hunks[fit:])
    told = ", ".join(shown[:fit])
    return f"{told}{f' and {more} more changed line' if more and counted else ''}{'s' if more > 1 and counted else ''}"


def _one_line(lines: list[str]) -> str:
    """Lines of code as one."""
    return "".join(f"{line}{' ' if line.endswith(':') else '; '}" for line in lines).removesuffix("; ").rstrip()


def _hunks(before: list[str], after: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Runs of lines that differ; equally many are compared line by line."""
    for tag, start, end, other, other_end in _matched(before, after).get_opcodes():
        if tag != "equal":
            old, new = ([line.strip() for line in lines] for lines in (before[start:end], after[other:other_end]))
            if len(old) == len(new):
                yield from (([left], [right]) for left, right in zip(old, new, strict=True))
            else:
                yield old, new


def _matched(before: list[str], after: list[str]) -> SequenceMatcher[str]:
    """The lines that two texts share; indentation counts only where nothing else differs."""
    bare = [[line.strip() for line in lines] for lines in (before, after)]
    sides = bare if bare[0] != bare[1] else [before, after]
    return SequenceMatcher(None, sides[0], sides[1], autojunk=False)


def _line(pair: _Pair) -> str:
    """Where the candidate has the first line that differs; empty for what it does not have."""
    part = pair.after
    if part is None:
        return ""
    lines = part.text.split("\n")
    if pair.before is None or len(part.lines) != len(lines):
        return part.place
    matcher = _matched(_text_before(pair).split("\n"), _readable(part.text).split("\n"))
    first = next((other for tag, _, _, other, _ in matcher.get_opcodes() if tag != "equal"), None)
    if first is None:
        return part.place
    return f"{part.place.rpartition(':')[0]}:{part.lines[min(first, len(lines) - 1)]}"
