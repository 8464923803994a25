"""What every runner must do, as tests: run against each of them with a real driver program that needs no Spark."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.waiting import wait_for
from streamkeeper.model.control import DriverState, ExitCode
from streamkeeper.runners.contract import Life
from tests.runners.launching import JOB, Place, end, is_running


class RunnerContract:
    """A subclass gives a fixture ``place``."""

    def test_what_was_never_launched_is_absent(self, place: Place) -> None:
        """And killing or nudging it is harmless, and leaves it launchable."""
        assert place.life() is Life.ABSENT
        place.runner.kill(JOB, "one")
        place.runner.nudge(JOB, "one")
        assert place.life() is Life.ABSENT
        place.runner.launch(place.spec(), {})
        place.pids()

    def test_a_launched_instance_is_alive_from_the_launch_on(self, place: Place) -> None:
        """Also in the gap before its process has stored anything."""
        place.runner.launch(place.spec(), {})
        assert place.life() is Life.ALIVE
        wait_for("a claim", lambda: place.life() is not Life.ALIVE or place.control().processes())
        assert place.life() is Life.ALIVE
        place.pids()
        assert place.life() is Life.ALIVE

    def test_launching_twice_starts_one_tree(self, place: Place) -> None:
        """Launches one after another and at once leave one claim and one driver."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: place.new_runner().launch(place.spec(), {}), range(4)))
        driver, _ = place.pids()
        place.runner.launch(place.spec(), {})
        assert [each.generation for each in place.control().processes()] == [1]
        place.order(f"exit {ExitCode.DRAINED}")
        place.wait_dead()
        assert not is_running(driver)
        assert place.log().count("driver has pid") == 1

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
    def test_an_end_that_was_meant_ends_the_instance(self, place: Place, code: ExitCode, state: DriverState) -> None:
        """It is not started again, its whole tree is gone, and its last word is stored."""
        place.runner.launch(place.spec(), {})
        driver, child = place.pids()
        place.order(f"print some last words\nexit {code}")
        place.wait_dead()
        assert not is_running(driver)
        assert not is_running(child)
        end_ = place.control().read_exit()
        assert end_ is not None
        assert (end_.state, end_.code) == (state, code)
        assert ("some last words" in end_.error) == (state is DriverState.FAILED)
        assert len(place.control().processes()) == 1

    def test_a_failed_driver_is_started_again(self, place: Place) -> None:
        """As a new generation, and only when nothing of the old one is left."""
        place.runner.launch(place.spec(), {})
        driver, child = place.pids()
        end(driver)
        wait_for("a second claim", lambda: len(place.control().processes()) == 2)
        assert not is_running(child)
        place.pids(generation=2)
        assert place.life() is Life.ALIVE
        assert place.control().read_exit() is None

    def test_restarts_are_used_up(self, place: Place) -> None:
        """After the budget the instance has failed, and says with what."""
        place.order("print no such table\nexit 5")
        place.runner.launch(place.spec(restart_budget=1), {})
        place.wait_dead()
        end_ = place.control().read_exit()
        assert end_ is not None
        assert (end_.state, end_.code) == (DriverState.FAILED, 5)
        assert "no such table" in end_.error
        assert [each.generation for each in place.control().processes()] == [1, 2]

    def test_a_killed_instance_is_dead_for_ever(self, place: Place) -> None:
        """Launching it once more starts nothing: a proven death stays true."""
        place.runner.launch(place.spec(), {})
        pids = [place.supervisor(), *place.pids()]
        place.runner.kill(JOB, "one")
        assert f"supervisor {place.control().processes()[0].pid} " in place.wait_dead()
        assert not any(is_running(each) for each in pids)
        place.runner.launch(place.spec(), {})
        assert place.life() is Life.DEAD
        assert len(place.control().processes()) == 1

    def test_what_is_killed_before_its_claim_never_starts(self, place: Place) -> None:
        """A launch that is still on its way finds the instance taken."""
        place.control().write_launch(place.spec())
        assert place.life() is Life.ABSENT
        place.runner.kill(JOB, "one")
        assert place.life() is Life.DEAD
        place.runner.launch(place.spec(), {})
        assert place.life() is Life.DEAD
        assert not list(Path(place.folder, "orders").glob("*.ready"))

    @pytest.mark.parametrize("whom", [(0,), (1,), (2,), (0, 1, 2)], ids=["supervisor", "driver", "child", "all"])
    def test_a_frozen_process_is_alive_and_can_be_killed(self, place: Place, whom: tuple[int, ...]) -> None:
        """SIGSTOP is no death: what is frozen may wake up and write."""
        place.runner.launch(place.spec(), {})
        pids = [place.supervisor(), *place.pids()]
        for each in whom:
            end(pids[each], signal.SIGSTOP)
        assert place.life() is Life.ALIVE
        place.runner.kill(JOB, "one")
        place.wait_dead()
        assert not any(is_running(each) for each in pids)

    def test_a_secret_is_stored_nowhere(self, place: Place) -> None:
        """Neither in the store nor in the log, even if the driver prints it; the driver itself gets it."""
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

    def test_a_secret_that_a_param_holds_itself_is_in_its_launch_only(self, place: Place) -> None:
        """A reference should stand there; neither the log nor the exit shows it all the same."""
        place.runner.launch(place.spec(params={"password": "hunter2 & co"}), {})
        place.pids()
        place.order("print password is hunter2 & co\nprint as hunter2%20%26%20co\nexit 7")
        place.wait_dead()
        assert "password is ***" in place.log()
        end_ = place.control().read_exit()
        assert end_ is not None
        assert end_.error.endswith("as ***")

    def test_instances_do_not_touch_each_other(self, place: Place) -> None:
        """Killing one leaves the other, whose name begins with its name, alone."""
        place.runner.launch(place.spec("one"), {})
        place.runner.launch(place.spec("one-b"), {})
        place.pids("one")
        driver, child = place.pids("one-b")
        place.runner.kill(JOB, "one")
        place.wait_dead("one")
        assert place.life("one-b") is Life.ALIVE
        assert is_running(driver)
        assert is_running(child)
