"""Which runner an instance is seen and ended by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamkeeper.errors import Unsupported
from streamkeeper.model.protocol.driver_messages import LOCAL, LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.runners.by_launch import LaunchedRunner
from streamkeeper.runners.contract import Runner
from tests.runners.launching import JOB, Place


class Cluster(Runner):
    """One that says of every instance what it is told to say, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.says = Life.UNKNOWN

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        self.asked.append(f"launch {spec.instance}")

    def observe(self, job: str, instance: str) -> Liveness:
        return Liveness(life=self.says, why="by the cluster")

    def notify(self, job: str, instance: str) -> None:
        self.asked.append(f"nudge {instance}")

    def kill(self, job: str, instance: str) -> None:
        self.asked.append(f"kill {instance}")

    def where_log_is(self, job: str, instance: str) -> str:
        return f"{instance}'s is there"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def of(place: Place, cluster: Cluster, usual: str = "cluster") -> LaunchedRunner:
    return LaunchedRunner(place.store, {LOCAL: lambda: place.runner, "cluster": lambda: cluster}, usual)


def test_a_launch_that_is_on_record_stands(place: Place, cluster: Cluster) -> None:
    """What was launched here stays this machine's, whatever the settings say by then; what is new does not."""
    of(place, cluster, usual=LOCAL).launch(place.spec(), {})
    place.pids()
    later = of(place, cluster)
    later.launch(place.spec(runner="cluster"), {})
    assert cluster.asked == []
    assert later.observe(JOB, "one").life is Life.ALIVE
    later.kill(JOB, "one")
    place.wait_dead()
    assert later.observe(JOB, "one").life is Life.DEAD
    later.launch(place.spec("two", runner="cluster"), {})
    assert cluster.asked == ["launch two"]
    assert later.where_log_is(JOB, "one") == ""


def test_what_a_cluster_says_counts_for_its_own(place: Place, cluster: Cluster) -> None:
    """One at a time and many at once alike: this machine, which has no process of it, says nothing."""
    place.control("there").write_launch(place.spec("there", runner="cluster"))
    runner = of(place, cluster)
    place.started.clear()
    for says in Life:
        cluster.says = says
        assert runner.observe(JOB, "there").life is says
        assert runner.observe_many([(JOB, "there")])[JOB, "there"].life is says
    runner.notify(JOB, "there")
    runner.kill(JOB, "there")
    assert cluster.asked == ["nudge there", "kill there"]
    assert runner.where_log_is(JOB, "there") == "there's is there"


def test_a_death_that_this_machine_proves_is_one(place: Place, cluster: Cluster) -> None:
    """The cluster does not know, and the supervisor was a process of this machine: /proc does. Not the other way."""
    place.runner.launch(place.spec(runner="cluster"), {})
    place.pids()
    runner = of(place, cluster)
    cluster.says = Life.DEAD
    assert runner.observe(JOB, "one").life is Life.ALIVE
    place.runner.kill(JOB, "one")
    place.wait_dead()
    cluster.says = Life.UNKNOWN
    for seen in (runner.observe(JOB, "one"), runner.observe_many([(JOB, "one")])[JOB, "one"]):
        assert (seen.life, "two scans of /proc" in seen.why) == (Life.DEAD, True)
    cluster.says = Life.ALIVE
    assert runner.observe(JOB, "one").life is Life.ALIVE


def test_only_what_this_machine_runs_is_another_machines(place: Place, cluster: Cluster) -> None:
    """A cluster's driver is asked of the cluster from anywhere, whatever node has claimed it; a local one is not."""
    for instance, runner in (("there", "cluster"), ("local", LOCAL)):
        place.control(instance).write_launch(place.spec(instance, runner=runner))
        place.control(instance).write_process(
            ProcessRecord(instance=instance, generation=1, machine="-:boot:1:0", host="node7", pid=1, started=1)
        )
    asked = of(place, cluster)
    for life in (Life.UNKNOWN, Life.ALIVE):
        cluster.says = life
        assert asked.observe(JOB, "there") == Liveness(life=life, why="by the cluster")
    assert asked.observe(JOB, "local").elsewhere == "node7"
    place.started.clear()


def test_a_runner_that_is_not_known_here_is_named(place: Place, cluster: Cluster) -> None:
    """A newer Streamkeeper's, perhaps: nothing is done to it, and nothing is taken for dead."""
    place.control("new").write_launch(place.spec("new", runner="kubernetes"))
    place.started.clear()
    runner = of(place, cluster)
    assert "kubernetes" in runner.observe(JOB, "new").why
    assert runner.observe(JOB, "new").life is Life.UNKNOWN
    with pytest.raises(Unsupported, match="kubernetes"):
        runner.kill(JOB, "new")
