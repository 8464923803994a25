"""A driver or a command with protections switched off; only negative controls start it.

``unprotected.py WHAT[+WHAT…] driver JOB INSTANCE GENERATION``, or ``… COMMAND ARGUMENTS…``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

# A driver is started with this file, from anywhere.
sys.path.append(str(Path(__file__).parents[1]))

from chaos.attack_switches import OF_ATTACKS
from chaos.housekeeping_switches import OF_HOUSEKEEPING
from chaos.replacing import replace_in
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.runners.local_process import LocalProcessRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamkeeper.sinks.contract import SinkContext
    from streamkeeper.sinks.file import FileSink
    from streamkeeper.sinks.staging import StagingPlan


def without_fence() -> None:
    """No driver asks whose epoch is the newest, and no sink minds."""
    from streamkeeper.sinks.file import FileWriter

    without_owner()
    replace_in(FileWriter, check_fence=lambda self: None)


def without_owner() -> None:
    """No driver asks the journal whose epoch is the newest: only its sink is left to tell it."""
    from streamkeeper.driver.epoch import Claim

    replace_in(Claim, superseded_by=lambda self, state: "")


def without_gate() -> None:
    """Draining stops a query in the middle of whatever it does, as a plain ``query.stop()`` would."""
    from streamkeeper.driver.gate import Gate
    from streamkeeper.driver.queries import Ended, ServedQuery

    def stop_now(self: ServedQuery) -> bool:
        """Interrupt the run."""
        if self.ended is None:
            if self._run is not None:
                self._run.stop()
            self.ended = Ended.DRAINED
        return True

    replace_in(Gate, close=lambda self: None)
    replace_in(ServedQuery, stop_in_gap=stop_now)


def without_closing() -> None:
    """A gate lets batches through although its driver was told to drain: only the fence is left to judge a zombie.

    The audit query's gate gets a point of its own: at another's, its function may be in the middle of a write.
    """
    from streamkeeper.driver.gate import Gate
    from streamkeeper.system.crash_points import crash_point

    real = Gate.__call__

    def offer(self: Gate, batch: DataFrame, batch_id: int) -> None:
        """Freeze here, perhaps; then go on."""
        if self._query == "audit":
            crash_point("audit.batch.offered")
        real(self, batch, batch_id)

    replace_in(Gate, close=lambda self: None, __call__=offer)


def without_lease() -> None:
    """A driver that was frozen for longer than its lease does not end itself when it wakes up."""
    from streamkeeper.driver.lease import Lease

    replace_in(Lease, start=lambda self: None)


def without_death_proof() -> None:
    """A driver that was told to drain is taken for dead."""
    from streamkeeper.model.protocol.driver_messages import CommandKind
    from streamkeeper.registry.driver_control import Control

    real = LocalProcessRunner.observe

    def observe(self: LocalProcessRunner, job: str, instance: str) -> Liveness:
        """Believe what it was told to do."""
        drained = any(each.kind is CommandKind.DRAIN for each in Control(self._store, job, instance).commands(0))
        return Liveness(life=Life.DEAD, why="it was told to drain") if drained else real(self, job, instance)

    replace_in(LocalProcessRunner, observe=observe)


def with_stops() -> None:
    """Nothing is switched off: the writer of the totals' table gets a point between its gate and its database."""
    from streamkeeper.sinks.table import TableWriter
    from streamkeeper.system.crash_points import crash_point

    real = TableWriter.write

    def write(self: TableWriter, batch: DataFrame, batch_id: int) -> None:
        """Freeze here, perhaps; then go on."""
        crash_point("totals.write.before")
        real(self, batch, batch_id)

    replace_in(TableWriter, write=write)


def without_table_fence() -> None:
    """A table takes batches of any epoch; what stages the rows is told the newest, for workers ask themselves."""
    import msgspec
    import sqlalchemy as sa

    from streamkeeper.sinks import table
    from streamkeeper.sinks.table import TableWriter

    real_stage, real_update = TableWriter._stage, TableWriter._advance

    def newest(self: TableWriter) -> int:
        """The epoch of the table that serves."""
        with self._engine.connect() as connection:
            wanted = self._outputs.c.output == self._table
            return int(connection.execute(sa.select(self._outputs.c.epoch).where(wanted)).scalar_one())

    def stage(self: TableWriter, batch: DataFrame, plan: StagingPlan) -> None:
        """Under whatever epoch is the newest."""
        real_stage(self, batch, msgspec.structs.replace(plan, epoch=newest(self)))

    def advance(self: TableWriter, connection: sa.Connection, batch_id: int) -> bool:
        """As if this epoch were the newest."""
        wanted = self._outputs.c.output == self._table
        epoch = connection.execute(sa.select(self._outputs.c.epoch).where(wanted)).scalar_one()
        mine, self._context = self._context, msgspec.structs.replace(self._context, epoch=epoch)
        try:
            return real_update(self, connection, batch_id)
        finally:
            self._context = mine

    replace_in(TableWriter, _stage=stage, _advance=advance)
    replace_in(table, check_epoch=lambda *_arguments, **_named: None)


def without_desired_state() -> None:
    """The watch takes every job for one that is to serve, and a start asks nobody whether it was stopped."""
    import msgspec

    from streamkeeper.operations.deploys import starting
    from streamkeeper.operations.jobs import job_facts

    make, check = job_facts.make_facts, starting._must_be_possible
    job_facts.make_facts = lambda installation, state: msgspec.structs.replace(
        make(installation, state), wanted=True, stopped=""
    )
    starting._must_be_possible = lambda state, *, unless_stopped: check(state, unless_stopped=False)


def without_sink_log() -> None:
    """A handed-over file output begins with batch 1, and batch 0 is nowhere."""
    from streamkeeper.sinks.file import FileWriter

    replace_in(FileWriter, seed=lambda self, batch_id: None)


def without_directories() -> None:
    """All versions of a file output are written to one directory; nobody minds that it is ahead of its checkpoint."""
    from streamkeeper.driver import epoch
    from streamkeeper.sinks.file import FileWriter
    from streamkeeper.sinks.file_serving import EpochFile

    real = FileWriter.__init__

    def begin(self: FileWriter, sink: FileSink, context: SinkContext) -> None:
        """In the first version's directory, as the whole of the output."""
        real(self, sink, context)
        self._target = self._root / "v0001"

    def claim(self: FileWriter, owner: str, before: EpochFile | None) -> EpochFile:
        """Readers follow that directory."""
        return EpochFile(epoch=self._context.epoch, owner=owner, version="v0001", file_format=self._sink.format)

    replace_in(FileWriter, __init__=begin, _claim=claim)
    epoch._refuse_if_ahead = lambda writer, claim, planned: None


def without_obeying() -> None:
    """A driver passes over every order to end."""
    from streamkeeper.driver.control_loop import Serving

    replace_in(Serving, _obey=lambda self: None)


def without_create_only() -> None:
    """Spark's own manager writes checkpoints on S3, and nobody minds."""
    from streamkeeper.driver import queries, session

    replace_in(session, create_only=lambda spark: None)
    replace_in(queries, must_be_create_only=lambda spark, checkpoint: None)


def without_marks() -> None:
    """A file of a checkpoint on S3 has no mark of its writer: its answer is all that tells who has won."""
    import tempfile

    from streamkeeper.jvm import create_only
    from streamkeeper.jvm.classes import load_class

    def load_without(spark: SparkSession, source: Path) -> Any:
        """What is refused is another's."""
        code, mine = source.read_text(), "!mark.equals(new String(found, StandardCharsets.UTF_8))"
        assert mine in code
        changed = Path(tempfile.mkdtemp(), source.name)
        changed.write_text(code.replace(mine, "true"))
        return load_class(spark, changed)

    replace_in(create_only, load_class=load_without)


SWITCHES = {
    **OF_ATTACKS,
    **OF_HOUSEKEEPING,
    "closing": without_closing,
    "create-only": without_create_only,
    "death-proof": without_death_proof,
    "desired-state": without_desired_state,
    "fence": without_fence,
    "gate": without_gate,
    "lease": without_lease,
    "marks": without_marks,
    "obeying": without_obeying,
    "owner": without_owner,
    "one-directory": without_directories,
    "sink-log": without_sink_log,
    "stops": with_stops,
    "table-fence": without_table_fence,
}


RULE = "rule:"


def without_rule(name: str) -> None:
    """A health rule that there is not; neither the watch nor what it does by itself knows of it."""
    from streamkeeper.health import rules

    rules.RULES = tuple(each for each in rules.RULES if each is not rules.find_rule(name))


def switch_off(what: str) -> None:
    """Those with these names, with ``+`` between them, ``rule:driver-dead`` for a rule; none for an empty text."""
    for name in filter(None, what.split("+")):
        if name.startswith(RULE):
            without_rule(name.removeprefix(RULE))
        else:
            SWITCHES[name]()


def main() -> None:
    """Switch them off, then run what was asked for."""
    off, what, *arguments = sys.argv[1:]
    switch_off(off)
    if what == "driver":
        from streamkeeper.driver.driver_lifetime import main as drive

        drive(arguments)
    defaults = LocalProcessRunner.__init__.__kwdefaults__
    assert defaults is not None
    assert "driver" in defaults
    defaults["driver"] = (sys.executable, os.path.abspath(__file__), off, "driver")
    from streamkeeper.cli.main import main as command

    sys.argv = ["streamkeeper", what, *arguments]
    command()


if __name__ == "__main__":
    main()
