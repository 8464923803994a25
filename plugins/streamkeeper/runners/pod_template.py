"""The pod of a driver: combines an installation's template with the runner's own settings."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from streamkeeper.errors import InvalidInput, NotFound, Unsupported
from streamkeeper.model.protocol.driver_messages import SECRETS
from streamkeeper.model.runner_kinds.kubernetes_kind import GRACE, POD_UID
from streamkeeper.runners.room import container_cores, container_mib, least_mib

CONTAINER = "driver"
"""The name of the template's container in which the driver runs."""
FINALIZER = "streamkeeper.io/proof"
"""The finalizer that keeps a deleted pod readable until its end is recorded. The end of a missing pod can no longer be
determined.
"""
JOB, INSTANCE, INSTALLATION = (f"streamkeeper.io/{name}" for name in ("job", "instance", "installation"))
"""Annotations that identify the pod's instance."""
_GRACE_S = 120
_HOME_VOLUME, _HOME = "streamkeeper-home", "/var/lib/streamkeeper"
_LONGEST_LABEL = 63
_RUNNERS_OWN = ("command", "args")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)([kMGTP]|[KMGTP]i)?")
_UNITS = {"": 1.0, **{unit: 1000.0**n for n, unit in enumerate("kMGTP", 1)}}
_UNITS |= {f"{unit}i": 1024.0**n for n, unit in enumerate("KMGTP", 1)}


class PodTemplate(msgspec.Struct, frozen=True):
    """An installation's template of drivers' pods; ``pod``: its checked manifest."""

    pod: dict[str, Any]

    @property
    def namespace(self) -> str:
        """The namespace of drivers' pods."""
        return str(self.pod["metadata"]["namespace"])

    @property
    def grace_s(self) -> int:
        """The seconds between a node's request to end the pod and SIGKILL. In this time the driver must stop between
        two batches.
        """
        return int(self.pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S))


def read_template(file: str) -> PodTemplate:
    """Read and check a template; raises NotFound, InvalidInput or Unsupported, which name the file."""
    import yaml

    try:
        found = yaml.safe_load(Path(file).read_text())
    except OSError as error:
        raise NotFound(f"STREAMKEEPER_POD_TEMPLATE={file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        message = " ".join(str(error).split())
        raise InvalidInput(f"STREAMKEEPER_POD_TEMPLATE={file} is not YAML: {message}") from error
    return check_template(file, found)


def check_template(file: str, pod: Any) -> PodTemplate:
    """Check the content of a template file and return the template; raises the errors of ``read_template``."""

    def wrong(why: str) -> InvalidInput:
        return InvalidInput(f"{file}: {why}", hint="start from deploy/kubernetes/driver-pod.yaml")

    if not isinstance(pod, dict) or pod.get("kind") != "Pod" or not isinstance(pod.get("spec"), dict):
        raise wrong("the content is not a Pod with a spec")
    metadata, spec = pod.get("metadata"), pod["spec"]
    if not isinstance(metadata, dict) or not isinstance(metadata.get("namespace"), str):
        raise wrong("metadata.namespace is not set")
    containers = spec.get("containers")
    if not isinstance(containers, list) or not all(isinstance(each, dict) for each in containers):
        raise wrong("spec.containers is not a list of containers")
    drivers = [each for each in containers if each.get("name") == CONTAINER]
    if len(drivers) != 1 or not drivers[0].get("image"):
        raise wrong(f"spec.containers needs exactly one container named {CONTAINER}, with an image")
    if reserved := [name for name in _RUNNERS_OWN if name in drivers[0]]:
        raise wrong(
            f"the {CONTAINER} container must not set {' or '.join(reserved)}, because Streamkeeper sets the command"
        )
    if spec.get("restartPolicy", "Never") != "Never":
        raise wrong(f"restartPolicy is {spec['restartPolicy']}; leave it out, because Streamkeeper restarts drivers")
    for name in ("hostPID", "shareProcessNamespace"):
        if spec.get(name):
            raise Unsupported(
                f"{file}: {name} is set, so a driver's processes may outlive its container", hint=f"leave {name} out"
            )
    if not isinstance(spec.get("terminationGracePeriodSeconds", _GRACE_S), int):
        raise wrong("terminationGracePeriodSeconds is not an integer")
    return PodTemplate(pod)


def driver_pod(
    template: PodTemplate,
    name: str,
    whose: Mapping[str, str],
    command: Sequence[str],
    variables: Mapping[str, str],
    conf: Mapping[str, str],
    *,
    secret: bool,
    own_tasks: bool = True,
) -> dict[str, Any]:
    """Return the manifest of one driver's pod.

    ``template``: the installation's template.
    ``name``: the pod's name.
    ``whose``: the annotations JOB, INSTANCE and INSTALLATION.
    ``command``: the supervisor's command.
    ``variables``: the driver's environment.
    ``conf``: the release's conf, which determines the memory unless the template does.
    ``secret``: whether a Secret of the pod's name has the values that must not be in the manifest.
    ``own_tasks``: whether tasks run in the pod.

    Raises InvalidInput if the template's memory limit is below the need of Spark's JVM.
    """
    pod = copy.deepcopy(template.pod)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata.pop("generateName", None)
    metadata["name"] = name
    metadata["labels"] = {**(metadata.get("labels") or {}), "app.kubernetes.io/managed-by": "streamkeeper"}
    metadata["labels"] |= {key: _label(whose[key]) for key in (JOB, INSTANCE) if _label(whose[key])}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **whose}
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    spec["restartPolicy"] = "Never"
    spec["terminationGracePeriodSeconds"] = template.grace_s
    # A driver makes no requests to the cluster, and services next to it are not among its settings.
    spec.setdefault("automountServiceAccountToken", False)
    spec.setdefault("enableServiceLinks", False)
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": _HOME_VOLUME, "emptyDir": {}}]
    container = next(each for each in spec["containers"] if each["name"] == CONTAINER)
    container["command"] = list(command)
    container["env"] = _env(container.get("env") or (), variables, template.grace_s, name if secret else "")
    container["volumeMounts"] = [
        *(container.get("volumeMounts") or ()),
        {"name": _HOME_VOLUME, "mountPath": _HOME},
    ]
    container["resources"] = _resources(container.get("resources") or {}, conf, own_tasks=own_tasks)
    # For a driver that cannot even start, the last lines are the only information.
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    return pod


def _env(entries: Sequence[Any], variables: Mapping[str, str], grace_s: int, secret: str) -> list[dict[str, Any]]:
    def of_the_pod(name: str, field: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}

    # Spark gives this address to executors.
    ours = [of_the_pod(POD_UID, "metadata.uid"), of_the_pod("SPARK_LOCAL_IP", "status.podIP")]
    ours += [{"name": GRACE, "value": str(grace_s)}, {"name": "STREAMKEEPER_HOME", "value": f"{_HOME}/home"}]
    # Kubernetes would replace $(NAME) with the value of another variable.
    ours += [{"name": key, "value": value.replace("$(", "$$(")} for key, value in variables.items()]
    if secret:
        ours.append({"name": SECRETS, "valueFrom": {"secretKeyRef": {"name": secret, "key": SECRETS}}})
    names = {each["name"] for each in ours} - {"SPARK_LOCAL_IP"}
    kept = [each for each in entries if each.get("name") not in names]
    kept_names = {each.get("name") for each in kept}
    return [*kept, *(each for each in ours if each["name"] not in kept_names)]


def _resources(resources: Mapping[str, Any], conf: Mapping[str, str], *, own_tasks: bool) -> dict[str, Any]:
    """Keep the memory and cores that the template sets, and compute those that it leaves open from the
    release's conf.
    """
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    if "memory" in requests or "memory" in limits:
        _must_fit(limits.get("memory"), conf)
    else:
        requests["memory"] = limits["memory"] = f"{container_mib(conf, own_tasks=own_tasks)}Mi"
    if "cpu" not in requests and "cpu" not in limits:
        requests["cpu"] = str(container_cores(conf))
    return {**resources, **({"requests": requests} if requests else {}), **({"limits": limits} if limits else {})}


def _must_fit(limit: object, conf: Mapping[str, str]) -> None:
    mib, least = _quantity_mib(limit), least_mib(conf)
    if mib is not None and mib < least:
        raise InvalidInput(
            f"the pod template limits the {CONTAINER} container to {limit} of memory, but this release needs {least}"
            " MiB for Spark's JVM alone",
            hint="raise the template's resources.limits.memory or leave it out, or lower spark.driver.memory",
        )


def _quantity_mib(quantity: object) -> float | None:
    """Convert a quantity of Kubernetes to MiB. Return None without a quantity, and for forms that only the API server
    can interpret.
    """
    found = _QUANTITY.fullmatch(str(quantity)) if quantity is not None else None
    return float(found[1]) * _UNITS[found[2] or ""] / 1024**2 if found else None


def _label(text: str) -> str:
    """Convert text to a valid label value. Labels are used only for selection; comparisons use the annotation."""
    return text[:_LONGEST_LABEL].rstrip("-_.")
