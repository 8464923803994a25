"""The effects of each recovery action on each output: data that is reread, rewritten, lost and duplicated. Pure."""

from __future__ import annotations

from streamkeeper.model.requests.diagnosis import Price, QueryLook, Replay
from streamkeeper.sinks.kinds.known_kinds import capabilities_of


def price_of_restart(query: QueryLook) -> Price:
    """Return the effects of a restart: the open batch is replayed, and batches that the output lacks stay missing."""
    batch = query.open_batch
    lost = f"the rows that the output lacks ({query.output_lost})" if query.output_lost else ""
    if batch is None:
        return Price(query=query.query, output=query.output, lost=lost)
    can = capabilities_of(query.sink)
    how = (
        "skipped if the output already contains it"
        if can.knows_batches
        else f"{can.receiver} may have received it before, as after any crash"
    )
    written = f"batch {batch}, {how}"
    return Price(query=query.query, output=query.output, read=f"batch {batch}", written=written, lost=lost)


def too_short(query: QueryLook) -> str:
    """Return why a query's output cannot continue from the snapshot that a replay would restore; empty if it can.

    The output cannot continue if it lacks batches up to the snapshot's batch.
    """
    if not query.output_lost or query.replay is None:
        return ""
    held = -1 if query.holds is None else query.holds
    if held >= query.replay.batch:
        return ""
    return f"its output also lacks batches before {query.replay.snapshot} (batch {query.replay.batch})"


def price_of_replay(query: QueryLook, replay: Replay) -> Price:
    """Return the effects of a replay from a snapshot.

    If the number of batches to replay is unknown, all batches count as replayed. Input that cannot be checked counts as
    possibly lost.
    """
    nothing = replay.batches == 0 and not replay.reads
    count = "everything" if replay.batches is None else _count(replay.batches, "batch", "batches")
    reads = "" if nothing else f"{count} after batch {replay.batch}{f' ({replay.reads})' if replay.reads else ''}"
    doubles = not replay.takes and not nothing
    can = capabilities_of(query.sink)
    once = f"; {can.read_once_by}" if can.read_once_by and replay.linked else ""
    twice = f"so {can.receiver} receives them TWICE{once}"
    written = "" if nothing else f"the same, {replay.takes or twice}"
    lost = replay.gone or ("" if nothing or not replay.unknown else f"possibly some of it: {replay.unknown}")
    return Price(query=query.query, output=query.output, read=reads, written=written, lost=lost, doubles=doubles)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
