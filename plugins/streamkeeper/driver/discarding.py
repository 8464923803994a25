"""The end of a dual run without a cutover: shadow output is removed, the current output is unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.epoch import Claim, shadow_claim, writer_of
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.queries import ServedQuery
from streamkeeper.model.protocol.driver_messages import Command, CommandKind, LaunchSpec
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

_BUSY_S = 5.0


def discard_shadows(channel: DriverChannel, queries: Iterable[ServedQuery]) -> None:
    """Remove the shadows that these queries have written. The JVM of the queries must have ended. If this process is
    still writing a batch, wait up to five seconds for that write.
    """
    queries = list(queries)
    deadline = clock.monotonic() + _BUSY_S
    while any(query.gate.busy for query in queries) and clock.monotonic() < deadline:
        clock.sleep(0.02)
    for query in queries:
        _discard(channel, query.planned, query.claim)


def discard_left(
    channel: DriverChannel,
    spec: LaunchSpec,
    generation: int,
    planned: Mapping[str, PlannedQuery],
    orders: Iterable[Command],
) -> None:
    """Remove the shadows that earlier generations left, except a shadow whose checkpoint version is now current: that
    shadow has become the output.

    ``channel``: the access to the store.
    ``spec``: this driver's launch specification.
    ``generation``: this generation's number.
    ``planned``: query -> how the job built it.
    ``orders``: the commands that named the shadows.
    """
    state = None
    for order in orders:
        if order.kind is not CommandKind.SHADOW:
            continue
        state = state or channel.look()
        for name, version in order.versions.items():
            claimed = state.epochs.get(name)
            if name in planned and (claimed is None or claimed.version != version):
                claim = shadow_claim(
                    spec.job, spec.instance, generation, planned[name].query, version, installation=spec.installation
                )
                _discard(channel, planned[name], claim)


def _discard(channel: DriverChannel, planned: PlannedQuery, claim: Claim) -> None:
    writer = writer_of(planned.query, claim, channel.state or channel.look())
    try:
        crash_point("driver.discard.before")
        writer.discard()
        crash_point("driver.discard.after")
    finally:
        writer.close()
