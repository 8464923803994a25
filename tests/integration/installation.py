"""Shared by the integration tests: one Airflow with one job and its sales, and the runs of its DAGs."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from harness.airflow_process import Airflow
from harness.forms import DAG, SALES_TOTALS, deploy_conf
from harness.ledger import Account, compare_totals, expected_totals
from harness.outputs import read_totals
from harness.places import Places
from harness.processes import session_of
from harness.producer import SALES, prepare, write_whole
from harness.rest import AirflowApi, Conflict
from harness.system import System
from harness.waiting import wait_until
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.run_names import operation_id

CRASH_AT = "act.prove-dead.recordend.after"
"""Crash point at which the old driver has terminated and the new one has not started: the worst moment for the task to
die.
"""
CONNECTION = "warehouse"
MAPPED = 4
"""Number of mapped tasks that this Airflow allows; its default of 1,024 would take a test too long."""
CODE = (
    ("@streaming_job(", '@F.udf("long")\ndef counted(amount):\n    return amount\n\n\n@streaming_job('),
    ("sales.groupBy(", 'sales.withColumn("amount", counted("amount")).groupBy('),
)
OTHER_CODE = (("    return amount\n", "    return int(amount)\n"),)
APPROVERS = ((f'name="{SALES_TOTALS}",', f'name="{SALES_TOTALS}", approvers=["cli:ada"],'),)


class InstalledAirflow:
    """One Airflow for all tests of a module, with one job and its sales; its DAGs run only when a test triggers
    them.
    """

    def __init__(self, root: Path) -> None:
        self.places = Places(root)
        self.places.prepare()
        prepare(self.places.input)
        self.disarmed = root / f"crash-disarmed-{CRASH_AT}"
        self.disarmed.touch()
        self.system = System(self.places, lambda line: None)
        for each in ("BACKUP", "DRILL", "PRUNE", "WATCH"):
            self.system.environment[f"STREAMKEEPER_{each}_SCHEDULE"] = "never"
        self.system.airflow_settings["AIRFLOW__CORE__MAX_MAP_LENGTH"] = str(MAPPED)
        self.system.environment["STREAMKEEPER_CRASH"] = CRASH_AT
        self.system.environment["STREAMKEEPER_CRASH_ONCE"] = str(root / "crash-disarmed")
        # A URL with options, as one with a password would be: the sink's identity, which is recorded, leaves them out.
        self.secret = f"sqlite:///{self.places.warehouse}?cached_statements=137"
        self._sales, self._port = 0, 0

    def start(self) -> Airflow:
        """Start Airflow, at the same address each time."""
        self.airflow = self.system.start_airflow(port=self._port)
        self._port = int(self.airflow.url.rpartition(":")[2])
        self.system.wait_for_airflow(self.airflow)
        return self.airflow

    def kill_airflow(self) -> None:
        """Send SIGKILL to every process of Airflow."""
        victims = list(session_of(self.airflow.process))
        assert any("scheduler" in " ".join(each.cmdline()) for each in victims)
        for each in victims:
            each.send_signal(signal.SIGKILL)
        assert psutil.wait_procs(victims, timeout=20)[1] == []

    def sell(self, rows: int = 20) -> None:
        """Write one more sales file."""
        name = f"{self._sales:06d}"
        sales = [(f"e{name}-{row}", f"c{row % 3}", row + self._sales) for row in range(rows)]
        write_whole(self.places.input / SALES, f"{name}.csv", sales)
        self._sales += 1

    def form(self, **fields: Any) -> dict[str, Any]:
        """Return the form of a deploy, by default without a probation, which most tests do not need."""
        fields = {"probation_batches": 0, **fields}
        form = deploy_conf(self.places, SALES_TOTALS, files_per_trigger=100, reason="integration test", **fields)
        form["params"]["warehouse"] = f"secret://airflow/{CONNECTION}/password"
        return form

    @property
    def state(self) -> JobState:
        return self.system.installation.journal(SALES_TOTALS, "test").state()

    def life(self, instance: str = "") -> Life:
        """Return whether the given driver is alive, by default the one that runs the job or ran it last."""
        return self.system.installation.runner.observe(SALES_TOTALS, instance or self.state.serving_instance).life

    def is_launched(self, run: Run) -> bool:
        """Return whether the run's operation has launched a driver, which needs seconds to become ready."""
        return any(each.operation == run.operation for each in self.state.instances.values())

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the job's only query."""
        return self.places.checkpoints / SALES_TOTALS / "totals" / self.state.current["totals"]

    def at_rest(self) -> bool:
        """Return whether the table contains every sale and the newest planned batch is committed."""
        planned, committed = (
            max((int(path.name) for path in (self.checkpoint / log).glob("[0-9]*")), default=-1)
            for log in ("offsets", "commits")
        )
        return self.caught_up() and planned == committed

    def caught_up(self) -> bool:
        return read_totals(self.places.warehouse) == expected_totals(self.places.input / SALES)

    def compare(self) -> Account:
        """Compare the table with all sales."""
        return compare_totals(
            SALES_TOTALS, expected_totals(self.places.input / SALES), read_totals(self.places.warehouse)
        )

    def everything(self) -> Iterator[tuple[Path, bytes]]:
        """Yield every file that Streamkeeper and Airflow wrote, with its content, except checkpoints, Airflow's own
        database and the drivers' scratch.
        """
        for folder in (self.places.home, self.places.airflow / "logs"):
            for file in folder.rglob("*"):
                if file.is_file() and "checkpoints" not in file.parts:
                    yield file, file.read_bytes()


class Run:
    """One DAG run, by default of the deploy DAG."""

    def __init__(self, api: AirflowApi, form: dict[str, Any], *, dag: str = DAG, run_id: str = "") -> None:
        """Trigger a run, or attach to the existing run ``run_id``."""
        self.api, self.dag = api, dag
        self.run_id = run_id or api.trigger(dag, form)
        self.operation = operation_id(dag, self.run_id)
        self.state = ""

    def wait(self) -> str:
        self.state = self.api.wait_for_run(self.dag, self.run_id, timeout_s=420)
        return self.state

    def states(self) -> dict[str, str]:
        return {name: task["state"] for name, task in self.api.tasks(self.dag, self.run_id).items()}

    def answer(self, task_id: str, option: str, *, reason: str) -> None:
        """Answer a task's question until the answer is accepted.

        An answer in the very moment of the question makes Airflow retry the task, which loses the answer.
        """

        def taken() -> bool:
            if self.states()[task_id] == "success":
                return True
            with suppress(Conflict):
                self.api.answer(self.dag, self.run_id, task_id, option, reason=reason)
            return False

        assert wait_until(taken, timeout_s=120, poll_s=1)

    def mapped(self, task_id: str) -> dict[str, dict[str, Any]]:
        """Return a mapped task's instances as Airflow describes them, by their rendered name."""
        return {each["rendered_map_index"]: each for each in self.api.mapped(self.dag, self.run_id, task_id)}

    def log(self, task_id: str, try_number: int = 1, *, map_index: int = -1) -> str:
        return self.api.task_log(self.dag, self.run_id, task_id, try_number, map_index=map_index)

    def report(self, task_id: str, *, map_index: int = -1) -> str:
        return str(self.api.xcom(self.dag, self.run_id, task_id, "report", map_index=map_index))

    def told(self) -> list[str]:
        """Return the log lines in which Streamkeeper states why the run failed.

        They begin with an error's name. Airflow's own do not; one of them comes late if a run is deleted while its last
        task's process terminates.
        """
        errors = (line.partition(" error ")[2] for line in self.log("finish").splitlines())
        return [error for error in errors if re.match(r"[A-Z]\w+: ", error)]


class Interrupted(NamedTuple):
    """A deploy during which Airflow was killed, its form, and a second deploy that was triggered in the meantime; both
    have finished.
    """

    run: Run
    form: dict[str, Any]
    another: Run


@contextmanager
def edited(installation: InstalledAirflow, replaces: tuple[tuple[str, str], ...]) -> Iterator[None]:
    """Change the job's code for the duration of the body; a run's release contains that code once the run asks a
    question.
    """
    edit(installation, replaces)
    yield
    edit(installation, tuple((new, old) for old, new in replaces))


def edit(installation: InstalledAirflow, replaces: tuple[tuple[str, str], ...]) -> None:
    """Change the job's code under the jobs root."""
    file = installation.places.jobs / f"{SALES_TOTALS}.py"
    text = file.read_text()
    for old, new in replaces:
        assert text.count(old) == 1
        text = text.replace(old, new)
    file.write_text(text)


def deploy_first(installation: InstalledAirflow, api: AirflowApi, **fields: Any) -> Run:
    """Deploy the first release with some input, and return its run once it has succeeded. ``fields``: of the form."""
    installation.sell()
    run = Run(api, installation.form(**fields))
    assert run.wait() == "success", run.told()
    return run
