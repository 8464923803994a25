"""The functions of a kind of sink that need no job: they query an output by its description or its location.

The module of a kind is loaded only when it is needed, because that of a table loads a database client.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from streamkeeper.model.records.lost_store import Fence
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.kinds.known_kinds import KINDS


class KindModule(Protocol):
    """The module of a kind of sink. A module has a function only if its kind has the capability that the function's
    docstring names.
    """

    def answer(self, question: OutputQuestion) -> OutputAnswer:
        """``knows_batches``: return the output's answer from its own record. If the output does not answer, its content
        is reported as unknown. Raises no error, and changes nothing.
        """

    def refuse_cut(self, question: OutputQuestion, batch: int) -> str:
        """``CUT_BACK``: return why readers cannot be limited to the batches of the question's version up to ``batch``;
        empty if they can.
        """

    def read_fences(self, place: str) -> list[Fence]:
        """``fences``: return the fences of all outputs in a place with one of the kind's ``schemes``; see
        ``fences.read_fences``.
        """


def module_of(kind: str) -> KindModule:
    """Return the module of a known kind."""
    return cast(KindModule, import_module(KINDS[kind].module))
