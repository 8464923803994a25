"""Tests which runner observes and terminates an instance."""

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
    """A runner that reports a given state for every instance and records the calls that it receives."""

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


def test_a_recorded_launch_keeps_its_runner_after_the_settings_change(place: Place, cluster: Cluster) -> None:
    """An instance launched on this machine stays with the local runner even after the settings name a cluster, while a
    new instance is launched on the cluster.
    """
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


def test_the_report_of_the_cluster_decides_about_its_own_instances(place: Place, cluster: Cluster) -> None:
    """The cluster's report decides about its own instances, observed singly or together, and notify, kill and log
    requests go to the cluster.
    """
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


def test_a_death_proven_on_this_machine_counts_when_the_cluster_is_unknown(place: Place, cluster: Cluster) -> None:
    """When the cluster's report is unknown, a death that this machine proves by scanning ``/proc`` counts; a report
    that the instance is alive is not overruled, nor is a process that runs on this machine.
    """
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


def test_only_a_local_driver_is_reported_as_running_elsewhere(place: Place, cluster: Cluster) -> None:
    """A cluster's driver is observed through the cluster, whatever node has claimed it, while a local driver claimed by
    a different machine is reported as elsewhere.
    """
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


def test_an_instance_with_an_unknown_runner_is_unknown_and_not_killed(place: Place, cluster: Cluster) -> None:
    """An instance with an unknown runner is reported as ``UNKNOWN`` with the runner's name, and killing it is
    refused.
    """
    place.control("new").write_launch(place.spec("new", runner="kubernetes"))
    place.started.clear()
    runner = of(place, cluster)
    assert "kubernetes" in runner.observe(JOB, "new").why
    assert runner.observe(JOB, "new").life is Life.UNKNOWN
    with pytest.raises(Unsupported, match="kubernetes"):
        runner.kill(JOB, "new")
