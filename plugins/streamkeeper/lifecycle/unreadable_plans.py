"""Decides whether an open batch with an unreadable plan can be replanned, and at which cost. Does no I/O."""

from __future__ import annotations

from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.requests.diagnosis import Option, Price, QueryLook, RecoveryAction, RecoveryLook, Replan
from streamkeeper.sinks.kinds.known_kinds import capabilities_of

UNREADABLE_PLAN = frozenset({"offset-empty", "offset-cut-short", "offset-of-unknown-version", "checksum-mismatch"})
"""Kinds of damage to a plan. Without the damaged plan, the checkpoint is in the state of a crash before planning."""


def may_replan(query: QueryLook) -> str:
    """Return why the open batch of a query cannot be replanned; empty if it can."""
    if query.lost or query.ahead or query.unproven:
        return "its checkpoint is damaged in another way"
    at_plan = f"offsets/{query.planned}"
    if not query.harmed or any(harm.shape not in UNREADABLE_PLAN or harm.where != at_plan for harm in query.harmed):
        return "the damage is not only in the plan of its open batch"
    batch = query.planned or 0
    if query.committed is None:
        return "no batch was committed before it"
    if query.open_batch is None:
        return f"batch {batch} is committed, and without its plan its input is unknown"
    if query.committed != batch - 1:
        return f"the batch before it, {batch - 1}, is not committed"
    can = capabilities_of(query.sink)
    if not can.knows_batches:
        return f"{query.output} does not record whether it has batch {batch}; {can.receiver} may have seen it"
    if query.sink_unknown:
        return f"it is unknown whether {query.output} contains batch {batch}: {query.sink_unknown}"
    if query.holds is None:
        return f"{query.output} contains no batch of {query.version}, so it proves nothing about batch {batch}"
    if query.holds >= batch:
        return f"{query.output} contains batch {query.holds}; planned again with other rows, the batch would be skipped"
    return ""


def replan_option(look: RecoveryLook, *, against: str) -> Option:
    """Return the option REPLAN, which is possible only if the open batch of every damaged query can be replanned.

    Other queries are unchanged. ``against``: why no action is possible now; empty if there is no objection.
    """
    damaged = [query for query in look.queries if query.damaged]
    cannot = [f"query {query.query}: {why}" for query in damaged if (why := may_replan(query))]
    why_not = against or ("" if damaged else f"no checkpoint of {look.job} is damaged")
    if not why_not and look.driver.life is Life.ALIVE:
        why_not = f"driver {look.instance} is running; stop the job first"
    why_not = why_not or "; ".join(cannot)
    planned = {query.query: query.replan for query in damaged if query.replan is not None}
    replans_text = ", ".join(f"{name} without the plan of batch {replan.batch}" for name, replan in planned.items())
    return Option(
        action=RecoveryAction.REPLAN,
        does=f"use a copy of {replans_text} as the next checkpoint version, then start {look.release}"
        if planned
        else "",
        why_not=why_not,
        prices=tuple(_price_of_replan(query, query.replan) for query in damaged if query.replan is not None),
        replans={name: replan.batch for name, replan in planned.items()},
        stands_on=(look.release, *(f"{query.query}/{query.version}" for query in damaged)),
    )


def _price_of_replan(query: QueryLook, replan: Replan) -> Price:
    """Return the effects. No rows are written twice, because the output lacks the batch; the rows of missing files are
    lost.
    """
    reads = replan.reads or "the current content of the sources"
    lost = replan.gone or (f"possibly some of it: {replan.unknown}" if replan.unknown else "")
    return Price(
        query=query.query,
        output=query.output,
        read=f"batch {replan.batch}, perhaps with other offsets ({reads}),",
        written=f"batch {replan.batch}, which the output does not contain",
        lost=lost,
    )
