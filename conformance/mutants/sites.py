"""Finds the places of a module that can be mutated, and creates the mutated text.

Only code inside functions is mutated. Docstrings, log texts, f-strings, error texts, assertions, annotations, default
values and decorators are left alone: such a change would be equivalent, or would change a text only.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path

SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
LARGEST = 10
"""Constants above this limit are durations and sizes, where a change by one breaks no rule."""
SPEAKING = frozenset(
    {
        *("make_decision", "log", "_log", "say", "_say", "print", "echo", "warn", "warning", "info", "debug", "error"),
        *("exception", "cast"),
    }
)
TEXT_ARGUMENTS = frozenset({"indent", "level", "stacklevel", "ndigits"})


@dataclass(frozen=True, slots=True)
class Site:
    """One mutant: the bytes from ``start`` to ``end`` of ``file`` are replaced by ``new``."""

    file: str
    line: int
    function: str
    source: str
    """The hash of the function's source."""
    kind: str
    start: int
    end: int
    old: str
    new: str
    place: int
    """The byte offset of the change within the function."""

    @property
    def id(self) -> str:
        """Return an id that stays the same until the function's source changes, even if the function moves within its
        file.
        """
        return _digest(self.file, self.function, self.source, self.kind, str(self.place), self.new)

    @property
    def change(self) -> str:
        """Return the replaced text and its replacement."""
        return f"{self.old} -> {self.new}"

    def apply(self, text: str) -> str:
        """Return the mutated text of the file."""
        data = text.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()

    def is_sound(self, text: str) -> bool:
        """Return whether the mutated text compiles and its syntax tree differs from the original."""
        try:
            mutated = ast.parse(self.apply(text))
            compile(mutated, self.file, "exec")
        except (SyntaxError, ValueError):
            return False
        return ast.dump(mutated) != ast.dump(ast.parse(text))


def find_sites(file: str, text: str) -> list[Site]:
    """Return all mutants of one module, in the order of its text."""
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    finder = _Finder(file, text.encode(), starts)
    for node in ast.parse(text).body:
        finder.visit(node)
    return sorted(finder.sites, key=lambda site: (site.start, site.kind, site.new))


def draw(root: Path, packages: Sequence[str], seed: int) -> Iterator[Site]:
    """Yield all mutants of the packages, alternating between the packages and, within a package, between the kinds of
    mutants.

    The order depends only on the seed and the ids, so a change of one function keeps the order of the other mutants.
    """
    turns = [_in_turn(list(sites_of(root, package)), seed) for package in packages]
    for site in chain.from_iterable(zip_longest(*turns)):
        if site is not None and site.is_sound((root / site.file).read_text()):
            yield site


def sites_of(root: Path, package: str) -> Iterator[Site]:
    """Yield all mutants of a package."""
    for file in sorted((root / package).rglob("*.py")):
        yield from find_sites(file.relative_to(root).as_posix(), file.read_text())


def _in_turn(sites: Iterable[Site], seed: int) -> list[Site]:
    by_kind: dict[str, list[Site]] = {}
    for site in sorted(sites, key=lambda site: _digest(str(seed), site.id)):
        by_kind.setdefault(site.kind, []).append(site)
    return [site for turn in zip_longest(*by_kind.values()) for site in turn if site is not None]


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


@dataclass
class _Finder:
    file: str
    data: bytes
    starts: list[int]
    sites: list[Site] = field(default_factory=list)
    _names: tuple[str, ...] = ()
    _function: ast.FunctionDef | ast.AsyncFunctionDef | None = None

    def visit(self, node: ast.AST, *, is_condition: bool = False) -> None:
        """Collect the mutants of a node and of everything below it that may be mutated."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._enter(node)
            case ast.JoinedStr() | ast.Assert():
                return
            case ast.Call() if _name_of(node.func) in SPEAKING:
                return
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                return
            case ast.AnnAssign():
                if node.value is not None:
                    self.visit(node.value)
            case ast.keyword() if _is_span(node.arg):
                return
            case ast.Raise():
                if "NotImplementedError" not in ast.unparse(node):
                    self._add(node, "dropped-raise", "pass")
            case _:
                self._mutate(node, is_condition=is_condition)
                conditions = _conditions(node)
                for child in ast.iter_child_nodes(node):
                    self.visit(child, is_condition=child in conditions)

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        outer = self._names, self._function
        self._names = (*self._names, node.name)
        if not isinstance(node, ast.ClassDef):
            self._function = node
        for child in node.body:
            self.visit(child)
        self._names, self._function = outer

    def _mutate(self, node: ast.AST, *, is_condition: bool) -> None:
        match node:
            case ast.Constant() | ast.UnaryOp(op=ast.Not()):
                pass
            case ast.expr() if is_condition:
                self._add(node, "negated-condition", f"not ({ast.unparse(node)})")
        match node:
            case ast.Compare():
                self._swap(node, is_condition=is_condition)
            case ast.BoolOp():
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                self._add(node, "and-or", f"({ast.unparse(ast.BoolOp(op=other, values=node.values))})")
            case ast.UnaryOp(op=ast.Not()):
                self._add(node, "dropped-not", f"({ast.unparse(node.operand)})")
            case ast.Constant(value=value) if type(value) is int and value <= LARGEST:
                self._add(node, "constant", str(value + 1))
                self._add(node, "constant", str(value - 1))
            case ast.Return() if self._function is not None and node is not self._function.body[-1]:
                self._add(node, "dropped-return", "pass")
            case ast.Expr(value=ast.Call() | ast.Await() as value):
                call = value.value if isinstance(value, ast.Await) else value
                if not (isinstance(call, ast.Call) and _name_of(call.func) in SPEAKING):
                    self._add(node, "dropped-call", "pass")

    def _swap(self, node: ast.Compare, *, is_condition: bool) -> None:
        for at, operator in enumerate(node.ops):
            # Negating the whole condition gives the same mutant.
            if is_condition and len(node.ops) == 1 and not isinstance(operator, ORDERED):
                continue
            operators = [*node.ops[:at], SWAPPED[type(operator)](), *node.ops[at + 1 :]]
            self._add(
                node,
                "comparison",
                ast.unparse(ast.Compare(left=node.left, ops=operators, comparators=node.comparators)),
            )

    def _add(self, node: ast.expr | ast.stmt, kind: str, new: str) -> None:
        if self._function is None:
            return
        start, end = self._span(node)
        first, last = self._span(self._function)
        source = hashlib.sha256(self.data[first:last]).hexdigest()[:12]
        old = " ".join(self.data[start:end].decode().split())
        name = ".".join(self._names)
        self.sites.append(Site(self.file, node.lineno, name, source, kind, start, end, old, new, start - first))

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[end_line - 1] + end_column


def _conditions(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            return [node.test]
        case ast.comprehension():
            return list(node.ifs)
        case ast.match_case() if node.guard is not None:
            return [node.guard]
        case _:
            return []


def _name_of(function: ast.expr) -> str:
    match function:
        case ast.Attribute(value=ast.Name(id="_LOG" | "logging" | "logger")):
            return "say"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _is_span(name: str | None) -> bool:
    return name is not None and (name in TEXT_ARGUMENTS or name.endswith("_s") or "timeout" in name)
