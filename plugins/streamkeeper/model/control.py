"""What a driver and the operations say to each other through ``control/<job>/<instance>/`` in the store.

``launch.json``                 LaunchSpec, create-only: written before the process is started
``process-0001.json``           ProcessRecord, create-only: one per process generation, written by the supervisor
``manifests.json``              dict[query, Manifest], create-only: written by the driver once it has described itself
``application.json``            Application, create-only: written before it is submitted, where YARN runs the driver
``pod.json``                    Pod, create-only: written before it is created, where Kubernetes runs the driver
``evidence.json``               Evidence, replaced as a whole: written by a driver that was launched to gather it
``status.json``                 DriverStatus, replaced as a whole: heartbeat, state, progress
``history.json``                History, replaced as a whole at most once a minute: what it measured in the last hours
``commands/000001.json``        Command, create-only and numbered: go, drain, stop
``exit.json``                   DriverExit, create-only: the last word of an instance
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
"""Where drivers run: as process trees on the machine that starts them, or each in a container of a YARN cluster, or in
a pod of Kubernetes.
"""

SECRETS = "STREAMKEEPER_SECRETS"
"""The variable in which secrets reach a supervisor and its driver: a JSON object, reference -> value."""


TERMINATED = "terminated by signal"
"""What the error begins with of an instance that its machine, or somebody there, has asked to end. For people, and for
records of versions that did not store the signal."""


class DriverState(Enum):
    """Where a driver is; each has one sentence in ``SENTENCES`` and is terminal or not."""

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
    DriverState.STANDBY: "described and warmed up; owns nothing; waits for go",
    DriverState.SHADOW: "reads the sources again and writes unseen, beside the one that serves",
    DriverState.SERVING: "owns its checkpoints and writes",
    DriverState.DRAINING: "finishes the open batch and lets no new one through",
    DriverState.DRAINED: "ended at a batch boundary, as asked",
    DriverState.STOPPED: "ended before it owned anything, as asked",
    DriverState.FINISHED: "read all there was (availableNow) and ended",
    DriverState.FENCED: "was superseded by a newer epoch and ended without writing",
    DriverState.FAILED: "ended with an error, and is not started again by itself",
}


class ExitCode(IntEnum):
    """How a driver process ends; its supervisor restarts it after one that may pass, or an unknown code, only."""

    DRAINED = 0
    FINISHED = 3
    FENCED = 4
    FAILED = 5
    STOPPED = 6
    REFUSED = 7
    """A permanent error: restarting cannot help."""
    STORE_LOST = 8
    """It could not reach the store for its lease's life; it may go on once the store answers again."""
    DEPENDENCY_DOWN = 9
    """A store, sink or source did not answer when it was needed; it may go on once that answers again."""
    NO_CAPACITY = 10
    """The machine had no room: a full disk, no memory, no process left."""


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
    """What an exit code says of the fault, where the driver has left no more."""
    return _FAULTS.get(code, Fault.UNCLASSIFIED)


def cause_of_code(code: int) -> Cause | None:
    """What an exit code says of the cause; None for an end that was meant."""
    return None if code in _MEANT else _CAUSES.get(code, Cause.FAILURE)


class LaunchMode(Enum):
    """What a launched driver is for."""

    STANDBY = "standby"
    DESCRIBE = "describe"


class Gather(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver gathers evidence against: the checkpoints that its launch names for a rehearsal.

    ``release``: the one that is deployed, empty without; ``deployed``: query -> sha256 of its manifest; ``record``:
    query -> what is on record of its checkpoint version; ``served``: whether a driver goes on writing them.
    ``histories``: query -> what its output must hold, none from operations of before that was checked.
    """

    release: str = ""
    deployed: dict[str, str] = {}
    record: dict[str, tuple[Finding, ...]] = {}
    served: bool = False
    histories: dict[str, OutputHistory] = {}


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All a driver needs to start; without secrets, which travel in the process environment only.

    ``checkpoints``: root directory; ``rehearse_on``: query -> checkpoint directory whose last batch warms it up.
    ``installation``: the id of the one that starts it, empty in launches of before there were ids.
    ``gather``: what it is to gather evidence against, None where none is asked for. ``restart_budget``: restarts after
    failures; ``restarts``: the pauses, and the budgets of other causes. ``python``: the interpreter that runs it, empty
    in launches of before that was told: the one of whoever started it. ``archive``: path of the environment that its
    executors unpack; empty where they have their own. ``runner``: which of the installation's starts it, sees it and
    ends it, whatever its settings say by then.
    """

    format: int = FORMAT
    instance: str
    job: str
    release: str
    mode: LaunchMode
    bundle: str
    entry: str
    params: dict[str, ParamValue]
    conf: dict[str, str]
    checkpoints: str
    rehearse_on: dict[str, str] = {}
    expected_manifests: dict[str, str] = {}
    lease_s: float = 60.0
    restart_budget: int = 5
    installation: str = ""
    gather: Gather | None = None
    restarts: RestartPolicy = RestartPolicy()
    python: str = ""
    archive: str = ""
    runner: str = LOCAL


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which process runs a generation. ``started`` is the kernel's start time in clock ticks since boot.

    ``machine`` names the kernel boot and pid namespace: pids mean nothing outside it. ``installation``: as in the
    launch. ``pod``: uid of the pod of Kubernetes that it is in, empty for another place.
    """

    format: int = FORMAT
    instance: str
    generation: int
    machine: str
    host: str
    pid: int
    started: int
    installation: str = ""
    pod: str = ""


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """The YARN application whose first container is an instance's; ``cluster``: its ResourceManager's HTTP address."""

    format: int = FORMAT
    instance: str
    cluster: str
    id: str
    installation: str = ""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """The pod of Kubernetes that is an instance's; ``cluster``: its API server's URL, for whoever looks for it."""

    format: int = FORMAT
    instance: str
    cluster: str
    namespace: str
    name: str
    installation: str = ""


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one query in this generation of its driver.

    ``triggers``: completed triggers, with or without data; ``committed``: last batch committed by this driver;
    ``offsets``: end offsets of that batch, one JSON text per source. ``failures``: runs that failed in a row since.
    ``behind``: records that wait in the partition that waits most, None where no source tells. ``admitted``: told by a
    drained driver only: the last batch that it let through to the output, None when it let none through. ``signals``:
    empty from drivers of before there were any. ``fault``: a ``Fault`` by its value, of ``error``; empty without an
    error, and from drivers of older versions.
    """

    query: Structure
    version: Structure
    epoch: int
    triggers: int = 0
    committed: int | None = None
    rows: int = 0
    state_rows: int = 0
    offsets: tuple[Structure, ...] = ()
    finished: bool = False
    error: str = ""
    failures: int = 0
    behind: int | None = None
    admitted: int | None = None
    signals: QuerySignals = QuerySignals()
    fault: Structure = ""


class DriverStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's last word. ``beat`` grows with every write: liveness is seen by its growth, never by ``at``.

    ``commits``: ``<query>/<version>`` -> the newest batch committed, in earlier generations too. ``gathered``: whether
    the evidence that was asked for is there; ``observed``: what a rehearsal found, told by drivers of before there was
    evidence. ``spark``: the version of the one that runs it. ``cause``: a ``Cause`` by its value, of the error that it
    last told, empty without one. ``waiting``: one sentence while nothing runs, or a query waits for what does not
    answer. ``fault``: a ``Fault`` by its value, of ``error`` or ``waiting``, empty from older versions;
    ``failed_query``: whose error that is, empty where it is the driver's own.
    """

    format: int = FORMAT
    instance: Structure
    release: Structure
    generation: int
    state: DriverState
    beat: int
    at: Structure
    last_command: int = 0
    queries: dict[str, QueryStatus] = {}
    spans_ms: dict[str, float] = {}
    store_requests: int = 0
    error: str = ""
    warm_up: str = ""
    observed: dict[str, tuple[Finding, ...]] = {}
    compared: dict[str, OutputComparison] = {}
    commits: dict[str, int] = {}
    gathered: bool = False
    spark: Structure = ""
    cause: Structure = ""
    waiting: str = ""
    fault: Structure = ""
    failed_query: Structure = ""


class DriverExit(msgspec.Struct, frozen=True, kw_only=True):
    """How an instance ended: written by its supervisor, so that a crash of the driver is told too.

    ``cause``: a ``Cause`` by its value, empty for an end that was meant. ``fault``: a ``Fault`` by its value, empty
    without an error and from older versions; ``signal``: the one that its supervisor was ended by, 0 without;
    ``failed_query``: whose error it is.
    """

    format: int = FORMAT
    instance: Structure
    state: DriverState
    code: int
    error: str = ""
    cause: Structure = ""
    fault: Structure = ""
    signal: int = 0
    failed_query: Structure = ""

    @property
    def by_signal(self) -> bool:
        """Whether a signal has ended it; older versions have left only a sentence."""
        return bool(self.signal) or (not self.fault and self.error.startswith(TERMINATED))


class CommandKind(Enum):
    """What a driver can be told."""

    GO = "go"
    DRAIN = "drain"
    STOP = "stop"
    SHADOW = "shadow"
    COMPARE = "compare"


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered order to one instance.

    ``versions`` (go and shadow only): query -> checkpoint version name. ``may_differ`` (compare only): query -> columns
    in which the outputs may differ. ``output_losses`` (go only): query -> newest committed batch that its output may
    lack, as a person accepted it.
    """

    format: int = FORMAT
    number: int
    kind: CommandKind
    operation: str
    versions: dict[str, str] = {}
    may_differ: dict[str, tuple[str, ...]] = {}
    output_losses: dict[str, int] = {}


def control_key(job: str, instance: str, *parts: str) -> str:
    """``control/<job>/<instance>/<parts…>``."""
    return "/".join(("control", job, instance, *parts))


def command_key(job: str, instance: str, number: int) -> str:
    """Key of one command; keys sort as their numbers do."""
    return control_key(job, instance, "commands", f"{number:06d}.json")
