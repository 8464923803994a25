"""A driver or a deploy with protections switched off; only negative controls start it.

``unprotected.py WHAT[+WHAT…] driver JOB INSTANCE GENERATION``, or ``… deploy ARGUMENTS…``.
"""

from __future__ import annotations

import os
import sys

from streamkeeper.model.liveness import Life, Liveness
from streamkeeper.runners.local_process import LocalProcessRunner


def without_fence() -> None:
    """No driver asks whose epoch is the newest, and no sink minds."""
    from streamkeeper.driver.epoch import Claim
    from streamkeeper.sinks.file import FileWriter

    Claim.superseded_by = lambda self, look: ""
    FileWriter.check_fence = lambda self: None


def without_gate() -> None:
    """Draining stops a query in the middle of whatever it does, as a plain ``query.stop()`` would."""
    from streamkeeper.driver.gate import Gate
    from streamkeeper.driver.queries import Ended, ServedQuery

    def stop_now(self) -> bool:
        """Interrupt the run."""
        if self.ended is None:
            self._run.stop()
            self.ended = Ended.DRAINED
        return True

    Gate.close = lambda self: None
    ServedQuery.stop_in_gap = stop_now


def without_closing() -> None:
    """A gate lets batches through although its driver was told to drain: only the fence is left to judge a zombie.

    The audit query's gate gets a point of its own: at another's, its function may be in the middle of a write.
    """
    from streamkeeper.crash_points import crash_point
    from streamkeeper.driver.gate import Gate

    real = Gate.__call__

    def offer(self, batch, batch_id):
        """Freeze here, perhaps; then go on."""
        if self._query == "audit":
            crash_point("audit.batch.offered")
        return real(self, batch, batch_id)

    Gate.close = lambda self: None
    Gate.__call__ = offer


def without_lease() -> None:
    """A driver that was frozen for longer than its lease does not end itself when it wakes up."""
    from streamkeeper.driver.lease import Lease

    Lease.start = lambda self: None


def without_death_proof() -> None:
    """A driver that was told to drain is taken for dead."""
    from streamkeeper.model.control import CommandKind
    from streamkeeper.registry.control import Control

    real = LocalProcessRunner.observe

    def observe(self, job, instance):
        """Believe what it was told to do."""
        drained = any(each.kind is CommandKind.DRAIN for each in Control(self._store, job, instance).commands(0))
        return Liveness(life=Life.DEAD, why="it was told to drain") if drained else real(self, job, instance)

    LocalProcessRunner.observe = observe


SWITCHES = {
    "closing": without_closing,
    "death-proof": without_death_proof,
    "fence": without_fence,
    "gate": without_gate,
    "lease": without_lease,
}


def main() -> None:
    """Switch them off, then run what was asked for."""
    off, what, *arguments = sys.argv[1:]
    for name in off.split("+"):
        SWITCHES[name]()
    if what == "driver":
        from streamkeeper.driver.main import main as drive

        drive(arguments)
    LocalProcessRunner.__init__.__kwdefaults__["driver"] = (sys.executable, os.path.abspath(__file__), off, "driver")
    from streamkeeper.cli.main import main as command

    sys.argv = ["streamkeeper", "deploy", *arguments]
    command()


if __name__ == "__main__":
    main()
