"""Tests how a driver's pod is built from the installation's template and the runner's own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from streamkeeper.errors import InvalidInput, NotFound
from streamkeeper.model.protocol.driver_messages import SECRETS
from streamkeeper.model.runner_kinds.kubernetes_kind import GRACE
from streamkeeper.runners.pod_template import (
    FINALIZER,
    INSTALLATION,
    INSTANCE,
    JOB,
    check_template,
    driver_pod,
    read_template,
)

ROOT = Path(__file__).resolve().parents[2]
WHOSE = {JOB: "orders", INSTANCE: "a" * 100, INSTALLATION: "i1"}


def template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "driver", "image": "streamkeeper:1"}]
    metadata = {"namespace": "streaming", "finalizers": ["example/other"]}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def made(pod: dict[str, Any], *, secret: bool = False, **variables: str) -> dict[str, Any]:
    conf = {"spark.driver.memory": "2g"}
    return driver_pod(check_template("t", pod), "orders-1", WHOSE, ["python"], variables, conf, secret=secret)


def environment(pod: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in pod["spec"]["containers"][0]["env"]}


def test_the_runner_adds_its_settings_and_keeps_the_rest_of_the_template() -> None:
    """The runner adds name, finalizer, annotations, command and memory to the pod, keeps the template's other settings,
    and does not change the template itself.
    """
    given = template(nodeSelector={"disk": "fast"}, containers=[{"name": "mesh", "image": "m"}, *driver(cpu="500m")])
    before = yaml.safe_dump(given)
    pod = made(given)
    assert yaml.safe_dump(given) == before
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("orders-1", "streaming")
    assert pod["metadata"]["finalizers"] == ["example/other", FINALIZER]
    assert pod["metadata"]["annotations"] == WHOSE
    assert pod["metadata"]["labels"][INSTANCE] == "a" * 63
    spec = pod["spec"]
    assert (spec["nodeSelector"], spec["restartPolicy"]) == ({"disk": "fast"}, "Never")
    assert (spec["terminationGracePeriodSeconds"], spec["automountServiceAccountToken"]) == (120, False)
    mesh, container = spec["containers"]
    assert mesh == {"name": "mesh", "image": "m"}
    assert container["command"] == ["python"]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "3072Mi"},
        "limits": {"memory": "3072Mi"},
    }


def driver(**requests: str) -> list[dict[str, Any]]:
    return [{"name": "driver", "image": "i", "resources": {"requests": requests}}]


def resources(given: dict[str, Any], **conf: str) -> dict[str, Any]:
    pod = template(containers=[{"name": "driver", "image": "i", "resources": given}])
    made_of = driver_pod(check_template("t", pod), "o-1", WHOSE, ["python"], {}, conf, secret=False)
    return dict(made_of["spec"]["containers"][0]["resources"])


@pytest.mark.parametrize(
    "given",
    [
        {"requests": {"memory": "8Gi", "cpu": "3"}, "limits": {"memory": "8Gi"}},
        {"limits": {"memory": "8Gi", "cpu": "4"}},
        {"requests": {"memory": "8Gi", "cpu": "1"}},
    ],
)
def test_memory_and_cores_set_in_the_template_are_kept(given: dict[str, Any]) -> None:
    """Memory and cores that the template sets are kept, and a limit alone does not get a larger request."""
    assert resources(given, **{"spark.driver.memory": "4g", "spark.driver.cores": "8"}) == given


def test_cores_and_memory_missing_in_the_template_come_from_the_release() -> None:
    """Cores and memory that the template leaves open are taken from the release's conf, each independently."""
    conf = {"spark.driver.memory": "4g", "spark.driver.cores": "8"}
    assert resources({}, **conf) == {
        "requests": {"memory": "5888Mi", "cpu": "8"},
        "limits": {"memory": "5888Mi"},
    }
    assert resources({"limits": {"memory": "8Gi"}}, **conf) == {
        "requests": {"cpu": "8"},
        "limits": {"memory": "8Gi"},
    }


@pytest.mark.parametrize("limit", ["2Gi", "2048Mi", "2G", 2147483648, "2e9"])
def test_a_template_that_limits_a_driver_to_less_than_its_jvm_is_refused(limit: object) -> None:
    """A template whose memory limit is below the JVM's need is refused with the required size, and accepted for a
    smaller heap.
    """
    with pytest.raises(InvalidInput, match="this release needs 4505 MiB"):
        resources({"limits": {"memory": limit}}, **{"spark.driver.memory": "4g"})
    assert resources({"limits": {"memory": limit}}, **{"spark.driver.memory": "1g"})["limits"] == {"memory": limit}


def test_a_variable_of_the_runner_overrides_the_template_and_is_escaped() -> None:
    """The runner's variables override the template's, and ``$(NAME)`` in them is escaped so that Kubernetes does not
    expand it.
    """
    container = {"name": "driver", "image": "i", "env": [{"name": "A", "value": "theirs"}, {"name": "B", "value": "b"}]}
    found = environment(made(template(containers=[container]), A="ours", C="$(B)"))
    assert (found["A"], found["B"], found["C"]) == ("ours", "b", "$$(B)")
    assert found[GRACE] == "120"
    assert SECRETS not in found


def test_spark_local_ip_set_in_the_template_is_kept() -> None:
    """``SPARK_LOCAL_IP`` from the template is kept, and is the pod's address otherwise."""
    env = [{"name": "SPARK_LOCAL_IP", "value": "127.0.0.1"}]
    pod = made(template(containers=[{"name": "driver", "image": "i", "env": env}]))
    assert environment(pod)["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert environment(made(template()))["SPARK_LOCAL_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_secrets_are_passed_by_reference_to_the_secret_of_the_pod() -> None:
    """Secrets are passed to the pod as a reference to its Secret and not as values in the manifest."""
    found = environment(made(template(), secret=True))
    assert found[SECRETS] == {"secretKeyRef": {"name": "orders-1", "key": SECRETS}}


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        (None, "not a Pod with a spec"),
        ({"kind": "Job", "spec": {}}, "not a Pod with a spec"),
        ({"kind": "Pod", "spec": {}}, "metadata.namespace is not set"),
        ({"kind": "Pod", "metadata": {"namespace": 3}, "spec": {}}, "metadata.namespace is not set"),
        (template(containers="all"), "not a list of containers"),
        (template(containers=[]), "needs exactly one container named driver"),
        (template(containers=[{"name": "driver"}]), "needs exactly one container named driver, with an image"),
        (template(containers=[{"name": "driver", "image": "i", "command": []}]), "container must not set command, "),
        (template(restartPolicy="Always"), "restartPolicy is Always"),
        (template(hostPID=True), "hostPID is set, so a driver's processes may outlive"),
        (template(shareProcessNamespace=True), "shareProcessNamespace is set"),
        (template(terminationGracePeriodSeconds="long"), "is not an integer"),
    ],
)
def test_an_unusable_template_is_refused_with_file_and_reason(pod: Any, told: str) -> None:
    """An unusable template is refused with one line that names the file and the reason."""
    with pytest.raises(InvalidInput, match=told) as refused:
        check_template("/etc/driver-pod.yaml", pod)
    assert str(refused.value).startswith("/etc/driver-pod.yaml: ")


@pytest.mark.parametrize(
    ("text", "told"), [("a: [", "is not YAML"), ("\0", "is not YAML"), ("", "not a Pod with a spec")]
)
def test_a_missing_or_malformed_template_file_is_refused_with_one_line(tmp_path: Path, text: str, told: str) -> None:
    """A template file that is missing, malformed, binary or empty is refused with one line."""
    file = tmp_path / "pod.yaml"
    with pytest.raises(NotFound, match="cannot be read"):
        read_template(str(file))
    file.write_text(text)
    with pytest.raises(InvalidInput, match=told) as refused:
        read_template(str(file))
    assert "\n" not in str(refused.value)


def test_the_shipped_template_is_accepted() -> None:
    """The template shipped in ``deploy/kubernetes`` is accepted."""
    found = read_template(str(ROOT / "deploy/kubernetes/driver-pod.yaml"))
    assert (found.namespace, found.grace_s) == ("streaming", 120)
