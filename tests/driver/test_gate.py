"""Tests without Spark of the gate, the lease, the status and the wake-ups: which batches are admitted, and what stops a
driver.
"""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from harness.fault_store import FaultStore
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver.comparing import NO_MOMENT, search
from streamkeeper.driver.continuity import Continuity
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.epoch import Claim
from streamkeeper.driver.gate import Gate, GateClosed
from streamkeeper.driver.lease import Heartbeat, Lease
from streamkeeper.driver.measuring import QueryProgress
from streamkeeper.driver.progress import StatusReporter
from streamkeeper.driver.timings import Timings
from streamkeeper.driver.wakeups import Wakeup, Wakeups
from streamkeeper.errors import CheckpointLost, Fenced, InputGone
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, DriverStatus, QueryStatus
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_keys import journal_prefix
from streamkeeper.model.records.journal_records import (
    EpochClaimed,
    InstanceAppointed,
    InstancePlanned,
    Record,
    Role,
    ShadowAppointed,
)
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.sinks.contract import SinkWriter, WriterRole
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from tests.driver.driver_house import standby_spec

CLAIM = Claim(job="sales", instance="first", generation=1, query="totals", version="v0001", output="o", epoch=1)


class Ledger(SinkWriter):
    """A writer that records the batches that it was given."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.fails = False

    def raise_fence(self) -> None: ...

    def last_batch(self) -> int | None:
        return None

    def write(self, batch: object, batch_id: int) -> None:
        self.batches.append(batch_id)
        if self.fails:
            raise OSError("no answer")

    def close(self) -> None: ...


def continuity_of(directory: Path) -> Continuity:
    """Return the continuity check of a checkpoint version that has not begun."""
    return Continuity(LocalTree(directory), KnownCheckpoint(series="sales/totals", version="v0001"))


class Bench:
    """A gate over a real store in which the instance ``first`` is appointed and owns epoch 1."""

    def __init__(self, root: Path) -> None:
        self.store = CountingStore(LocalStore(root / "store"))
        self.journal = Journal(self.store, "sales", writer="test")
        self.add(InstancePlanned(operation="op", instance="first", release="r0001", role=Role.CANDIDATE))
        self.add(InstancePlanned(operation="op", instance="second", release="r0001", role=Role.CANDIDATE))
        self.add(InstanceAppointed(operation="op", instance="first"))
        self.add(self.claim("first", 1))
        self.line = DriverChannel(self.store, "sales", "first", 1)
        self.ledger = Ledger()
        self.wakeups = Wakeups()
        self.checkpoint = root / "v0001"
        (self.checkpoint / "commits").mkdir(parents=True)
        (self.checkpoint / "offsets").mkdir()
        self.identify("first")
        self.continuity = continuity_of(self.checkpoint)
        self.gate = self.make_gate()

    def make_gate(self) -> Gate:
        return Gate("totals", self.ledger, self.line, CLAIM.superseded_by, self.continuity, Timings(), self.wakeups)

    def identify(self, query: str) -> None:
        """Make the directory the checkpoint of the query with this Spark id."""
        (self.checkpoint / "metadata").write_text(json.dumps({"id": query}))

    def add(self, record: Record) -> None:
        self.journal.append(lambda _: record)

    def claim(self, instance: str, epoch: int) -> EpochClaimed:
        return EpochClaimed(query="totals", output="o", epoch=epoch, instance=instance, generation=1, version="v0001")

    def batch(self, number: int) -> None:
        """Run a batch that Spark plans, and commits once the gate has admitted it."""
        if self.checkpoint.exists():
            (self.checkpoint / "offsets" / str(number)).touch()
        self.gate(None, number)  # type: ignore[arg-type]
        (self.checkpoint / "commits" / str(number)).touch()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def age(bench: Bench) -> None:
    """Make the cached commands and the cached journal too old to be shared."""
    bench.line._commands_at = bench.line._state_at = float("-inf")


def test_a_query_whose_input_was_replaced_runs_nothing_more(bench: Bench) -> None:
    """A query whose input was replaced is refused at its next batch and at a restart in the process, and the batch is
    not written.
    """
    bench.batch(0)
    bench.continuity.refuse_input(InputGone("the topic is another one"))
    with pytest.raises(InputGone, match="another one"):
        bench.batch(1)
    with pytest.raises(InputGone, match="another one"):
        bench.continuity.check_start()
    assert bench.ledger.batches == [0]


def test_a_batch_of_the_owner_costs_two_store_requests(bench: Bench) -> None:
    """The owner's batch costs two requests to the store, one list of commands and one of the journal, and a second
    query shares them.
    """
    bench.batch(0)
    age(bench)
    before = bench.store.requests
    bench.batch(1)
    bench.continuity = continuity_of(bench.checkpoint.with_name("others"))
    other = bench.make_gate()
    other(None, 5)  # type: ignore[arg-type]
    assert bench.ledger.batches == [0, 1, 5]
    assert bench.store.requests - before == 2


class SlowDisk:
    """A fault that blocks every replacement until it is released."""

    def __init__(self) -> None:
        self.began, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, call: str, key: str) -> None:
        if call == "replace":
            self.began.set()
            self.goes_on.wait(30)


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "control"])
def test_a_batch_does_not_wait_for_a_status_that_is_being_written(tmp_path: Path, apart: bool) -> None:
    """A batch passes the gate while a status is being written to a slow disk, and a write that hangs does not renew the
    lease. Negative control: with one lock for both, the batch waits.
    """
    bench = Bench(tmp_path)
    disk = SlowDisk()
    bench.store._inner = FaultStore(LocalStore(tmp_path / "store"), disk)
    if not apart:
        bench.line._telling = bench.line._lock  # type: ignore[assignment]
    status = DriverStatus(
        instance="first", release="r0001", generation=1, state=DriverState.SERVING, beat=1, at="1970-01-01T00:00:00Z"
    )
    telling = threading.Thread(target=bench.line.write_status, args=(lambda: status,))
    telling.start()
    try:
        assert disk.began.wait(30)
        told = time.monotonic()
        passing = threading.Thread(target=bench.batch, args=(0,))
        passing.start()
        passing.join(30 if apart else 0.3)
        assert bench.ledger.batches == ([0] if apart else [])
        assert bench.line.answered_at <= told
    finally:
        disk.goes_on.set()
        telling.join(30)
    passing.join(30)
    assert bench.ledger.batches == [0]
    assert bench.line.answered_at > told


def test_a_batch_counts_as_let_through_also_when_its_write_fails(bench: Bench) -> None:
    """A batch whose write fails counts as admitted, because it may have been written; a batch that reaches the closed
    gate counts as refused.
    """
    bench.batch(0)
    bench.ledger.fails = True
    with pytest.raises(OSError, match="no answer"):
        bench.batch(1)
    assert (bench.gate.written, bench.gate.admitted) == (0, 1)
    (bench.checkpoint / "commits" / "1").touch()
    bench.gate.close()
    with pytest.raises(GateClosed):
        bench.batch(2)
    assert (bench.gate.admitted, bench.gate.refused) == (1, 2)


@pytest.mark.parametrize("how", ["appointed", "claimed"])
def test_superseded_driver_is_fenced(bench: Bench, how: str) -> None:
    """A driver that was superseded by another appointment or a newer epoch is fenced at its next batch."""
    bench.batch(0)
    age(bench)
    if how == "appointed":
        bench.add(InstanceAppointed(operation="op", instance="second"))
    else:
        bench.add(bench.claim("first", 2))
    with pytest.raises(Fenced):
        bench.batch(1)
    assert bench.ledger.batches == [0]


def test_drain_command_closes_the_gate_at_the_next_batch(bench: Bench) -> None:
    """A drain command closes the gate at the next batch even without a nudge, and the refused batch stays planned."""
    bench.batch(0)
    age(bench)
    Control(bench.store, "sales", "first").send(CommandKind.DRAIN, "op")
    with pytest.raises(GateClosed):
        bench.batch(1)
    assert bench.gate.refused == 1
    assert bench.ledger.batches == [0]
    assert Wakeup.LOOKED in bench.wakeups.wait(0)


@pytest.mark.parametrize("before", [0, 1])
def test_a_batch_waits_while_the_store_does_not_answer(bench: Bench, tmp_path: Path, before: int) -> None:
    """A batch waits while the store does not answer: neither a missing answer nor the journal as read for an earlier
    batch admits it.
    """
    for number in range(before):
        bench.batch(number)
    age(bench)
    (tmp_path / "store").rename(tmp_path / "gone")
    thread = threading.Thread(target=bench.batch, args=(before,), daemon=True)
    thread.start()
    thread.join(0.4)
    assert thread.is_alive()
    assert bench.ledger.batches == [*range(before)]
    (tmp_path / "gone").rename(tmp_path / "store")
    thread.join(10)
    assert bench.ledger.batches == [*range(before + 1)]


def test_a_committed_batch_that_is_replayed_in_process_is_refused(bench: Bench) -> None:
    """If Spark starts at an already committed batch in the same process, the batch is refused with ``CheckpointLost``
    and does not reach the sink; a failed batch may be retried.
    """
    for number in (0, 1, 2, 2):
        bench.batch(number)
    for number in (0, 1):
        with pytest.raises(
            CheckpointLost, match=rf"Spark now runs batch {number}, although Spark has already committed batch 1"
        ):
            bench.batch(number)
    assert isinstance(bench.gate.take_failure(), CheckpointLost)
    assert bench.ledger.batches == [0, 1, 2, 2]


@pytest.mark.parametrize("how", ["unmounted", "emptied", "another query's", "an older copy"])
def test_no_batch_of_another_directory_passes(bench: Bench, how: str) -> None:
    """The gate checks the checkpoint directory for every batch: an unmounted or emptied one, a different query's or an
    older copy is refused with ``CheckpointLost``.
    """
    bench.continuity.note_start("first")
    bench.batch(0)
    match how:
        case "unmounted":
            bench.checkpoint.rename(bench.checkpoint.with_name("gone"))
        case "emptied":
            (bench.checkpoint / "metadata").unlink()
        case "another query's":
            bench.identify("other")
        case _:
            bench.batch(1)
            (bench.checkpoint / "commits" / "1").unlink()
            (bench.checkpoint / "offsets" / "1").unlink()
    before = list(bench.ledger.batches)
    with pytest.raises(CheckpointLost, match="checkpoint v0001 of sales/totals"):
        bench.batch(2)
    with pytest.raises(CheckpointLost):
        bench.continuity.check_start()
    assert bench.ledger.batches == before


@pytest.mark.parametrize("committed", [True, False])
def test_a_batch_is_not_planned_again_with_other_rows(bench: Bench, committed: bool) -> None:
    """A query whose checkpoint lost the plan of a batch that has already run is not started, because the batch would be
    planned with other rows that the sink skips. Negative control: while the plan exists, the batch is replayed.
    """
    bench.batch(0)
    bench.batch(1)
    commit, plan = (bench.checkpoint / folder / "1" for folder in ("commits", "offsets"))
    if not committed:
        commit.unlink()
        bench.continuity.check_start()
        bench.batch(1)
    commit.unlink()
    plan.unlink()
    with pytest.raises(CheckpointLost, match=r"the plan of batch 1 is missing in .*, although this driver has already"):
        bench.continuity.check_start()


def test_a_restarted_query_writes_batches_twice_without_the_batch_check(bench: Bench) -> None:
    """Negative control: without the check of each batch, a query that starts from the beginning writes its batches
    twice.
    """
    bench.continuity.check_batch = lambda batch_id: None  # type: ignore[method-assign]
    for number in (0, 1, 0, 1):
        bench.batch(number)
    assert bench.ledger.batches == [0, 1, 0, 1]


def test_failure_of_a_sink_is_kept_for_the_driver(bench: Bench) -> None:
    """The gate keeps the exception of a sink for the driver once, because Spark would report it as text only."""
    bench.ledger.write = lambda *_: 1 / 0  # type: ignore[method-assign,assignment]
    with pytest.raises(ZeroDivisionError):
        bench.batch(0)
    assert isinstance(bench.gate.take_failure(), ZeroDivisionError)
    assert bench.gate.take_failure() is None
    assert not bench.gate.busy


def test_a_batch_waiting_at_a_held_gate_goes_to_the_new_writer(bench: Bench) -> None:
    """A batch that arrives while the gate is held waits, and after the cutover it is written by the new writer under
    the new claim, even though the old claim is superseded.
    """
    bench.batch(0)
    bench.gate.hold()
    thread = threading.Thread(target=bench.batch, args=(1,), daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    assert not bench.gate.busy
    assert bench.gate.refused is None
    bench.add(bench.claim("first", 2))
    age(bench)
    heir = Ledger()
    claim = msgspec.structs.replace(CLAIM, epoch=2)
    assert bench.gate.hand_to(heir, claim.superseded_by) is bench.ledger
    bench.gate.release()
    thread.join(10)
    assert (bench.ledger.batches, heir.batches, bench.gate.written) == ([0], [1], 1)
    assert bench.gate.take_failure() is None


def test_closing_a_held_gate_refuses_the_waiting_batch(bench: Bench) -> None:
    """Closing a held gate during a cutover refuses the waiting batch, which stays planned."""
    bench.gate.hold()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(bench.batch, 3)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.3)
        bench.gate.close()
        with pytest.raises(GateClosed):
            waiting.result(timeout=10)
    assert bench.gate.refused == 3
    assert bench.ledger.batches == []


def test_a_shadow_continues_only_while_it_is_the_appointed_shadow(bench: Bench) -> None:
    """A shadow continues while it is the appointed shadow, regardless of other appointments, and is superseded without
    a dual run or when another instance shadows.
    """
    shadow = msgspec.structs.replace(CLAIM, instance="second", role=WriterRole.SHADOW)
    assert shadow.superseded_by(bench.journal.state()) == "the dual run is over"
    bench.add(ShadowAppointed(operation="op", instance="second"))
    assert shadow.superseded_by(bench.journal.state()) == ""
    bench.add(ShadowAppointed(operation="op", instance="first"))
    assert shadow.superseded_by(bench.journal.state()) == "the dual run is over"
    bench.add(InstanceAppointed(operation="op", instance="second"))
    assert shadow.superseded_by(bench.journal.state()) == ""


def test_batches_before_the_cutover_do_not_count_as_serving_triggers(bench: Bench) -> None:
    """A batch that was written before the cutover and that Spark reports after it does not count as a trigger of the
    serving query.
    """
    board = StatusReporter(standby_spec("first", "r0001"), 1, Timings(), bench.line)
    board.put(QueryStatus(query="totals", version="v0002", epoch=1))
    board.note_trigger("totals", QueryProgress(name="totals", batchId=0))
    board.note_failure("totals", "it broke")
    assert (board.query("totals").triggers, board.query("totals").failures) == (1, 1)
    board.begin_to_serve("totals", "v0002", 7, last_unseen=1)
    board.note_trigger("totals", QueryProgress(name="totals", batchId=1))
    assert (board.query("totals").triggers, board.query("totals").epoch) == (0, 7)
    board.note_trigger("totals", QueryProgress(name="totals", batchId=2))
    assert (board.query("totals").triggers, board.query("totals").failures) == (1, 0)


def test_a_comparison_without_equal_input_is_reported_as_not_comparable() -> None:
    """The comparison skips attempts that fail or find different input; if none has equal input in time, the last one is
    reported as not comparable.
    """
    looks = iter([None, OutputComparison(same_input=False), OutputComparison(old_rows=3)])
    assert search(lambda: next(looks), threading.Event()) == OutputComparison(old_rows=3)
    apart = OutputComparison(same_input=False, old_rows=5)
    found = search(lambda: apart, threading.Event(), search_s=0.2)
    assert (found.comparable, found.same_input, found.why, found.old_rows) == (False, False, NO_MOMENT, 5)


def test_heartbeats_of_an_idle_driver_cost_few_store_requests(bench: Bench) -> None:
    """Four heartbeats of an idle driver cost at most six requests to the store."""
    told = threading.Semaphore(0)

    def tell() -> None:
        bench.line.told_at = time.monotonic()
        told.release()

    Heartbeat(0.4, bench.line, tell, bench.wakeups).start()
    assert told.acquire(timeout=10)
    before = bench.store.requests
    for _ in range(4):
        assert told.acquire(timeout=10)
    assert bench.store.requests - before <= 6


def test_a_heartbeat_that_finds_an_emptied_store_wakes_the_main_thread(bench: Bench) -> None:
    """A heartbeat that finds the journal missing from an emptied store wakes the main thread with the error, because
    such a store still answers and the lease does not expire.
    """
    bench.line.look()
    for key in list(bench.store.list(journal_prefix("sales"))):
        bench.store.delete(key)
    Heartbeat(0.1, bench.line, lambda: None, bench.wakeups).start()
    deadline = time.monotonic() + 10
    while bench.line.lost is None and time.monotonic() < deadline:
        assert bench.wakeups.wait(10) == {Wakeup.LOOKED}
    assert "the store was lost" in str(bench.line.lost)


def test_lease_expires_only_in_silence() -> None:
    """The lease does not expire while the store answers, and expires after a period without an answer."""
    answered = [time.monotonic()]
    expired = threading.Event()
    Lease(0.4, lambda: answered[0], lambda _: expired.set()).start()
    for _ in range(8):
        answered[0] = time.monotonic()
        assert not expired.wait(0.1)
    assert expired.wait(10)


def test_one_wait_returns_every_earlier_wakeup() -> None:
    """One wait returns every wake-up that was rung before it."""
    wakeups = Wakeups()
    for each in (Wakeup.NUDGE, Wakeup.PROGRESS, Wakeup.NUDGE):
        wakeups.ring(each)
    assert wakeups.wait(1) == {Wakeup.NUDGE, Wakeup.PROGRESS}
    assert wakeups.wait(0.01) == set()
