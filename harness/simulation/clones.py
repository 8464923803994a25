"""The clone of a query that a drill uses: it runs the next batch on a restored checkpoint, and may change nothing
else.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.simulation.input import check_batch
from harness.simulation.releases import JOB
from harness.simulation.spark import Frame, Run
from harness.simulation.state import StateLost, StateStore
from streamkeeper.authoring.definition import Query
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged
from streamkeeper.inspection.diverted import Diverted, RunFault
from streamkeeper.inspection.resume_proof import drill
from streamkeeper.inspection.state_export import StateCount
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.protocol.drill_messages import DrillRequest
from streamkeeper.sources.known_sources import clone_options

if TYPE_CHECKING:
    from harness.simulation.world import World


class Clone(Run):
    """One run of a clone: it has no sink, and uses the options of ``inspection.clones`` instead of the query's own."""

    def run_next(self) -> None:
        """Run the next batch, if the input has rows for it, and begin the following one as Spark does."""
        self._read_checkpoint()
        self._trigger()
        self._cleaned(self._input.clean(self._begin))

    def _open_state(self) -> StateStore:
        # The files after the snapshot's batch may be deleted, because the query has read them.
        return StateStore(self._world, self._tree, whole=False)

    def _options(self) -> dict[str, str]:
        return {name.lower(): value for name, value in clone_options().items()}

    def _call_gate(self, number: int, rows: Sequence[int]) -> None:
        check_batch(Frame(self._session, rows), number)
        if self._state is not None:
            self._state.add(number, rows)

    def _write(self, path: str, content: bytes) -> None:
        self._scheduler.seam()
        self._tree.create(path, [content])

    def _cleaned(self, rows: Sequence[int]) -> None:
        if rows:
            self._scheduler.break_rule(f"a drill deletes {len(rows)} input files")


def resume_once(world: World, request: bytes) -> bytes:
    """Act as the driver of a drill, with the real ``inspection.resume_proof``, and return its result."""
    asked = from_json(request, DrillRequest, where="the request")
    tree = world.tree_at(asked.checkpoint, lasting=False)
    world.scheduler.sleep(1.0 + 3.0 * world.scheduler.chance.random())
    current = world.scheduler.current
    assert current is not None
    session: Any = SimpleNamespace(world=world, driver=current.process, jvm=current.process, listeners=[])
    frame: Any = Frame(session)
    query = Query(asked.query, frame, sink=world.sink)
    return to_json(drill(session, query, tree, asked.batch, timeout_s=asked.timeout_s))


def run_next(query: Query, checkpoint: Tree, *, timeout_s: float) -> Diverted:
    """Run the next batch, in place of ``inspection.diverted.run_next``."""
    del timeout_s
    before = last_committed(checkpoint.fresh())
    session: Any = query.df.sparkSession
    try:
        Clone(session, name=JOB, checkpoint=checkpoint.where(""), gate=lambda *_: None).run_next()
    except Exception as error:
        return Diverted(fault=RunFault(type(error).__name__, str(error)))
    after = last_committed(checkpoint.fresh())
    return Diverted(rows={} if after is None or after == before else {after: 1})


def read_all_state(session: Any, checkpoint: Tree, batch: int, *, owned: bool) -> StateCount:
    """Read the whole state of a batch, in place of ``inspection.state_export.read_all_state``; raises
    CheckpointDamaged.
    """
    del owned
    world: World = session.world
    if not world.stateful:
        return StateCount(0, 0)
    try:
        return StateCount(1, len(StateStore(world, checkpoint).load(batch + 1)))
    except StateLost as error:
        raise CheckpointDamaged(str(error), hint="none") from error
