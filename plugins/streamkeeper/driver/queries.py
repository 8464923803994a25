"""The queries that a driver runs. Each is started behind its gate, restarted within a budget, and stopped once drained.

A query whose sink or source does not answer is retried for as long as allowed, without using up the budget. During that
time the process, its claim and its heartbeat continue.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.authoring.definition import parse_trigger
from streamkeeper.checkpoints.batch_input import input_of_open_batch
from streamkeeper.checkpoints.input_files import other_s3
from streamkeeper.checkpoints.open_input import find_open_input
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.driver.causes import is_lost_worker, judge, judge_links
from streamkeeper.driver.continuity import Continuity
from streamkeeper.driver.ending import log_line
from streamkeeper.driver.epoch import Claim
from streamkeeper.driver.faults import describe_fault, describe_links
from streamkeeper.driver.gate import Gate
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.progress import RunEnded
from streamkeeper.driver.raised import Link, links_of, links_of_text, links_of_throwable
from streamkeeper.errors import InputGone
from streamkeeper.inspection import source_readers
from streamkeeper.jvm.batch_files import PUT_BACK, prepare
from streamkeeper.jvm.create_only import must_be_create_only
from streamkeeper.jvm.task_classes import load_task_class
from streamkeeper.jvm.values import session_confs
from streamkeeper.model.protocol.fault_kinds import Fault, Judged
from streamkeeper.model.protocol.restart_budgets import Cause, RestartPolicy, pause
from streamkeeper.sinks.contract import SinkWriter
from streamkeeper.sinks.kinds.known_kinds import task_class_of
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point
from streamkeeper.system.memory_kills import RecentKills

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

RESTARTS = 3
FORGIVEN_AFTER_S = 600.0
_BACK_OFF_S = (1.0, 4.0, 15.0)
_STOP_S = 5.0
_TOPICS_S = 5.0
"""How long a start waits for the ids of topics. The main thread executes no order while it waits."""


class Ended(Enum):
    """How a run of a query terminated."""

    DRAINED = "drained"
    FINISHED = "finished"
    BROKEN = "broken"


class ServedQuery:
    """One query under its epoch, over all its runs in this process; used by the main thread only."""

    def __init__(
        self,
        planned: PlannedQuery,
        claim: Claim,
        checkpoint: Tree,
        gate: Gate,
        continuity: Continuity,
        root: Path,
        policy: RestartPolicy,
        kills: RecentKills,
        topics: Mapping[str, str],
        *,
        compared: bool = True,
    ) -> None:
        """``planned``: how the job built it.
        ``claim``: its epoch.
        ``checkpoint``: the directory of its version.
        ``gate``: admits its batches.
        ``continuity``: checks its checkpoint.
        ``root``: the directory of the job's code.
        ``policy``: limits waiting for dependencies.
        ``kills``: detects processes killed for their memory.
        ``topics``: Kafka topic -> id of the topic to which the checkpoint's offsets belong.
        ``compared``: whether these ids have just been compared with those of the present topics.
        """
        self.name = planned.query.name
        self.claim = claim
        self.checkpoint = checkpoint
        self.gate = gate
        self.ended: Ended | None = None
        self.error = ""
        self.failure: BaseException | None = None
        self.cause: Cause | None = None
        self.fault = Fault.UNCLASSIFIED
        self.restart_at: float | None = None
        self._planned = planned
        self._continuity = continuity
        self._root = root
        self._policy = policy
        self._run: StreamingQuery | None = None
        self._stopping: threading.Thread | None = None
        self._failed_at: list[float] = []
        self._waited_from = 0.0
        self._waits = 0
        self._kills = kills
        self.topics, self._compared = dict(topics), compared

    def note_topics(self, ids: Mapping[str, str]) -> None:
        """Add the ids of topics that were not recorded before, such as a topic that a pattern has matched only since
        then.
        """
        self.topics = {**ids, **self.topics}

    def refuse_input(self, error: InputGone) -> None:
        """Refuse every further batch, because the input is no longer the input of the checkpoint."""
        self._continuity.refuse_input(error)

    @property
    def run_id(self) -> str:
        """Spark's id of the present run."""
        return str(self._run.runId) if self._run is not None else ""

    @property
    def sources(self) -> int:
        """The number of the query's sources."""
        return len(self._planned.manifest.sources)

    @property
    def planned(self) -> PlannedQuery:
        """The planned query."""
        return self._planned

    def start(self) -> None:
        """Start a run from the checkpoint.

        Raises CheckpointLost when the directory does not contain the recorded checkpoint. Raises InputGone when input
        files of the open batch are missing. Raises OtherTopic when a topic was deleted and created again since the
        ids were last compared, and SourceOutOfReach while its brokers do not answer.
        """
        query = self._planned.query
        crash_point("driver.open.before")
        self._continuity.check_start()
        self._check_input()
        if self.topics and not self._compared:
            # The brokers may have been away since the last comparison, and may have come back without their topics.
            source_readers.must_be_the_same(
                self.name, self.topics, source_readers.identities(query, timeout_s=_TOPICS_S)
            )
        self._compared = False
        spark: Any = query.df.sparkSession
        must_be_create_only(spark, self.checkpoint.spark_path)
        prepare(spark)
        if task_class := task_class_of(query.sink.kind):
            load_task_class(spark, task_class)
        restore_confs(spark, self._planned.confs)
        trigger = parse_trigger(query.trigger)
        timing: dict[str, Any] = {"availableNow": True} if trigger.available_now else {"processingTime": trigger.text}
        self.restart_at = None
        self._run = (
            query.df.writeStream.queryName(query.name)
            .outputMode(query.output_mode)
            .option("checkpointLocation", self.checkpoint.spark_path)
            .foreachBatch(self.gate)
            .trigger(**timing)
            .start()
        )
        self._continuity.note_start(str(self._run.id))
        crash_point("driver.open.after")

    def _check_input(self) -> None:
        """Raise InputGone if files are missing for the batch that a start would rerun. This also covers restarts in the
        process.
        """
        unseen = other_s3(self._planned.manifest.confs, os.environ)
        found = find_open_input(self.checkpoint.fresh(), lambda: unseen)
        if found.missing:
            raise InputGone(found.missing, hint=PUT_BACK)
        if found.unchecked:
            log_line(found.unchecked, query=self.name, level=logging.WARNING)

    def serve_under(self, claim: Claim, writer: SinkWriter) -> SinkWriter:
        """Continue the query under another claim, with the writer of that claim. The gate must be held. Returns the
        previous writer.

        If the query has ended because it had read all its input, a new run is started, which reads the input that has
        arrived since.
        """
        self.claim = claim
        if self.ended is Ended.FINISHED:
            self.ended, self.restart_at = None, clock.monotonic()
        return self.gate.hand_to(writer, claim.superseded_by)

    def stop_in_gap(self) -> bool:
        """Stop the query if it is between two triggers. Return whether the query has terminated. Its gate must be
        closed.
        """
        if self.ended is not None:
            return True
        run: Any = self._run
        if self.restart_at is not None or run is None or not run.isActive:
            self.ended = Ended.DRAINED
            return True
        if not self.gate.busy and self._stopping is None and not run._jsq.status().isTriggerActive():
            self._stopping = threading.Thread(target=self._stop, args=(run,), name=f"stop {self.name}", daemon=True)
            self._stopping.start()
            self._stopping.join(_STOP_S)
            if not run.isActive:
                self.ended = Ended.DRAINED
        return self.ended is not None

    def _stop(self, run: Any) -> None:
        try:
            run.stop()
        except Exception as error:
            # The call may raise although the query has ended; that is checked next, and the JVM is killed anyway.
            self.error = describe_fault(error)

    def note_end(self, event: RunEnded) -> None:
        """Judge why the present run ended, and plan a restart if the run failed and the query has restarts left."""
        self.failure = self.gate.take_failure()
        if self.gate.refused is not None and self.failure is None:
            self.ended = Ended.DRAINED
        elif not event.text and self.failure is None:
            self.ended = Ended.FINISHED
        else:
            self._take_error(event)

    def note_broken_start(self, error: BaseException) -> None:
        """Record a run that could not even be started."""
        self.failure = error
        self.error = describe_fault(error, self._root)
        self._plan_restart(judge(error, self._root))

    def _take_error(self, event: RunEnded) -> None:
        """Use the error that the gate recorded, else Spark's own error of the run."""
        if self.failure is not None:
            links = links_of(self.failure)
            self.error, judged = describe_fault(self.failure, self._root), judge(self.failure, self._root)
        else:
            links = self._links_of_run() or links_of_text(event.text, event.condition)
            self.error, judged = describe_links(links), judge_links(links, self._root)
        if is_lost_worker(links) and self._kills.any():
            self.error = (
                f"{self.error} (Linux has killed a process of this container or control group, which ran out of memory)"
            )
            judged = Judged(judged.cause, Fault.OUT_OF_MEMORY)
        if judged.fault is Fault.UNCLASSIFIED and "file:" not in self.error:
            read = input_of_open_batch(self.checkpoint.fresh())
            self.error = f"{self.error}; {read}" if read else self.error
        self._plan_restart(judged)

    def _links_of_run(self) -> tuple[Link, ...]:
        """Return the links of Spark's error of the present run; empty if the JVM does not answer."""
        run: Any = self._run
        try:
            kept = run._jsq.exception()
            return links_of_throwable(kept.get()) if kept.isDefined() else ()
        except Exception:
            return ()

    @property
    def waits(self) -> bool:
        """Whether the query waits for a sink or a source that has not answered since the query's last completed
        trigger.
        """
        return self.ended is None and self.cause is Cause.DEPENDENCY

    def note_trigger(self) -> None:
        """Record a completed trigger, which means that the dependencies answer."""
        self.cause, self._waits = None, 0

    def _plan_restart(self, judged: Judged) -> None:
        now, cause = clock.monotonic(), judged.cause
        self.cause, self.fault = cause, judged.fault
        if cause is Cause.DEPENDENCY:
            self._wait(now)
            return
        self._waits = 0
        self._failed_at = [failed_at for failed_at in self._failed_at if now - failed_at < FORGIVEN_AFTER_S]
        # A retry meets a permanent error again; for a lack of capacity the supervisor has longer pauses.
        if cause is not Cause.FAILURE or len(self._failed_at) >= RESTARTS:
            self.ended = Ended.BROKEN
            return
        self.restart_at = now + _BACK_OFF_S[len(self._failed_at)]
        self._failed_at.append(now)

    def _wait(self, now: float) -> None:
        """Plan the next attempt; give up after the policy's limit."""
        policy = self._policy
        if self._waits == 0:
            self._waited_from = now
        if now - self._waited_from >= policy.dependency_limit_s:
            self.ended = Ended.BROKEN
            return
        self.restart_at = now + pause(policy.dependency_pause_s, policy.dependency_longest_s, self._waits)
        self._waits += 1


def restore_confs(spark: Any, confs: Mapping[str, str]) -> None:
    """Set the session's confs back to those that it had when the job yielded the query. A run copies the confs at its
    start.

    Confs that did not exist then are unset, including those that Spark does not know. Spark refuses to change confs
    that are the same in all sessions; these stay.
    """
    from pyspark.errors import AnalysisException

    present = session_confs(spark)
    for key in present.keys() | confs.keys():
        value = confs.get(key)
        if present.get(key) == value:
            continue
        with suppress(AnalysisException):
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)
