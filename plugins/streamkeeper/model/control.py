"""The messages between a driver and the operations, in ``control/<job>/<instance>/`` in the store.

``launch.json``: LaunchSpec, create-only; written before the process is started.
``process-0001.json``: ProcessRecord, create-only; one per process generation, written by the supervisor.
``manifests.json``: dict[query, Manifest], create-only; written by the driver after it has described itself.
``application.json``: Application, create-only; written before it is submitted, if YARN runs the driver.
``pod.json``: Pod, create-only; written before it is created, if Kubernetes runs the driver.
``evidence.json``: Evidence, replaced as a whole; written by a driver that was launched to gather it.
``status.json``: DriverStatus, replaced as a whole; heartbeat, state, progress.
``history.json``: History, replaced as a whole at most once a minute; measurements of the last hours.
``commands/000001.json``: Command, create-only and numbered; go, drain, stop.
``exit.json``: DriverExit, create-only; the last record of an instance.
"""

from __future__ import annotations

from enum import Enum, IntEnum

import msgspec

from streamkeeper.model.comparison import OutputComparison
from streamkeeper.model.faults import Fault
from streamkeeper.model.finding import Finding
from streamkeeper.model.output_history import OutputHistory
from streamkeeper.model.redaction import Structure
from streamkeeper.model.release import ParamValue
from streamkeeper.model.restarts import Cause, RestartPolicy
from streamkeeper.model.signals import QuerySignals

FORMAT = 1


LOCAL = "local"
YARN = "yarn"
KUBERNETES = "kubernetes"
"""Where drivers run: process trees on the machine that starts them, YARN containers, or Kubernetes pods."""

SECRETS = "STREAMKEEPER_SECRETS"
"""The variable with the secrets of a supervisor and its driver: a JSON object, reference -> value."""


TERMINATED = "terminated by signal"
"""Start of the error of an instance that was stopped by its machine, or by a person or process there.

For people, and for records of versions that did not store the signal.
"""


class DriverState(Enum):
    """The state of a driver; each has one sentence in ``SENTENCES`` and is terminal or not."""

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
    DriverState.STARTING: "builds its session and plans",
    DriverState.STANDBY: "described and warmed up; owns no checkpoint; waits for its appointment",
    DriverState.SHADOW: "rereads the sources and writes an unpublished output, alongside the serving driver",
    DriverState.SERVING: "owns its checkpoints and writes",
    DriverState.DRAINING: "finishes the open batch and admits no new one",
    DriverState.DRAINED: "ended at a batch boundary, as requested",
    DriverState.STOPPED: "ended before it owned a checkpoint, as requested",
    DriverState.FINISHED: "read all available input (availableNow) and ended",
    DriverState.FENCED: "was superseded by a newer epoch and ended without writing",
    DriverState.FAILED: "ended with an error; is not restarted automatically",
}


class ExitCode(IntEnum):
    """Exit code of a driver process; its supervisor restarts it only after a temporary or an unknown one."""

    DRAINED = 0
    FINISHED = 3
    FENCED = 4
    FAILED = 5
    STOPPED = 6
    REFUSED = 7
    """A permanent error: a restart cannot help."""
    STORE_LOST = 8
    """It could not reach the store for the duration of its lease; it may continue once the store answers again."""
    DEPENDENCY_DOWN = 9
    """A store, sink or source did not answer when it was needed; it may continue once that answers again."""
    NO_CAPACITY = 10
    """The machine had no capacity: a full disk, no memory, no process left."""


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
    """The fault of an exit code, if the driver has left no other record."""
    return _FAULTS.get(code, Fault.UNCLASSIFIED)


def cause_of_code(code: int) -> Cause | None:
    """The cause of an exit code; None for an intended end."""
    return None if code in _MEANT else _CAUSES.get(code, Cause.FAILURE)


class LaunchMode(Enum):
    """The purpose of a launched driver."""

    STANDBY = "standby"
    DESCRIBE = "describe"


class Gather(msgspec.Struct, frozen=True, kw_only=True):
    """The reference for a driver that gathers evidence: the checkpoints in its launch's ``rehearse_on``."""

    release: str = ""
    """The current release; empty without one."""
    deployed: dict[str, str] = {}
    """Query -> sha256 of its deployed manifest."""
    record: dict[str, tuple[Finding, ...]] = {}
    """Query -> findings about its recorded checkpoint version."""
    served: bool = False
    """Whether a driver writes the checkpoints meanwhile."""
    histories: dict[str, OutputHistory] = {}
    """Query -> batches that its output must contain; none from operations of older versions."""


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All that a driver needs to start, except secrets, which are only in the process environment."""

    format: int = FORMAT
    instance: str
    """The instance's name."""
    job: str
    """The job's name."""
    release: str
    """The release that it runs."""
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
    """Query -> checkpoint directory whose last batch warms the driver up."""
    expected_manifests: dict[str, str] = {}
    """Query -> sha256 of the manifest that the driver must match."""
    lease_s: float = 60.0
    """Seconds without the store after which the driver terminates itself."""
    restart_budget: int = 5
    """Number of restarts after failures."""
    installation: str = ""
    """Id of the installation that starts it; empty in older launches."""
    gather: Gather | None = None
    """The reference for its evidence; None if no evidence is requested."""
    restarts: RestartPolicy = RestartPolicy()
    """The pauses, and the budgets of other causes."""
    python: str = ""
    """The interpreter that runs it; empty in older launches: that of the starting process."""
    archive: str = ""
    """Path of the environment that its executors unpack; empty if they have their own."""
    runner: str = LOCAL
    """The runner that starts, observes and stops it, whatever the settings are later."""


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The process that runs a generation."""

    format: int = FORMAT
    instance: str
    """The instance's name."""
    generation: int
    """The generation's number."""
    machine: str
    """The kernel boot and pid namespace: pids have no meaning outside them."""
    host: str
    """The machine's host name."""
    pid: int
    """The supervisor's process id."""
    started: int
    """The kernel's start time in clock ticks since boot."""
    installation: str = ""
    """As in the launch."""
    pod: str = ""
    """Uid of its Kubernetes pod; empty outside Kubernetes."""


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """The YARN application whose first container runs an instance; ``cluster``: its ResourceManager's HTTP address."""

    format: int = FORMAT
    instance: str
    cluster: str
    id: str
    installation: str = ""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """The Kubernetes pod of an instance; ``cluster``: its API server's URL, for people."""

    format: int = FORMAT
    instance: str
    cluster: str
    namespace: str
    name: str
    installation: str = ""


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
    """Consecutive failed runs since then."""
    behind: int | None = None
    """Records waiting in the partition with the largest backlog; None if no source reports it."""
    admitted: int | None = None
    """Only from a drained driver: the last batch admitted to the output, None for none."""
    signals: QuerySignals = QuerySignals()
    """Measurements; empty from drivers of older versions."""
    fault: Structure = ""
    """Value of the ``Fault`` of ``error``; empty without an error, and from older versions."""


class DriverStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's last report. ``beat`` grows with every write: its growth shows liveness, never ``at``."""

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
    """Number of the last command that it has read."""
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
    """Findings of a rehearsal, from drivers of versions without evidence."""
    compared: dict[str, OutputComparison] = {}
    """Query -> comparison of its outputs."""
    commits: dict[str, int] = {}
    """``<query>/<version>`` -> the newest committed batch, of earlier generations too."""
    gathered: bool = False
    """Whether the requested evidence is complete."""
    spark: Structure = ""
    """The Spark version that runs it."""
    cause: Structure = ""
    """Value of the ``Cause`` of the last reported error; empty without one."""
    waiting: str = ""
    """One sentence while no driver runs, or a query waits for an unavailable dependency."""
    fault: Structure = ""
    """Value of the ``Fault`` of ``error`` or ``waiting``; empty from older versions."""
    failed_query: Structure = ""
    """The query with that error; empty if it is the driver's own."""


class DriverExit(msgspec.Struct, frozen=True, kw_only=True):
    """How an instance ended: written by its supervisor, so that a crash of the driver is recorded too."""

    format: int = FORMAT
    instance: Structure
    state: DriverState
    """The final state."""
    code: int
    """The exit code."""
    error: str = ""
    """The error; empty without one."""
    cause: Structure = ""
    """Value of a ``Cause``; empty for an intended end."""
    fault: Structure = ""
    """Value of a ``Fault``; empty without an error and from older versions."""
    signal: int = 0
    """The signal that stopped its supervisor; 0 without one."""
    failed_query: Structure = ""
    """The query with the error."""

    @property
    def by_signal(self) -> bool:
        """Whether a signal has stopped it; older versions have left only a sentence."""
        return bool(self.signal) or (not self.fault and self.error.startswith(TERMINATED))


class CommandKind(Enum):
    """The commands to a driver."""

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
    """Go and shadow only: query -> checkpoint version name."""
    may_differ: dict[str, tuple[str, ...]] = {}
    """Compare only: query -> columns in which the outputs may differ."""
    output_losses: dict[str, int] = {}
    """Go only: query -> newest committed batch that its output may lack, as accepted."""


def control_key(job: str, instance: str, *parts: str) -> str:
    """``control/<job>/<instance>/<parts…>``."""
    return "/".join(("control", job, instance, *parts))


def command_key(job: str, instance: str, number: int) -> str:
    """Key of one command; keys sort like their numbers."""
    return control_key(job, instance, "commands", f"{number:06d}.json")
