"""Query an output for the newest batch of a checkpoint version, by the output's description. No job code runs.

The module of a sink kind is loaded only when it is needed, because that of a table loads a database client.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import msgspec

from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.sink_capabilities import Reconciliation
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.kinds.known_kinds import capabilities_of


class _Asked(Protocol):
    """The functions in the module of a sink kind that ``knows_batches``; only a kind in ``CUT_BACK`` has
    ``refuse_cut``."""

    def answer(self, question: OutputQuestion) -> OutputAnswer:
        """Read the output's own record; an output that does not answer is reported as unknown. Raises and changes
        nothing.
        """

    def refuse_cut(self, sink: SinkDescription, version: str, batch: int) -> str:
        """Return why readers cannot be limited to a version's batches up to ``batch``; empty if they can."""


def ask_output(question: OutputQuestion) -> OutputAnswer:
    """Return the newest batch of a checkpoint version that an output contains.

    If this batch cannot be determined, the result's ``unknown`` contains the reason. Raises no error, and changes
    nothing.
    """
    if not capabilities_of(question.sink.kind).knows_batches:
        return OutputAnswer(unknown="Streamkeeper cannot query the output of a function")
    return _module_of(question.sink).answer(question)


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """How an output that contains later batches would handle a restore of its query to an earlier batch.

    ``takes``: how the output handles replayed batches, as a phrase; empty if it stores them twice.
    ``refusal``: why readers cannot be limited to the batches up to that earlier batch; empty if they can.
    """

    how: Reconciliation
    takes: str = ""
    refusal: str = ""


def reconcile(sink: SinkDescription, version: str, batch: int) -> Reconciled:
    """Return how an output would handle a restore to ``batch`` of ``version``; changes nothing.

    In a table, replayed rows replace the rows with the same key. For files, Spark's sink log must still separate the
    batches up to ``batch`` from later ones. For a function, only its author knows how it handles replayed batches.
    """
    can = capabilities_of(sink.kind)
    cut_back = can.reconciles is Reconciliation.CUT_BACK
    refusal = _module_of(sink).refuse_cut(sink, version, batch) if cut_back else ""
    return Reconciled(how=can.reconciles, takes=can.takes_again, refusal=refusal)


def _module_of(sink: SinkDescription) -> _Asked:
    """Return the module of a kind with capabilities; it has the kind's name."""
    return cast(_Asked, import_module(f"streamkeeper.sinks.{sink.kind}"))
