"""A driver or a deploy with one protection switched off; only negative controls start it.

``python -m bench.campaign.unprotected WHAT driver JOB INSTANCE GENERATION`` or ``… WHAT deploy ARGUMENTS…``.
"""

from __future__ import annotations

import os
import sys

from streamkeeper.model.liveness import Life, Liveness
from streamkeeper.runners import local_process
from streamkeeper.runners.local_process import LocalProcessRunner


def without_fence() -> None:
    """The sinks let any epoch write, and no driver asks whose epoch is the newest."""
    from streamkeeper.driver.epoch import Claim
    from streamkeeper.sinks import table
    from streamkeeper.sinks.file import FileWriter

    Claim.superseded_by = lambda self, look: ""
    FileWriter.check_fence = lambda self: None
    table.check_epoch = lambda *arguments: None
    staged = table.TableWriter._advance

    def advance(self, connection, batch_id):
        """Take the newest epoch for one's own."""
        import sqlalchemy as sa

        wanted = self._outputs.c.output == self._sink.table
        newest = connection.execute(sa.select(self._outputs.c.epoch).where(wanted)).scalar_one()
        own, self._context = self._context, type(self._context)(**{**_fields(self._context), "epoch": newest})
        connection.execute(sa.update(self._outputs).where(wanted).values(batch_id=-1))
        try:
            return staged(self, connection, batch_id)
        finally:
            self._context = own

    table.TableWriter._advance = advance


def without_gate() -> None:
    """Draining stops the query in the middle of whatever it does."""
    from streamkeeper.driver.gate import Gate

    Gate.close = lambda self: None
    Gate.busy = property(lambda self: False)


def without_death_proof() -> None:
    """A driver that was told to drain is taken for dead."""
    real = LocalProcessRunner.observe
    from streamkeeper.model.control import CommandKind
    from streamkeeper.registry.control import Control

    def observe(self, job, instance):
        """Believe what one was told to do."""
        drained = any(each.kind is CommandKind.DRAIN for each in Control(self._store, job, instance).commands(0))
        return Liveness(life=Life.DEAD, why="it was told to drain") if drained else real(self, job, instance)

    LocalProcessRunner.observe = observe


def _fields(context) -> dict:
    return {name: getattr(context, name) for name in context.__struct_fields__}


SWITCHES = {"fence": without_fence, "gate": without_gate, "death-proof": without_death_proof}


def main() -> None:
    """Switch it off, then run what was asked for."""
    off, what, *arguments = sys.argv[1:]
    for name in off.split("+"):
        SWITCHES[name]()
    if what == "driver":
        from streamkeeper.driver.main import main as drive

        sys.argv = ["streamkeeper.driver", *arguments]
        sys.exit(drive(arguments))
    local_process.LocalProcessRunner.__init__.__kwdefaults__["driver"] = (
        sys.executable,
        os.path.abspath(__file__),
        off,
        "driver",
    )
    from streamkeeper.cli.main import main as command

    sys.argv = ["streamkeeper", "deploy", *arguments]
    command()


if __name__ == "__main__":
    main()
