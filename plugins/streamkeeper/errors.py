"""All errors that Streamkeeper raises, as one tree of classes.

StreamkeeperError
├── PermanentError            a retry cannot help: a person must change something
│   ├── InvalidInput          a name, a param, a file or a setting is wrong
│   │   ├── JobUnusable       the job's own code does not import, or yields a query that cannot run
│   │   ├── Unsupported       valid for Spark or Airflow, but outside Streamkeeper's guarantees
│   │   └── OutputUnfit       the existing output does not accept the query's rows
│   ├── NotFound              an unknown job, release, operation or instance
│   │   └── JournalLost       the journal of a job is missing, but other records name the job
│   ├── OperationRefused      not allowed in the job's present state; nothing was changed
│   │   └── OperationOpen     another operation is open: continue or abort it first
│   ├── DeployFailed          a deploy ended without making its release current
│   ├── InputUnreadable       Spark would read files of a batch twice, because of their names
│   ├── Fenced                a newer epoch exists: this writer has been superseded
│   ├── SinkAhead             the sink contains batches that the checkpoint lacks
│   ├── OutputLost            the output lacks batches that the checkpoint has committed
│   ├── RegistryDamaged       a stored record is missing or cannot be read
│   │   └── JournalOutdated   a journal is older than outputs and checkpoints: an older copy was put back
│   ├── CheckpointDamaged     a checkpoint lacks a file, or contains one that cannot be read
│   │   └── CheckpointLost    a checkpoint is missing, emptied, another query's, or older than its record
│   ├── InputGone             files of the open batch no longer exist: Spark would run the batch without them
│   │   └── OtherTopic        a topic was deleted and created anew: a checkpoint's offsets are not its own
│   ├── SnapshotDamaged       an object of a snapshot is missing or differs from the stored one
│   └── FormatTooNew          a newer Streamkeeper wrote the record
└── TemporaryError            the same call may succeed later
    ├── StoreUnavailable      the store did not answer
    │   └── OutputOutOfReach  the storage of an output did not answer
    ├── SourceOutOfReach      a source did not answer: its content is unknown
    ├── CheckpointChanged     a driver wrote to a checkpoint while it was being read
    ├── SnapshotsChanged      a prune ran while a snapshot was being taken or read
    ├── WrongMachine          drivers or checkpoint belong to another machine; nothing was changed
    └── StillWaiting          an outside event has not happened yet

`KeyExists` and `KeyMissing` are ordinary answers of a store, not failures: they are outside the tree.
"""

from __future__ import annotations


class StreamkeeperError(Exception):
    """The base of all errors: one line that names the problem, and a hint that names the remedy."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class PermanentError(StreamkeeperError):
    """A retry cannot help: a person must change something."""


class TemporaryError(StreamkeeperError):
    """The same call may succeed later."""


class InvalidInput(PermanentError):
    """A name, a param, a file or a setting is wrong."""


class JobUnusable(InvalidInput):
    """The job's own code cannot be imported, or yields a query that cannot run."""


class Unsupported(InvalidInput):
    """The request is valid for Spark or Airflow, but outside Streamkeeper's guarantees."""


class OutputUnfit(InvalidInput):
    """The existing output does not accept the query's rows; a new output of the same name would accept them."""

    REMEDY = "alter the table, or write to another table"
    """The hint of the error in cases where no switch to a new output is offered."""


class NotFound(PermanentError):
    """The job, release, operation or instance is unknown."""


class JournalLost(NotFound):
    """The journal of a job is missing, but other records name the job."""


class OperationRefused(PermanentError):
    """The job's present state does not allow the operation; nothing was changed."""


class OperationOpen(OperationRefused):
    """Another operation of the job is open."""

    def __init__(self, job: str, operation: str) -> None:
        super().__init__(
            f"job {job} has an open operation {operation}",
            hint="trigger again with on_open=continue to resume the operation, or with on_open=abort to abort it",
        )
        self.job = job
        self.operation = operation


class DeployFailed(PermanentError):
    """A deploy finished without making its release current; the message names the release that is current."""


class Fenced(PermanentError):
    """A newer epoch exists: another driver has superseded this writer, which must not write."""


class InputUnreadable(PermanentError):
    """Spark would read files of a batch twice, because it treats an input file's path as a pattern for other files."""


class SinkAhead(PermanentError):
    """The sink contains batches that the checkpoint lacks. The sink would silently skip new batches with those
    numbers.
    """


class OutputLost(PermanentError):
    """The output is missing, emptied or an older copy, so that it lacks batches that the checkpoint has committed."""


class RegistryDamaged(PermanentError):
    """A stored record is missing or cannot be read."""


class JournalOutdated(RegistryDamaged):
    """A journal is older than the data in outputs and checkpoints, because an older copy of the store was put back."""


class CheckpointDamaged(PermanentError):
    """A checkpoint lacks a file, or contains one that cannot be read."""


class CheckpointLost(CheckpointDamaged):
    """The checkpoint is missing, emptied, of another query, or older than the journal's record of it."""


class InputGone(PermanentError):
    """Input that a query reads next no longer exists, such as files of its open batch."""


class OtherTopic(InputGone):
    """A topic was deleted and created anew, so that a checkpoint's offsets do not refer to the records of the new
    topic.
    """


class SnapshotDamaged(PermanentError):
    """An object of a snapshot is missing or differs from the stored one."""


class FormatTooNew(PermanentError):
    """A newer Streamkeeper wrote the record."""


class StoreUnavailable(TemporaryError):
    """The store did not answer."""


class OutputOutOfReach(StoreUnavailable):
    """The storage of an output did not answer. It is often another one than that of Streamkeeper's records."""


class SourceOutOfReach(TemporaryError):
    """A source does not answer, so its content is unknown.

    ``passing``: whether the source may answer later without a change; False for wrong credentials or options.
    ``kind``: the kind of source.
    """

    def __init__(self, message: str, *, passing: bool = True, kind: str = "") -> None:
        super().__init__(message)
        self.passing, self.kind = passing, kind


class CheckpointChanged(TemporaryError):
    """A driver wrote to a checkpoint while it was being read."""


class SnapshotsChanged(TemporaryError):
    """A prune ran while a snapshot was being taken or read."""


class WrongMachine(TemporaryError):
    """The job's drivers or its checkpoint are on another machine, where the same call succeeds. Nothing was changed."""


class StillWaiting(TemporaryError):
    """An event that the operation waits for has not happened yet."""


class KeyExists(Exception):
    """A create-only write found an existing object under its key: another writer was first."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class KeyMissing(Exception):
    """The store contains no object under the key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key
