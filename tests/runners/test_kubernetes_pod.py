"""Tests drivers in pods: the runner contract on a real node with the rights of ``deploy/kubernetes``, and what the
node's reports prove.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from msgspec.structs import replace

from harness.kubernetes_node import NAMESPACE, ROOT, KubernetesNode, lone_node
from harness.waiting import wait_for
from streamkeeper.errors import InvalidInput, OperationRefused, PermanentError, TemporaryError
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, ExitCode
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.runner_kinds.kubernetes_kind import POD_TEMPLATE, POD_UID, Pod
from streamkeeper.runners import judging_pods
from streamkeeper.runners.contract import Life
from streamkeeper.runners.kubernetes_pod import KubernetesRunner
from streamkeeper.runners.pod_template import FINALIZER, INSTALLATION, INSTANCE, check_template, driver_pod
from streamkeeper.runners.pod_template import JOB as JOB_KEY
from streamkeeper.runners.process_tree import find_tree, mark
from tests.contracts.runner_contract import RunnerContract, SecretsContract
from tests.runners.launching import JOB, Place, end, is_running
from tests.servers import skip_without_kubernetes

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def node() -> Iterator[KubernetesNode]:
    skip_without_kubernetes()
    with lone_node() as running:
        yield running


class PodPlace(Place):
    """A place whose instances are pods."""

    def __init__(self, folder: Path, node: KubernetesNode) -> None:
        self.node = node
        folder.mkdir(exist_ok=True)
        self.template = node.template(folder)
        super().__init__(folder)

    def new_runner(self, **given: object) -> KubernetesRunner:  # type: ignore[override]
        file = self.node.write_template(self.folder / "pod.yaml", self.template)
        settings = replace(self.settings, runner_variables={POD_TEMPLATE: str(file)})
        environ = {**os.environ, **self.node.environment}
        return KubernetesRunner(self.store, settings, environ, driver=self.command, **given)  # type: ignore[arg-type]

    def pids(self, instance: str = "one", generation: int = 1) -> tuple[int, int]:
        driver, child = super().pids(instance, generation)
        return self.outside(instance, driver), self.outside(instance, child)

    def supervisor(self, instance: str = "one") -> int:
        return self.outside(instance, super().supervisor(instance))

    def outside(self, instance: str, pid: int) -> int:
        """Return the pid on this machine of a process in the pod."""
        mine = f"{POD_UID}={self.read(instance)['metadata']['uid']}".encode()  # type: ignore[index]
        for process in find_tree(mark(JOB, instance)):
            if mine not in Path(f"/proc/{process.pid}/environ").read_bytes():
                continue
            names = Path(f"/proc/{process.pid}/status").read_text().partition("NSpid:")[2].splitlines()[0].split()
            if len(names) > 1 and int(names[-1]) == pid:
                return process.pid
        raise AssertionError(f"no process of {instance} is {pid} in its pod")

    def pod(self, instance: str = "one") -> str:
        found = self.control(instance).read_place(Pod)
        assert found is not None
        return found.name

    def read(self, instance: str = "one") -> dict[str, object]:
        return self.node.read("pod", self.pod(instance))

    def log(self, instance: str = "one") -> str:
        # It fails for a moment after the container's end.
        return wait_for("its log", lambda: self.node.kubectl("logs", "-n", NAMESPACE, self.pod(instance)))

    def why(self, instance: str = "one") -> str:
        return self.runner.observe(JOB, instance).why

    def delete(self, *words: str, instance: str = "one") -> None:
        """Delete the pod without waiting, as a person or a node's drain does."""
        self.node.kubectl("delete", "pod", "-n", NAMESPACE, self.pod(instance), "--wait=false", *words)

    def close(self) -> None:
        super().close()
        for each in self.started:
            if self.control(each).read_place(Pod) is not None:
                self.node.kubectl(
                    "patch", "pod", "-n", NAMESPACE, self.pod(each), "-p", '{"metadata":{"finalizers":null}}'
                )
                self.delete("--force", "--grace-period=0", instance=each)


@pytest.fixture
def place(tmp_path: Path, node: KubernetesNode) -> Iterator[PodPlace]:
    place = PodPlace(tmp_path, node)
    yield place
    place.close()


class TestKubernetesRunner(RunnerContract, SecretsContract):
    """The runner and secrets contracts for the Kubernetes runner."""


def running(place: PodPlace, instance: str = "one") -> tuple[int, int, int]:
    """Launch an instance, wait until the node reports that it runs, and return the pids of supervisor, driver and
    child.
    """
    place.runner.launch(place.spec(instance), {})
    pids = (place.supervisor(instance), *place.pids(instance))
    wait_for("the kubelet's word", lambda: "runs on" in place.why(instance))
    return pids


def test_the_cluster_check_passes_with_the_shipped_rights(place: PodPlace) -> None:
    """The check of the cluster passes with the rights of ``deploy/kubernetes`` and leaves no pod and no Secret."""
    place.runner.check_place()
    assert place.node.kubectl("get", "pods,secrets", "-n", NAMESPACE, "-o", "name") == ""


def test_a_driver_whose_pod_is_deleted_drains_between_two_batches(place: PodPlace) -> None:
    """When its pod is deleted, the supervisor lets the driver drain and waits for it, and records the instance as
    failed, so that the watch starts a new one.
    """
    running(place)
    place.delete()
    wait_for("the order", lambda: [each.kind for each in place.control().commands(0)] == [CommandKind.DRAIN])
    wait_for("the nudge", (place.folder / "orders" / "one.1.nudged").exists)
    time.sleep(1)
    assert place.life() is Life.ALIVE
    place.order(f"exit {ExitCode.DRAINED}")
    place.wait_dead()
    last = place.control().read_exit()
    assert last is not None
    assert (last.state, last.error) == (DriverState.FAILED, "terminated by signal 15, between two batches")


def test_a_driver_that_does_not_end_in_time_is_killed(place: PodPlace) -> None:
    """A driver that does not terminate within the pod's grace period is killed by its supervisor, which still records
    the exit.
    """
    place.template["spec"]["terminationGracePeriodSeconds"] = 12
    place.runner = place.new_runner()
    pids = running(place)
    place.delete()
    assert "after every process" in place.wait_dead()
    wait_for("the end of all", lambda: not any(map(is_running, pids)))
    last = place.control().read_exit()
    assert last is not None
    assert last.error == "terminated by signal 15"


SMALL = {"spark.driver.memory": "64m", "spark.driver.memoryOverhead": "192m"}
HOG = f"spawn {sys.executable} -c b = b'x' * 700_000_000; import time; time.sleep(300)"


def test_a_container_killed_for_its_memory_has_the_fault_out_of_memory(place: PodPlace) -> None:
    """A container killed at the release's memory limit is reported with the fault ``OUT_OF_MEMORY``. Negative control:
    a plain kill is not.
    """
    place.runner.launch(place.spec(conf=SMALL), {})
    place.runner.launch(place.spec("two", conf=SMALL), {})
    for instance in ("one", "two"):
        place.pids(instance)
    hogged, other = place.supervisor(), place.supervisor("two")
    place.order(HOG)
    wait_for("the kernel's kill", lambda: place.spawned() and not_running_inside(place), 60)
    for pid in (hogged, other):
        if is_running(pid):
            end(pid)
    for instance in ("one", "two"):
        place.wait_dead(instance)
    seen, control = (place.runner.observe(JOB, instance) for instance in ("one", "two"))
    assert (seen.fault, control.fault) == (Fault.OUT_OF_MEMORY, None)
    assert "OOMKilled: its container reached its memory limit" in seen.why
    assert control.why.count("with code 137") == 1


def not_running_inside(place: PodPlace) -> bool:
    """Return whether the process that the driver was ordered to start has terminated, or its supervisor with it."""
    try:
        return not is_running(place.outside("one", place.spawned()))
    except (AssertionError, FileNotFoundError, ProcessLookupError):
        return True


def test_a_pod_on_a_silent_node_stays_unknown_until_its_kubelet_resumes(place: PodPlace) -> None:
    """A pod whose kubelet is frozen stays unknown and keeps running, even after it is killed and deleted by force.

    Once the kubelet resumes, it terminates the pod, which proves the death.
    """
    pids = running(place)
    place.node.freeze_kubelet()
    try:
        wait_for("a silent node", lambda: place.life() is Life.UNKNOWN, timeout_s=60)
        assert "which no longer reports" in place.why()
        place.runner.kill(JOB, "one")
        place.delete("--force", "--grace-period=0")
        assert place.read()
        assert place.life() is Life.UNKNOWN
        assert all(map(is_running, pids))
    finally:
        place.node.thaw_kubelet()
    place.wait_dead()
    assert not any(map(is_running, pids))


def test_a_container_without_its_shim_is_alive_while_its_processes_run(place: PodPlace) -> None:
    """When a container's shim is killed, the instance is reported dead only after all of its processes have
    terminated.
    """
    pids = running(place)
    (shim,) = [pid for pid in place.node.shims() if pids[0] in below(pid)]
    end(shim)
    while place.life() is not Life.DEAD:
        time.sleep(0.01)
    assert not any(map(is_running, pids))


def below(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


def test_a_pod_that_waits_for_capacity_is_alive_and_reports_why(place: PodPlace) -> None:
    """A pod that needs more memory than the node has is alive and reports why it waits; once killed, it never starts,
    and releasing its resources deletes the pod.
    """
    place.runner.launch(place.spec(conf={"spark.driver.memory": "1t"}), {})
    wait_for("the scheduler's word", lambda: "Insufficient memory" in place.why())
    assert place.life() is Life.ALIVE
    place.runner.kill(JOB, "one")
    assert place.life() is Life.DEAD
    place.runner.release_resources(JOB, "one")
    wait_for("the end of its pod", lambda: not place.read())


def test_a_pod_that_cannot_start_reports_the_reason_of_the_kubelet(place: PodPlace) -> None:
    """A pod with a missing image is alive and reports the kubelet's reason while it waits."""
    place.template["spec"]["containers"][0]["image"] = "registry.example/nothing:1"
    place.runner = place.new_runner()
    place.runner.launch(place.spec(), {})
    wait_for("the kubelet's word", lambda: "does not run yet: ErrImageNeverPull" in place.why())
    assert place.life() is Life.ALIVE


def test_a_supervisor_that_cannot_start_is_reported_dead_with_the_reason(place: PodPlace) -> None:
    """A supervisor that cannot find the store is reported dead without a claim, with the last line of its output as the
    reason.
    """
    variables = {POD_TEMPLATE: f"{place.folder}/pod.yaml"}
    settings = replace(place.settings, store=f"{place.folder}/elsewhere", runner_variables=variables)
    environ = {**os.environ, **place.node.environment}
    runner = KubernetesRunner(place.store, settings, environ, driver=place.command)
    runner.launch(place.spec(), {})
    wait_for("its end", lambda: runner.observe(JOB, "one").life is Life.DEAD)
    assert "the supervisor had claimed nothing: " in runner.observe(JOB, "one").why
    assert "was never launched" in runner.observe(JOB, "one").why


def test_a_refusal_by_quota_is_reported_as_a_temporary_lack_of_room(place: PodPlace) -> None:
    """A refusal because of a quota is reported as a temporary lack of room, and the check passes once the quota is
    removed.
    """
    place.node.kubectl("create", "quota", "none", "--hard=pods=0", "-n", NAMESPACE)
    try:
        wait_for("the quota", lambda: refused(place))
    finally:
        place.node.kubectl("delete", "quota", "none", "-n", NAMESPACE)
    place.runner.check_place()


def refused(place: PodPlace) -> bool:
    try:
        place.runner.check_place()
    except TemporaryError as error:
        return "no room" in str(error) and "exceeded quota" in str(error)
    return False


def test_a_foreign_pod_with_the_same_name_is_never_deleted(place: PodPlace) -> None:
    """A foreign pod with the name of the instance's pod is refused at launch, and neither killing the instance nor
    releasing its resources deletes it.
    """
    place.control().write_launch(place.spec())
    runner = place.new_runner()
    name = runner._claim(place.control(), place.spec()).name
    theirs = {**place.template, "metadata": {"name": name, "namespace": NAMESPACE}}
    theirs["spec"] = {**theirs["spec"], "restartPolicy": "Never"}
    theirs["spec"]["containers"][0]["command"] = ["/bin/sleep", "300"]
    file = place.node.write_template(place.folder / "theirs.yaml", theirs)
    assert place.node.kubectl("create", "-f", str(file))
    with pytest.raises(PermanentError, match="does not belong to one"):
        runner.launch(place.spec(), {})
    assert place.life() is Life.UNKNOWN
    runner.kill(JOB, "one")
    assert place.life() is Life.DEAD
    with pytest.raises(OperationRefused, match="does not belong to one"):
        runner.release_resources(JOB, "one", with_log=True)
    assert "deletionTimestamp" not in place.read()["metadata"]  # type: ignore[operator]


def test_a_released_instance_keeps_its_pod_log_until_removal_is_requested(place: PodPlace) -> None:
    """Releasing the resources of a running instance is refused; after its death, the finalizer and the Secret are
    removed first, and the pod with its log only on request.
    """
    reference = "secret://env/PASSWORD"
    place.runner.launch(place.spec(params={"password": reference}), {reference: "hunter2"})
    place.pids()
    with pytest.raises(TemporaryError, match="is not proven to have ended"):
        place.runner.release_resources(JOB, "one", with_log=True)
    assert place.node.read("secret", place.pod())
    assert place.life() is Life.ALIVE
    assert place.read()["metadata"]["finalizers"] == [FINALIZER]  # type: ignore[index]
    place.order(f"print the last words\nexit {ExitCode.DRAINED}")
    place.wait_dead()
    place.runner.release_resources(JOB, "one")
    assert "finalizers" not in place.read()["metadata"]  # type: ignore[operator]
    assert not place.node.read("secret", place.pod())
    assert "the last words" in place.log()
    assert place.life() is Life.DEAD
    place.runner.release_resources(JOB, "one", with_log=True)
    wait_for("the end of its pod", lambda: not place.read())
    assert place.life() is Life.DEAD
    place.runner.release_resources(JOB, "one", with_log=True)


def test_a_secret_goes_with_its_pod(place: PodPlace) -> None:
    """A pod's Secret is deleted together with the pod, even if a person removes the finalizer and the pod."""
    reference = "secret://env/PASSWORD"
    place.runner.launch(place.spec(params={"password": reference}), {reference: "hunter2"})
    place.pids()
    assert place.node.read("secret", place.pod())
    place.node.kubectl("patch", "pod", "-n", NAMESPACE, place.pod(), "-p", '{"metadata":{"finalizers":null}}')
    place.delete("--grace-period=1")
    wait_for("the Secret's end", lambda: not place.node.read("secret", place.pod()), timeout_s=60)


def test_a_pod_of_an_interrupted_launch_waits_for_its_secret(place: PodPlace) -> None:
    """A pod whose launch was interrupted before its Secret was created waits for it, and the driver starts once the
    launch is repeated.
    """
    reference, spec = "secret://env/PASSWORD", place.spec(params={"password": "secret://env/PASSWORD"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place.runner._api, "replace_secret", lambda *_: (_ for _ in ()).throw(Cut))
        with pytest.raises(Cut):
            place.runner.launch(spec, {reference: "hunter2"})
    wait_for("the kubelet's word", lambda: "CreateContainerConfigError" in place.why())
    assert place.life() is Life.ALIVE
    for value in ("hunter2", "hunter3"):
        place.runner.launch(spec, {reference: value})
    driver, _ = place.pids()
    assert b"hunter" in Path(f"/proc/{driver}/environ").read_bytes()


class Cut(Exception):
    """Raised where the launching process is killed."""


SHIPPED = yaml.safe_load((ROOT / "deploy/kubernetes/driver-pod.yaml").read_text())


@pytest.mark.parametrize("taken", ["", "seccompProfile", "runAsNonRoot", "allowPrivilegeEscalation", "capabilities"])
def test_the_shipped_template_passes_pod_security_restricted(place: PodPlace, taken: str) -> None:
    """The shipped template, with all additions of the runner, is accepted under the restricted pod security level.
    Negative control: without any one of its security settings it is refused.
    """
    template = copy.deepcopy(SHIPPED)
    template["metadata"]["namespace"] = "restricted"
    for context in (template["spec"]["securityContext"], template["spec"]["containers"][0]["securityContext"]):
        context.pop(taken, None)
    place.node.kubectl("create", "namespace", "restricted")
    namespace = yaml.safe_load((ROOT / "deploy/kubernetes/namespace.yaml").read_text())
    labels = [f"{key}={value}" for key, value in namespace["metadata"]["labels"].items()]
    place.node.kubectl("label", "namespace", "restricted", *labels, "--overwrite")
    pod = driver_pod(
        check_template("driver-pod.yaml", template), "tried", {JOB_KEY: "j", INSTANCE: "i", INSTALLATION: "x"},
        ["true"], {}, {}, secret=True,
    )  # fmt: skip
    # The account is looked for before anything else is.
    place.node.kubectl("create", "serviceaccount", SHIPPED["spec"]["serviceAccountName"], "-n", "restricted")
    file = place.folder / "tried.json"
    file.write_text(json.dumps(pod))
    taken_in = place.node.kubectl("create", "--dry-run=server", "-f", str(file), "-o", "name")
    assert taken_in.strip() == ("" if taken else "pod/tried")


def test_draining_a_node_is_refused_with_hold_evictions(place: PodPlace) -> None:
    """With ``hold-evictions``, draining the node is refused as long as a driver runs on it."""
    running(place)
    budget = yaml.safe_load((ROOT / "deploy/kubernetes/hold-evictions/budget.yaml").read_text())
    assert place.node.kubectl("apply", "-k", str(ROOT / "deploy/kubernetes/hold-evictions"))
    try:
        wait_for("the budget", lambda: place.node.read("pdb", budget["metadata"]["name"])["status"]["expectedPods"])
        place.node.kubectl("drain", "node", "--force", "--timeout=3s", "--ignore-daemonsets", "--delete-emptydir-data")
        assert place.life() is Life.ALIVE
        assert "deletionTimestamp" not in place.read()["metadata"]  # type: ignore[operator]
    finally:
        place.node.kubectl("uncordon", "node")
        place.node.kubectl("delete", "pdb", budget["metadata"]["name"], "-n", NAMESPACE)


@pytest.mark.parametrize(
    ("kubeconfig", "told"),
    [("none", "no Kubernetes cluster is configured"), ("nobody", "refuses: Unauthorized"), ("driver", "is forbidden")],
)
def test_missing_access_to_the_cluster_is_reported_by_the_check(place: PodPlace, kubeconfig: str, told: str) -> None:
    """A missing configuration, an invalid token and an account without rights are each reported by the check of the
    cluster.
    """
    file = place.folder / "kubeconfig"
    if kubeconfig != "none":
        token = place.node.kubectl("create", "token", "streamkeeper-driver", "-n", NAMESPACE)
        place.node.write_kubeconfig(file, token.strip() if kubeconfig == "driver" else "0" * 32)
    settings = replace(place.settings, runner_variables={POD_TEMPLATE: f"{place.folder}/pod.yaml"})
    runner = KubernetesRunner(place.store, settings, {**os.environ, "KUBECONFIG": str(file)})
    with pytest.raises((InvalidInput, PermanentError), match=told):
        runner.check_place()


def test_an_unknown_field_in_the_pod_template_is_refused(place: PodPlace) -> None:
    """A misspelt field in the pod template is refused by the check of the cluster."""
    place.template["spec"]["nodeSelektor"] = {"disk": "fast"}
    with pytest.raises(PermanentError, match="nodeSelektor"):
        place.new_runner().check_place()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[PodPlace]:
    """A place on a node that no other test uses afterwards."""
    skip_without_kubernetes()
    with lone_node() as node:
        yield PodPlace(tmp_path, node)


def test_a_missing_pod_does_not_prove_the_death_of_its_driver(alone: PodPlace) -> None:
    """A pod that is deleted by force behind a frozen kubelet still runs, so a 404 leaves its state unknown, and so does
    a new pod of the same name.

    Negative control: the 404 alone, without the recorded claim, would count as ``ABSENT`` while the pod runs.
    """
    pids = running(alone)
    alone.node.freeze_kubelet()
    try:
        annotations = alone.read()["metadata"]["annotations"]  # type: ignore[index]
        patch = '{"metadata":{"finalizers":null}}'
        alone.node.kubectl("patch", "pod", "-n", NAMESPACE, alone.pod(), "-p", patch)
        alone.delete("--force", "--grace-period=0")
        wait_for("a pod that is gone", lambda: not alone.read())
        assert all(map(is_running, pids))
        assert alone.life() is Life.UNKNOWN
        assert "That does not prove an end" in alone.why()
        recorded = alone.control().read_place(Pod)
        assert recorded is not None
        assert judging_pods.judge(recorded, None, [], time.time()).life is Life.ABSENT, "by the 404 alone"
        metadata = {"name": alone.pod(), "namespace": NAMESPACE, "annotations": annotations}
        created = {**alone.template, "metadata": metadata}
        file = alone.node.write_template(alone.folder / "another.yaml", created)
        assert alone.node.kubectl("create", "-f", str(file))
        assert alone.life() is Life.UNKNOWN
        assert "is not the pod that claimed" in alone.why()
    finally:
        alone.node.thaw_kubelet()
    for pid in pids:
        if is_running(pid):
            end(pid)


def test_a_node_that_was_removed_proves_nothing(alone: PodPlace) -> None:
    """When a Node is deleted behind a frozen kubelet, the pod is marked ``Failed`` although it runs, and its state
    stays unknown.

    Negative control: the phase alone would count as dead.
    """
    pids = running(alone)
    alone.node.freeze_kubelet()
    try:
        alone.node.kubectl("delete", "node", "node", "--wait=false")
        wait_for("Failed", lambda: alone.read()["status"]["phase"] == "Failed", timeout_s=120)  # type: ignore[index]
        assert all(map(is_running, pids))
        assert alone.life() is Life.UNKNOWN
    finally:
        alone.node.thaw_kubelet()
        alone.node.restart_kubelet()
    alone.node.wait_ready()
    wait_for("its end", lambda: not any(map(is_running, pids)), timeout_s=120)


def test_a_kubelet_that_has_lost_sight_of_a_container_proves_nothing(alone: PodPlace) -> None:
    """After the container runtime is replaced by an empty one, the kubelet reports the container as terminated although
    it runs, and its state stays unknown.

    Negative control: ``terminated`` alone would count as dead.
    """
    pids = running(alone)
    alone.node.lose_containers()
    wait_for("the kubelet's word", lambda: "lost track" in alone.why(), timeout_s=120)
    state = alone.read()["status"]["containerStatuses"][0]["state"]  # type: ignore[index]
    assert state["terminated"]["exitCode"] == 137
    assert alone.life() is Life.UNKNOWN
    for pid in pids:
        if is_running(pid):
            end(pid)
