"""Tests, without a cluster, which exit codes in a ResourceManager's report on an application prove that its container
has stopped.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.runner_kinds.yarn_kind import Application
from streamkeeper.runners.contract import Life
from streamkeeper.runners.yarn_application import YarnRunner
from streamkeeper.runners.yarn_rest import ApplicationReport, Attempt, ContainerReport, ResourceManager
from tests.runners.launching import JOB, Place

CLUSTER, APPLICATION, ATTEMPT = "http://127.0.0.1:1", "application_1_0001", "appattempt_1_0001_000001"
STARTED_MS = 1_000_000_000_000


class Reporting(ResourceManager):
    """A ResourceManager that reports one exit code; the NodeManager was restarted, so it lists no container and proves
    nothing.
    """

    def __init__(self, code: int) -> None:
        super().__init__(CLUSTER, "nobody")
        self.code = code

    def find(self, application: str) -> ApplicationReport | None:
        told = f"Application {application} failed 1 times due to AM Container for {ATTEMPT} exited with  exitCode: "
        return ApplicationReport(
            id=application, state="FAILED", diagnostics=f"{told}{self.code}", finished_time=STARTED_MS + 1
        )

    def attempts(self, application: str) -> list[Attempt]:
        return [Attempt(app_attempt_id=ATTEMPT, start_time=STARTED_MS, container_id="container_1")]

    def look_at_container(self, attempt: Attempt) -> ContainerReport | None:
        return None

    def node_started_at(self, attempt: Attempt) -> int:
        return STARTED_MS + 1

    def now(self) -> float:
        return time.time()


@pytest.mark.parametrize(
    ("code", "life", "fault"),
    [
        (0, Life.DEAD, None),
        (1, Life.DEAD, None),
        (137, Life.DEAD, None),
        (-103, Life.DEAD, Fault.OUT_OF_MEMORY),
        (-104, Life.DEAD, Fault.OUT_OF_MEMORY),
        (-1, Life.UNKNOWN, None),
        (-100, Life.UNKNOWN, None),
        (-102, Life.UNKNOWN, None),
        (-105, Life.UNKNOWN, None),
        (-1000, Life.UNKNOWN, None),
    ],
)
def test_only_program_and_memory_limit_exit_codes_prove_a_container_stopped(
    tmp_path: Path, code: int, life: Life, fault: Fault | None
) -> None:
    """Only a program's exit code or the code of a memory limit proves that a container has stopped; any other negative
    code may be set while the container still runs.
    """
    place = Place(tmp_path)
    place.control().write_launch(place.spec())
    place.control().write_place(Application(instance="one", cluster=CLUSTER, id=APPLICATION))
    runner = YarnRunner(place.store, place.settings, {})
    runner._managers[CLUSTER] = Reporting(code)
    seen = runner.observe(JOB, "one")
    assert (seen.life, seen.fault) == (life, fault), seen.why
