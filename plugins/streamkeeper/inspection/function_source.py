"""Finds the syntax tree of a loaded function in its file, and proves that the function was compiled from this tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

Syntax = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class FunctionSources:
    """Finds functions in files; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[dict[tuple[int, str], list[Syntax]], list[CodeType]]] = {}

    def of(self, function: FunctionType) -> Syntax | None:
        """Return the function's syntax. Return None if the file is missing or changed, or if two functions of the same
        name begin in one line of the file.

        The file is compiled again, and the result must have the same code, constants and names as the function.
        """
        code = function.__code__
        nodes, compiled = self._read(code.co_filename)
        found = nodes.get((code.co_firstlineno, code.co_name), [])
        return found[0] if len(found) == 1 and code in compiled else None

    def _read(self, file: str) -> tuple[dict[tuple[int, str], list[Syntax]], list[CodeType]]:
        if file not in self._files:
            self._files[file] = _parsed(file)
        return self._files[file]


def _parsed(file: str) -> tuple[dict[tuple[int, str], list[Syntax]], list[CodeType]]:
    try:
        tree = ast.parse(Path(file).read_bytes(), file)
        module = compile(tree, file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}, []
    nodes: dict[tuple[int, str], list[Syntax]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            nodes.setdefault((line, node.name), []).append(node)
        elif isinstance(node, ast.Lambda):
            nodes.setdefault((node.lineno, "<lambda>"), []).append(node)
    return nodes, list(_inside(module))


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)
