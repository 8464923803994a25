"""Normalises type annotations, so that evaluated annotations equal those that the ``__future__`` import keeps as
strings.

The difference between the two matters only to code that reads annotations; for such code ``reading`` adds them
unchanged.
"""

from __future__ import annotations

import ast
import builtins
import dis
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import CodeType
from typing import Any, ForwardRef

from streamkeeper.inspection.bytecode import JUMPS, instructions, start_of_value

_KEPT_AS_TEXTS = 0x1000000
"""Python's flag for code that keeps annotations as strings (``CO_FUTURE_ANNOTATIONS``)."""
_ANNOTATED, _CLOSES_OVER = 4, 8
"""Flags of ``MAKE_FUNCTION``: the function has annotations, or the function has a closure."""
_MOST_TEXTS = 3
"""The limit on how deeply strings are nested in string annotations; deeper nesting does not occur in practice."""


class _Unknown(Exception):
    """Raised if an annotation has a form that is not normalised."""


def flags_of(code: CodeType) -> int:
    """Return the flags of a code object, without the flag that ``from __future__ import annotations`` sets."""
    return code.co_flags & ~_KEPT_AS_TEXTS


def resolved(kind: type) -> dict[str, Any]:
    """Return a class's own annotations. A string is replaced by the value that it has in the class's module, if it can
    be evaluated; all other annotations are unchanged.
    """
    inner = {name: value for name, value in vars(kind).items() if isinstance(value, type)}
    names = {**vars(sys.modules.get(kind.__module__, builtins)), **inner, kind.__name__: kind}
    written = as_written(kind)
    found = {name: _evaluated(hint, names) for name, hint in written.items()}
    return found if any(found[name] is not hint for name, hint in written.items()) else written


def as_written(kind: type) -> dict[str, Any]:
    """Return a class's own annotations unchanged, whether they are evaluated or strings."""
    return vars(kind).get("__annotations__") or {}


def names_in_texts(hints: Mapping[str, Any]) -> list[str]:
    """Return the names in string annotations. Code that evaluates the strings looks these names up in the class's
    module.
    """
    names: set[str] = set()
    for text in hints.values():
        if isinstance(text, str):
            with suppress(SyntaxError, ValueError):
                names |= {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
    return sorted(names)


def _evaluated(hint: Any, names: Mapping[str, Any]) -> Any:
    found = hint
    try:
        for _ in range(_MOST_TEXTS):
            found = found.__forward_arg__ if isinstance(found, ForwardRef) else found
            if not isinstance(found, str):
                return found
            found = _value(ast.parse(found, mode="eval").body, names)
    except Exception:  # evaluating an annotation may run code of the job's classes, which may raise anything
        return hint
    return hint if isinstance(found, str) else found


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name] if name in names else vars(builtins)[name]
        case ast.Attribute(value=inner, attr=name):
            return getattr(_value(inner, names), name)
        case ast.Subscript(value=inner, slice=key):
            return _value(inner, names)[_value(key, names)]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _value(left, names) | _value(right, names)
        case ast.Tuple(elts=parts):
            return tuple(_value(part, names) for part in parts)
        case ast.List(elts=parts):
            return [_value(part, names) for part in parts]
        case _:
            raise _Unknown


def steps_of(code: CodeType) -> tuple[list[dis.Instruction], Any]:
    """Return the instructions and the exception table of a code object. The annotations of each function that the code
    creates count as one instruction.
    """
    steps = instructions(code)
    found = dict(_local_annotations(steps))
    if not found:
        return steps, code.co_exceptiontable.hex()
    kept: list[dis.Instruction] = []
    end = 0
    for number, step in enumerate(steps):
        if number in found:
            end, written = found[number]
            kept.append(step._replace(opname="ANNOTATIONS", opcode=dis.opmap["LOAD_CONST"], arg=0, argval=written))
        elif number >= end:
            kept.append(step)
    places = [step.offset for step in kept]
    table = [
        [*(bisect_left(places, place) for place in (entry.start, entry.end, entry.target)), entry.depth, entry.lasti]
        for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]
    ]
    return [_renumbered(step, number, places) for number, step in enumerate(kept)], table


def _renumbered(step: dis.Instruction, number: int, places: Sequence[int]) -> dis.Instruction:
    target = bisect_left(places, step.argval) if step.opcode in JUMPS else step.argval
    return step._replace(offset=number, argval=target)


def _local_annotations(steps: Sequence[dis.Instruction]) -> Iterator[tuple[int, tuple[int, Any]]]:
    """Yield, for each created function, the start of its annotations, and a pair of their end and content."""
    for number, step in enumerate(steps):
        if step.opname != "MAKE_FUNCTION" or not (step.arg or 0) & _ANNOTATED:
            continue
        end = start_of_value(steps, number - 1) if (step.arg or 0) & _CLOSES_OVER else number - 1
        start = start_of_value(steps, end)
        with suppress(_Unknown, SyntaxError, ValueError, IndexError):
            yield start, (end, _written(steps[start:end]))


def _written(steps: Sequence[dis.Instruction]) -> list[Any]:
    """Return the names and the annotations as an alternating list, with each annotation as nested lists."""
    [(_, parts)] = _stack(steps)
    return [part if number % 2 == 0 else _opened(part) for number, part in enumerate(parts)]


def _stack(steps: Sequence[dis.Instruction]) -> list[Any]:
    """Return the values that the instructions leave on the stack, as texts of expressions."""
    stack: list[Any] = []
    for step in steps:
        match step.opname:
            case "LOAD_CONST":
                stack.append(_constant(step.argval))
            case "LOAD_GLOBAL" | "LOAD_NAME":
                stack.append(["name", step.argval])
            case "LOAD_ATTR":
                stack.append(["attribute", stack.pop(), step.argval])
            case "BINARY_SUBSCR":
                stack[-2:] = [["of", *stack[-2:]]]
            case "BINARY_OP" if step.argrepr == "|":
                stack[-2:] = [["or", *stack[-2:]]]
            case "BUILD_TUPLE" | "BUILD_LIST":
                count = step.arg or 0
                kind = step.opname.removeprefix("BUILD_").lower()
                stack[len(stack) - count :] = [[kind, stack[len(stack) - count :]]]
            case _:
                raise _Unknown
    return stack


def _constant(found: Any) -> list[Any]:
    if isinstance(found, tuple):
        return ["tuple", [_constant(part) for part in found]]
    return ["constant", type(found).__name__, found if isinstance(found, str) else repr(found)]


def _opened(part: Any) -> Any:
    """Return a string annotation as the expression that the string contains."""
    for _ in range(_MOST_TEXTS):
        if part[:2] != ["constant", "str"]:
            break
        part = _parsed(ast.parse(part[2], mode="eval").body)
    return part


def _parsed(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.Name(id=name):
            return ["name", name]
        case ast.Attribute(value=inner, attr=name):
            return ["attribute", _parsed(inner), name]
        case ast.Subscript(value=inner, slice=key):
            return ["of", _parsed(inner), _parsed(key)]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return ["or", _parsed(left), _parsed(right)]
        case ast.Tuple(elts=parts):
            return ["tuple", [_parsed(part) for part in parts]]
        case ast.List(elts=parts):
            return ["list", [_parsed(part) for part in parts]]
        case _:
            raise _Unknown
