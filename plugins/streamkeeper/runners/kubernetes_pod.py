"""Drivers each in a pod of its own, and the proof that one is gone.

What the API server says of a pod is no proof but for one thing: that a container was ``terminated``, which only the
kubelet of its node can tell, and tells of a container that it has found. A pod that is not there (404) was deleted by
force, maybe, while its containers run on behind a cut network; a phase is also written by the collector of pods whose
node is gone. So our pods carry a finalizer, which keeps a deleted one readable until its end is on record, and DEAD is
only: the supervisor's own last word; or every container of the very pod that has claimed the instance, by its uid, is
terminated in its kubelet's words (docs/decisions/0027).
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from streamkeeper.crash_points import crash_point
from streamkeeper.errors import NotFound, OperationRefused, PermanentError, StreamkeeperError, TemporaryError
from streamkeeper.model.control import SECRETS, LaunchSpec, Pod, ProcessRecord
from streamkeeper.model.installation_record import InstallationRecord
from streamkeeper.model.settings import Settings
from streamkeeper.registry.control import Control
from streamkeeper.runners.claims import FORMER, NEVER_STARTED, bar, is_barred
from streamkeeper.runners.contract import Life, Liveness, Runner
from streamkeeper.runners.kubernetes_api import (
    AlreadyThere,
    ContainerStatus,
    KubernetesApi,
    PodReport,
    Terminated,
    secret_of,
)
from streamkeeper.runners.machine import this_machine
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
from streamkeeper.runners.process_tree import mark
from streamkeeper.runners.variables import DRIVER, named_master, passed_to_containers, settings_variables
from streamkeeper.stores.contract import Store

_KILL_GRACE_S = 1
"""The least that is no deletion by force, which does not wait for the kubelet."""
_LOST_SIGHT = ("ContainerStatusUnknown", "Unknown")
"""What is said of a container that the kubelet, or containerd as it starts, does not find: it may run on."""
_OVER = ("Succeeded", "Failed")
_OVERDUE_S = 60.0
"""After the end of its grace period; two clocks may be apart."""
_LONGEST_SLUG = 40
_TRIED = "streamkeeper-tries-out-its-rights"


class KubernetesRunner(Runner):
    """``driver``: the command that gets job, instance and generation; ``environ``: what is passed on, in part.

    ``installation``: whose instances it starts, sees and ends; None where nobody asks.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        driver: Sequence[str] = DRIVER,
        installation: InstallationRecord | None = None,
        resolve_master: Callable[[str], str] | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._environ = environ
        self._driver = tuple(driver)
        self._installation = installation
        self._resolve_master = resolve_master
        self._api = KubernetesApi(environ)

    def check_place(self, references: Collection[str] = ()) -> None:
        """See Runner; the template is one that the API server takes, and all that is done with pods is allowed."""
        del references  # whoever starts it has resolved them
        template = self._template()
        nobody = {JOB: "none", INSTANCE: "none", INSTALLATION: self._id}
        pod = self._manifest(template, _TRIED, nobody, {}, secret=True)
        with suppress(AlreadyThere):
            self._api.create_secret(template.namespace, secret_of(_TRIED, {}, SECRETS), trying=True)
        with suppress(AlreadyThere):
            self._api.create_pod(template.namespace, pod, trying=True)
        # Of what is not there it is told only to who might do it.
        self._api.find_pod(template.namespace, _TRIED)
        with suppress(NotFound):
            self._api.set_finalizers(template.namespace, _TRIED, "", (), trying=True)
        with suppress(NotFound):
            self._api.delete_pod(template.namespace, _TRIED, "", grace_s=_KILL_GRACE_S, trying=True)
        with suppress(NotFound):
            self._api.delete_secret(template.namespace, _TRIED, trying=True)

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """See Runner; ``secrets`` are a Secret of the pod's own, which goes with it."""
        control = Control(self._store, spec.job, spec.instance)
        crash_point("launch.spec.before")
        control.write_launch(spec)
        crash_point("launch.spec.after")
        if control.processes():
            return
        pod = control.read_pod() or self._claim(control, spec)
        crash_point("launch.process.before")
        self._must_be_its_cluster(pod)
        if secrets:
            # One that is there is of a launch that was cut off, before somebody changed a value perhaps.
            self._api.put_secret(pod.namespace, secret_of(pod.name, secrets, SECRETS))
        crash_point("launch.secret.after")
        found = self._create(pod, spec, secret=bool(secrets))
        crash_point("launch.process.after")
        if secrets:
            self._api.give_secret(pod.namespace, pod.name, found)

    def observe(self, job: str, instance: str) -> Liveness:
        """See Runner."""
        control = Control(self._store, job, instance)
        if control.read_launch() is None:
            return Liveness(life=Life.ABSENT, why="it was never launched")
        recorded, pod = control.processes(), control.read_pod()
        if is_barred(recorded):
            return Liveness(life=Life.DEAD, why=NEVER_STARTED)
        if pod is None:
            return Liveness(life=Life.ABSENT, why="launched, and no pod was created for it")
        if not self._is_mine(pod.installation):
            return Liveness(life=Life.DEAD, why=f"it never ran here: {FORMER}")
        if end := control.read_exit():
            why = f"the supervisor in {_named(pod)} has ended {end.state.value}, and said so once every process of its"
            return Liveness(life=Life.DEAD, why=f"{why} tree was gone")
        try:
            found = self._find(pod, job)
            return judge(pod, found, recorded, time.time(), elsewhere=self._elsewhere(pod))
        except StreamkeeperError as error:
            return Liveness(life=Life.UNKNOWN, why=f"{_named(pod)} cannot be looked at: {error}")

    def nudge(self, job: str, instance: str) -> None:
        """See Runner; no signal of ours reaches it: it looks by itself, at every trigger and once a second."""

    def kill(self, job: str, instance: str) -> None:
        """See Runner; raises TemporaryError where nobody can be told."""
        control = Control(self._store, job, instance)
        if control.read_launch() is None:
            return
        recorded, pod = control.processes(), control.read_pod()
        if not recorded:
            recorded = bar(control, instance, this_machine(), self._id)
        if pod is None or not self._is_mine(pod.installation) or control.read_exit() is not None:
            return
        found = self._api.find_pod(pod.namespace, pod.name)
        if found is not None and _is_the_pod(found, pod, job) and _is_pod_of(found, recorded):
            with suppress(NotFound, AlreadyThere):
                self._api.delete_pod(pod.namespace, pod.name, found.metadata.uid, grace_s=_KILL_GRACE_S)

    def bury(self, job: str, instance: str, *, with_log: bool = False) -> None:
        """See Runner; the finalizer and the Secret go, the pod itself with its log."""
        control = Control(self._store, job, instance)
        recorded, pod = control.processes(), control.read_pod()
        if pod is None or not self._is_mine(pod.installation):
            return
        found = self._find(pod, job)
        barred = is_barred(recorded)
        ended = barred or control.read_exit() is not None
        if found is None:
            self._must_be_its_cluster(pod)
        elif not _is_pod_of(found, recorded) or not (
            ended or judge(pod, found, recorded, time.time()).life is Life.DEAD
        ):
            if with_log:
                raise TemporaryError(f"{_named(pod)} is not proven to have ended: what is known of it stays")
            return
        with suppress(NotFound):
            self._api.delete_secret(pod.namespace, pod.name)
        if found is None:
            return
        kept = tuple(each for each in found.metadata.finalizers if each != FINALIZER)
        # Another command may have buried it since.
        with suppress(NotFound, AlreadyThere):
            if kept != found.metadata.finalizers:
                self._api.set_finalizers(pod.namespace, pod.name, found.metadata.uid, kept)
            if with_log or barred or _has_more_running(found):
                self._api.delete_pod(pod.namespace, pod.name, found.metadata.uid, grace_s=_KILL_GRACE_S)

    def where_log_is(self, job: str, instance: str) -> str:
        """See Runner."""
        pod = Control(self._store, job, instance).read_pod()
        if pod is None:
            return ""
        return f"the log of {instance} is with Kubernetes: kubectl logs -n {pod.namespace} {pod.name} -c driver"

    def _find(self, pod: Pod, job: str) -> PodReport | None:
        """The instance's pod; raises OperationRefused for somebody else's of that name."""
        found = self._api.find_pod(pod.namespace, pod.name)
        if found is not None and not _is_the_pod(found, pod, job):
            raise OperationRefused(f"{_named(pod)} is not that of {pod.instance}")
        return found

    def _elsewhere(self, pod: Pod) -> str:
        """The API server that was asked, where another one was to create the pod."""
        return "" if self._api.server == pod.cluster else self._api.server

    def _must_be_its_cluster(self, pod: Pod) -> None:
        if asked := self._elsewhere(pod):
            raise OperationRefused(
                f"{_named(pod)} is one of {pod.cluster}, and {asked} was asked", hint="let KUBECONFIG name that cluster"
            )

    def _claim(self, control: Control, spec: LaunchSpec) -> Pod:
        """Which pod is the instance's; the one that is on record where another launch was faster."""
        whole = f"{self._id}:{self._settings.store}:{spec.job}:{spec.instance}"
        slug = spec.job.replace("_", "-")[:_LONGEST_SLUG].strip("-")
        name = f"{slug}-{hashlib.sha256(whole.encode()).hexdigest()[:12]}"
        return control.write_pod(
            Pod(
                instance=spec.instance,
                cluster=self._api.server,
                namespace=self._template().namespace,
                name=name,
                installation=self._id,
            )
        )

    def _create(self, pod: Pod, spec: LaunchSpec, *, secret: bool) -> PodReport:
        """The instance's pod, created or found; raises PermanentError for somebody else's of that name."""
        whose = {JOB: spec.job, INSTANCE: spec.instance, INSTALLATION: pod.installation}
        manifest = self._manifest(self._template(), pod.name, whose, spec.conf, python=spec.python, secret=secret)
        try:
            return self._api.create_pod(pod.namespace, manifest)
        except AlreadyThere:
            found = self._api.find_pod(pod.namespace, pod.name)
        if found is None:
            raise TemporaryError(f"{_named(pod)} is being created or removed by somebody else", hint="try again")
        if not _is_the_pod(found, pod, spec.job):
            raise PermanentError(f"{_named(pod)} is not that of {spec.instance}", hint="remove it if nobody needs it")
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
        """``whose``: the annotations by which it is known again."""
        driver = self._driver
        if python and driver == DRIVER:
            driver = (python, *DRIVER[1:])
        supervisor = [sys.executable, "-m", "streamkeeper.runners.supervisor", whose[JOB], whose[INSTANCE], *driver]
        marked = mark(whose[JOB], whose[INSTANCE], installation=self._id, store=self._settings.store)
        settings = replace(self._settings, master=named_master(self._settings, self._resolve_master))
        variables = passed_to_containers(self._environ) | marked.variables() | settings_variables(settings)
        return driver_pod(template, name, whose, supervisor, variables, conf, secret=secret)

    def _template(self) -> PodTemplate:
        return read_template(self._settings.pod_template)

    @property
    def _id(self) -> str:
        return self._installation.id if self._installation is not None else ""

    def _is_mine(self, recorded: str) -> bool:
        return self._installation is None or self._installation.is_mine(recorded)


def judge(
    pod: Pod, found: PodReport | None, recorded: Sequence[ProcessRecord], now: float, *, elsewhere: str = ""
) -> Liveness:
    """What the API server's words on an instance's pod prove; ``recorded``: who has claimed the instance; ``now``: in
    seconds since 1970; ``elsewhere``: the server that was asked, where it is not the one that the pod was created at.

    A pod that nobody has claimed it from is never UNKNOWN: once it is killed, nobody can.
    """
    if found is None and not recorded and not elsewhere:
        return Liveness(life=Life.ABSENT, why=f"launched, but {_named(pod)} was not created")
    if found is None:
        asked = f"at {elsewhere}, and it is one of {pod.cluster}: KUBECONFIG names another cluster" if elsewhere else ""
        return _unknown(
            f"there is no {_named(pod)} {asked or f'at {pod.cluster} any more'}, which proves nothing: its containers "
            "may run on, and the supervisor has not said how it ended"
        )
    if not _is_pod_of(found, recorded):
        return _unknown(f"{_named(pod)} is another one than the one that has claimed the instance ({recorded[-1].pod})")
    driver = next((each for each in found.status.container_statuses if each.name == CONTAINER), None)
    if driver is not None and _is_apart(found) and _is_proof(driver.state.terminated):
        return _ended(pod, found, recorded)
    doubt = _doubt(found, driver, now)
    if doubt and recorded:
        return _unknown(f"{_named(pod)} {doubt}")
    return Liveness(life=Life.ALIVE, why=f"{_named(pod)} {doubt or _doing(found)}")


def _doubt(found: PodReport, driver: ContainerStatus | None, now: float) -> str:
    """Why nobody knows how it stands, as a clause; empty where its kubelet can be believed."""
    if not _is_apart(found):
        return (
            "has its processes in a namespace that is not its driver's alone, so that no container's end proves theirs"
        )
    if driver is not None and driver.state.terminated is not None:
        return f"has a container that the kubelet of {found.spec.node_name} has lost sight of"
    if _is_silent(found):
        return f"was last seen running on {found.spec.node_name}, which is not heard of"
    if found.metadata.ends_before(now - _OVERDUE_S):
        return f"was to be ended by {found.metadata.deletion_timestamp}, and nobody has said so"
    return ""


def _ended(pod: Pod, found: PodReport, recorded: Sequence[ProcessRecord]) -> Liveness:
    (end,) = [each.state.terminated for each in found.status.container_statuses if each.name == CONTAINER]
    assert end is not None
    why = f"the kubelet of {found.spec.node_name} says that the driver's container of {_named(pod)} has ended"
    why = f"{why} with code {end.exit_code}"
    if recorded:
        why = f"{why}: supervisor {recorded[-1].pid} and all it started ended with it"
    else:
        last = [line.strip() for line in end.message.splitlines() if line.strip()]
        why = f"{why}; it claimed nothing: {last[-1] if last else end.reason or 'no reason is told'}"
    return Liveness(life=Life.DEAD, why=why)


def _is_apart(found: PodReport) -> bool:
    """Whether the driver's processes are in a namespace of their container's own, which ends with it."""
    return not found.spec.share_process_namespace and not found.spec.host_pid


def _is_proof(end: Terminated | None) -> bool:
    return end is not None and bool(end.container_id) and end.reason not in _LOST_SIGHT


def _has_more_running(found: PodReport) -> bool:
    """Whether something of it runs beside its driver, as what a mesh has added."""
    return any(each.state.running is not None for each in found.status.container_statuses if each.name != CONTAINER)


def _is_the_pod(found: PodReport, pod: Pod, job: str) -> bool:
    """Whether it is the one on record, and not somebody else's of its name."""
    told = {JOB: job, INSTANCE: pod.instance, INSTALLATION: pod.installation}
    return {key: found.metadata.annotations.get(key) for key in told} == told


def _is_pod_of(found: PodReport, recorded: Sequence[ProcessRecord]) -> bool:
    """Whether it is the very pod that has claimed the instance, or nobody has."""
    return not recorded or is_barred(recorded) or found.metadata.uid == recorded[-1].pod


def _is_silent(found: PodReport) -> bool:
    """Whether somebody else has taken back that the pod runs or serves, while its kubelet's last word is that it does:
    Kubernetes does so of a node that is silent, and of one that is gone.
    """
    told = found.status.container_statuses
    serves = bool(told) and all(each.state.running is not None and each.ready for each in told)
    not_ready = any(each.type == "Ready" and each.status != "True" for each in found.status.conditions)
    return serves and (not_ready or found.status.phase in _OVER)


def _doing(found: PodReport) -> str:
    """What it does by its status, as a clause."""
    waits = [_waiting(each) for each in (*found.status.init_container_statuses, *found.status.container_statuses)]
    if found.status.phase in _OVER:
        told = ": ".join(filter(None, (found.status.reason, found.status.message)))
        return f"is {_in_a_line(f'{found.status.phase}: {told}')}, and its driver did not run"
    if reasons := [each for each in waits if each]:
        return f"does not run yet: {reasons[0]}"
    if found.metadata.deletion_timestamp:
        return "is being ended"
    unscheduled = [each for each in found.status.conditions if each.type == "PodScheduled" and each.status != "True"]
    if unscheduled:
        return f"waits for a node: {_in_a_line(unscheduled[0].message or unscheduled[0].reason)}"
    return f"runs on {found.spec.node_name}" if found.spec.node_name else "was created"


def _waiting(status: ContainerStatus) -> str:
    waiting = status.state.waiting
    return "" if waiting is None else _in_a_line(": ".join(filter(None, (waiting.reason, waiting.message))))


def _in_a_line(text: str) -> str:
    return " ".join(text.split())


def _named(pod: Pod) -> str:
    return f"pod {pod.namespace}/{pod.name}"


def _unknown(why: str) -> Liveness:
    return Liveness(life=Life.UNKNOWN, why=why)
