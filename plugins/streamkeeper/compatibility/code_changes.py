"""Which functions, values and files of a job's code have changed, with the old and the new text of each. Pure.

Digests of whole functions decide that code has changed (``python_code``); the parts of a manifest only say where. A
manifest of an older release has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from streamkeeper.compatibility.shown import change
from streamkeeper.compatibility.terms import text_pieces
from streamkeeper.model.manifest import IMPORT, MOST_PARTS, CodePart, Manifest

_MOST = 3
_WIDTHS = (64, 40, 28)
"""Characters of one side, by how many parts are shown."""
_ALIKE = 0.6
_LOCALS = ".<locals>"

NO_RECORD = "the code differs; the deployed release's record does not say where"
NOT_IN_RECORD = f"the code differs beyond the first {MOST_PARTS} functions and values, which are all that is on record"
NO_PART = (
    "all functions and values on record are the same; an object of a library, a secret or Python's version differs"
)


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
    pairs = [pair for pair in _changed(before, after) if not last or pair.name < last]
    if not pairs:
        return CodeChange(NOT_IN_RECORD if last else NO_PART, written)
    shown = pairs[:_MOST]
    width = _WIDTHS[len(shown) - 1]
    more = f" and {len(pairs) - _MOST} more" if len(pairs) > _MOST else ""
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
    the code (files, imports) where nothing else differs."""
    pairs = _without_moved(_compared(before, after))
    within = [pair for pair in pairs if not _is_beside(pair)]
    if within or pairs:
        return within or pairs
    annotated = (
        (name, old, new) for name in before for old, new in zip(before[name], after.get(name, ()), strict=False)
    )
    return [_Pair(name, old, new) for name, old, new in annotated if old.text != new.text]


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


def _without_moved(pairs: list[_Pair]) -> list[_Pair]:
    """A part that went and one alike that came are one: it has another name or is in another module."""
    gone = [pair for pair in pairs if pair.after is None]
    found = [pair for pair in pairs if pair.before is not None and pair.after is not None]
    for pair in pairs:
        if pair.before is None and pair.after is not None:
            other = next((each for each in gone if _is_the_same(each, pair)), None)
            if other is None:
                found.append(pair)
                continue
            gone.remove(other)
            if other.before is not None and other.before.digest != pair.after.digest:
                found.append(_Pair(pair.name, other.before, pair.after, other.name))
    return sorted([*found, *gone], key=lambda pair: pair.name)


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
    name = pair.name.replace(_LOCALS, "")
    if pair.renamed:
        name = f"{pair.renamed.replace(_LOCALS, '')} -> {name}"
    part = pair.after or pair.before
    assert part is not None
    if name.endswith(IMPORT):
        name = f"import of {name.removesuffix(IMPORT)}"
    place = f" ({_line(pair) or part.place})" if part.place and part.place != pair.name else ""
    if pair.before is None or pair.after is None:
        return f"{name}{place} {'added' if pair.before is None else 'removed'}"
    texts = _difference(_text_before(pair), pair.after.text, width, counted=len(pair.after.lines) > 1)
    return f"{name}{place}{': ' if texts else ' changed'}{texts}"


def _text_before(pair: _Pair) -> str:
    """The old text; the new name in it is no difference."""
    assert pair.before is not None
    old, new = (name.rpartition(".")[2] for name in (pair.renamed, pair.name))
    return pair.before.text.replace(f"def {old}(", f"def {new}(") if old else pair.before.text


def _difference(before: str, after: str, width: int, *, counted: bool) -> str:
    """The first lines that differ, and how many more do (``counted``); empty where a text is not known or both are the
    same."""
    if not before or not after or before == after:
        return ""
    hunks = list(_hunks(before.split("\n"), after.split("\n")))
    old, new = hunks[0]
    left, right = text_pieces(" ".join(old), " ".join(new), width)
    more = sum(max(len(gone), len(come)) for gone, come in hunks[1:])
    told = f" and {more} more line{'s' if more > 1 else ''}" if more and counted else ""
    return f"{change(left, right)}{told}"


def _hunks(before: list[str], after: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Runs of lines that differ; equally many are compared line by line."""
    for tag, start, end, other, other_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            old, new = ([line.strip() for line in lines] for lines in (before[start:end], after[other:other_end]))
            if len(old) == len(new):
                yield from (([left], [right]) for left, right in zip(old, new, strict=True))
            else:
                yield old, new


def _line(pair: _Pair) -> str:
    """Where the candidate has the first line that differs; empty for what it does not have."""
    part = pair.after
    if part is None:
        return ""
    lines = part.text.split("\n")
    if pair.before is None or len(part.lines) != len(lines):
        return part.place
    matcher = SequenceMatcher(None, _text_before(pair).split("\n"), lines, autojunk=False)
    first = next((other for tag, _, _, other, _ in matcher.get_opcodes() if tag != "equal"), None)
    if first is None:
        return part.place
    return f"{part.place.rpartition(':')[0]}:{part.lines[min(first, len(lines) - 1)]}"
