"""A digest of a Python function that ignores the names of its local variables.

Two functions that differ only in these names compute the same result, unless code reads the names. No such digest is
computed if code might read them: through ``dir()``, ``locals()``, ``eval``, pandas's ``query("x > @y")``, or a library
that is not listed as harmless. The digest includes the names of parameters, which callers may use, and the names of
variables that are shared with an inner function.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

from streamkeeper.inspection.inert import Reach
from streamkeeper.inspection.met import Met

LOCALS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})
"""Instructions that name a local variable."""


class LocalNames:
    """The part of a walk over code that replaces each local variable that is not a parameter by a number.

    The numbers follow the order of first use in the code.
    """

    def counting(
        self, code: CodeType, steps: Sequence[dis.Instruction], _names: Mapping[str, Any]
    ) -> tuple[Sequence[int], dict[int, Any]]:
        """Return the positions of the instructions to compare, and a mapping. The positions are those of all
        instructions.

        The mapping contains, by position, the number that is compared instead of a local variable's name.
        """
        known = parameters(code)
        order: dict[str, int] = {}
        numbers = {
            number: order.setdefault(str(step.argval), len(order))
            for number, step in enumerate(steps)
            if step.opname in LOCALS and step.argval not in known
        }
        return range(len(steps)), numbers

    def beside(self, code: CodeType, handlers: Any) -> list[Any]:
        """Return the parts of a code object that the digest includes in addition to the instructions."""
        return [parameters(code), handlers]


def parameters(code: CodeType) -> tuple[str, ...]:
    """Return the names of a code's parameters, including ``*args`` and ``**kwargs``."""
    flags = code.co_flags
    more = bool(flags & inspect.CO_VARARGS) + bool(flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + more]


def may_see_locals(met: Met, texts: Iterable[str]) -> bool:
    """Whether the code that a walk has read may read names of local variables.

    ``texts``: the strings in that code.
    """
    return met.unreadable or met.foreign or met.locals or met.reach >= Reach.CODE or any("@" in text for text in texts)
