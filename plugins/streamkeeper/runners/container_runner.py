"""Common parts of the runners for clusters. A container is recorded before it is created, and observed through the
cluster.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from msgspec.structs import replace

from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.protocol.driver_messages import LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.model.runner_kinds.runner_kind import Place
from streamkeeper.model.settings.release_conf import MASTER
from streamkeeper.model.settings.settings import Settings
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.barred_instances import FORMER, NEVER_STARTED, bar, is_barred
from streamkeeper.runners.contract import Life, Liveness, Runner
from streamkeeper.runners.machine import this_machine
from streamkeeper.runners.process_tree import mark
from streamkeeper.runners.variables import DRIVER, named_master, passed_to_containers, settings_variables
from streamkeeper.stores.contract import Store
from streamkeeper.system.crash_points import crash_point

P = TypeVar("P", bound=Place)


class ContainerRunner(Runner, Generic[P]):
    """Runs the drivers of an installation in containers of a cluster."""

    place: type[P]
    """The record of an instance's container, which is written before the container is created."""
    nowhere: ClassVar[str]
    """Why a launched instance has no container, as a phrase."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        driver: Sequence[str] = DRIVER,
        installation: InstallationRecord | None = None,
        resolve_master: Callable[[str], str] | None = None,
    ) -> None:
        """``store``: the store.
        ``settings``: the installation's settings.
        ``environ``: variables, some of which are passed on.
        ``driver``: the command that gets job, instance and generation.
        ``installation``: the installation's record; None skips the ownership check.
        ``resolve_master``: resolves a master that is an Airflow connection.
        """
        self._store = store
        self._settings = settings
        self._environ = environ
        self._driver = tuple(driver)
        self._installation = installation
        self._resolve_master = resolve_master

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Implement ``Runner.launch``."""
        control = Control(self._store, spec.job, spec.instance)
        crash_point("launch.spec.before")
        control.write_launch(spec)
        crash_point("launch.spec.after")
        if control.processes():
            return
        place = control.read_place(self.place) or control.write_place(self._choose(spec))
        crash_point("launch.process.before")
        self._create(place, spec, secrets)
        crash_point("launch.process.after")

    def observe(self, job: str, instance: str) -> Liveness:
        """Implement ``Runner.observe``."""
        control = Control(self._store, job, instance)
        if control.read_launch() is None:
            return Liveness(life=Life.ABSENT, why="the instance was never launched")
        recorded, place = control.processes(), control.read_place(self.place)
        if is_barred(recorded):
            return Liveness(life=Life.DEAD, why=NEVER_STARTED)
        if place is None:
            return Liveness(life=Life.ABSENT, why=f"the instance was launched, but {self.nowhere}")
        if not self._is_mine(place):
            return Liveness(life=Life.DEAD, why=f"the instance never ran here: {FORMER}")
        if end := control.read_exit():
            last = f"{self._speaker(place, recorded)} has recorded the end ({end.state.value})"
            last = f"{last} after every process of its tree had exited"
            reason, fault = self._why_ended(job, place) if end.by_signal else ("", None)
            return Liveness(life=Life.DEAD, why=f"{last} ({reason})" if reason else last, fault=fault)
        try:
            return self._judge(job, place, recorded)
        except StreamkeeperError as error:
            return Liveness(life=Life.UNKNOWN, why=f"{self._named(place)} cannot be inspected: {error}")

    def notify(self, job: str, instance: str) -> None:
        """Implement ``Runner.notify`` without effect, because signals do not reach the driver. The driver reads its
        commands at every trigger and once a second.
        """

    def kill(self, job: str, instance: str) -> None:
        """Implement ``Runner.kill``; raises TemporaryError if the cluster cannot be reached."""
        control = Control(self._store, job, instance)
        if control.read_launch() is None:
            return
        recorded, place = control.processes(), control.read_place(self.place)
        if not recorded:
            recorded = bar(control, instance, this_machine(), self._id)
        if place is not None and self._is_mine(place) and control.read_exit() is None:
            self._end(job, place, recorded)

    def where_log_is(self, job: str, instance: str) -> str:
        """Implement ``Runner.where_log_is``."""
        place = Control(self._store, job, instance).read_place(self.place)
        return f"the log of {instance} is in {self._log_of(place)}" if place is not None else ""

    @abstractmethod
    def _choose(self, spec: LaunchSpec) -> P:
        """Choose the container of an instance; its record is stored afterwards."""

    @abstractmethod
    def _create(self, place: P, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Create the container unless it exists already; idempotent."""

    @abstractmethod
    def _judge(self, job: str, place: P, recorded: Sequence[ProcessRecord]) -> Liveness:
        """Return what the cluster's report proves about the instance; ``recorded``: the claims of the instance."""

    @abstractmethod
    def _why_ended(self, job: str, place: P) -> tuple[str, Fault | None]:
        """Return the cluster's reason for the signal that ended an instance, as a phrase, and the kind of fault.
        Without a reason, return an empty text and None.
        """

    @abstractmethod
    def _end(self, job: str, place: P, recorded: Sequence[ProcessRecord]) -> None:
        """Make the container's node kill the container, so that the node can confirm the container's end."""

    @abstractmethod
    def _named(self, place: P) -> str:
        """Return the container's name in the cluster."""

    @abstractmethod
    def _speaker(self, place: P, recorded: Sequence[ProcessRecord]) -> str:
        """Return the supervisor that recorded the instance's end, as a phrase."""

    @abstractmethod
    def _log_of(self, place: P) -> str:
        """Return where the container's log is, and how to read it."""

    def _container_variables(self, job: str, instance: str) -> dict[str, str]:
        """Return the environment variables of a driver in a container, except those that its kind of cluster adds."""
        marked = mark(job, instance, installation=self._id, store=self._settings.store)
        settings = replace(self._settings, master=named_master(self._settings, self._resolve_master))
        return passed_to_containers(self._environ) | marked.variables() | settings_variables(settings)

    def _runs_its_tasks(self, conf: Mapping[str, str]) -> bool:
        """Whether a driver with this conf runs Spark's tasks in its own process."""
        return MASTER in conf or not self._settings.master

    @property
    def _id(self) -> str:
        return self._installation.id if self._installation is not None else ""

    def _is_mine(self, place: P) -> bool:
        return self._installation is None or self._installation.is_mine(place.installation)
