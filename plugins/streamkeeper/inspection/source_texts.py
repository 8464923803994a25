"""Finds the source of the job's functions, classes and assignments: text, file and line, without running any code."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

from streamkeeper.inspection.own_code import OwnCode, absolute
from streamkeeper.model.secret_names import masked_code

_LAMBDA = "<lambda>"
_MOST_IMPORTS = 10
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Written(NamedTuple):
    """A piece of source code."""

    file: str
    """The file, as a path within the bundle."""
    line: int
    """The first line in the file."""
    text: str
    """The source without comments, docstrings and secrets."""
    bare: str
    """The source without comments, docstrings, secrets and annotations."""
    lines: tuple[int, ...]
    """For each line of the text, its line in ``file``. Empty if the lines could not be determined."""

    @property
    def place(self) -> str:
        """The ``file:line`` at which the source begins."""
        return f"{self.file}:{self.line}"


class Binding(NamedTuple):
    """The assignment that gives a global its value: the module, the global's name, and the source."""

    module: str
    name: str
    written: Written


class SourceTexts:
    """Finds pieces of source in the job's own files. Each file is indexed once."""

    def __init__(self, own: OwnCode) -> None:
        self._own = own
        self._functions: dict[str, dict[tuple[int, str], list[_Function]]] = {}
        self._found: dict[tuple[str, int, str], Written | None] = {}

    def function(self, code: CodeType) -> Written | None:
        """Return the source of a function with its decorators; None if none of the job's files contains the
        function.
        """
        key = (code.co_filename, code.co_firstlineno, code.co_qualname)
        if code.co_name == _LAMBDA or key not in self._found:
            self._found[key] = self._function(code)
        return self._found[key]

    def _function(self, code: CodeType) -> Written | None:
        if not self._own.is_own_file(code.co_filename) or (tree := self._tree(code.co_filename)) is None:
            return None
        if code.co_filename not in self._functions:
            self._functions[code.co_filename] = _indexed(tree)
        found = self._functions[code.co_filename].get((code.co_firstlineno, code.co_name), [])
        held = found if len(found) == 1 else [node for node in found if _holds(node, code)]
        return self._written(held[0], code.co_filename) if held else None

    def class_header(self, kind: type) -> Written | None:
        """Return the source of a class with its decorators, bases and attributes, without its methods."""
        module = sys.modules.get(kind.__module__)
        body: list[ast.stmt] = getattr(self._module_tree(module), "body", [])
        found: ast.stmt | None = None
        for name in kind.__qualname__.split("."):
            found = next((each for each in body if isinstance(each, ast.ClassDef) and each.name == name), None)
            body = found.body if isinstance(found, ast.ClassDef) else []
        if not isinstance(found, ast.ClassDef):
            return None
        kept = [each for each in found.body if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        header = ast.ClassDef(**{**vars(found), "body": kept or [ast.Pass(lineno=found.lineno, col_offset=0)]})
        return self._written(header, str(getattr(module, "__file__", "")))

    def binding(self, home: str, name: str) -> Binding | None:
        """Return the last assignment to a global; None if there is no assignment.

        For an imported global, this is the assignment in the module from which the global was imported.
        """
        for _ in range(_MOST_IMPORTS):
            module = sys.modules.get(home)
            statement = _assigned(getattr(self._module_tree(module), "body", []), name)
            match statement:
                case ast.ImportFrom(module=origin, level=level, names=names):
                    package = str(getattr(module, "__package__", "") or "")
                    home = absolute(origin or "", level, package)
                    name = next(alias.name for alias in names if (alias.asname or alias.name) == name)
                case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                    written = self._written(value, str(getattr(module, "__file__", "")), line=statement.lineno)
                    return Binding(home, name, written)
                case _:
                    return None
        return None

    def statements(self, module: ModuleType | None, lines: set[int]) -> Written | None:
        """Return the source of the module's top-level statements and decorators that include any of ``lines``."""
        found = list(_in_lines(getattr(self._module_tree(module), "body", []), lines))
        if not found:
            return None
        parts = [self._written(node, str(getattr(module, "__file__", ""))) for node in found]
        text = "\n".join(part.text for part in parts)
        numbers = tuple(number for part in parts for number in part.lines)
        known = numbers if all(part.lines for part in parts) else ()
        return Written(parts[0].file, parts[0].line, text, text, known)

    def whole(self, path: Path) -> Written | None:
        """Return the whole source of a Python file; None if it is not Python source."""
        tree = self._own.tree(path)
        return self._written(tree, str(path)) if tree is not None else None

    def _tree(self, file: str) -> ast.Module | None:
        return self._own.tree(Path(file))

    def _module_tree(self, module: ModuleType | None) -> ast.Module | None:
        return self._own.source_of(module) if module is not None and self._own.is_own(module) else None

    def _written(self, node: ast.stmt | ast.expr | ast.Module, file: str, line: int = 0) -> Written:
        text = ast.unparse(node)
        again = _parsed(text)
        masked = masked_code(text)
        shown, numbers = _without_empty(masked, _line_numbers(node, again, text))
        bare = masked_code(ast.unparse(again)) if again is not None and _strip_annotations(again) else masked
        begins = line or min(
            [getattr(node, "lineno", 1), *(each.lineno for each in getattr(node, "decorator_list", ()))]
        )
        return Written(self._own.relative(Path(file)), begins, shown, bare, numbers)


def _indexed(tree: ast.Module) -> dict[tuple[int, str], list[_Function]]:
    """Return (first line, name) -> functions, with lines and names as code objects record them."""
    found: dict[tuple[int, str], list[_Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found.setdefault((line, node.name), []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault((node.lineno, _LAMBDA), []).append(node)
    return found


def _holds(node: _Function, code: CodeType) -> bool:
    """Whether a lambda was compiled to the given code. This distinguishes several lambdas on the same line."""
    if not isinstance(node, ast.Lambda):
        return False
    places = [(line, column) for line, _, column, _ in code.co_positions() if line is not None and column]
    body = node.body
    begin, end = (body.lineno, body.col_offset), (body.end_lineno or body.lineno, body.end_col_offset or 0)
    return bool(places) and all(begin <= place <= end for place in places)


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _strip_annotations(tree: ast.Module) -> bool:
    """Remove the annotations of arguments and results from a tree. Returns whether there were any."""
    found = False
    for inner in ast.walk(tree):
        if isinstance(inner, ast.arg) and inner.annotation is not None:
            inner.annotation, found = None, True
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.returns is not None:
            inner.returns, found = None, True
    return found


def _line_numbers(node: ast.AST, again: ast.Module | None, text: str) -> tuple[int, ...]:
    """Return, for each line of the unparsed ``text`` of a node, its line in the file; ``again``: the parsed
    ``text``.
    """
    if again is None:
        return ()
    original: ast.AST = node
    parsed: ast.AST = again if isinstance(node, ast.Module) or len(again.body) != 1 else again.body[0]
    if isinstance(node, ast.expr) and isinstance(parsed, ast.Expr):
        parsed = parsed.value
    numbers: dict[int, int] = {}
    for old, new in zip(ast.walk(original), ast.walk(parsed), strict=False):
        if type(old) is not type(new):
            return ()
        if hasattr(old, "lineno") and hasattr(new, "lineno"):
            number = old.lineno
            numbers[new.lineno] = min(number, numbers.get(new.lineno, number))
    found, last = [], getattr(node, "lineno", 1)
    for number in range(1, text.count("\n") + 2):
        last = numbers.get(number, last)
        found.append(last)
    return tuple(found)


def _without_empty(text: str, numbers: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    lines = text.split("\n")
    kept = [number for number, line in enumerate(lines) if line.strip()]
    known = tuple(numbers[number] for number in kept) if len(numbers) == len(lines) else ()
    return "\n".join(lines[number] for number in kept), known


def _assigned(body: list[ast.stmt], name: str) -> ast.stmt | None:
    """Return the last top-level statement of a module that assigns or imports a name."""
    found: ast.stmt | None = None
    for statement in body:
        match statement:
            case ast.ImportFrom(names=names) if any((alias.asname or alias.name) == name for alias in names):
                found = statement
            case ast.Assign(targets=targets) if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                found = statement
            case ast.AnnAssign(target=ast.Name(id=target)) if target == name and statement.value is not None:
                found = statement
            case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                for part in ("body", "orelse", "finalbody"):
                    found = _assigned(getattr(statement, part, []), name) or found
            case _:
                pass
    return found


def _in_lines(body: list[ast.stmt], lines: set[int]) -> list[ast.stmt | ast.expr]:
    found: list[ast.stmt | ast.expr] = []
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found += [each for each in statement.decorator_list if each.lineno in lines]
            found += _in_lines(statement.body, lines) if isinstance(statement, ast.ClassDef) else []
        elif lines & set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)):
            found.append(statement)
    return found
