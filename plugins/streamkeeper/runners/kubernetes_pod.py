"""Runs each driver in its own pod, and proves that a driver has terminated.

The API server's report on a pod proves only that a container was ``terminated``. Only its node's kubelet can report
that, about a container that it has found. A missing pod (404) may have been deleted by force while its containers still
run behind a network failure. A phase is also written by the collector of pods whose node is missing. Therefore drivers'
pods carry a finalizer, which keeps a deleted pod readable until its end is recorded.

DEAD requires one of two proofs (docs/decisions/0027):
- The supervisor has written its own final record.
- The kubelet reports the driver's container as terminated, in the very pod, by uid, that claimed the instance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from streamkeeper.errors import NotFound, OperationRefused, PermanentError, StreamkeeperError, TemporaryError
from streamkeeper.model.protocol.driver_messages import SECRETS, LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.runner_kinds.kubernetes_kind import POD_TEMPLATE, Pod
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.barred_instances import is_barred
from streamkeeper.runners.container_runner import ContainerRunner
from streamkeeper.runners.contract import Life, Liveness
from streamkeeper.runners.judging_pods import is_pod_of, judge, named, why_ended
from streamkeeper.runners.kubernetes_api import (
    AlreadyThere,
    KubernetesApi,
    PodReport,
    secret_of,
)
from streamkeeper.runners.pod_template import (
    CONTAINER,
    FINALIZER,
    INSTALLATION,
    INSTANCE,
    JOB,
    PodTemplate,
    driver_pod,
    read_template,
)
from streamkeeper.runners.variables import choose_driver, supervisor_command
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

_KILL_GRACE_S = 1
"""The shortest grace period in seconds with which a deletion still waits for the kubelet. A shorter period would be a
deletion by force.
"""
_LONGEST_SLUG = 40
_TRIED = "streamkeeper-tries-out-its-rights"


class KubernetesRunner(ContainerRunner[Pod]):
    """Runs each driver in a pod."""

    place = Pod
    nowhere = "no pod was created for it"

    @cached_property
    def _api(self) -> KubernetesApi:
        return KubernetesApi(self._environ)

    def check_place(self, references: Collection[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Implement ``Runner.check_place``: the API server must accept the template and permit the requests about pods
        and Secrets.
        """
        del references  # whoever starts it has resolved them
        template = self._template()
        nobody = {JOB: "none", INSTANCE: "none", INSTALLATION: self._id}
        pod = self._manifest(template, _TRIED, nobody, conf or {}, secret=True)
        with suppress(AlreadyThere):
            self._api.create_secret(template.namespace, secret_of(_TRIED, {}, SECRETS), trying=True)
        with suppress(AlreadyThere):
            self._api.create_pod(template.namespace, pod, trying=True)
        # Only users with these permissions learn whether something exists.
        self._api.find_pod(template.namespace, _TRIED)
        with suppress(NotFound):
            self._api.set_finalizers(template.namespace, _TRIED, "", (), trying=True)
        with suppress(NotFound):
            self._api.delete_pod(template.namespace, _TRIED, "", grace_s=_KILL_GRACE_S, trying=True)
        with suppress(NotFound):
            self._api.delete_secret(template.namespace, _TRIED, trying=True)

    def release_resources(self, job: str, instance: str, *, with_log: bool = False) -> None:
        """Implement ``Runner.release_resources``; removes the finalizer and the Secret. Also deletes the pod, and
        thereby its log, in three cases: ``with_log`` is set, the instance is barred (no claim names a process), or
        other containers of the pod still run.
        """
        control = Control(self._store, job, instance)
        recorded, pod = control.processes(), control.read_place(Pod)
        if pod is None or not self._is_mine(pod):
            return
        found = self._find(pod, job)
        barred = is_barred(recorded)
        ended = barred or control.read_exit() is not None
        if found is None:
            self._must_be_its_cluster(pod)
        elif not is_pod_of(found, recorded) or not (
            ended or judge(pod, found, recorded, clock.unix()).life is Life.DEAD
        ):
            if with_log:
                raise TemporaryError(f"{named(pod)} is not proven to have ended: its records and log are kept")
            return
        with suppress(NotFound):
            self._api.delete_secret(pod.namespace, pod.name)
        if found is None:
            return
        kept = tuple(each for each in found.metadata.finalizers if each != FINALIZER)
        # Another command may have released it since.
        with suppress(NotFound, AlreadyThere):
            if kept != found.metadata.finalizers:
                self._api.set_finalizers(pod.namespace, pod.name, found.metadata.uid, kept)
            if with_log or barred or _has_more_running(found):
                self._api.delete_pod(pod.namespace, pod.name, found.metadata.uid, grace_s=_KILL_GRACE_S)

    def _end(self, job: str, place: Pod, recorded: Sequence[ProcessRecord]) -> None:
        found = self._api.find_pod(place.namespace, place.name)
        if found is not None and _is_the_pod(found, place, job) and is_pod_of(found, recorded):
            with suppress(NotFound, AlreadyThere):
                self._api.delete_pod(place.namespace, place.name, found.metadata.uid, grace_s=_KILL_GRACE_S)

    def _judge(self, job: str, place: Pod, recorded: Sequence[ProcessRecord]) -> Liveness:
        return judge(place, self._find(place, job), recorded, clock.unix(), elsewhere=self._elsewhere(place))

    def _named(self, place: Pod) -> str:
        return named(place)

    def _speaker(self, place: Pod, recorded: Sequence[ProcessRecord]) -> str:
        del recorded
        return f"the supervisor in {named(place)}"

    def _log_of(self, place: Pod) -> str:
        return f"Kubernetes: kubectl logs -n {place.namespace} {place.name} -c {CONTAINER}"

    def _find(self, pod: Pod, job: str) -> PodReport | None:
        """Return the instance's pod; raises OperationRefused for a foreign pod of that name."""
        found = self._api.find_pod(pod.namespace, pod.name)
        if found is not None and not _is_the_pod(found, pod, job):
            raise OperationRefused(f"{named(pod)} does not belong to {pod.instance}")
        return found

    def _why_ended(self, job: str, place: Pod) -> tuple[str, Fault | None]:
        try:
            found = self._find(place, job)
        except StreamkeeperError:
            return "", None
        return why_ended(found) if found is not None else ("", None)

    def _elsewhere(self, pod: Pod) -> str:
        """Return the API server that is queried, if the pod was to be created at a different one; otherwise an empty
        text.
        """
        return "" if self._api.server == pod.cluster else self._api.server

    def _must_be_its_cluster(self, pod: Pod) -> None:
        if asked := self._elsewhere(pod):
            raise OperationRefused(
                f"{named(pod)} is in {pod.cluster}, but {asked} was queried", hint="set KUBECONFIG to the pod's cluster"
            )

    def _choose(self, spec: LaunchSpec) -> Pod:
        whole = f"{self._id}:{self._settings.store}:{spec.job}:{spec.instance}"
        slug = spec.job.replace("_", "-")[:_LONGEST_SLUG].strip("-")
        name = f"{slug}-{hashlib.sha256(whole.encode()).hexdigest()[:12]}"
        return Pod(
            instance=spec.instance,
            cluster=self._api.server,
            namespace=self._template().namespace,
            name=name,
            installation=self._id,
        )

    def _create(self, place: Pod, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Create the pod, with a Secret of its own for its secrets, which is deleted with it. Raises PermanentError for
        a foreign pod of that name.

        The pod is created first and waits for its Secret, which names it as its owner from the start: changing a Secret
        later would need a permission that can read all Secrets.
        """
        self._must_be_its_cluster(place)
        found = self._create_pod(place, spec, secret=bool(secrets))
        crash_point("launch.pod.after")
        if secrets:
            # An existing one is from an interrupted launch, and its values may be outdated.
            self._api.replace_secret(place.namespace, secret_of(place.name, secrets, SECRETS, found))
        crash_point("launch.secret.after")

    def _create_pod(self, pod: Pod, spec: LaunchSpec, *, secret: bool) -> PodReport:
        """Return the instance's pod, created or found."""
        whose = {JOB: spec.job, INSTANCE: spec.instance, INSTALLATION: pod.installation}
        manifest = self._manifest(self._template(), pod.name, whose, spec.conf, python=spec.python, secret=secret)
        try:
            return self._api.create_pod(pod.namespace, manifest)
        except AlreadyThere:
            found = self._api.find_pod(pod.namespace, pod.name)
        if found is None:
            raise TemporaryError(f"{named(pod)} is being created or removed by another process", hint="retry")
        if not _is_the_pod(found, pod, spec.job):
            raise PermanentError(
                f"{named(pod)} does not belong to {spec.instance}", hint="remove the pod if it is unused"
            )
        return found

    def _manifest(
        self,
        template: PodTemplate,
        name: str,
        whose: Mapping[str, str],
        conf: Mapping[str, str],
        *,
        python: str = "",
        secret: bool,
    ) -> dict[str, object]:
        """Return the manifest of a driver's pod.

        ``template``: the installation's template.
        ``name``: the pod's name.
        ``whose``: the annotations that identify it.
        ``conf``: the release's conf.
        ``python``: the interpreter of the release, empty for the runner's own.
        ``secret``: whether a Secret has the driver's secrets.
        """
        supervisor = supervisor_command(whose[JOB], whose[INSTANCE], choose_driver(self._driver, python))
        variables = self._container_variables(whose[JOB], whose[INSTANCE])
        tasks = self._runs_its_tasks(conf)
        return driver_pod(template, name, whose, supervisor, variables, conf, secret=secret, own_tasks=tasks)

    def _template(self) -> PodTemplate:
        return read_template(self._settings.runner_variables.get(POD_TEMPLATE, ""))


def _has_more_running(found: PodReport) -> bool:
    """Whether other containers of the pod run next to the driver, for example a service mesh's."""
    return any(each.state.running is not None for each in found.status.container_statuses if each.name != CONTAINER)


def _is_the_pod(found: PodReport, pod: Pod, job: str) -> bool:
    """Whether a found pod is the recorded one, and not a foreign pod of the same name."""
    expected = {JOB: job, INSTANCE: pod.instance, INSTALLATION: pod.installation}
    return {key: found.metadata.annotations.get(key) for key in expected} == expected
