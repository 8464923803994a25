"""The messages between a driver and the operations, in ``control/<job>/<instance>/`` in the store.

``launch.json``: LaunchSpec, create-only; written before the driver's process is started.
``process-0001.json``: ProcessRecord, create-only; one per process generation, written by the supervisor.
``manifests.json``: dict[query, Manifest], create-only; written by the driver after it has described itself.
``<FILE>``: a ``Place`` of the kind of runner, create-only; written before the cluster is asked to start the instance.
``evidence.json``: Evidence, replaced as a whole; written by a driver that was launched to gather evidence.
``status.json``: DriverStatus, replaced as a whole; heartbeat, state, progress.
``history.json``: History, replaced as a whole at most once a minute; measurements of the last hours.
``commands/000001.json``: Command, create-only and numbered; go, drain, stop.
``exit.json``: DriverExit, create-only; the last record of an instance.
"""

from __future__ import annotations

from enum import Enum, IntEnum

import msgspec

from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.protocol.output_history import OutputHistory
from streamkeeper.model.protocol.restart_budgets import Cause, RestartPolicy
from streamkeeper.model.protocol.signals import QuerySignals
from streamkeeper.model.redaction import Structure

FORMAT = 1


LOCAL = "local"
"""The runner whose drivers are process trees on the machine that starts them. It also applies to launches that name no
runner.
"""

SECRETS = "STREAMKEEPER_SECRETS"
CLAIM = "STREAMKEEPER_CLAIM"
"""The environment variable with the secrets of a supervisor and its driver: a JSON object, reference -> value."""


TERMINATED = "terminated by signal"
"""The start of the error of an instance that a signal terminated. The machine, or a person or process on it, sent the
signal.

The text is for people. Code compares it only for records of older versions, which did not store the signal.
"""


class DriverState(Enum):
    """The state of a driver. ``SENTENCES`` has one sentence for each state."""

    STARTING = "starting"
    STANDBY = "standby"
    SHADOW = "shadow"
    SERVING = "serving"
    DRAINING = "draining"
    DRAINED = "drained"
    STOPPED = "stopped"
    FINISHED = "finished"
    FENCED = "fenced"
    FAILED = "failed"

    @property
    def terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset(
    {DriverState.DRAINED, DriverState.STOPPED, DriverState.FINISHED, DriverState.FENCED, DriverState.FAILED}
)

SENTENCES = {
    DriverState.STARTING: "creates its Spark session and plans its queries",
    DriverState.STANDBY: "has described its queries and warmed up; owns no checkpoint; waits for its appointment",
    DriverState.SHADOW: "rereads the sources and writes an unpublished output, beside the current driver",
    DriverState.SERVING: "owns its checkpoints and writes",
    DriverState.DRAINING: "finishes the open batch and admits no new one",
    DriverState.DRAINED: "ended at a batch boundary, as requested",
    DriverState.STOPPED: "ended before it owned a checkpoint, as requested",
    DriverState.FINISHED: "read all available input (availableNow) and ended",
    DriverState.FENCED: "was superseded by a newer epoch and ended without writing",
    DriverState.FAILED: "ended with an error; is not restarted automatically",
}


class ExitCode(IntEnum):
    """Exit code of a driver process; the supervisor restarts the driver only after a temporary or an unknown error."""

    DRAINED = 0
    FINISHED = 3
    FENCED = 4
    FAILED = 5
    STOPPED = 6
    REFUSED = 7
    """A permanent error, for which a restart cannot help."""
    STORE_LOST = 8
    """The driver could not reach the store for the duration of its lease; a restart helps once the store answers."""
    DEPENDENCY_DOWN = 9
    """A store, sink or source did not answer when the driver needed it; a restart helps once it answers again."""
    NO_CAPACITY = 10
    """The machine had no capacity: a full disk, not enough memory, or no free process."""


_MEANT = frozenset({ExitCode.DRAINED, ExitCode.FINISHED, ExitCode.STOPPED})
_CAUSES: dict[int, Cause] = {
    ExitCode.FENCED: Cause.PERMANENT,
    ExitCode.REFUSED: Cause.PERMANENT,
    ExitCode.STORE_LOST: Cause.DEPENDENCY,
    ExitCode.DEPENDENCY_DOWN: Cause.DEPENDENCY,
    ExitCode.NO_CAPACITY: Cause.CAPACITY,
}


_FAULTS: dict[int, Fault] = {
    ExitCode.FENCED: Fault.FENCED,
    ExitCode.STORE_LOST: Fault.STORE_LOST,
    ExitCode.DEPENDENCY_DOWN: Fault.SINK_DOWN,
    ExitCode.NO_CAPACITY: Fault.DISK_FULL,
}


def fault_of_code(code: int) -> Fault:
    """Return the fault that an exit code stands for, for a driver that has left no other record."""
    return _FAULTS.get(code, Fault.UNCLASSIFIED)


def cause_of_code(code: int) -> Cause | None:
    """Return the cause that an exit code stands for; None for an intended termination."""
    return None if code in _MEANT else _CAUSES.get(code, Cause.FAILURE)


class LaunchMode(Enum):
    """The purpose of a launched driver."""

    STANDBY = "standby"
    DESCRIBE = "describe"


class Gather(msgspec.Struct, frozen=True, kw_only=True):
    """The input for the evidence that a driver gathers, in addition to the checkpoints in LaunchSpec.rehearse_on."""

    release: str = ""
    """The current release; empty without one."""
    deployed: dict[str, str] = {}
    """Query -> sha256 of its deployed manifest."""
    record: dict[str, tuple[Finding, ...]] = {}
    """Query -> findings about its recorded checkpoint version."""
    served: bool = False
    """Whether a driver writes the checkpoints while the evidence is gathered."""
    histories: dict[str, OutputHistory] = {}
    """Query -> batches that its output must contain; empty from operations of older versions."""
    topics: dict[str, dict[str, str]] = {}
    """Query -> the ids of the Kafka topics to which the checkpoint's offsets belong; empty in older records."""
    first_topics: dict[str, dict[str, str]] = {}
    """Query -> the ids of the Kafka topics from which the oldest rows in its output came; empty in older records."""


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a driver needs to start, except secrets, which are only in the process environment."""

    format: int = FORMAT
    instance: str
    """The instance's name."""
    job: str
    """The job's name."""
    release: str
    """The release that the driver runs."""
    mode: LaunchMode
    """The driver's purpose."""
    bundle: str
    """sha256 of the code zip."""
    entry: str
    """The job's file in the bundle."""
    params: dict[str, ParamValue]
    """The job's params, with secret references."""
    conf: dict[str, str]
    """The Spark conf."""
    checkpoints: str
    """Root directory of the checkpoints."""
    rehearse_on: dict[str, str] = {}
    """Query -> checkpoint directory, whose last batch the driver rehearses to warm up."""
    expected_manifests: dict[str, str] = {}
    """Query -> sha256 of the manifest that the driver must match."""
    lease_s: float = 60.0
    """Seconds without the store after which the driver terminates itself."""
    restart_budget: int = 5
    """Number of restarts after failures."""
    installation: str = ""
    """Id of the installation that starts the driver; empty in older launches."""
    gather: Gather | None = None
    """The basis of the requested evidence; None if no evidence is requested."""
    restarts: RestartPolicy = RestartPolicy()
    """The pauses between restarts, and the budgets for restarts after other causes than failures."""
    python: str = ""
    """The interpreter that runs the driver. Older launches leave it empty and use the interpreter of the starting
    process.
    """
    archive: str = ""
    """Path of the Python environment that the executors unpack; empty if the executors have their own environment."""
    runner: str = LOCAL
    """The runner that starts, observes and stops the driver, even if the settings name another one later."""


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor process of one generation of an instance."""

    format: int = FORMAT
    instance: str
    """The instance's name."""
    generation: int
    """The generation's number."""
    machine: str
    """The kernel's boot id and pid namespace, outside which the pid has no meaning."""
    host: str
    """The machine's host name."""
    pid: int
    """The supervisor's process id."""
    started: int
    """The start time of the process, in the kernel's clock ticks since boot."""
    installation: str = ""
    """Id of the installation, as in the launch."""
    container: str = msgspec.field(name="pod", default="")
    """The cluster's id of the process's container, which it never reuses; empty if the kind of runner needs none."""


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one query in this generation of its driver."""

    query: Structure
    """The query's name."""
    version: Structure
    """Its checkpoint version."""
    epoch: int
    """Its claimed epoch."""
    triggers: int = 0
    """Completed triggers, with or without data."""
    committed: int | None = None
    """Last batch committed by this driver."""
    rows: int = 0
    """Input rows read so far."""
    state_rows: int = 0
    """Rows of its state."""
    offsets: tuple[Structure, ...] = ()
    """End offsets of the last committed batch, one JSON text per source."""
    finished: bool = False
    """Whether an availableNow query has read all its input."""
    error: str = ""
    """Its last error; empty without one."""
    failures: int = 0
    """Consecutive failed runs since the last completed trigger."""
    behind: int | None = None
    """Unread records in the partition with the largest backlog; None if no source reports its backlog."""
    admitted: int | None = None
    """The last batch that the gate admitted to the output. Only a drained driver reports it; None if there is none."""
    signals: QuerySignals = QuerySignals()
    """Measurements; empty from drivers of older versions."""
    fault: Structure = ""
    """Value of the ``Fault`` of ``error``; empty without an error, and from older versions."""


class DriverStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's last report. ``beat`` grows with every write: a growing ``beat`` proves liveness, ``at`` does not."""

    format: int = FORMAT
    instance: Structure
    release: Structure
    generation: int
    state: DriverState
    """The driver's state."""
    beat: int
    at: Structure
    """Time of the write, UTC, for people."""
    last_command: int = 0
    """Number of the last command that the driver has read."""
    queries: dict[str, QueryStatus] = {}
    """Query -> its progress."""
    spans_ms: dict[str, float] = {}
    """Part of the driver's own work -> duration, in milliseconds."""
    store_requests: int = 0
    """Requests to the store so far."""
    error: str = ""
    """The driver's last error; empty without one."""
    warm_up: str = ""
    """Result of the warm-up."""
    observed: dict[str, tuple[Finding, ...]] = {}
    """Findings of a rehearsal, from drivers of older versions that gather no evidence."""
    compared: dict[str, OutputComparison] = {}
    """Query -> comparison of its outputs."""
    commits: dict[str, int] = {}
    """``<query>/<version>`` -> the newest committed batch of any generation of the instance."""
    gathered: bool = False
    """Whether the requested evidence is complete."""
    spark: Structure = ""
    """The Spark version that runs the driver."""
    cause: Structure = ""
    """Value of the ``Cause`` of the last reported error; empty without one."""
    waiting: str = ""
    """The reason, in one sentence, while no driver runs or a query waits for an unavailable dependency."""
    fault: Structure = ""
    """Value of the ``Fault`` of ``error`` or ``waiting``; empty from older versions."""
    failed_query: Structure = ""
    """The query with that error; empty if the error is the driver's own."""


class DriverExit(msgspec.Struct, frozen=True, kw_only=True):
    """The record of how an instance terminated. The supervisor writes it, so that a crash of the driver is recorded
    too.
    """

    format: int = FORMAT
    instance: Structure
    state: DriverState
    """The final state."""
    code: int
    """The exit code."""
    error: str = ""
    """The error; empty without one."""
    cause: Structure = ""
    """Value of a ``Cause``; empty if the termination was intended."""
    fault: Structure = ""
    """Value of a ``Fault``; empty without an error and from older versions."""
    signal: int = 0
    """The signal that stopped the instance's supervisor; 0 without one."""
    failed_query: Structure = ""
    """The query with the error."""

    @property
    def by_signal(self) -> bool:
        """Whether a signal ended the instance; records of older versions show it only by the text of ``error``."""
        return bool(self.signal) or (not self.fault and self.error.startswith(TERMINATED))


class CommandKind(Enum):
    """The kind of a command to a driver."""

    GO = "go"
    DRAIN = "drain"
    STOP = "stop"
    SHADOW = "shadow"
    COMPARE = "compare"


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered command to one instance."""

    format: int = FORMAT
    number: int
    """The command's number."""
    kind: CommandKind
    """The command."""
    operation: str
    """The operation that sent it."""
    versions: dict[str, str] = {}
    """Only for go and shadow: query -> name of the checkpoint version to use."""
    may_differ: dict[str, tuple[str, ...]] = {}
    """Only for compare: query -> columns in which the outputs may differ."""
    output_losses: dict[str, int] = {}
    """Only for go: query -> newest committed batch that its output may lack, because a person accepted that loss."""
    other_topics: tuple[str, ...] = ()
    """Only for go: queries that may read recreated topics, because a person approved it."""
    approved_topics: dict[str, dict[str, str]] = {}
    """Only for go: query -> Kafka topic -> its id, of the approved topics. For a query without ids, any topic counts as
    approved.
    """


def control_key(job: str, instance: str, *parts: str) -> str:
    """Return the key ``control/<job>/<instance>/<parts…>``."""
    return "/".join(("control", job, instance, *parts))


def command_key(job: str, instance: str, number: int) -> str:
    """Return the key of one command; the keys sort like the commands' numbers."""
    return control_key(job, instance, "commands", f"{number:06d}.json")
