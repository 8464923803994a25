"""Reads a function's instructions separately from the values that they load."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from streamkeeper.model.secret_names import is_secret

JUMPS = frozenset([*dis.hasjrel, *dis.hasjabs])
_SAYS_NOTHING = frozenset({"RESUME", "NOP", "EXTENDED_ARG"})


def instructions(code: CodeType) -> list[dis.Instruction]:
    """Return the instructions that have an effect, in order. The argument of a ``KW_NAMES`` instruction is the names of
    the keywords.
    """
    found = [instruction for instruction in dis.get_instructions(code) if instruction.opname not in _SAYS_NOTHING]
    return [
        instruction._replace(argval=code.co_consts[instruction.arg])
        if instruction.opname == "KW_NAMES" and instruction.arg is not None
        else instruction
        for instruction in found
    ]


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the globals and attributes that a function names, including those that its inner functions name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def secret_constants(steps: Sequence[dis.Instruction]) -> set[int]:
    """Return the positions of values that the code stores under a secret's name: ``option("password", …)``, ``token =
    …``, ``key=…``.
    """
    found: set[int] = set()
    for number, step in enumerate(steps):
        match step.argval:
            case str() as name if step.opname == "LOAD_CONST" and is_secret(name):
                found.add(number + 1)
            case str() as name if step.opname.startswith("STORE_") and is_secret(name):
                found |= set(range(start_of_value(steps, number), number))
            case tuple() as names if step.opname in ("KW_NAMES", "LOAD_CONST"):
                # The names of keywords, and the keys of a dictionary, come after the values.
                end = number
                for name in reversed(names if any(isinstance(text, str) and is_secret(text) for text in names) else ()):
                    start = start_of_value(steps, end)
                    found |= set(range(start, end)) if is_secret(str(name)) else set()
                    end = start
            case _:
                pass
    return found


def start_of_value(steps: Sequence[dis.Instruction], end: int) -> int:
    """Return the position of the first instruction that produces the topmost value on the stack before ``end``."""
    height = 0
    for number in reversed(range(end)):
        height += dis.stack_effect(steps[number].opcode, steps[number].arg, jump=False)
        if height >= 1:
            return number
    return 0


def package_of(names: Mapping[str, Any]) -> str:
    """Return the package that relative imports in a function start from, from the function's globals."""
    return str(names.get("__package__") or str(names.get("__name__", "")).rpartition(".")[0])
