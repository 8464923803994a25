"""Every error Streamkeeper raises, in one tree.

StreamkeeperError
├── PermanentError            trying again cannot help: somebody has to change something
│   ├── InvalidInput          a name, a param, a file or a setting is wrong
│   │   ├── JobUnusable       the job's own code does not import, or yields what cannot be run
│   │   ├── Unsupported       right in itself, but no promise is implemented for it
│   │   └── OutputUnfit       the output that is there does not take what the query writes
│   ├── NotFound              an unknown job, release, operation or instance
│   │   └── JournalLost       a job without a journal that other records name
│   ├── OperationRefused      not allowed in the job's present state; nothing was touched
│   │   └── OperationOpen     another operation is open: continue or abort it first
│   ├── DeployFailed          a deploy ended without its release serving
│   ├── InputUnreadable       Spark would read files of a batch twice, because of their names
│   ├── Fenced                a newer epoch exists: this writer has been superseded
│   ├── SinkAhead             the sink holds batches that the checkpoint does not know
│   ├── OutputLost            the output lacks batches that the checkpoint has committed
│   ├── RegistryDamaged       a stored record is missing or cannot be read
│   │   └── JournalOutdated   it is older than what outputs and checkpoints hold: an older copy was put back
│   ├── CheckpointDamaged     a checkpoint lacks a file, or holds one that cannot be read
│   │   └── CheckpointLost    it is missing, emptied, another query's, or has gone back behind what was recorded
│   ├── InputGone             files that the open batch reads are gone: Spark would run it without them
│   ├── SnapshotDamaged       an object of a snapshot is missing or not what was stored
│   └── FormatTooNew          written by a newer Streamkeeper
└── TemporaryError            the same call may succeed later
    ├── StoreUnavailable      the store did not answer
    ├── CheckpointChanged     a checkpoint's owner went on while it was being read
    ├── SnapshotsChanged      a prune went on while a snapshot was being taken or read
    ├── WrongMachine          the job's drivers or its checkpoint are another machine's; nothing was touched
    └── StillWaiting          something outside has not happened yet

`KeyExists` and `KeyMissing` are a store's two ordinary answers, not failures; they stand beside the tree.
"""

from __future__ import annotations


class StreamkeeperError(Exception):
    """One clear line that names the thing, and a hint that names the way out."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class PermanentError(StreamkeeperError):
    """Trying again cannot help."""


class TemporaryError(StreamkeeperError):
    """The same call may succeed later."""


class InvalidInput(PermanentError):
    """A name, a param, a file or a setting is wrong."""


class JobUnusable(InvalidInput):
    """The job's own code does not import, or yields what cannot be run."""


class Unsupported(InvalidInput):
    """Right in itself, but no promise is implemented for it."""


class OutputUnfit(InvalidInput):
    """The output that is there does not take what the query writes: a new one of the same name would."""


class NotFound(PermanentError):
    """An unknown job, release, operation or instance."""


class JournalLost(NotFound):
    """A job has no journal any more, and other records name it."""


class OperationRefused(PermanentError):
    """Not allowed in the job's present state; nothing was touched."""


class OperationOpen(OperationRefused):
    """Another operation of the job is open."""

    def __init__(self, job: str, operation: str) -> None:
        super().__init__(
            f"job {job} has an open operation {operation}",
            hint="trigger again with on_open=continue to carry it on, or on_open=abort to end it",
        )
        self.job = job
        self.operation = operation


class DeployFailed(PermanentError):
    """A deploy ended without its release serving; the message says what serves now."""


class Fenced(PermanentError):
    """A newer epoch exists: this writer has been superseded and must not write."""


class InputUnreadable(PermanentError):
    """Spark would read files of a batch twice, because of their names."""


class SinkAhead(PermanentError):
    """The sink holds batches that the checkpoint does not know: it would skip as many in silence."""


class OutputLost(PermanentError):
    """The output lacks batches that the checkpoint has committed: it is missing, was emptied, or is an older copy."""


class RegistryDamaged(PermanentError):
    """A stored record is missing or cannot be read."""


class JournalOutdated(RegistryDamaged):
    """A journal is older than what outputs and checkpoints hold: an older copy of the store was put back."""


class CheckpointDamaged(PermanentError):
    """A checkpoint lacks a file, or holds one that cannot be read."""


class CheckpointLost(CheckpointDamaged):
    """It is missing, emptied, another query's, or has gone back behind what was recorded of it."""


class InputGone(PermanentError):
    """Files that the open batch of a query reads are gone."""


class SnapshotDamaged(PermanentError):
    """An object of a snapshot is missing or not what was stored."""


class FormatTooNew(PermanentError):
    """Written by a newer Streamkeeper."""


class StoreUnavailable(TemporaryError):
    """The store did not answer."""


class SourceOutOfReach(TemporaryError):
    """Nobody answers for a source: what it holds is not known."""


class CheckpointChanged(TemporaryError):
    """A checkpoint's owner went on while it was being read."""


class SnapshotsChanged(TemporaryError):
    """A prune went on while a snapshot was being taken or read."""


class WrongMachine(TemporaryError):
    """The job's drivers, or its checkpoint, are another machine's: the same call succeeds there."""


class StillWaiting(TemporaryError):
    """Something outside has not happened yet."""


class KeyExists(Exception):
    """A create-only write found its key taken: somebody else won."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class KeyMissing(Exception):
    """There is nothing under the key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key
