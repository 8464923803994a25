"""Executors on other machines: checks which queries may run there, and sends them the code they need.

Only the driver writes logs, and state files have unique names (checkpoint format 2): an executor that outlives its
driver writes files that no log names. The kind of sink decides which writes an output accepts from an executor.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.driver.ending import will_restart
from streamkeeper.driver.faults import describe_fault
from streamkeeper.errors import PermanentError, TemporaryError, Unsupported
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.model.settings.release_conf import MASTER, OWN_THREADS
from streamkeeper.sinks.kinds.known_kinds import task_modules, why_not_from_any_node, why_not_from_elsewhere
from streamkeeper.system import clock
from streamkeeper.system.masters import check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTOR_S = 60.0
"""How long a driver waits for its first executor; a worker with capacity starts one within seconds."""
_LOOK_S = 0.2
_OF_ITS_PYTHON = ("ModuleNotFoundError", "ImportError", "PYTHON_VERSION_MISMATCH", "Cannot run program")
"""Texts in Spark's error of a task whose Python is missing, or lacks the driver's packages."""
_PACKAGE = Path(__file__).resolve().parents[1]
_STAY = f"deploy the job with `--conf {MASTER}={OWN_THREADS}`, so that its tasks run in its driver"


def must_fit(manifests: Iterable[Manifest], master: str) -> None:
    """Raise Unsupported for a query whose output does not suit remote executors, because the executors cannot write the
    output, or could still write it after the driver has ended.
    """
    for manifest in manifests:
        if why := why_not_from_elsewhere(manifest.sink.kind, manifest.sink.output):
            raise Unsupported(f"query {manifest.query} cannot run on the executors of {master}: {why}", hint=_STAY)


def must_fit_any_node(manifests: Iterable[Manifest], runner: str) -> None:
    """Raise Unsupported for a query whose output a later driver on another node could not find."""
    for manifest in manifests:
        if why := why_not_from_any_node(manifest.sink.kind, manifest.sink.output):
            raise Unsupported(
                f"query {manifest.query} cannot run on the nodes of {runner}: {why}",
                hint="write to a database server, or to a bucket or HDFS",
            )


def must_answer(master: str) -> None:
    """Raise Ending if the cluster's master does not answer. The job then waits for the master as for any other
    dependency.
    """
    try:
        check_master(master)
    except TemporaryError as error:
        raise will_restart(str(error), Cause.DEPENDENCY, Fault.SINK_DOWN) from error


def wait_for_executors(spark: SparkSession, master: str, root: Path, scratch: Path) -> None:
    """Wait for the first executor, send it the job's code, and check that the executor's Python has the driver's
    packages.

    ``root``: the directory of the job's code. Raises Ending if no executor starts in time, PermanentError if the
    executor's Python lacks the packages, and Spark's error if an executor terminates during the check.
    """
    context: Any = spark.sparkContext
    deadline = clock.monotonic() + EXECUTOR_S
    while len(context._jsc.sc().statusTracker().getExecutorInfos()) < 2:
        # The driver counts as one.
        if clock.monotonic() > deadline:
            raise will_restart(
                f"no executor of {master} started within {EXECUTOR_S:g} s: the cluster may have no room",
                Cause.CAPACITY,
            )
        clock.sleep(_LOOK_S)
    for archive in _archives(root, scratch):
        context.addPyFile(archive)
    try:
        context.parallelize([0], 1).foreach(_import_here)
    except Exception as error:
        if not lacks_python(str(error)):
            raise
        raise PermanentError(
            f"Python on an executor of {master} cannot run this job: {describe_fault(error)}",
            hint="install the drivers' environment at the same path on every worker, or put the job's imports into the"
            " archive that STREAMKEEPER_EXECUTOR_ENVIRONMENT names",
        ) from error


def lacks_python(message: str) -> bool:
    """Whether Spark's text of a failed task shows that the executor's Python is missing, lacks a package or has another
    version than the driver's. The next task on that executor would then fail, too.
    """
    return any(sign in message for sign in _OF_ITS_PYTHON)


def _archives(root: Path, scratch: Path) -> Iterator[str]:
    """Yield archives of the job's code, and of this package without other packages installed next to it."""
    yield shutil.make_archive(str(scratch / "job"), "zip", root)
    yield shutil.make_archive(str(scratch / "streamkeeper"), "zip", _PACKAGE.parent, _PACKAGE.name)


def _import_here(_: int) -> None:
    for module in task_modules():
        import_module(module)
