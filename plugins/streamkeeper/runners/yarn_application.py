"""Runs each driver in the first container of a YARN application, and proves that a driver has terminated.

The ResourceManager's report on an application proves nothing: KILLED is reported at once, and an application whose node
is lost counts as finished while its processes still run.

DEAD requires one of three proofs (docs/decisions/0026):

- The supervisor has written its own final record, after the last process of its tree had terminated.
- The container has an exit code that only a NodeManager that has waited for the container can report. The code counts
once the time for SIGTERM and SIGKILL to the remaining processes has passed.
- The NodeManager that started the container, and has run ever since, no longer lists the container.

A driver is killed by a signal to its container. If its application were killed instead, the exit code would not be
reported any more.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from streamkeeper.errors import InvalidInput, StreamkeeperError, TemporaryError
from streamkeeper.model.protocol.driver_messages import LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.runner_kinds.yarn_kind import IN_A_CONTAINER, QUEUE, Application
from streamkeeper.model.secret_references import split_reference
from streamkeeper.runners.barred_instances import is_barred
from streamkeeper.runners.container_runner import ContainerRunner
from streamkeeper.runners.contract import Life, Liveness
from streamkeeper.runners.room import container_cores, container_mib
from streamkeeper.runners.variables import choose_driver, supervisor_command
from streamkeeper.runners.yarn_rest import ApplicationReport, Attempt, ResourceManager, manager_url
from streamkeeper.system import clock
from streamkeeper.system.hadoop_conf import hadoop_user

_EXIT_CODE = re.compile(r"^.*?AM Container for (appattempt_\w+) exited with +exitCode: (-?\d+)", re.DOTALL)
_BEYOND_MEMORY = frozenset({-103, -104})
"""Exit codes that a NodeManager gives to a container that it kills for its virtual or physical memory."""
_LIMIT = re.compile(r"[\d.]+ \w+ of [\d.]+ \w+ physical memory used; [\d.]+ \w+ of [\d.]+ \w+ virtual memory used")
_CLEANED_UP = "DONE"
_ENDED_FOR_S = 5.0
"""A container counts as ended when its shell has ended; remaining processes get SIGTERM, and SIGKILL a quarter of a
second later: yarn.nodemanager.sleep-delay-before-sigkill.ms.
"""
_LOOK_AGAIN_S = 2.0
_SKEW_MS = 30_000
"""How far the clocks of two machines may differ, in milliseconds."""
_UNQUOTABLE = re.compile(r"[\"`$\\\n]")
"""Characters that a NodeManager's shell would interpret in a value between double quotes."""


class YarnRunner(ContainerRunner[Application]):
    """Runs each driver in an application's first container."""

    place = Application
    nowhere = "no application was submitted for it"

    @cached_property
    def _managers(self) -> dict[str, ResourceManager]:
        return {}

    def check_place(self, references: Collection[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Implement ``Runner.check_place``: the ResourceManager must answer, and no secret may need Airflow."""
        _must_resolve_there(references)
        self._manager(manager_url(self._environ)).must_answer()

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Implement ``Runner.launch``.

        ``secrets`` are not sent, because YARN stores a container's environment. The supervisor in the container
        resolves the same references. Raises InvalidInput for a reference that only Airflow can resolve.
        """
        _must_resolve_there(secrets)
        super().launch(spec, secrets)

    def _choose(self, spec: LaunchSpec) -> Application:
        cluster = manager_url(self._environ)
        found = self._manager(cluster).new_application()
        return Application(instance=spec.instance, cluster=cluster, id=found, installation=self._id)

    def _create(self, place: Application, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        del secrets  # the supervisor there resolves them
        self._manager(place.cluster).submit(self._context(place.id, spec))

    def _end(self, job: str, place: Application, recorded: Sequence[ProcessRecord]) -> None:
        del job
        manager = self._manager(place.cluster)
        report = manager.find(place.id)
        if report is None or report.over:
            return
        if is_barred(recorded):
            manager.withdraw(place.id)
            return
        for attempt in manager.attempts(place.id):
            if attempt.container_id:
                manager.end_container(attempt.container_id)

    def _named(self, place: Application) -> str:
        return place.id

    def _speaker(self, place: Application, recorded: Sequence[ProcessRecord]) -> str:
        return f"{_supervisor(recorded)} of {place.id}"

    def _log_of(self, place: Application) -> str:
        return f"YARN: {place.cluster}/cluster/app/{place.id}"

    def _judge(self, job: str, place: Application, recorded: Sequence[ProcessRecord]) -> Liveness:
        del job
        manager = self._manager(place.cluster)
        report = manager.find(place.id)
        if report is None and not recorded:
            return Liveness(life=Life.ABSENT, why=f"the instance was launched, but {place.id} was not submitted")
        if report is None:
            return Liveness(
                life=Life.UNKNOWN,
                why=f"the ResourceManager has no record of {place.id}, and {_supervisor(recorded)} has recorded no end",
            )
        if not report.over:
            waits = f": {_first_line(report.diagnostics)}" if report.diagnostics else ""
            return Liveness(life=Life.ALIVE, why=f"{place.id} is {report.state}{waits}")
        attempts = manager.attempts(place.id)
        if not recorded and not any(attempt.container_id for attempt in attempts):
            ended = f"{place.id} is {report.state} and had no container: {_first_line(report.diagnostics)}"
            return Liveness(life=Life.DEAD, why=ended)
        return self._judge_container(manager, report, attempts, recorded)

    def _judge_container(
        self,
        manager: ResourceManager,
        report: ApplicationReport,
        attempts: Sequence[Attempt],
        recorded: Sequence[ProcessRecord],
    ) -> Liveness:
        matched = _EXIT_CODE.match(report.diagnostics)
        of_it = [attempt for attempt in attempts if matched and attempt.app_attempt_id == matched[1]]
        code = int(matched[2]) if matched is not None else None
        if matched is None or code is None or not _tells_an_end(code) or len(attempts) != 1 or not of_it:
            if len(attempts) == 1 and _has_outlived(manager, attempts[0]):
                why = f"container {attempts[0].container_id} of {_supervisor(recorded)} is no longer listed by its"
                return Liveness(
                    life=Life.DEAD, why=f"{why} NodeManager, which has run since before the container started"
                )
            return Liveness(
                life=Life.UNKNOWN,
                why=f"the ResourceManager reports {report.id} as {report.state}, which does not prove an end: no "
                f"NodeManager has reported how its container ended ({_first_line(report.diagnostics)})",
            )
        container = manager.look_at_container(of_it[0])
        told_s = manager.now() - report.finished_time / 1000
        if (container is not None and container.state != _CLEANED_UP) or told_s < _ENDED_FOR_S:
            return Liveness(life=Life.ALIVE, why=f"container {of_it[0].container_id} is being terminated")
        why = f"container {of_it[0].container_id} of {_supervisor(recorded)} has exited with code {matched[2]}, and its"
        why = f"{why} NodeManager has terminated all remaining processes in it"
        reason, fault = _why_killed(report.diagnostics, code)
        why = f"{why} ({reason})" if reason else why
        if not recorded:
            why = f"{why}; the supervisor had claimed nothing: {_last_line(report.diagnostics)}"
        return Liveness(life=Life.DEAD, why=why, fault=fault)

    def _why_ended(self, job: str, place: Application) -> tuple[str, Fault | None]:
        del job
        try:
            report = self._manager(place.cluster).find(place.id)
        except StreamkeeperError:
            return "", None
        matched = _EXIT_CODE.match(report.diagnostics) if report is not None else None
        return _why_killed(report.diagnostics, int(matched[2])) if report is not None and matched else ("", None)

    def _context(self, application: str, spec: LaunchSpec) -> dict[str, object]:
        """Return the submission. It passes no text that a release's author wrote to the NodeManager's shell."""
        supervisor = supervisor_command(spec.job, spec.instance, choose_driver(self._driver, spec.python))
        command = f"exec {shlex.join(supervisor)} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr"
        entries = [{"key": key, "value": value} for key, value in self._variables(spec).items()]
        context: dict[str, object] = {
            "application-id": application,
            "application-name": f"{spec.job} {spec.release} ({spec.instance})",
            "application-type": "STREAMKEEPER",
            "application-tags": {"tag": f"streamkeeper,{spec.job},{spec.instance}".lower()},
            # A second attempt would start beside the first when a node is lost.
            "max-app-attempts": 1,
            "am-container-spec": {"commands": {"command": command}, "environment": {"entry": entries}},
            "resource": {
                "memory": container_mib(spec.conf, own_tasks=self._runs_its_tasks(spec.conf)),
                "vCores": container_cores(spec.conf),
            },
        }
        queue = self._settings.runner_variables.get(QUEUE, "")
        return context | ({"queue": queue} if queue else {})

    def _variables(self, spec: LaunchSpec) -> dict[str, str]:
        variables = self._container_variables(spec.job, spec.instance)
        for key, value in variables.items():
            if _UNQUOTABLE.search(value):
                raise InvalidInput(
                    f"{key}={value}: a NodeManager's shell would change the value",
                    hint='leave out the characters " ` $ \\',
                )
        # That shell expands it to the container's own directory, which is removed with the container.
        return variables | {"STREAMKEEPER_HOME": "{{PWD}}/home", IN_A_CONTAINER: "yes"}

    def _manager(self, url: str) -> ResourceManager:
        if url not in self._managers:
            self._managers[url] = ResourceManager(url, hadoop_user(self._environ))
        return self._managers[url]


def _tells_an_end(code: int) -> bool:
    """Whether this code is reported only by a NodeManager that has waited for the container.

    That holds for the program's own exit codes, and for the codes of a memory limit. A NodeManager sets the latter when
    it kills the container, and reports them once the container has ended.
    """
    return code >= 0 or code in _BEYOND_MEMORY


def _why_killed(diagnostics: str, code: int) -> tuple[str, Fault | None]:
    """Return why a NodeManager killed a container, as a phrase, and the kind of fault; an empty text and None if it was
    not killed for its memory.
    """
    if code not in _BEYOND_MEMORY:
        return "", None
    line = next(
        (line.strip() for line in diagnostics.splitlines() if "running beyond" in line or "beyond the" in line), ""
    )
    found = _LIMIT.search(line)
    detail = f": {found[0]}" if found else ""
    return f"the NodeManager killed the container for exceeding its memory limit{detail}", Fault.OUT_OF_MEMORY


def _has_outlived(manager: ResourceManager, attempt: Attempt) -> bool:
    """Whether the container has ended while the NodeManager that started it kept running. A NodeManager lists a
    container until the container has ended.

    A NodeManager that was started later does not list the container, even if it is still alive, and so proves nothing.
    The NodeManager is queried twice, because remaining processes get their SIGKILL later.
    """
    if not attempt.container_id:
        return False
    try:
        if manager.node_started_at(attempt) + _SKEW_MS > attempt.start_time or manager.look_at_container(attempt):
            return False
        clock.sleep(_LOOK_AGAIN_S)
        return manager.look_at_container(attempt) is None
    except TemporaryError:
        return False


def _must_resolve_there(references: Collection[str]) -> None:
    for reference in references:
        if split_reference(reference)[0] != "env":
            raise InvalidInput(
                f"only Airflow's tasks can resolve {reference}, but a driver on YARN resolves its own secrets",
                hint="refer to the secret as secret://env/NAME, and set STREAMKEEPER_SECRET_NAME for the NodeManagers",
            )


def _supervisor(recorded: Sequence[ProcessRecord]) -> str:
    if not recorded:
        return "a supervisor"
    return f"supervisor {recorded[-1].pid} on {recorded[-1].host} (generations 1 to {recorded[-1].generation})"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def _last_line(text: str) -> str:
    """Return the last line that the program itself wrote, from a NodeManager's excerpt of its error output."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = [line for line in lines if not line.startswith(("For more detailed output", ". Failing", "[", "Last "))]
    return shown[-1] if shown else "no reason given"
