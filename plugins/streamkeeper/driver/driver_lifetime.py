"""One driver process, from its launch to its exit: it describes the job, waits as a standby, and then runs the queries
or writes shadows.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from streamkeeper.driver.control_loop import Serving
from streamkeeper.driver.discarding import discard_left
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.ending import Ending, end_process, ending_for, jvm_ended, log_as, log_line
from streamkeeper.driver.executors import must_answer, must_fit, must_fit_any_node, wait_for_executors
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery, build_queries, check_again, check_manifests
from streamkeeper.driver.lease import Heartbeat, Lease
from streamkeeper.driver.progress import StatusReporter
from streamkeeper.driver.session import Session, session_conf, start_session
from streamkeeper.driver.taking_over import DriverContext
from streamkeeper.driver.timings import Timings
from streamkeeper.driver.wakeups import Wakeups
from streamkeeper.errors import Fenced, InvalidInput, NotFound, StoreUnavailable, StreamkeeperError
from streamkeeper.locations import scheme_of
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.evidence import Evidence
from streamkeeper.model.protocol.check_messages import JobFile
from streamkeeper.model.protocol.driver_messages import (
    CLAIM,
    SECRETS,
    Command,
    CommandKind,
    DriverState,
    ExitCode,
    LaunchMode,
    LaunchSpec,
    ProcessRecord,
)
from streamkeeper.model.records.checkpoint_version import scratch_location
from streamkeeper.model.redaction import redact, redact_value
from streamkeeper.model.runner_kinds.known_runners import runner_kind
from streamkeeper.model.secret_names import with_literals
from streamkeeper.model.secret_references import substitute
from streamkeeper.model.settings.release_conf import MASTER
from streamkeeper.model.settings.settings import Settings, read_settings
from streamkeeper.registry.bundles import unpack_job
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.store_urls import open_store
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point
from streamkeeper.system.hidden_secrets import hide_secrets
from streamkeeper.system.private_files import make_folders

_STANDBY_LOOK_S = 0.25
_STANDBY_JOURNAL_S = 5.0
_PACKAGES = Path(__file__).resolve().parents[2]


class Driver:
    """The driver process of one generation of one instance."""

    def __init__(
        self, job: str, instance: str, generation: int, settings: Settings, secrets: dict[str, str], *, claim: bytes
    ) -> None:
        """``job``: the job.
        ``instance``: this instance.
        ``generation``: this generation.
        ``settings``: the installation's settings.
        ``secrets``: the values of the job's secret references.
        ``claim``: the record with which this process's supervisor claimed the generation; empty if a supervisor of an
        earlier version did not pass it.
        """
        self._claim = from_json(claim, ProcessRecord, where=CLAIM) if claim else None
        self._generation = generation
        self._settings = settings
        self._secrets = secrets
        self._store = CountingStore(open_store(settings.store))
        self._channel = DriverChannel(self._store, job, instance, generation)
        spec = self._channel.read_launch()
        if spec is None:
            raise NotFound(f"instance {instance} of job {job} was never launched: its launch.json is missing")
        self._spec: LaunchSpec = spec
        self._scratch = settings.scratch / instance
        self._master = "" if MASTER in spec.conf else settings.master
        """The master whose executors run the tasks; empty if this process runs them."""
        self._rehearsal = (
            scratch_location(settings.checkpoints, instance) if self._master else f"{self._scratch}/rehearsal"
        )
        self._timings = Timings()
        self._wakeups = Wakeups()
        before = self._channel.read_status()
        history = self._channel.read_history() if before is not None else None
        self._hidden = with_literals(secrets, spec.params, spec.conf)
        """The texts that no output may contain: the job's secrets, and secrets that the params themselves contain."""
        hide_secrets(self._hidden)
        self._status_reporter = StatusReporter(
            spec, generation, self._timings, self._channel, before=before, history=history, secrets=self._hidden
        )
        self._session: Session | None = None
        self._store_lost = False

    def run(self) -> NoReturn:
        """Run the driver until the process exits."""
        try:
            self._wakeups.take_nudges()
            Heartbeat(self._spec.lease_s, self._channel, self._tell, self._wakeups).start()
            Lease(self._spec.lease_s, lambda: self._channel.answered_at, self._lose_store).start()
            self._describe_and_serve()
        except BaseException as error:
            root = self._settings.bundles / self._spec.bundle
            self._end(self._ending_of(error, describe_fault(error, root), root))

    def _ending_of(self, error: BaseException, line: str, root: Path) -> Ending:
        """Return the ending for an error. If the JVM has terminated, return the JVM's ending: requests to a terminated
        JVM fail in many ways, so its termination is the cause.
        """
        session = self._session
        if not isinstance(error, Ending | StreamkeeperError) and session is not None and session.dead:
            return jvm_ended(session, f" ({line})")
        return ending_for(error, line, root)

    def _describe_and_serve(self) -> NoReturn:
        self._tell()
        root = unpack_job(self._store, self._spec.job, self._spec.bundle, self._settings)
        if self._master:
            must_answer(self._master)
        session = self._session = self._start_session(root)
        if self._master:
            wait_for_executors(session.spark, self._master, root, self._scratch)
        self._status_reporter.spark = session.spark.version
        crash_point("driver.describe.before")
        planned = build_queries(self._spec, root, session.spark, self._secrets)
        described = {name: query.manifest for name, query in planned.items()}
        if self._master:
            must_fit(described.values(), self._master)
        if (runner := runner_kind(self._spec.runner)).on_nodes:
            must_fit_any_node(described.values(), runner.title)
        check_manifests(self._spec, described, self._store, self._secrets)
        check_again(self._spec, described, self._channel.write_manifests(described), self._secrets)
        crash_point("driver.describe.after")
        if self._spec.mode is LaunchMode.DESCRIBE:
            self._gather(session, planned, root)
            raise Ending(DriverState.STOPPED, ExitCode.STOPPED)
        order = self._stand_by(session, planned, root)
        self._must_have_the_claim()
        session.ring_when_dead(self._wakeups)
        context = DriverContext(
            spec=self._spec,
            generation=self._generation,
            session=session,
            channel=self._channel,
            status_reporter=self._status_reporter,
            timings=self._timings,
            wakeups=self._wakeups,
            root=root,
        )
        self._serve_metrics()
        Serving(context, planned).run(order)

    def _serve_metrics(self) -> None:
        """Serve metrics if the installation's settings require it; the driver also runs without them."""
        if not self._settings.driver_metrics:
            return
        from streamkeeper.system.metrics import of_driver, read_listen, serve_metrics

        try:
            wanted = read_listen(self._settings.driver_metrics, where="STREAMKEEPER_DRIVER_METRICS")
            port, _ = serve_metrics(wanted, lambda: of_driver(self._spec.job, self._status_reporter.status()))
        except InvalidInput as error:
            log_line(f"no metrics: {error}", level=logging.WARNING)
            return
        log_line(f"metrics at http://{wanted.address}:{port}/metrics")

    def _start_session(self, root: Path) -> Session:
        # The supervisor has proven that the previous generation has terminated, so its files here are unused.
        shutil.rmtree(self._scratch, ignore_errors=True)
        make_folders(self._scratch)
        filled = substitute(self._spec.conf, self._secrets)
        name, archive = f"{self._spec.job} {self._spec.release}", self._spec.archive if self._master else ""
        conf = session_conf(filled, self._scratch, name, master=self._master, archive=archive)
        secret = {key: conf[key] for key, value in self._spec.conf.items() if filled[key] != value}
        return start_session(conf, secret, self._scratch, [root, _PACKAGES], unpacked=bool(archive))

    def _gather(self, session: Session, planned: dict[str, PlannedQuery], root: Path) -> Evidence | None:
        """Gather the requested evidence and store it; None if none was requested."""
        asked, spec = self._spec.gather, self._spec
        if asked is None:
            return None
        from streamkeeper.driver.evidence_collection import Subject, gather_evidence
        from streamkeeper.driver.job_sessions import build_beside

        job = JobFile(root=str(root), entry=spec.entry, name=spec.job, params=spec.params, conf=spec.conf)
        deployed = {query: self._channel.read_deployed(sha256) for query, sha256 in asked.deployed.items()}
        subject = Subject(
            job=spec.job,
            deployed=deployed if asked.release else None,
            candidate=planned,
            checkpoints=spec.rehearse_on,
            record=asked.record,
            against=asked.release,
            served=asked.served,
            installation=spec.installation,
            histories=asked.histories,
            topics=asked.topics,
            first_topics=asked.first_topics,
            root=root,
            # A release that was described before has just been compared with that description.
            build_again=None if spec.expected_manifests else lambda: build_beside(session.spark, job, self._secrets),
        )
        evidence = redact_value(gather_evidence(subject, self._rehearsal), self._secrets)
        if not session.answers():
            # Findings from a JVM that ended prove nothing about the candidate: the next generation gathers again.
            raise jvm_ended(session)
        self._channel.write_evidence(evidence)
        self._status_reporter.gathered = True
        return evidence

    def _stand_by(self, session: Session, planned: dict[str, PlannedQuery], root: Path) -> Command:
        """Gather evidence and warm up unless an order is already stored, then wait for ``go`` or ``shadow`` and return
        that order. Raises Ending if the driver must terminate.
        """
        crash_point("driver.standby.before")
        order = self._order(planned)
        if order is None:
            from streamkeeper.driver.warm_up import touch, warm_up

            evidence = self._gather(session, planned, root)
            live = self._spec.rehearse_on if evidence is None else {}
            rehearsed = {name: query.rehearsal for name, query in evidence.queries.items()} if evidence else {}
            found = warm_up(session.spark, planned, live, self._rehearsal, rehearsed)
            self._status_reporter.warm_up = found
            if scheme_of(self._settings.checkpoints) and not self._master:
                # Otherwise the rehearsal has already written there.
                touch(session.spark, f"{scratch_location(self._settings.checkpoints, self._spec.instance)}/touch")
        # Read the journal now, to leave little to read between ``go`` and the first batch.
        with suppress(StoreUnavailable):
            self._channel.look()
        self._status_reporter.state = DriverState.STANDBY
        if order is None:
            self._status_reporter.cause = self._status_reporter.waiting = self._status_reporter.fault = (
                self._status_reporter.failed_query
            ) = ""
        self._tell_in_time()
        crash_point("driver.standby.after")
        journal_due = clock.monotonic() + _STANDBY_JOURNAL_S
        while order is None:
            try:
                self._wakeups.wait(_STANDBY_LOOK_S)
                order = self._order(planned)
                if clock.monotonic() > journal_due:
                    self._end_if_dismissed()
                    journal_due = clock.monotonic() + _STANDBY_JOURNAL_S
            except StoreUnavailable:
                # The lease ends a standby that stays without its store.
                self._wakeups.wait(_STANDBY_LOOK_S)
            if session.dead:
                raise jvm_ended(session)
        return order

    def _must_have_the_claim(self) -> None:
        """Raise Fenced if the store does not show this process's claim of this generation. Do nothing if the supervisor
        passed no claim.

        The store lacks the claim, or shows another process's claim, if an older copy of the store was put back just
        after this process had started. The order was sent after the claim was stored, so a copy without the claim lacks
        the order too, and a single check is enough.
        """
        if self._claim is None or (found := self._channel.read_process(self._generation)) == self._claim:
            return
        other = f"process {found.pid} on {found.host}" if found is not None else "no process"
        raise Fenced(
            f"in the store, {other} has claimed generation {self._generation} of {self._spec.instance}, not this"
            " process: an older copy of the store was put back"
        )

    def _end_if_dismissed(self) -> None:
        """Raise Ending in a standby whose operation is already over. Such a standby was started late, by a process that
        had not read that the operation was over.
        """
        state = self._channel.look()
        mine = state.instances.get(self._spec.instance)
        operation = state.operations.get(mine.operation) if mine is not None else None
        over = operation is not None and operation.outcome is not None
        if mine is not None and state.appointed != mine.instance and (mine.ended or over):
            raise Ending(DriverState.STOPPED, ExitCode.STOPPED)

    def _order(self, planned: dict[str, PlannedQuery]) -> Command | None:
        """Return the last ``go``, or the last ``shadow`` if there is no ``go``; None without either. Raises Ending if a
        command requires the driver to terminate.
        """
        orders = self._channel.look_for_commands()
        for command in orders:
            match command.kind:
                case CommandKind.DRAIN:
                    self._discard_left(planned, orders)
                    raise Ending(DriverState.DRAINED, ExitCode.DRAINED)
                case CommandKind.STOP:
                    self._discard_left(planned, orders)
                    raise Ending(DriverState.STOPPED, ExitCode.STOPPED)
        latest = {command.kind: command for command in orders}
        return latest.get(CommandKind.GO) or latest.get(CommandKind.SHADOW)

    def _discard_left(self, planned: dict[str, PlannedQuery], orders: list[Command]) -> None:
        discard_left(self._channel, self._spec, self._generation, planned, orders)

    def _tell_in_time(self) -> None:
        """Write the status now, or leave it to the heartbeat while the store is unreachable."""
        with suppress(StoreUnavailable):
            self._tell()

    def _tell(self) -> None:
        self._status_reporter.tell()

    def _lose_store(self, silent_s: float) -> None:
        # Set this first, so that the main thread has the reason for its JVM's end, if it exits before this thread does.
        self._store_lost = True
        log_line(f"lost the store for {silent_s:.0f} s", level=logging.ERROR)
        if self._session is not None:
            self._session.kill()
        os._exit(ExitCode.STORE_LOST)

    def _end(self, ending: Ending) -> NoReturn:
        if self._store_lost:
            os._exit(ExitCode.STORE_LOST)
        ending.error = redact(ending.error, self._hidden)
        end_process(
            ending,
            session=self._session,
            status_reporter=self._status_reporter,
            channel=self._channel,
            scratch=self._scratch,
        )


def main(arguments: Sequence[str]) -> NoReturn:
    """Run a driver, and exit the process with an ExitCode."""
    # Remove the secrets from the environment at once, because the JVM and Spark's workers would inherit them.
    secrets: dict[str, str] = json.loads(os.environ.pop(SECRETS, "") or "{}")
    claim = os.environ.pop(CLAIM, "").encode()
    hide_secrets(secrets)
    try:
        job, instance, generation = arguments
        log_as(job, instance)
        driver = Driver(job, instance, int(generation), read_settings(os.environ), secrets, claim=claim)
    except Exception as error:
        ending = ending_for(error, redact(describe_fault(error), secrets))
        log_line(f"{ending.state.value}: {ending.error}", level=logging.ERROR)
        os._exit(ending.code)
    driver.run()
