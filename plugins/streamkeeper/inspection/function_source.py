"""Finds the syntax tree of a loaded function in its file, and proves that the function was compiled from this tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

Syntax = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class _File(NamedTuple):
    """A parsed and compiled file: the functions' syntax by first line and name, all code objects in the file, and the
    file's syntax tree.
    """

    nodes: dict[tuple[int, str], list[Syntax]]
    compiled: list[CodeType]
    tree: ast.Module | None


class FunctionSources:
    """Finds functions in files; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}

    def of(self, function: FunctionType) -> Syntax | None:
        """Return the function's syntax. Return None if the file is missing or changed, or if two functions of the same
        name begin in one line of the file.

        To prove the match, the file is recompiled, and the result must have the same code, constants and names as the
        function.
        """
        code = function.__code__
        file = self._read(code.co_filename)
        found = file.nodes.get((code.co_firstlineno, code.co_name), [])
        return found[0] if len(found) == 1 and code in file.compiled else None

    def tree(self, function: FunctionType) -> ast.Module | None:
        """Return the syntax of the function's file; None if the file is missing or no Python source."""
        return self._read(function.__code__.co_filename).tree

    def _read(self, file: str) -> _File:
        if file not in self._files:
            self._files[file] = _parsed(file)
        return self._files[file]


def _parsed(file: str) -> _File:
    try:
        tree = ast.parse(Path(file).read_bytes(), file)
        module = compile(tree, file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return _File({}, [], None)
    nodes: dict[tuple[int, str], list[Syntax]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            nodes.setdefault((line, node.name), []).append(node)
        elif isinstance(node, ast.Lambda):
            nodes.setdefault((node.lineno, "<lambda>"), []).append(node)
    return _File(nodes, list(_inside(module)), tree)


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)
