"""Asking an output, by its description alone, which batch of a checkpoint version it holds: no job's code is run.

Whoever asks loads the kind's module only then: a table's loads a database client.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import msgspec

from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.sink_capabilities import Reconciliation, capabilities_of
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion


class _Asked(Protocol):
    """What the module of a kind that ``knows_batches`` has; that of one to ``CUT_BACK`` has the second as well."""

    def answer(self, question: OutputQuestion) -> OutputAnswer:
        """What the output itself says; what does not answer is told as unknown. Raises and changes nothing."""

    def refuse_cut(self, sink: SinkDescription, version: str, batch: int) -> str:
        """Why its readers cannot be shown a version up to a batch; empty where nothing speaks against it."""


def ask_output(question: OutputQuestion) -> OutputAnswer:
    """Ask the output itself. What does not answer is told as unknown; nothing is raised and nothing is changed."""
    if not capabilities_of(question.sink.kind).knows_batches:
        return OutputAnswer(unknown="Streamkeeper cannot query the output of a function")
    return _module_of(question.sink).answer(question)


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of what an output holds beyond a batch that its checkpoint is restored to.

    ``takes``: how it takes what comes again, as a clause, empty where it has it twice; ``refusal``: why readers cannot
    be shown it up to that batch, empty where nothing speaks against it.
    """

    how: Reconciliation
    takes: str = ""
    refusal: str = ""


def reconcile(sink: SinkDescription, version: str, batch: int) -> Reconciled:
    """Ask an output, by its description, about a restore to ``batch`` of ``version``; changes nothing.

    A table's rows replace themselves by their key. Of files Spark's own log must still tell those up to the batch from
    later ones. What a function has written is its author's to say.
    """
    can = capabilities_of(sink.kind)
    cut_back = can.reconciles is Reconciliation.CUT_BACK
    refusal = _module_of(sink).refuse_cut(sink, version, batch) if cut_back else ""
    return Reconciled(how=can.reconciles, takes=can.takes_again, refusal=refusal)


def _module_of(sink: SinkDescription) -> _Asked:
    """That of a kind with capabilities, by whose name it is called."""
    return cast(_Asked, import_module(f"streamkeeper.sinks.{sink.kind}"))
