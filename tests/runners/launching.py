"""Shared by the runner's tests: a place in which to run the fake driver, and waiting with a deadline."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec
from streamkeeper.model.settings.settings import Settings
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.contract import Life
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.runners.machine import Machine, this_machine
from streamkeeper.stores.contract import Store
from streamkeeper.stores.local import LocalStore

T = TypeVar("T")

FAKE_DRIVER = Path(__file__).with_name("fake_driver.py")
JOB = f"sales_{os.getpid()}"
"""A job name that is unique to this process: without an installation, an instance is identified by its name on the
whole machine.
"""


@dataclass
class Place:
    """A store, a home, a runner of fake drivers, and the instances to terminate afterwards."""

    folder: Path
    job: str = field(default=JOB, init=False)
    store: Store = field(init=False)
    settings: Settings = field(init=False)
    runner: LocalProcessRunner = field(init=False)
    started: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for each in ("orders", "home", "store"):
            (self.folder / each).mkdir(parents=True)
        self.store = LocalStore(f"{self.folder}/store")
        self.settings = Settings(
            store=f"{self.folder}/store",
            checkpoints=f"{self.folder}/checkpoints",
            jobs=f"{self.folder}/jobs",
            home=f"{self.folder}/home",
            jars=f"{self.folder}/jars",
        )
        self.runner = self.new_runner()

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-S", str(FAKE_DRIVER), f"{self.folder}/orders")

    def new_runner(self, **given: object) -> LocalProcessRunner:
        return LocalProcessRunner(self.store, self.settings, driver=self.command, **given)  # type: ignore[arg-type]

    def spec(self, instance: str = "one", **changes: object) -> LaunchSpec:
        if instance not in self.started:
            self.started.append(instance)
        values: dict[str, object] = {
            "instance": instance,
            "job": JOB,
            "release": "r0001",
            "mode": LaunchMode.STANDBY,
            "bundle": "0" * 64,
            "entry": "sales.py",
            "params": {},
            "conf": {},
            "checkpoints": self.settings.checkpoints,
            "lease_s": 2.0,
            **changes,
        }
        return LaunchSpec(**values)  # type: ignore[arg-type]

    @property
    def machine(self) -> Machine:
        return this_machine()

    def launch_at_once(self, times: int) -> None:
        with ThreadPoolExecutor(times) as pool:
            list(pool.map(lambda _: self.new_runner().launch(self.spec(), {}), range(times)))

    def control(self, instance: str = "one") -> Control:
        return Control(self.store, JOB, instance)

    def order(self, text: str, instance: str = "one", generation: int | None = None) -> None:
        name = instance if generation is None else f"{instance}.{generation}"
        (self.folder / "orders" / f".{name}").write_text(text)
        (self.folder / "orders" / f".{name}").replace(self.folder / "orders" / name)

    def pids(self, instance: str = "one", generation: int = 1) -> tuple[int, int]:
        """Wait until the driver runs, and return its pid and that of the child that stands in for its JVM."""
        ready = self.folder / "orders" / f"{instance}.{generation}.ready"
        try:
            wait_for(str(ready), ready.exists)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; processes: {self.runner.observe(JOB, instance)}; log: {self.log()}") from None
        driver, child = ready.read_text().split()
        return int(driver), int(child)

    def spawned(self) -> int:
        """Return the pid of the further process that the driver was ordered to start, or 0 before it has started."""
        path = self.folder / "orders" / "spawned"
        return int((path.exists() and path.read_text()) or 0)

    def supervisor(self, instance: str = "one") -> int:
        return wait_for("a claim", self.control(instance).processes)[0].pid

    def starts(self) -> int:
        return self.log().count("driver has pid")

    def has_run(self) -> bool:
        return any((self.folder / "orders").glob("*.ready"))

    def nudged(self) -> bool:
        return (self.folder / "orders" / "one.1.nudged").exists()

    def is_running(self, pid: int) -> bool:
        return is_running(pid)

    def kill(self, pid: int) -> None:
        end(pid)

    def freeze(self, pid: int) -> None:
        end(pid, signal.SIGSTOP)

    def wait_for(self, what: str, look: Callable[[], T]) -> T:
        return wait_for(what, look)

    def life(self, instance: str = "one") -> Life:
        return self.runner.observe(JOB, instance).life

    def wait_dead(self, instance: str = "one") -> str:
        wait_for(f"the death of {instance}", lambda: self.life(instance) is Life.DEAD)
        return self.runner.observe(JOB, instance).why

    def log(self, instance: str = "one") -> str:
        return (self.folder / "home" / "logs" / JOB / f"{instance}.log").read_text()

    def close(self) -> None:
        for each in self.started:
            self.runner.kill(JOB, each)
        for each in self.started:
            wait_for(f"the end of {each}", lambda name=each: self.life(name) is not Life.ALIVE)  # type: ignore[misc]


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def end(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal one process that a test has started."""
    os.kill(pid, number)
