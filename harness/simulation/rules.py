"""The rules that hold at every moment of a simulation, checked against the processes that are alive and the data that
is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harness.simulation.input import told
from harness.simulation.plan import OutputKind
from harness.simulation.releases import QUERY
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.coding import from_json
from streamkeeper.model.protocol.driver_messages import ProcessRecord, control_key
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import (
    About,
    ApprovalAnswered,
    Entry,
    EpochClaimed,
    InstanceAppointed,
    InstanceEnded,
    OperationStarted,
)
from streamkeeper.operations.fleet.fleet_look import OWN
from streamkeeper.registry.objects import read_assessment

if TYPE_CHECKING:
    from harness.simulation.sink import Written
    from harness.simulation.world import World

DRIFT = "drift-"
"""The prefix of rule names of simulated unknown changes."""
_ASKED_WITHIN_S = 1.0
"""The maximum age of a driver's last response from the store when it admits a batch: a driver queries the store for
each batch, so an older response belongs to an earlier batch.
"""


class Rules:
    """The rules of one world, with what they have observed. A broken rule ends the schedule."""

    def __init__(self, world: World, job: str) -> None:
        self._world, self._job = world, job
        self.state = JobState(job=job)
        """The job's state after the newest entry of the journal."""
        self._put_back = False
        self.replaced = False
        """Whether files of checkpoints, or the store, were replaced or damaged."""
        self.gap = False
        """Whether the journal lacks entries, because an older copy was put in its place during a write."""
        self._inside: dict[str, Any] = {}
        self._left: set[str] = set()
        """Checkpoint versions that an operation left for one that does not continue them, as it announced."""
        self._kept: dict[str, int] = {}
        """Checkpoint version -> its last batch whose rows count, after an operation restored an older batch of it."""
        self.killed: set[str] = set()
        """Instances of which an operation has killed every process that it sees."""
        self.writers: dict[str, Any] = {}
        self.no_gaps = True
        """Whether a row is written only after the row before it; not once a person has accepted another output."""
        self.gathered: dict[str, int] = {}
        """Instance -> the number of unknown changes in the evidence that it gathered last."""
        self._skipping: set[str] = set()
        """Operations that were allowed to skip the first rows of a topic."""
        self._approved: dict[str, int] = {}
        """Operation -> the number of unknown changes in the question that was answered last."""

    def reset(self, state: JobState) -> None:
        """Continue with a different journal, after an older copy of the store was put back."""
        self.state, self._put_back, self.replaced = state, True, True

    def entry(self, key: str, value: bytes) -> None:
        """Check a new entry of the journal."""
        try:
            entry = from_json(value, Entry, where=key)
        except StreamkeeperError as error:
            return self._break(f"the journal holds an unreadable entry: {error}")
        before, record = self.state, entry.record
        if self.gap or (self._put_back and entry.number > before.number + 1):
            # A writer had looked at the store just before the copy was put in its place. Every reader then refuses.
            self.gap = True
            return
        if entry.number != before.number + 1:
            self._break(f"entry {entry.number} follows entry {before.number}")
        if isinstance(record, InstanceEnded):
            self._must_have_ended(record, before)
        elif isinstance(record, ApprovalAnswered):
            self._approved[record.operation] = self._drifts_asked(before, record.operation)
            self.no_gaps &= not (record.approved and record.about is About.OUTPUT)
        elif isinstance(record, InstanceAppointed):
            self._must_be_approved(record, before)
            operation = before.operations.get(before.instances[record.instance].operation)
            ways = operation.transitions.values() if operation is not None else ()
            present = self._world.input.ids()
            skips = any(way.other_topics and way.approved_topics == present for way in ways)
            answer = operation.approval if operation is not None else None
            skips &= operation is not None and (operation.request.accept_risk or bool(answer and answer.approved))
            if skips and operation is not None and operation.operation not in self._skipping:
                # A person has approved that the first rows of the present topic are never read. If the plan is damaged,
                # only a later version shows which rows.
                if offset := self._world.offset_of(record.versions[QUERY]):
                    self._skipping.add(operation.operation)
                self._world.input.skip_to(offset, self._world.rows_seen())
            others = [owner.instance for owner in before.owners if owner.instance != record.instance]
            if others:
                self._break(f"{record.instance} is appointed beside {others[0]}, whose end is not proven")
            for query, version in record.versions.items():
                self._note_versions(before, query, version)
        elif isinstance(record, OperationStarted):
            if before.open_operation is not None:
                self._break(f"{record.operation} starts beside the open operation {before.open_operation.operation}")
            if record.operation.startswith(OWN) and before.stopped is not None:
                self._break(f"the watch starts {record.operation}, although a person has stopped the job")
        elif isinstance(record, EpochClaimed):
            self._must_be_the_owner(record, before)
        self.state = fold(before, entry)

    def held(self, key: str) -> None:
        """Check a replaced value: a hold must refer to a snapshot that exists."""
        series, kind, number = _part_of_series(key)
        if kind == "holds" and not self._put_back and not self._world.disk.get(f"{series}/index/{number}"):
            self._break(f"snapshot {number} of {series} is held and does not exist")

    def removed(self, key: str) -> None:
        """Check a value that is about to be deleted: a snapshot with a hold must not be deleted."""
        series, kind, number = _part_of_series(key)
        if kind == "index" and self._world.disk.below(f"{series}/holds/{number}/", ""):
            self._break(f"snapshot {number} of {series} is removed and has a hold")

    def admitted(self) -> None:
        """Check the driver that has just passed its gate."""
        current = self._world.scheduler.current
        assert current is not None
        driver, now = current.process, self._world.scheduler.now_s
        if now - driver.answered_s > _ASKED_WITHIN_S:
            self._break(f"{driver.name} admits a batch {now - driver.answered_s:.0f} s after the store's answer")
        if driver.name.partition("/")[0] == self.state.shadow:
            # A shadow writes beside the current driver, into a table of its own.
            return
        for other in self._inside.values():
            if other is not driver and other.alive:
                self._break(f"{driver.name} admits a batch while {other.name} writes one")
        self._inside[driver.name] = driver

    def left(self) -> None:
        """Record that a batch of the current driver was written."""
        current = self._world.scheduler.current
        if current is not None:
            self._inside.pop(current.process.name, None)

    def cleaned(self, rows: Sequence[int]) -> None:
        """Check the input files that a driver has deleted: the current checkpoint must have committed their batches."""
        self._world.scheduler.say(f"deletes the files of {told(rows)}")
        lost = [row for row in rows if row not in self._world.rows_committed()]
        if lost and not self.replaced:
            self._break(f"the files of {told(lost)} are deleted, and their batches are not committed")

    def pruned(self, versions: Collection[str], before: JobState) -> None:
        """Check the checkpoint versions of which a prune deletes batches: an open operation may return to every version
        except the current one, so only that one may be pruned.

        ``before``: the state when planning of the prune began.
        """
        opened, now = before.open_operation, self.state.open_operation
        if opened is None or now is None or opened.operation != now.operation:
            return
        current = {each.version for state in (before, self.state) if (each := state.current_version(QUERY))}
        if others := sorted(set(versions) - current):
            self._break(f"a prune removes batches of {others[0]} beside the open operation {now.operation}")

    def sole_writer(self, run: Any, path: str) -> None:
        """Check that no two living JVMs write the same checkpoint."""
        before = self.writers.get(run.checkpoint)
        if before is not None and before is not run and before.isActive:
            self._break(f"two drivers write {path} of {run.checkpoint}")
        self.writers[run.checkpoint] = run

    def written(self, written: Written, version: str, batch: int, rows: Sequence[int], *, shown: bool) -> None:
        """Record and check the rows of a batch in a table, or in the output of a function.

        ``shown``: whether readers see the rows; if so, no row may be missing.

        Only a function may write a row twice, and only if its batch was not committed. Rows that an operation gave up,
        as it announced, may be written a second time.
        """
        self._world.scheduler.say(f"writes batch {batch} of {version}: {told(rows)}")
        may_lack = self._world.input.may_lack
        for row in rows:
            if shown and self.no_gaps and row and not (written.get(row - 1) or may_lack(row - 1) or may_lack(row)):
                self._break(f"row {row} was written by {(version, batch)}, and the row before it is missing")
            earlier = written.setdefault(row, [])
            if all(self._is_given_up(*each) for each in earlier):
                earlier.clear()
            if earlier and self._world.kind is OutputKind.TABLE:
                self._break(f"row {row} was written by batches {earlier}, and now by {(version, batch)}")
            # A new version begins with the plan and the commit of its predecessor's batch, and may lose that commit.
            done = [each for each in earlier if self._is_committed(*each) and not (self.replaced and each[1] == batch)]
            if done:
                self._break(f"row {row} of the committed batch {done[0]} was written again by {(version, batch)}")
            earlier.append((version, batch))

    def swapped(self, written: Written) -> None:
        """Check a table that readers see from this time on."""
        missing = self._world.input.gaps({row for row, batches in written.items() if batches})
        if self.no_gaps and missing:
            self._break(f"readers see a table without row {missing[0]}")

    def _is_given_up(self, version: str, batch: int) -> bool:
        return version in self._left or batch > self._kept.get(version, batch)

    def _break(self, what: str) -> None:
        self._world.scheduler.break_rule(what)

    def _is_committed(self, version: str, batch: int) -> bool:
        place, files = f"{self._world.settings.checkpoints}/{self._job}", self._world.files
        found = (files.get(f"{place}/{query}{version}/commits/{batch}") for query in files.names(place))
        return any(each is not None for each in found)

    def _must_have_ended(self, record: InstanceEnded, before: JobState) -> None:
        """Check that an instance whose end is recorded has no living process. A supervisor without a claim is exempt,
        because it may start late and stops once it reads the journal; so is an instance that was never appointed and
        whose processes were killed.
        """
        known = before.instances.get(record.instance)
        if known is not None and record.instance in self.killed and not known.appointed:
            return
        living = [process for machine in self._world.boots for process in self._world.living(record.instance, machine)]
        if self._world.disk.get(control_key(self._job, record.instance, "exit.json")) is not None:
            # A supervisor that has recorded the end does nothing more, but may still wait for the store's answer.
            living = [process for process in living if process.parent is not None]
        if living and any(self._claims(record.instance)):
            names = ", ".join(process.name for process in living)
            self._break(f"the end of {record.instance} is recorded ({record.proof}), and {names} live")

    def _claims(self, instance: str) -> Iterator[str]:
        """Yield the processes that have claimed an instance; a claim without a process, which only keeps others from
        claiming it, is skipped.
        """
        for key in self._world.disk.below(control_key(self._job, instance, "process-"), ""):
            claim = from_json(self._world.disk.get(key) or b"", ProcessRecord, where=key)
            if claim.pid:
                yield f"{claim.pid} on {claim.host}"

    def _note_versions(self, before: JobState, query: str, version: str) -> None:
        """Record which rows the appointed version may write a second time."""
        lineage = {segment.version for segment in before.segments(query, version)}
        self._left |= {each.version for each in before.versions.get(query, ()) if each.version not in lineage}
        self._left -= lineage
        known = before.version(query, version)
        if known is not None and known.parent and known.parent_batch is not None and not known.serves:
            self._kept[known.parent] = min(known.parent_batch, self._kept.get(known.parent, known.parent_batch))

    def _drifts_asked(self, before: JobState, operation: str) -> int:
        report, scheduler = before.operations[operation].report, self._world.scheduler
        with scheduler.in_no_time():
            shown = read_assessment(self._world.store_of(None), self._job, report) if report else None
        findings = [each for judged in shown.queries.values() for each in judged.findings] if shown is not None else []
        return sum(each.rule.startswith(DRIFT) for each in findings)

    def _must_be_approved(self, record: InstanceAppointed, before: JobState) -> None:
        """Check that a candidate with an opaque change is appointed only after an approval, and that no change was
        found after the approval.
        """
        instance = before.instances[record.instance]
        operation = before.operations.get(instance.operation)
        if operation is None:
            # An older copy of the store was put back just before.
            return
        opaque = any(way.opaque for way in operation.transitions.values())
        if instance.release != operation.release or not opaque or operation.request.accept_risk:
            return
        if operation.approval is None or not operation.approval.approved:
            self._break(f"{record.instance} is appointed without an approval")
        mine = [name for name, other in before.instances.items() if other.operation == operation.operation]
        found = max((self.gathered.get(name, 0) for name in mine), default=0)
        if found > (asked := self._approved.get(operation.operation, 0)):
            self._break(f"{record.instance} is appointed with {found} unknown changes, and {asked} were approved")

    def _must_be_the_owner(self, record: EpochClaimed, before: JobState) -> None:
        if before.appointed != record.instance:
            self._break(f"{record.instance} claims an epoch, and {before.appointed or 'nobody'} is appointed")
        newest = before.epochs.get(record.query)
        if newest is not None and newest.epoch >= record.epoch:
            self._break(f"epoch {record.epoch} is claimed after epoch {newest.epoch}")
        if newest is not None and newest.instance == record.instance and newest.generation >= record.generation:
            self._break(f"generation {record.generation} claims after generation {newest.generation}")


def _part_of_series(key: str) -> tuple[str, str, str]:
    """Return series, kind and number of a key like ``snapshots/job/query/holds/00000001/owner``; empty strings for
    other keys.
    """
    parts = key.split("/")
    return ("/".join(parts[:3]), parts[3], parts[4]) if parts[0] == "snapshots" and len(parts) > 4 else ("", "", "")
