"""Every error Streamkeeper raises, in one tree.

StreamkeeperError
├── PermanentError            a retry cannot help: a person must change something
│   ├── InvalidInput          a name, a param, a file or a setting is wrong
│   │   ├── JobUnusable       the job's own code does not import, or yields a query that cannot run
│   │   ├── Unsupported       valid by itself, but no guarantee is implemented for it
│   │   └── OutputUnfit       the existing output does not accept the query's rows
│   ├── NotFound              an unknown job, release, operation or instance
│   │   └── JournalLost       a job without a journal, named by other records
│   ├── OperationRefused      not allowed in the job's present state; nothing was changed
│   │   └── OperationOpen     another operation is open: continue or abort it first
│   ├── DeployFailed          a deploy ended without making its release current
│   ├── InputUnreadable       Spark would read files of a batch twice, because of their names
│   ├── Fenced                a newer epoch exists: this writer has been superseded
│   ├── SinkAhead             the sink contains batches that the checkpoint does not
│   ├── OutputLost            the output lacks batches that the checkpoint has committed
│   ├── RegistryDamaged       a stored record is missing or cannot be read
│   │   └── JournalOutdated   older than outputs and checkpoints: an older copy was put back
│   ├── CheckpointDamaged     a checkpoint lacks a file, or contains one that cannot be read
│   │   └── CheckpointLost    it is missing, emptied, another query's, or older than its record
│   ├── InputGone             files of the open batch no longer exist: Spark would run it without them
│   ├── SnapshotDamaged       an object of a snapshot is missing or differs from the stored one
│   └── FormatTooNew          written by a newer Streamkeeper
└── TemporaryError            the same call may succeed later
    ├── StoreUnavailable      the store did not answer
    ├── SourceOutOfReach      a source did not answer: its content is unknown
    ├── CheckpointChanged     a checkpoint's owner continued while it was being read
    ├── SnapshotsChanged      a prune ran while a snapshot was being taken or read
    ├── WrongMachine          drivers or checkpoint belong to another machine; nothing was changed
    └── StillWaiting          an outside event has not happened yet

`KeyExists` and `KeyMissing` are a store's two ordinary answers, not failures; they are outside the tree.
"""

from __future__ import annotations


class StreamkeeperError(Exception):
    """One clear line that names the problem, and a hint that names the remedy."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class PermanentError(StreamkeeperError):
    """A retry cannot help."""


class TemporaryError(StreamkeeperError):
    """The same call may succeed later."""


class InvalidInput(PermanentError):
    """A name, a param, a file or a setting is wrong."""


class JobUnusable(InvalidInput):
    """The job's own code does not import, or yields a query that cannot run."""


class Unsupported(InvalidInput):
    """Valid by itself, but no guarantee is implemented for it."""


class OutputUnfit(InvalidInput):
    """The existing output does not accept the query's rows: a new one of the same name would."""


class NotFound(PermanentError):
    """An unknown job, release, operation or instance."""


class JournalLost(NotFound):
    """A job's journal is missing, and other records name the job."""


class OperationRefused(PermanentError):
    """Not allowed in the job's present state; nothing was changed."""


class OperationOpen(OperationRefused):
    """Another operation of the job is open."""

    def __init__(self, job: str, operation: str) -> None:
        super().__init__(
            f"job {job} has an open operation {operation}",
            hint="trigger again with on_open=continue to resume it, or on_open=abort to abort it",
        )
        self.job = job
        self.operation = operation


class DeployFailed(PermanentError):
    """A deploy ended without making its release current; the message names the current one."""


class Fenced(PermanentError):
    """A newer epoch exists: this writer has been superseded and must not write."""


class InputUnreadable(PermanentError):
    """Spark would read files of a batch twice, because of their names."""


class SinkAhead(PermanentError):
    """The sink contains batches that the checkpoint does not: it would silently skip as many."""


class OutputLost(PermanentError):
    """The output lacks batches that the checkpoint has committed: it is missing, was emptied, or is an older copy."""


class RegistryDamaged(PermanentError):
    """A stored record is missing or cannot be read."""


class JournalOutdated(RegistryDamaged):
    """A journal is older than the data in outputs and checkpoints: an older copy of the store was put back."""


class CheckpointDamaged(PermanentError):
    """A checkpoint lacks a file, or contains one that cannot be read."""


class CheckpointLost(CheckpointDamaged):
    """The checkpoint is missing, emptied, another query's, or older than its record."""


class InputGone(PermanentError):
    """Files that the open batch of a query reads no longer exist."""


class SnapshotDamaged(PermanentError):
    """An object of a snapshot is missing or differs from the stored one."""


class FormatTooNew(PermanentError):
    """Written by a newer Streamkeeper."""


class StoreUnavailable(TemporaryError):
    """The store did not answer."""


class SourceOutOfReach(TemporaryError):
    """A source does not answer: its content is unknown."""


class CheckpointChanged(TemporaryError):
    """A checkpoint's owner continued while it was being read."""


class SnapshotsChanged(TemporaryError):
    """A prune ran while a snapshot was being taken or read."""


class WrongMachine(TemporaryError):
    """The job's drivers, or its checkpoint, belong to another machine: the same call succeeds there."""


class StillWaiting(TemporaryError):
    """An outside event has not happened yet."""


class KeyExists(Exception):
    """A create-only write found its key taken: another writer won."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class KeyMissing(Exception):
    """There is no object under the key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key
