"""Runs a driver or a command with protections switched off; used only by negative controls.

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
    """Switch off the fence: no driver checks whose epoch is the newest, and no file sink checks the fence."""
    from streamkeeper.sinks.file import FileWriter

    without_owner()
    replace_in(FileWriter, check_fence=lambda self: None)


def without_owner() -> None:
    """Switch off the driver's check of the journal for a newer epoch, so that only its sink can stop it."""
    from streamkeeper.driver.epoch import Claim

    replace_in(Claim, superseded_by=lambda self, state: "")


def without_gate() -> None:
    """Switch off the gate: draining stops a query in the middle of its work, as a plain ``query.stop()`` would."""
    from streamkeeper.driver.gate import Gate
    from streamkeeper.driver.queries import Ended, ServedQuery

    def stop_now(self: ServedQuery) -> bool:
        """Stop the run at once."""
        if self.ended is None:
            if self._run is not None:
                self._run.stop()
            self.ended = Ended.DRAINED
        return True

    replace_in(Gate, close=lambda self: None)
    replace_in(ServedQuery, stop_in_gap=stop_now)


def without_closing() -> None:
    """Keep the gate open although its driver was ordered to drain, so that only the fence stops a zombie.

    The audit query's gate gets a failpoint of its own: at the failpoint of another gate, its function may be in the
    middle of a write.
    """
    from streamkeeper.driver.gate import Gate
    from streamkeeper.system.crash_points import crash_point

    real = Gate.__call__

    def offer(self: Gate, batch: DataFrame, batch_id: int) -> None:
        """Freeze here if the failpoint is set, then continue."""
        if self._query == "audit":
            crash_point("audit.batch.offered")
        real(self, batch, batch_id)

    replace_in(Gate, close=lambda self: None, __call__=offer)


def without_lease() -> None:
    """Switch off the lease: a driver that was frozen for longer than its lease does not terminate when it wakes up."""
    from streamkeeper.driver.lease import Lease

    replace_in(Lease, start=lambda self: None)


def without_death_proof() -> None:
    """Switch off the proof of death: a driver that was ordered to drain counts as dead."""
    from streamkeeper.model.protocol.driver_messages import CommandKind
    from streamkeeper.registry.driver_control import Control

    real = LocalProcessRunner.observe

    def observe(self: LocalProcessRunner, job: str, instance: str) -> Liveness:
        """Report a driver as dead once it was ordered to drain."""
        drained = any(each.kind is CommandKind.DRAIN for each in Control(self._store, job, instance).commands(0))
        return Liveness(life=Life.DEAD, why="it was told to drain") if drained else real(self, job, instance)

    replace_in(LocalProcessRunner, observe=observe)


def with_stops() -> None:
    """Switch nothing off: add a failpoint to the writer of the ``totals`` table, between its gate and its database."""
    from streamkeeper.sinks.table_writer import TableWriter
    from streamkeeper.system.crash_points import crash_point

    real = TableWriter.write

    def write(self: TableWriter, batch: DataFrame, batch_id: int) -> None:
        """Freeze here if the failpoint is set, then continue."""
        crash_point("totals.write.before")
        real(self, batch, batch_id)

    replace_in(TableWriter, write=write)


def without_table_fence() -> None:
    """Switch off the fence of tables: a table accepts batches of any epoch, and staging is given the newest epoch
    because workers check it themselves.
    """
    import msgspec
    import sqlalchemy as sa

    from streamkeeper.sinks import table_writer
    from streamkeeper.sinks.table_writer import TableWriter

    real_stage, real_update = TableWriter._stage, TableWriter._advance

    def newest(self: TableWriter) -> int:
        """Return the epoch of the serving table."""
        with self._engine.connect() as connection:
            wanted = self._outputs.c.output == self._table
            return int(connection.execute(sa.select(self._outputs.c.epoch).where(wanted)).scalar_one())

    def stage(self: TableWriter, batch: DataFrame, plan: StagingPlan) -> None:
        """Stage the batch under the newest epoch."""
        real_stage(self, batch, msgspec.structs.replace(plan, epoch=newest(self)))

    def advance(self: TableWriter, connection: sa.Connection, batch_id: int) -> bool:
        """Advance the table as if this driver's epoch were the newest."""
        wanted = self._outputs.c.output == self._table
        epoch = connection.execute(sa.select(self._outputs.c.epoch).where(wanted)).scalar_one()
        mine, self._context = self._context, msgspec.structs.replace(self._context, epoch=epoch)
        try:
            return real_update(self, connection, batch_id)
        finally:
            self._context = mine

    replace_in(TableWriter, _stage=stage, _advance=advance)
    replace_in(table_writer, check_epoch=lambda *_arguments, **_named: None)


def without_desired_state() -> None:
    """Switch off the desired state: the watch treats every job as one that should serve, and a start does not check
    whether the job was stopped.
    """
    import msgspec

    from streamkeeper.operations.deploys import starting
    from streamkeeper.operations.jobs import job_facts

    make, check = job_facts.make_facts, starting._must_be_possible
    job_facts.make_facts = lambda installation, state: msgspec.structs.replace(
        make(installation, state), wanted=True, stopped=""
    )
    starting._must_be_possible = lambda state, *, unless_stopped: check(state, unless_stopped=False)


def without_sink_log() -> None:
    """Switch off the seeding of a handed-over file output: its log begins with batch 1 and lacks batch 0."""
    from streamkeeper.sinks.file import FileWriter

    replace_in(FileWriter, seed=lambda self, batch_id: None)


def without_directories() -> None:
    """Write all versions of a file output to one directory, and switch off the check that the output is not ahead of
    its checkpoint.
    """
    from streamkeeper.driver import epoch
    from streamkeeper.sinks.file import FileWriter
    from streamkeeper.sinks.file_serving import EpochFile

    real = FileWriter.__init__

    def begin(self: FileWriter, sink: FileSink, context: SinkContext) -> None:
        """Write to the directory of the first version, as if it were the whole output."""
        real(self, sink, context)
        self._target = f"{self._root}/v0001"

    def claim(self: FileWriter, owner: str, before: EpochFile | None) -> EpochFile:
        """Direct readers to that directory."""
        return EpochFile(epoch=self._context.epoch, owner=owner, version="v0001", file_format=self._sink.format)

    replace_in(FileWriter, __init__=begin, _claim=claim)
    epoch._refuse_if_ahead = lambda writer, claim, planned: None


def without_obeying() -> None:
    """Make a driver ignore every order to terminate."""
    from streamkeeper.driver.control_loop import Serving

    replace_in(Serving, _obey=lambda self: None)


def without_create_only() -> None:
    """Let Spark's own manager write checkpoints on S3, and switch off the check that refuses it."""
    from streamkeeper.driver import queries, session

    replace_in(session, create_only=lambda spark: None)
    replace_in(queries, must_be_create_only=lambda spark, checkpoint: None)


def without_marks() -> None:
    """Ignore the writer's mark in files of a checkpoint on S3: only the server's answer decides which writer has
    won.
    """
    import tempfile

    from streamkeeper.jvm import create_only
    from streamkeeper.jvm.classes import load_class

    def load_without(spark: SparkSession, source: Path) -> Any:
        """Load the class changed so that a refused file always counts as a different writer's."""
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
    """Remove a health rule, both for the watch and for its automatic actions."""
    from streamkeeper.health import rules

    rules.RULES = tuple(each for each in rules.RULES if each is not rules.find_rule(name))


def switch_off(what: str) -> None:
    """Switch off the protections with these names, joined by ``+``; ``rule:driver-dead`` names a health rule, an empty
    text none.
    """
    for name in filter(None, what.split("+")):
        if name.startswith(RULE):
            without_rule(name.removeprefix(RULE))
        else:
            SWITCHES[name]()


def main() -> None:
    """Switch the protections off, then run the driver or the command."""
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
