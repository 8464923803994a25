"""Represents texts as trees of brackets, so that whole expressions can be cut out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

CUT = "…"
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_OPENS = {close: opens for opens, close in _CLOSES.items()}
_MOST_ALIGNED = 400
_SHORT = 16
_LEAST = 40
"""The number of characters that must be left for a piece of an expression so that its surroundings are shown, too."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression as a tree. Its parts stand between ``before`` and ``after``, separated by ``between``; a leaf has
    no parts.
    """

    before: str = ""
    parts: tuple[Term, ...] = ()
    between: str = ", "
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.between.join(map(str, self.parts))}{self.after}"

    @property
    def frame(self) -> tuple[str, str, str, bool]:
        """A value that is equal for two terms that differ only in their parts."""
        return self.before, self.between, self.after, bool(self.parts)


def leaf(text: str) -> Term:
    """Return a term without parts."""
    return Term(before=text)


def outside(text: str) -> Iterator[tuple[int, str]]:
    """Yield the position and the character of all text that is not inside brackets or double quotes.

    The outermost brackets themselves and the opening quotes are yielded, too.
    Raises ValueError if brackets do not match.
    """
    waiting: list[str] = []
    quotes = escaped = False
    for number, char in enumerate(text):
        if quotes:
            quotes = escaped or char != '"'
            escaped = char == "\\" and not escaped
            continue
        if char == '"':
            quotes = True
        elif char in _CLOSES:
            if not waiting:
                yield number, char
            waiting.append(_CLOSES[char])
            continue
        elif char in _OPENS and (not waiting or waiting.pop() != char):
            raise ValueError(text)
        if not waiting:
            yield number, char
    if waiting or quotes:
        raise ValueError(text)


def split(text: str, by: str) -> list[str]:
    """Split a text at each separator ``by`` that is outside of brackets and double quotes."""
    found, start = [], 0
    for number, char in outside(text):
        if char == by[0] and number >= start and text.startswith(by, number):
            found.append(text[start:number])
            start = number + len(by)
    return [*found, text[start:]]


def groups_of(text: str) -> list[str]:
    """Return a text as alternating pieces: text outside of brackets, and brackets with their content."""
    found, start, inside = [], 0, False
    for number, char in outside(text):
        if char in _CLOSES:
            found.append(text[start:number])
            start, inside = number, True
        elif inside and char in _OPENS:
            found.append(text[start : number + 1])
            start, inside = number + 1, False
    return [*found, text[start:]]


def by_brackets(text: str) -> Term:
    """Parse any text into a term, by its brackets and commas only."""
    parts = []
    for group in groups_of(text):
        if group[:1] in _CLOSES:
            inner = tuple(by_brackets(part) for part in split(group[1:-1], ", "))
            parts.append(Term(group[0], inner, ", ", group[-1]))
        elif group:
            parts.append(leaf(group))
    return parts[0] if len(parts) == 1 else Term(parts=tuple(parts), between="")


def pieces(before: Term, after: Term, width: int) -> tuple[str, str]:
    """Return the parts in which two terms differ, as two texts of about ``width`` characters each.

    If both terms fit, the texts are complete. If not, they show the smallest expression around the difference.
    Different terms always give different texts.
    """
    shown = _pieces(before, after, width)
    if shown[0] != shown[1] or str(before) == str(after):
        return shown
    return text_pieces(str(before), str(after), width)


def only_part(before: Term, after: Term) -> tuple[str, str] | None:
    """Return ``added`` or ``removed`` and the part, if two terms differ only in one part that the other one lacks."""
    while before.frame == after.frame and before.parts:
        changed = [pair for pair in _aligned(before.parts, after.parts) if pair[0] != pair[1]]
        if len(changed) != 1:
            return None
        left, right = changed[0]
        if left is None or right is None:
            return ("removed" if right is None else "added"), str(left or right)
        before, after = left, right
    return None if before.parts or after.parts else _only_text(str(before), str(after))


def _only_text(before: str, after: str) -> tuple[str, str] | None:
    """Return the same as ``only_part``, but for an element of a list within the text, such as a field of a struct."""
    start, end = _shared(before, after)
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    text = added or removed
    if (removed and added) or not (text.startswith(",") or text.endswith(",")):
        return None
    return "added" if added else "removed", text.strip(", ")


def _pieces(before: Term, after: Term, width: int) -> tuple[str, str]:
    whole = str(before), str(after)
    if max(map(len, whole)) <= width:
        return whole
    if before.frame == after.frame and before.parts:
        pairs = _aligned(before.parts, after.parts)
        changed = [pair for pair in pairs if pair[0] != pair[1]]
        if len(changed) == 1 and (within := _one_part(before, pairs, *changed[0], width)):
            return within
        return _in_frame(before, pairs, width)
    return _beginning(before, after, width), _beginning(after, before, width)


def _beginning(term: Term, other: Term, width: int) -> str:
    """Return a term in about ``width`` characters. If the term only continues ``other``, show what follows ``other``
    instead of ``other`` itself.
    """
    if term.parts[:1] != (other,) or len(term.parts) == 1:
        return short(term, width)
    rest = term.between.join(map(str, term.parts[1:]))
    return f"{CUT}{term.between}{rest if len(rest) <= 2 * width else f'{rest[: 2 * width]}{CUT}'}{term.after}"


def _one_part(
    around: Term, pairs: list[tuple[Term | None, Term | None]], left: Term | None, right: Term | None, width: int
) -> tuple[str, str] | None:
    """Return the only changed part, with its surroundings if there is room, otherwise without them."""
    if left is None or right is None:
        return None
    alone = _pieces(left, right, width)
    room = width - len(_joined(around, [None if pair[0] == pair[1] else "" for pair in pairs]))
    for inner in (alone, _pieces(left, right, room)) if room >= _LEAST else (alone,):
        for most in (_SHORT, 0):
            framed = [
                _joined(around, [text if pair[0] != pair[1] else _ifshort(pair[0], most) for pair in pairs])
                for text in inner
            ]
            if max(map(len, framed)) <= width:
                return framed[0], framed[1]
    return _marked(alone[0]), _marked(alone[1])


def _in_frame(around: Term, pairs: list[tuple[Term | None, Term | None]], width: int) -> tuple[str, str]:
    """Return several parts that differ, with the equal parts between them omitted."""
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    each_width = max(24, width // max(1, len(changed)))
    shown: list[tuple[str | None, str | None]] = []
    for left, right in pairs:
        if left == right:
            shown.append((None, None))
        elif left is not None and right is not None:
            shown.append(_pieces(left, right, each_width))
        else:
            shown.append(
                (short(left, each_width) if left else "", short(right, each_width) if right else ""),
            )
    sides: list[str] = []
    for most in (_SHORT, 0):
        sides = [
            _joined(
                around,
                [
                    _ifshort(pair[0], most) if pair[0] == pair[1] else text[side]
                    for pair, text in zip(pairs, shown, strict=True)
                    if pair[0] == pair[1] or text[side] != ""
                ],
            )
            for side in (0, 1)
        ]
        if max(map(len, sides)) <= width:
            break
    return sides[0], sides[1]


def _joined(around: Term, texts: Iterable[str | None]) -> str:
    return f"{around.before}{around.between.join(_elided(texts))}{around.after}"


def _ifshort(term: Term | None, most: int) -> str | None:
    text = str(term)
    return text if len(text) <= most else None


def _elided(texts: Iterable[str | None]) -> list[str]:
    """Return the texts, with one mark in place of each run of omitted texts."""
    found: list[str] = []
    for text in texts:
        part_text = CUT if text is None else text
        if part_text != CUT or not found or found[-1] != CUT:
            found.append(part_text)
    return found


def _marked(text: str) -> str:
    return text if text.startswith(CUT) else f"{CUT} {text} {CUT}"


def short(term: Term, width: int) -> str:
    """Return a term shortened to about ``width`` characters by omitting inner parts."""
    whole = str(term)
    if len(whole) <= width:
        return whole
    room = width - len(term.before) - len(term.after) - len(term.between) * len(term.parts)
    if not term.parts or room < len(term.parts):
        return f"{whole[: max(8, width - 1)]}{CUT}"
    if len(term.parts) == 1 and term.parts[0].parts:
        return f"{term.before}{short(term.parts[0], room)}{term.after}"
    parts: list[str | None] = []
    for part in term.parts:
        text = str(part)
        parts.append(text if len(text) <= max(12, room // len(term.parts)) else None)
    if all(part is None for part in parts):
        parts[0] = short(term.parts[0], max(room - len(CUT), len(str(parts[-1]))))
    rendered = f"{term.before}{term.between.join(_elided(parts))}{term.after}"
    return rendered if len(rendered) <= 2 * width else f"{rendered[:width]}{CUT}"


def _aligned(before: tuple[Term, ...], after: tuple[Term, ...]) -> list[tuple[Term | None, Term | None]]:
    """Pairs of corresponding parts, by position or by content, whichever leaves fewer differences.

    None takes the place of a missing counterpart.
    """
    by_place = list(zip_longest(before, after))
    differ = sum(left != right for left, right in by_place)
    if differ <= 1 or max(len(before), len(after)) > _MOST_ALIGNED:
        return by_place
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    by_content = [
        pair
        for _, start, end, other, other_end in matcher.get_opcodes()
        for pair in zip_longest(before[start:end], after[other:other_end])
    ]
    return by_content if sum(left != right for left, right in by_content) <= differ else by_place


def text_pieces(before: str, after: str, width: int) -> tuple[str, str]:
    """Return both texts completely if they fit into ``width`` characters. If not, return the part of each text around
    their difference, in about ``width`` characters.

    Equal text on both sides of the difference is kept as far as there is room, cut between words if possible.
    """
    if max(len(before), len(after)) <= width:
        return before, after
    start, end = _shared(before, after)
    start = _word_start(before, start)
    while end and _in_word(after[-end]):
        end -= 1
    room = max(_SHORT, width - max(len(before), len(after)) + start + end)
    left = min(start, max(room // 2, room - end))
    right = min(end, room - left)
    begin = _word_end(before, start - left, start) if start > left else 0
    return _window(before, begin, len(before) - end + right, width), _window(
        after, begin, len(after) - end + right, width
    )


def _shared(before: str, after: str) -> tuple[int, int]:
    """The number of equal characters at the beginning and at the end."""
    shorter = min(len(before), len(after))
    start = next((number for number in range(shorter) if before[number] != after[number]), shorter)
    most = shorter - start
    return start, next((number for number in range(most) if before[-1 - number] != after[-1 - number]), most)


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _word_start(text: str, position: int) -> int:
    """The start of the word at a position, or a position a few characters before it."""
    begin = position
    while begin > max(0, position - _SHORT) and _in_word(text[begin - 1]):
        begin -= 1
    return begin


def _word_end(text: str, position: int, most: int) -> int:
    """The end of the word at a position, at most ``most``."""
    end = position
    while end < most and _in_word(text[end - 1]) and _in_word(text[end]):
        end += 1
    return end


def _window(text: str, begin: int, end: int, width: int) -> str:
    while end < min(len(text), begin + width) and _in_word(text[end - 1]) and _in_word(text[end]):
        end += 1
    end = max(min(end, begin + width), begin)
    return f"{CUT if begin else ''}{text[begin:end]}{CUT if end < len(text) else ''}"
