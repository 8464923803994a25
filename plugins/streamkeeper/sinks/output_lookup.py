"""Query an output for the newest batch of a checkpoint version, by the output's description. No job code runs.

The module of a sink kind is loaded only when it is needed, because that of a table loads a database client.
"""

from __future__ import annotations

import msgspec

from streamkeeper.model.manifests.sink_capabilities import Reconciliation
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.kind_modules import module_of
from streamkeeper.sinks.kinds.known_kinds import capabilities_of


def ask_output(question: OutputQuestion) -> OutputAnswer:
    """Return the newest batch of a checkpoint version that an output contains.

    If this batch cannot be determined, the result's ``unknown`` contains the reason. Raises no error, and changes
    nothing.
    """
    can = capabilities_of(question.sink.kind)
    if not can.knows_batches:
        output = question.sink.output
        if can.delivers:
            return OutputAnswer(unknown=f"{can.receiver} {output} keeps no record of its batches")
        of = f"{can.receiver} {output}" if can.names_place else "the output of a function"
        return OutputAnswer(unknown=f"Streamkeeper cannot query {of}")
    return module_of(question.sink.kind).answer(question)


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``reconcile``: how an output that contains later batches would handle a restore of its query to an
    earlier batch.

    ``takes``: how the output handles replayed batches, as a phrase; empty if it stores them twice. ``refusal``: why
    readers cannot be limited to the batches up to that earlier batch; empty if they can.
    """

    how: Reconciliation
    takes: str = ""
    refusal: str = ""


def reconcile(question: OutputQuestion, batch: int) -> Reconciled:
    """Return how an output would handle a restore to ``batch`` of the question's version; changes nothing.

    In a table with a key, replayed rows replace the rows with the same key. For files, Spark's sink log must still
    separate the batches up to ``batch`` from later ones. For a function, only its author knows how it handles replayed
    batches.
    """
    kind = question.sink.kind
    can = capabilities_of(kind)
    cut_back = can.reconciles is Reconciliation.CUT_BACK
    refusal = module_of(kind).refuse_cut(question, batch) if cut_back else ""
    return Reconciled(how=can.reconciles, takes=can.takes_again, refusal=refusal)
