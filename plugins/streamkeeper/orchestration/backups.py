"""The tasks of a backup: take a snapshot of each query, and check that no query's backup is late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from streamkeeper.errors import NotFound, PermanentError, WrongMachine
from streamkeeper.orchestration.query_tasks import SeriesTask, find_series, find_target
from streamkeeper.orchestration.snapshot_forms import backup_form, read_choice_of_queries
from streamkeeper.orchestration.tasks import AskedTask, load_installation
from streamkeeper.system import clock

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.jobs.installation import Installation
    from streamkeeper.snapshots.capture import CaptureProgress

LONGEST_BACKUP = timedelta(hours=5)
"""Time limit of a backup. It is shorter than the limit of a capture: after that limit a prune may remove packs that the
capture reuses, and the work would be lost.
"""
SAY_EVERY_S = 5.0


class ObjectiveMissed(PermanentError):
    """Raised if a query has no recent enough snapshot or a backup failed."""


class BackupOperator(SeriesTask):
    """Takes a snapshot of each query of the task; skipped if no query has committed a batch since its last snapshot."""

    template_fields: Sequence[str] = ("series",)

    def work(self, context: Context) -> str:
        """Return a sentence per snapshot; raises CheckpointDamaged for a checkpoint that is missing or cannot be
        read."""
        return "\n".join(self.each(context))

    def one(self, installation: Installation, series: str, context: Context) -> str:
        """Take a snapshot of one query, and return a sentence about it."""
        from streamkeeper.operations.backups.backup import back_up

        target = find_target(installation, series)
        try:
            captured = back_up(installation.snapshots, target, show=Pace(self.log.info))
        except NotFound as error:
            self._skip(f"{series}: no checkpoint to back up yet: {error.message}")
        if not captured.taken:
            self._skip(captured.sentence)
        self.log.info("%s", captured.sentence)
        return captured.sentence


class Pace:
    """Reports the progress of a capture at most every five seconds. A capture that takes less time reports nothing."""

    def __init__(self, log: Callable[[str], None], now: Callable[[], float] = clock.monotonic) -> None:
        self._log, self._now = log, now
        self._quiet_until = now() + SAY_EVERY_S

    def __call__(self, progress: CaptureProgress) -> None:
        if self._now() < self._quiet_until:
            return
        self._quiet_until = self._now() + SAY_EVERY_S
        self._log(
            f"batch {progress.batch}: {progress.files:,} of {progress.of_files:,} files,"
            f" {progress.bytes:,} of {progress.of_bytes:,} bytes read,"
            f" {progress.added:,} bytes stored"
        )


class ObjectiveOperator(AskedTask):
    """Fails the run if a backup task failed, or if the backup of a query is later than the installation allows."""

    form = staticmethod(backup_form)

    def work(self, context: Context) -> str:
        """Return one sentence; raises ObjectiveMissed with a line for each late query and the number of failed
        tasks."""
        installation = load_installation()
        series = find_series(installation, read_choice_of_queries(self.asked(context)))
        missed = list(missed_objectives(installation, series, self.log.info))
        # Airflow judges a run by its last task alone.
        failed = self.count_failed(context, self.upstream_task_ids)
        if failed:
            missed.append(f"{failed} of this run's tasks failed. See their logs")
        if missed:
            raise ObjectiveMissed("\n".join(missed))
        age = f"{installation.settings.objective_s:.0f} s"
        sentence = f"every batch committed more than {age} ago is in a snapshot (queries: {len(series)})"
        self.log.info("%s", sentence)
        return sentence


def missed_objectives(installation: Installation, series: list[str], log: Callable[[str], None]) -> Iterator[str]:
    """Yield one sentence for each query whose backup is late, or whose checkpoint cannot be read.

    A checkpoint on the disk of another machine is only reported with ``log``, because the watch on that machine checks
    that checkpoint every minute.
    """
    from streamkeeper.operations.backups.backup import lateness_of

    for one_series in series:
        try:
            lateness = lateness_of(installation, find_target(installation, one_series))
        except PermanentError as error:
            yield f"{one_series}: {error}"
            continue
        except WrongMachine as error:
            log(f"{one_series}: {error.message}")
            continue
        sentence = lateness.exceeds(installation.settings.objective_s) if lateness is not None else ""
        if sentence:
            yield sentence
