"""The contract tests for every runner, run with a driver program that obeys a test's orders and needs no Spark.

``RunnerContract`` holds for every runner. ``SecretsContract`` needs processes with an environment and an output.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode, LaunchSpec
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.contract import Life, Runner


class Place(Protocol):
    """A store and a runner of drivers whose processes a test can address by pid."""

    job: str
    runner: Runner

    def spec(self, instance: str = "one", **changes: object) -> LaunchSpec:
        """Return a launch of a driver that obeys the test's orders."""

    def launch_at_once(self, times: int) -> None:
        """Launch the instance ``one`` from several processes at the same time, and wait until all launches have
        returned.
        """

    def control(self, instance: str = "one") -> Control:
        """Return the control records of an instance."""

    def order(self, text: str, instance: str = "one") -> None:
        """Make each driver of an instance execute the lines ``print TEXT`` and ``exit CODE``."""

    def pids(self, instance: str = "one", generation: int = 1) -> tuple[int, int]:
        """Wait until a driver runs, and return its pid and the pid of the child that stands for its JVM."""

    def supervisor(self, instance: str = "one") -> int:
        """Wait for a claim, and return the pid of the process that made it."""

    def starts(self) -> int:
        """Return how many drivers of ``one`` its supervisors have started, according to their log."""

    def has_run(self) -> bool:
        """Return whether any driver has ever run in this place."""

    def is_running(self, pid: int) -> bool:
        """Return whether a process exists."""

    def kill(self, pid: int) -> None:
        """Kill one process, like SIGKILL."""

    def freeze(self, pid: int) -> None:
        """Stop one process, like SIGSTOP."""

    def wait_for(self, what: str, look: Callable[[], Any]) -> Any:
        """Wait for the first truthy result of ``look`` and return it."""

    def life(self, instance: str = "one") -> Life:
        """Return the state of an instance as the runner observes it."""

    def wait_dead(self, instance: str = "one") -> str:
        """Wait until the runner reports an instance as dead, and return its proof."""


class RunnerContract:
    """The contract of every runner; a subclass provides the fixture ``place``."""

    def test_what_was_never_launched_is_absent(self, place: Place) -> None:
        """An instance that was never launched is absent; killing or nudging it has no effect, and it can still be
        launched.
        """
        assert place.life() is Life.ABSENT
        place.runner.kill(place.job, "one")
        place.runner.notify(place.job, "one")
        assert place.life() is Life.ABSENT
        place.runner.launch(place.spec(), {})
        place.pids()

    def test_a_launched_instance_is_alive_from_the_launch_on(self, place: Place) -> None:
        """A launched instance is reported as alive at once, even before its process has stored a claim."""
        place.runner.launch(place.spec(), {})
        assert place.life() is Life.ALIVE
        place.wait_for("a claim", lambda: place.life() is not Life.ALIVE or place.control().processes())
        assert place.life() is Life.ALIVE
        place.pids()
        assert place.life() is Life.ALIVE

    def test_launching_twice_starts_one_tree(self, place: Place) -> None:
        """Launching the same instance repeatedly, concurrently or in sequence, results in one claim and one driver."""
        place.launch_at_once(4)
        driver, _ = place.pids()
        place.runner.launch(place.spec(), {})
        assert [each.generation for each in place.control().processes()] == [1]
        place.order(f"exit {ExitCode.DRAINED}")
        place.wait_dead()
        assert not place.is_running(driver)
        assert place.starts() == 1

    @pytest.mark.parametrize(
        ("code", "state"),
        [
            (ExitCode.DRAINED, DriverState.DRAINED),
            (ExitCode.FINISHED, DriverState.FINISHED),
            (ExitCode.FENCED, DriverState.FENCED),
            (ExitCode.STOPPED, DriverState.STOPPED),
            (ExitCode.REFUSED, DriverState.FAILED),
        ],
    )
    def test_a_final_exit_code_stops_the_instance_without_a_restart(
        self, place: Place, code: ExitCode, state: DriverState
    ) -> None:
        """A driver that exits with a final code is not restarted, all its processes stop, and its last state is stored,
        with its last output if it failed.
        """
        place.runner.launch(place.spec(), {})
        driver, child = place.pids()
        place.order(f"print some last words\nexit {code}")
        place.wait_dead()
        assert not place.is_running(driver)
        assert not place.is_running(child)
        end_ = place.control().read_exit()
        assert end_ is not None
        assert (end_.state, end_.code) == (state, code)
        assert ("some last words" in end_.error) == (state is DriverState.FAILED)
        assert len(place.control().processes()) == 1

    def test_a_failed_driver_is_started_again(self, place: Place) -> None:
        """A killed driver is restarted as a new generation, after every process of the old one has stopped."""
        place.runner.launch(place.spec(), {})
        driver, child = place.pids()
        place.kill(driver)
        place.wait_for("a second claim", lambda: len(place.control().processes()) == 2)
        assert not place.is_running(child)
        place.pids(generation=2)
        assert place.life() is Life.ALIVE
        assert place.control().read_exit() is None

    def test_an_exhausted_restart_budget_is_recorded_as_a_failure(self, place: Place) -> None:
        """An instance whose restart budget is used up is recorded as failed, with the exit code and the error."""
        place.order("print no such table\nexit 5")
        place.runner.launch(place.spec(restart_budget=1), {})
        place.wait_dead()
        end_ = place.control().read_exit()
        assert end_ is not None
        assert (end_.state, end_.code) == (DriverState.FAILED, 5)
        assert "no such table" in end_.error
        assert [each.generation for each in place.control().processes()] == [1, 2]

    def test_a_killed_instance_is_dead_for_ever(self, place: Place) -> None:
        """A killed instance stays dead: all its processes stop, and launching it once more starts nothing."""
        place.runner.launch(place.spec(), {})
        pids = [place.supervisor(), *place.pids()]
        place.runner.kill(place.job, "one")
        assert f"supervisor {place.control().processes()[0].pid} " in place.wait_dead()
        assert not any(place.is_running(each) for each in pids)
        place.runner.launch(place.spec(), {})
        assert place.life() is Life.DEAD
        assert len(place.control().processes()) == 1

    def test_what_is_killed_before_its_claim_never_starts(self, place: Place) -> None:
        """An instance that is killed before its claim never starts, even if its launch arrives later."""
        place.control().write_launch(place.spec())
        assert place.life() is Life.ABSENT
        place.runner.kill(place.job, "one")
        assert place.life() is Life.DEAD
        place.runner.launch(place.spec(), {})
        assert place.life() is Life.DEAD
        assert not place.has_run()

    def test_a_second_launch_uses_the_spec_of_the_first(self, place: Place) -> None:
        """A second launch uses the recorded spec of the first one, here with a restart budget of 0."""
        place.control().write_launch(place.spec(restart_budget=0))
        place.order("exit 5")
        place.runner.launch(place.spec(restart_budget=5), {})
        place.wait_dead()
        assert [each.generation for each in place.control().processes()] == [1]

    @pytest.mark.parametrize("whom", [(0,), (1,), (2,), (0, 1, 2)], ids=["supervisor", "driver", "child", "all"])
    def test_a_frozen_process_is_alive_and_can_be_killed(self, place: Place, whom: tuple[int, ...]) -> None:
        """An instance with a process stopped by SIGSTOP is reported as alive, because it may resume and write, and it
        can be killed.
        """
        place.runner.launch(place.spec(), {})
        pids = [place.supervisor(), *place.pids()]
        for each in whom:
            place.freeze(pids[each])
        assert place.life() is Life.ALIVE
        place.runner.kill(place.job, "one")
        place.wait_dead()
        assert not any(place.is_running(each) for each in pids)

    def test_instances_do_not_touch_each_other(self, place: Place) -> None:
        """Killing an instance does not affect a different instance whose name starts with the same text."""
        place.runner.launch(place.spec("one"), {})
        place.runner.launch(place.spec("one-b"), {})
        place.pids("one")
        driver, child = place.pids("one-b")
        place.runner.kill(place.job, "one")
        place.wait_dead("one")
        assert place.life("one-b") is Life.ALIVE
        assert place.is_running(driver)
        assert place.is_running(child)


class SecretPlace(Place, Protocol):
    """A place with real processes whose files are below ``folder``."""

    folder: Path

    def log(self, instance: str = "one") -> str:
        """Return everything that the processes of an instance have printed."""


class SecretsContract:
    """The contract of runners with real processes; a subclass provides the fixture ``place``."""

    def test_a_secret_is_stored_nowhere(self, place: SecretPlace) -> None:
        """The driver receives a secret in its environment, and the secret is written neither to the store nor to the
        log, even if the driver prints it.
        """
        reference = "secret://env/PASSWORD"
        place.runner.launch(place.spec(params={"password": reference}), {reference: "hunter2 & co"})
        driver, _ = place.pids()
        assert b"hunter2 & co" in Path(f"/proc/{driver}/environ").read_bytes()
        place.order("print password is hunter2 & co\nprint as hunter2%20%26%20co\nexit 7")
        place.wait_dead()
        assert "password is ***" in place.log()
        end_ = place.control().read_exit()
        assert end_ is not None
        assert end_.error.endswith("as ***")
        written = [path for path in place.folder.rglob("*") if path.is_file() and path.parent.name != "orders"]
        assert written
        assert not any(b"hunter2" in path.read_bytes() for path in written)

    def test_a_secret_held_by_a_param_is_masked_in_log_and_exit(self, place: SecretPlace) -> None:
        """A secret that a param holds as plain text instead of a reference is masked in the log and in the exit
        record.
        """
        place.runner.launch(place.spec(params={"password": "hunter2 & co"}), {})
        place.pids()
        place.order("print password is hunter2 & co\nprint as hunter2%20%26%20co\nexit 7")
        place.wait_dead()
        assert "password is ***" in place.log()
        end_ = place.control().read_exit()
        assert end_ is not None
        assert end_.error.endswith("as ***")
