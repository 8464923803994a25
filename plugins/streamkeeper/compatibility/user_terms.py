"""Renders a canonical expression (``inspection.canonical_expressions``) as the job's author would write it. Pure.

A canonical expression uses the names of Catalyst's classes, is resolved down to the sources and has every type. Here it
becomes SQL again, without parts that authors seldom write: types, casts, the parser around each field of JSON,
defaults. If two expressions differ only in such parts, they are shown (``Detail``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from streamkeeper.compatibility.function_names import NO_NAMES, Names
from streamkeeper.compatibility.sql_words import (
    CURRENT,
    FUNCTIONS,
    MIRRORED,
    NUMBER,
    OPERATORS,
    PARSERS,
    WORDS,
    duration,
    literal_of,
    without_digests,
)
from streamkeeper.compatibility.terms import Term, leaf, outside, split

_LONGEST = 20_000
_NAME = r"(?:\w+|\"(?:[^\"\\]|\\.)*\")"
_COLUMN = re.compile(rf"((?:source|static) (?:\d+|\"(?:[^\"\\]|\\.)*\"))\.({_NAME})")
_SOURCE = re.compile(r"\b(?:source|static) (?:\d+|\"(?:[^\"\\]|\\.)*\")(?=\.)")
_CALL = re.compile(r"([A-Za-z_]\w*)\(")
_ARGUMENT = re.compile(r"([A-Za-z]\w*)=(?!=)")
_TYPE = re.compile(r"\{.*\}|interval(?: [a-z]+(?: to [a-z]+)?)?|string collate \w+|[a-z_]+(?:\([\d,]+\))?", re.DOTALL)
_STEP = re.compile(rf"\.({_NAME})$")
LABELLED = re.compile(r"(left|right|branch \d+): ")
"""Matches the label of the input of a join or union to which an expression belongs."""
_JOINED = re.compile(r"join (?P<kind>\w+) on (?=.)")
_WORDED = re.compile(r"(?:where|generate(?: outer)?|group by|expand) (?=.)")
_ALL_ROWS = "group by ()"
"""The description of an aggregate without groups. It is redundant, because the aggregate's function
already implies it.
"""
_EXPLODED = re.compile(r"Explode\((.*)\)", re.DOTALL)
_EXPLODED_STEP = "[*]"
_SUBQUERY = re.compile(r"scalarsubquery\(plan=plan\((?P<plan>.*)\)\)", re.DOTALL)
_STRUCT_FIELD = re.compile(r"<\"(?:[^\"\\]|\\.)*\">")
_WINDOW = re.compile(r"window\((?P<column>.*?)(?P<lengths>(?:, \d+)*); [0-9a-f]{8}\)", re.DOTALL)
_LONG = re.compile(r"long\([0-9a-f]{16}; (?P<told>.*)\)", re.DOTALL)
_FILES = re.compile(
    r"LogicalRelation\(.*?fileFormat=(?P<format>\w+?)FileFormat, location=\[(?P<place>[^\]]*)\]"
    r"(?:, options=m(?P<options>\[.*?\]\]|\[\]))?(?P<rest>.*)\)",
    re.DOTALL,
)
_NO_PARTITIONS = 'partitionSchema={"fields":[],"type":"struct"}'
_DATA_SCHEMA = re.compile(r"dataSchema=(\{.*?\}), fileFormat=", re.DOTALL)
_ROWS = re.compile(r"Local(?:Relation|RDD)\(.*\)|LogicalRDD\(.*\)", re.DOTALL)

_NEVER_WRITTEN = frozenset(
    {
        "inputAggBufferOffset",
        "mutableAggBufferOffset",
        "evalType",
        "func",
        "isStreaming",
        "suggestedFuncOnFail",
        "udfDeterministic",
        "variantAllowDuplicateKeys",
    }
)


class Detail(IntEnum):
    """How much of an expression is shown: at a higher level, more of the parts that authors seldom write."""

    PLAIN = 0
    OPTIONS = 1
    TYPES = 2
    ALL = 3


def term_of(canonical: str, detail: Detail = Detail.PLAIN, *, labels: bool = False, names: Names = NO_NAMES) -> Term:
    """Return an expression as its author would write it; ``labels``: whether each column is shown with its source."""
    try:
        if len(canonical) <= _LONGEST:
            return _Reader(detail, names, labels=labels).read(canonical)
        return leaf(without_digests(canonical))
    except (ValueError, RecursionError):
        return leaf(without_digests(canonical))


def side_label(found: re.Match[str]) -> str:
    """Return the words for a match of ``LABELLED``, with a colon."""
    return f"{found[1]}: " if found[1].startswith("branch") else f"{found[1]} side of the join: "


class _Reader:
    def __init__(self, detail: Detail, names: Names, *, labels: bool) -> None:
        self._names, self._detail = names, detail
        self._options, self._types = detail in (Detail.OPTIONS, Detail.ALL), detail >= Detail.TYPES
        self._labels = labels or detail is Detail.ALL

    def read(self, text: str) -> Term:
        """Return an expression, or one of its parts, as a term. Raises ValueError for any other text."""
        if found := LABELLED.match(text):
            return Term(side_label(found), (self.read(text[found.end() :]),), "")
        if found := _JOINED.match(text):
            kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", found["kind"]).lower()
            return Term(f"{kind} join on ", (self.read(text[found.end() :]),), "")
        if found := _WORDED.match(text):
            rest = text[found.end() :]
            if rest.startswith("(") and rest.endswith(")") and _opening(rest) == 0:
                return Term(found[0], self._index(rest[1:-1]), ", ")
            if exploded := _EXPLODED.fullmatch(rest):
                return Term(found[0].replace("generate", "explode"), (self.read(exploded[1]),), "")
            return Term(found[0], (self.read(rest),), "")
        for by in ("; ", " and ", " or "):
            parts = split(text, by)
            if len(parts) > 1:
                columns = [part for part in parts if part != _ALL_ROWS]
                return Term("", tuple(map(self.read, columns)), by)
        if found := _STRUCT_FIELD.match(text):
            name, inner = text[2 : found.end() - 2], self.read(text[found.end() :])
            return inner if str(inner).endswith(name) and not self._types else Term("", (inner,), "", f" as {name}")
        for word in (" distinct", " where "):
            kept, found_word, rest = text.rpartition(word) if _is_outside(text, word) else (text, "", "")
            if found_word:
                return Term("", (self.read(kept), *([self.read(rest)] if rest else [])), word, "" if rest else word)
        return self._typed(text)

    def _typed(self, text: str) -> Term:
        colon = max((number for number, char in outside(text) if char == ":"), default=-1)
        if colon > 0 and _TYPE.fullmatch(text[colon + 1 :]):
            inner, kind = text[:colon], text[colon + 1 :]
            literal = literal_of(inner, kind)
            term = self._untyped(inner) if literal is None else leaf(literal)
            return Term("", (term, Term("(", (type_term(kind),), "", ")")), " ") if self._types else term
        return self._untyped(text)

    def _untyped(self, text: str) -> Term:
        if found := _COLUMN.fullmatch(text):
            return leaf(text if self._labels else found[2].strip('"'))
        if NUMBER.fullmatch(text):
            return leaf(text)
        if text == "count(1:integer)":
            return leaf("count(*)")
        if text.endswith("]") and (opens := _opening(text)) > 0:
            index = self._index(text[opens + 1 : -1])
            if text[:opens] in ("s", "m"):
                return Term("", index, ", ")
            if text[opens:] == _EXPLODED_STEP:
                return Term("explode(", (self.read(text[:opens]),), "", ")")
            return Term("", (self.read(text[:opens]), Term("[", index, ", ", "]")), "")
        if text.startswith("[") and _opening(text) == 0:
            return Term("[", self._index(text[1:-1]), ", ", "]")
        step = _STEP.search(text)
        if step and step.start() > 0 and _is_outside(text, step[0], start=step.start()):
            return self._field(text[: step.start()], step[1].strip('"'))
        if text.startswith("(") and text.endswith(")") and _opening(text) == 0:
            return Term("(", (self.read(text[1:-1]),), "", ")")
        found = _CALL.match(text)
        if found and text.endswith(")") and _opening(text) == found.end() - 1:
            return self._call(found[1], text)
        return leaf(without_digests(text))

    def _index(self, text: str) -> tuple[Term, ...]:
        return tuple(self.read(part) for part in split(text, ", ")) if text else ()

    def _field(self, text: str, name: str) -> Term:
        parser = _CALL.match(text)
        if parser and parser[1] in PARSERS and _opening(text) == parser.end() - 1 and not self._options:
            source = _SOURCE.search(text) if self._labels else None
            return leaf(f"{source[0]}.{name}" if source else name)
        return Term("", (self.read(text),), "", f".{name}")

    def _call(self, name: str, text: str) -> Term:
        for pattern, read in _SHAPES:
            if found := pattern.fullmatch(text):
                return read(self, found)
        inner = text[len(name) + 1 : -1]
        arguments = split(inner, ", ") if inner else []
        named = {found[1]: argument[found.end() :] for argument in arguments if (found := _ARGUMENT.match(argument))}
        plain = [argument for argument in arguments if not _ARGUMENT.match(argument) and not argument.startswith("in ")]
        if name in OPERATORS and len(plain) == 2:
            return self.read_operator(name, *plain)
        if name == "cast" and plain and "dataType" in named:
            shown = self.read(plain[0])
            return Term("cast(", (shown, type_term(named["dataType"])), " as ", ")") if self._types else shown
        if name == "casewhen":
            return self._case(plain, named.get("branches", "[]"))
        if name in ("in", "inset") and plain:
            values = _values(named["hset"]) if "hset" in named else plain[1:]
            return Term("", (self.read(plain[0]), Term("(", tuple(map(self.read, values)), ", ", ")")), " in ")
        if name in ("isnotnull", "isnull") and plain:
            return Term("", (self.read(plain[0]),), "", " is not null" if name == "isnotnull" else " is null")
        if name == "not" and plain:
            return Term("not ", (self.read(plain[0]),), "")
        if name == "timestampaddinterval" and len(plain) == 2:
            return self._moved(*plain)
        if name in ("getarrayitem", "getmapvalue") and len(plain) == 2:
            return Term("", (self.read(plain[0]), Term("[", (self.read(plain[1]),), "", "]")), "")
        if name == "either" and (branch := self._every_branch(plain)):
            return branch
        if name == "lambda":
            return self._lambda(inner)
        if name == "each" and (sliding := _sliding(plain)):
            return self.read(sliding)
        if name == "currentbatchtimestamp":
            return leaf(CURRENT.get(named.get("dataType", ""), "current_timestamp()"))
        if name == "unaryminus" and len(plain) == 1:
            return Term("-", (self._operand(plain[0]),), "")
        if name == "pythonudf":
            called = self._names.get(int(named.get("func", -1)), "python_function")
            return Term(f"{called}(", tuple(map(self.read, plain)), ", ", ")")
        return self._function(name, plain, named, arguments)

    def _every_branch(self, branches: list[str]) -> Term | None:
        """Return the expression that every branch of a union has, apart from the branch's own sources. Return None if
        the expressions differ, or if they are only columns, which are shown with their sources.
        """
        if self._detail is Detail.ALL or all(_COLUMN.fullmatch(branch) for branch in branches):
            return None
        reader = _Reader(self._detail, self._names, labels=False)
        found = [reader.read(branch) for branch in branches]
        return found[0] if len(set(map(str, found))) == 1 else None

    def _function(self, name: str, plain: list[str], named: dict[str, str], arguments: list[str]) -> Term:
        parts = [self.read(argument) for argument in plain if argument not in ("True", "False") or self._options]
        if self._options:
            parts += [
                leaf(argument) for argument in arguments if argument.startswith("in ") and argument != "in session"
            ]
            parts += [leaf(option) for option in _options(named.get("options", ""))]
        if self._types:
            parts += [
                leaf(without_digests(f"{key}={value}"))
                for key, value in named.items()
                if key not in _NEVER_WRITTEN and key not in ("options", "schema")
            ]
            parts += [type_term(named["schema"])] if "schema" in named else []
        if named.get("ignoreNulls") == "True" and name in ("first", "last"):
            parts.append(leaf("ignoring nulls"))
        return Term(f"{PARSERS.get(name) or FUNCTIONS.get(name, name)}(", tuple(parts), ", ", ")")

    def read_operator(self, name: str, left: str, right: str) -> Term:
        """An operator and its two operands. Operands that would read alike, such as the keys of a join, are shown with
        their sources.
        """
        word, first, second = OPERATORS[name], self._operand(left), self._operand(right)
        if str(first) == str(second) and left != right and not self._labels:
            return _Reader(self._detail, self._names, labels=True).read_operator(name, left, right)
        if name in MIRRORED and not _reads(left) and _reads(right):
            return Term("", (second, first), f" {MIRRORED[name]} ")
        if word in "=*+" and not _reads(left) and _reads(right):
            first, second = second, first
        return Term("", (first, second), f" {word} ")

    def _operand(self, text: str) -> Term:
        read = self.read(text)
        compound = read.between.strip() in WORDS and len(read.parts) == 2
        return Term("(", (read,), "", ")") if compound else read

    def _case(self, plain: list[str], branches: str) -> Term:
        parts: list[Term] = []
        for branch in split(branches[1:-1], ", "):
            when = split(branch.removeprefix("tuple2(").removesuffix(")"), ", ")
            if len(when) != 2:
                raise ValueError(branch)
            parts.append(Term("when ", tuple(map(self.read, when)), " then "))
        if plain:
            parts.append(Term("else ", (self.read(plain[0]),), ""))
        return Term("case ", tuple(parts), " ", " end")

    def _moved(self, column: str, by: str) -> Term:
        moved = str(self.read(by)).removeprefix("interval ")
        word, length = ("- ", moved.removeprefix("-")) if moved.startswith("-") else ("+ ", moved)
        return Term("", (self.read(column), leaf(f"{word}interval {length}")), " ")

    def _lambda(self, inner: str) -> Term:
        names, _, body = inner.partition(": ")
        shown = ", ".join(name.partition(" ")[0] for name in split(names, ", "))
        return Term(f"lambda {shown}: ", (self.read(body),), "")

    def window(self, found: re.Match[str]) -> Term:
        """A time window: its column and its durations, the longest first."""
        lengths = sorted((int(length) for length in found["lengths"].split(", ") if length), reverse=True)
        # The gap of a session window is no literal in its expressions.
        word = "window(" if lengths else "session_window("
        return Term(word, (self.read(found["column"]), *(leaf(duration(length)) for length in lengths)), ", ", ")")

    def long(self, found: re.Match[str]) -> Term:
        """A long expression of which only its columns were recorded."""
        return Term("(an expression over ", tuple(map(self.read, split(found["told"], "; "))), ", ", ")")

    def files(self, found: re.Match[str]) -> Term:
        """A static table of files."""
        options = [option for option in _options(found["options"] or "") if not option.startswith("path=")]
        place = found["place"].replace("file:", "")
        rest = found["rest"].replace(_NO_PARTITIONS, "")
        more = [self.rest(rest)] if self._types and rest.strip(", )") else []
        if self._types and (schema := _DATA_SCHEMA.search(found[0])):
            more.append(type_term(schema[1]))
        return Term(f"{found['format'].lower()} files (", (leaf(place), *map(leaf, options), *more), ", ", ")")

    def rest(self, text: str) -> Term:
        """The remaining description of a table."""
        return leaf(without_digests(text.strip(", ()")))

    def subquery(self, found: re.Match[str]) -> Term:
        """A scalar subquery over static tables."""
        columns, rows, tables, *_ = (clause[1:-1] for clause in split(found["plan"], "; "))
        parts = [Term("select ", self._index(columns)), Term("from ", self._index(tables))]
        parts += [Term("where ", self._index(rows), " and ")] if rows else []
        return Term("(", tuple(parts), " ", ")")

    def rows(self, found: re.Match[str]) -> Term:
        """Rows that the job creates."""
        return leaf("rows made in the job's code")


_SHAPES: tuple[tuple[re.Pattern[str], Callable[[_Reader, re.Match[str]], Term]], ...] = (
    (_WINDOW, _Reader.window),
    (_LONG, _Reader.long),
    (_FILES, _Reader.files),
    (_ROWS, _Reader.rows),
    (_SUBQUERY, _Reader.subquery),
)


def _sliding(windows: list[str]) -> str:
    """The windows that contain a row, as one sliding window; empty for any other list."""
    found = [_WINDOW.fullmatch(window) for window in windows]
    lengths = sorted({int(each) for match in found if match for each in match["lengths"].split(", ") if each})
    columns = {match["column"] for match in found if match}
    if not lengths or None in found or len(columns) != 1:
        return ""
    return f"window({columns.pop()}, {lengths[0]}, {lengths[-1]}; 00000000)"


def _opening(text: str) -> int:
    """Return the position of the bracket that the last character of the text closes; -1 if the text does not end with a
    bracket.
    """
    places = [number for number, char in outside(text) if char in "([{"]
    return places[-1] if places and text[-1] in ")]}" else -1


def _is_outside(text: str, word: str, *, start: int | None = None) -> bool:
    position = text.rfind(word) if start is None else start
    return position >= 0 and any(number == position for number, _ in outside(text))


def _reads(text: str) -> bool:
    """Whether an operand is more than a literal."""
    return "source" in text or "static" in text or "(" in text or bool(re.match(r"x\d", text))


def _values(text: str) -> list[str]:
    return split(text.removeprefix("s")[1:-1], ", ")


def _options(text: str) -> list[str]:
    """``key=value`` of each pair of a map of texts."""
    return [f"{key}={value}" for key, value in re.findall(r"\[\"((?:[^\"\\]|\\.)*)\", (\"(?:[^\"\\]|\\.)*\")\]", text)]


def type_term(kind: str) -> Term:
    """Return a type in SQL syntax. A struct in the state is shown without field names, because none are recorded."""
    return _type_term(json.loads(kind)) if kind.startswith("{") else leaf(kind)


def _type_term(kind: Any) -> Term:
    match kind:
        case {"type": "struct", "fields": list(fields)}:
            named = (Term(f"{field['name']}: ", (_type_term(field["type"]),), "") for field in fields)
            return Term("struct<", tuple(named), ", ", ">")
        case {"struct": list(fields)}:
            bare = (Term("", (_type_term(field),), "", "" if null else " not null") for field, null in fields)
            return Term("struct<", tuple(bare), ", ", ">")
        case {"type": "array", "elementType": inner}:
            return Term("array<", (_type_term(inner),), "", ">")
        case {"type": "map", "keyType": key, "valueType": value}:
            return Term("map<", (_type_term(key), _type_term(value)), ", ", ">")
        case str():
            return leaf(kind)
        case _:
            return leaf(json.dumps(kind, sort_keys=True))
