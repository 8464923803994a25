"""Queries an output, by its description alone, for the newest batch of a checkpoint version: no job code runs.

The module of a sink kind is loaded only when it is needed: a table's module loads a database client.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import msgspec

from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.sink_capabilities import Reconciliation, capabilities_of
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion


class _Asked(Protocol):
    """The functions in the module of a kind that ``knows_batches``; a kind to ``CUT_BACK`` has the second as well."""

    def answer(self, question: OutputQuestion) -> OutputAnswer:
        """Read the output's own record; an output that does not answer is reported as unknown. Raises and changes
        nothing.
        """

    def refuse_cut(self, sink: SinkDescription, version: str, batch: int) -> str:
        """Return why readers cannot be limited to a version's batches up to ``batch``; empty if they can."""


def ask_output(question: OutputQuestion) -> OutputAnswer:
    """Query the output itself. One that does not answer is reported as unknown; it raises no error and changes
    nothing.
    """
    if not capabilities_of(question.sink.kind).knows_batches:
        return OutputAnswer(unknown="Streamkeeper cannot query the output of a function")
    return _module_of(question.sink).answer(question)


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """How an output's content beyond a restored batch is handled.

    ``takes``: how it handles replayed batches, as a clause, empty if it stores them twice; ``refusal``: why readers
    cannot be limited to the batches up to that one, empty if they can.
    """

    how: Reconciliation
    takes: str = ""
    refusal: str = ""


def reconcile(sink: SinkDescription, version: str, batch: int) -> Reconciled:
    """Query an output, by its description, about a restore to ``batch`` of ``version``; changes nothing.

    A table's rows replace themselves by their key. For files, Spark's own log must still separate the batches up to
    that one from later ones. For a function, only its author can tell.
    """
    can = capabilities_of(sink.kind)
    cut_back = can.reconciles is Reconciliation.CUT_BACK
    refusal = _module_of(sink).refuse_cut(sink, version, batch) if cut_back else ""
    return Reconciled(how=can.reconciles, takes=can.takes_again, refusal=refusal)


def _module_of(sink: SinkDescription) -> _Asked:
    """Return the module of a kind with capabilities; it has the kind's name."""
    return cast(_Asked, import_module(f"streamkeeper.sinks.{sink.kind}"))
