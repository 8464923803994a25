"""Tests that a diagnosis finds one cause and ranked actions for every observable condition of a job; without I/O."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from streamkeeper.checkpoints.shapes import damage
from streamkeeper.lifecycle import recovery
from streamkeeper.lifecycle.headings import HEADINGS
from streamkeeper.lifecycle.recovery import diagnose
from streamkeeper.lifecycle.recovery_prices import price_of_replay
from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState, DriverStatus
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.restart_budgets import Cause as Restart
from streamkeeper.model.requests.diagnosis import Problem, QueryLook, RecoveryAction, RecoveryLook, Replan, Replay

RESTART, RESTORE, REBUILD = RecoveryAction.RESTART, RecoveryAction.RESTORE, RecoveryAction.REBUILD
BY_KEY = "each row replaces the one with its key"
REPLAY = Replay(snapshot="s0002", batch=5, verified=True, batches=3, reads="3 files", takes=BY_KEY)
FLIPPED = damage("checksum-mismatch", "state/0/0/7.delta", "state/0/0/7.delta is not what its .crc file was made of")
NO_COMMIT = damage("last-commit-missing", "commits/7", "commits/.7.crc is there without its file")
NO_OFFSET = damage("offset-missing-in-the-middle", "offsets/6", "offsets/6 is missing")


def query(**more: Any) -> QueryLook:
    """Return what is seen of a query whose checkpoint and table are both at batch 7."""
    usual: dict[str, Any] = {
        "query": "totals", "version": "v0001", "directory": "/cp/sales/totals/v0001", "planned": 7, "committed": 7,
        "sink": "table", "output": "sqlite:///w.db#totals", "holds": 7, "rebuild": "9 files",
    }  # fmt: skip
    return QueryLook(**{**usual, **more})


@pytest.mark.parametrize("linked", [True, False])
def test_a_replay_into_a_topic_promises_rows_once_only_if_the_versions_are_linked(linked: bool) -> None:
    """The price of a replay into a topic promises that readers see the rows once only if the restored version continues
    the version of the snapshot.
    """
    price = price_of_replay(query(sink="kafka", output="totals"), replace(REPLAY, takes="", linked=linked))
    assert "the topic receives them TWICE" in price.written
    assert ("newest_attempts" in price.written) is linked


def look(*queries: QueryLook, life: Life = Life.DEAD, why: str = "supervisor is gone", **more: Any) -> RecoveryLook:
    """Return what is seen of a job whose driver was killed."""
    usual: dict[str, Any] = {
        "job": "sales", "release": "r0001", "instance": "op-candidate", "queries": queries or (query(),),
    }  # fmt: skip
    seen = {name: more.pop(name) for name in ("frozen", "rebooted") if name in more}
    return RecoveryLook(driver=driver(more, Liveness(life=life, why=why, **seen)), **{**usual, **more})


def driver(told: dict[str, Any], liveness: Liveness) -> ObservedDriver:
    """Build the current driver's observation, and remove the report's fields from ``told``."""
    state, error = told.pop("state", DriverState.SERVING), told.pop("error", "")
    if told.pop("by_signal", False):
        ending = DriverExit(instance="op-candidate", state=state, code=0, error=error, signal=15)
        return ObservedDriver(liveness=liveness, exit=ending)
    away, before = told.pop("away", ""), told.pop("before", "")
    cause = Restart.DEPENDENCY.value if away else Restart.FAILURE.value if before else ""
    status = DriverStatus(
        instance="op-candidate", release="r0001", generation=1, state=state, beat=1, at="", error=error,
        cause=cause, waiting=away or before,
    )  # fmt: skip
    return ObservedDriver(liveness=liveness, status=status)


LOST = query(lost="/cp/sales/totals/v0001 is missing", planned=None, committed=None, replay=REPLAY, no_rebuild="gone")
DAMAGED = query(damages=(FLIPPED,), replay=REPLAY)
TOTALS = frozenset({"totals"})
SHORT = "it holds batch 6 of v0001, and batch 7 of v0001 was committed"
CASES = [
    ("the driver was killed", look(), Problem.DRIVER_KILLED, RESTART),
    ("the machine was rebooted", look(rebooted=True), Problem.MACHINE_REBOOTED, RESTART),
    (
        "the last commit was deleted",
        look(query(damages=(NO_COMMIT,), committed=6)),
        Problem.CHECKPOINT_DAMAGED,
        RESTART,
    ),
    ("an offset in the middle", look(query(damages=(NO_OFFSET,), replay=REPLAY)), Problem.CHECKPOINT_DAMAGED, RESTORE),
    ("a state file was flipped", look(DAMAGED), Problem.CHECKPOINT_DAMAGED, RESTORE),
    ("the checkpoint is gone", look(LOST), Problem.CHECKPOINT_LOST, RESTORE),
    ("the sink is ahead", look(query(holds=9, replay=REPLAY)), Problem.SINK_AHEAD, RESTORE),
    ("the output lacks batches", look(query(output_lost=SHORT, holds=6)), Problem.OUTPUT_LOST, REBUILD),
    ("the sink is down", look(query(sink_down=True, sink_unknown="pg does not answer")), Problem.SINK_DOWN, RESTART),
    ("files of the open batch are gone", look(query(planned=8, input_gone="1 of 2")), Problem.INPUT_GONE, None),
    ("the store is out of reach", RecoveryLook(job="sales", store="refused"), Problem.STORE_OUT_OF_REACH, None),
    ("its journal is gone", RecoveryLook(job="sales", lost="control/sales names it"), Problem.JOURNAL_LOST, None),
    (
        "an older copy of the store was put back",
        look(query(lost="/cp is missing"), outdated="the journal of job sales is older than what was written"),
        Problem.JOURNAL_OUTDATED,
        None,
    ),
    ("the disk is full", look(full="the disk of the store has 0 MiB left"), Problem.DISK_FULL, None),
    (
        "a crash loop over one batch",
        look(query(planned=8), state=DriverState.FAILED, error="ValueError: bad row"),
        Problem.BATCH_FAILS,
        RESTART,
    ),
    (
        "its source dropped what comes next",
        look(dropped="offsets 5 to 9 are gone"),
        Problem.SOURCE_OFFSET_LOST,
        RESTART,
    ),
    (
        "its heap is full",
        look(query(planned=8), state=DriverState.FAILED, error="OutOfMemoryError", exhausted="OutOfMemoryError"),
        Problem.OUT_OF_MEMORY,
        RESTART,
    ),
    ("it gave up otherwise", look(state=DriverState.FAILED, error="no such host"), Problem.DRIVER_FAILED, RESTART),
    ("its last driver may live", look(query(unproven="x", replay=REPLAY)), Problem.OWNER_UNPROVEN, RESTORE),
    (
        "its node was drained",
        look(query(planned=8), state=DriverState.FAILED, error="terminated by signal 15", by_signal=True),
        Problem.DRIVER_KILLED,
        RESTART,
    ),
    (
        "it was superseded",
        look(query(planned=8), state=DriverState.FENCED, error="epoch 2"),
        Problem.DRIVER_KILLED,
        RESTART,
    ),
    ("it is frozen", look(life=Life.ALIVE, frozen=True, why="processes 7 (frozen)"), Problem.DRIVER_FROZEN, RESTART),
    ("one batch fails in a living driver", look(query(failing="bad"), life=Life.ALIVE), Problem.BATCH_FAILS, RESTART),
    ("it is starting", look(life=Life.ALIVE, state=DriverState.STARTING), Problem.DRIVER_STARTING, RESTART),
    ("it waits for its sink", look(life=Life.ALIVE, away="database is locked"), Problem.SINK_DOWN, RESTART),
    (
        "it begins again after a batch that failed",
        look(
            query(planned=8),
            life=Life.ALIVE,
            state=DriverState.STARTING,
            before="restart 1 of 5: query totals: no",
            broke=TOTALS,
        ),
        Problem.BATCH_FAILS,
        RESTART,
    ),
    (
        "it serves again after a batch that failed, and has done none yet",
        look(
            query(planned=8),
            life=Life.ALIVE,
            state=DriverState.SERVING,
            before="restart 1 of 5: query totals: no",
            broke=TOTALS,
        ),
        Problem.BATCH_FAILS,
        RESTART,
    ),
    (
        "it begins again after something else",
        look(query(planned=8), life=Life.ALIVE, state=DriverState.STARTING, before="restart 1 of 5: the JVM ended"),
        Problem.DRIVER_STARTING,
        RESTART,
    ),
    ("it runs elsewhere", look(life=Life.UNKNOWN), Problem.DRIVER_UNREACHABLE, None),
    ("an operation is open", look(open_operation="op2 (at drain)"), Problem.OPERATION_OPEN, None),
    ("a person stopped it", look(stopped="ada: quarter end", state=DriverState.DRAINED), Problem.STOPPED, None),
    ("nothing ever served", RecoveryLook(job="sales"), Problem.NOT_DEPLOYED, None),
    ("nothing is wrong", look(life=Life.ALIVE), Problem.NOTHING_WRONG, None),
    ("it read all there was", look(state=DriverState.FINISHED), Problem.NOTHING_WRONG, None),
]


@pytest.mark.parametrize(("at", "cause", "action"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_each_condition_has_its_cause_and_first_action(
    at: RecoveryLook, cause: Problem, action: RecoveryAction | None
) -> None:
    """Each condition has one cause, a sentence and an advice, and either the expected first action or none that is
    possible.
    """
    found = diagnose(at)
    assert (found.cause, found.heading in HEADINGS or cause is Problem.NOTHING_WRONG) == (cause, True)
    assert found.sentence
    assert found.advice
    first = found.options[0]
    assert (first.action if first.possible else None) == action
    assert {each.action for each in found.options} == set(RecoveryAction) - {RecoveryAction.DIAGNOSE}


def test_every_cause_is_named_by_some_case() -> None:
    """The cases cover every cause."""
    assert {each[2] for each in CASES} == set(Problem)


def test_a_restart_is_refused_when_the_source_dropped_input() -> None:
    """When a source has dropped input, the advice names ``failOnDataLoss=false``, and the restart states that it is
    refused unless the missing input is back.
    """
    found = diagnose(
        look(query(planned=8), state=DriverState.FAILED, error="KAFKA_DATA_LOSS", dropped="KAFKA_DATA_LOSS")
    )
    assert "failOnDataLoss=false" in found.advice
    assert "refused unless the missing input is back" in found.option(RESTART).does


def test_a_lost_checkpoint_outranks_other_damage_as_the_cause() -> None:
    """With several problems at once, a lost checkpoint is the cause rather than the reboot; the evidence lists the
    other damage, and the restore covers both queries.
    """
    found = diagnose(look(LOST, query(query="other", damages=(FLIPPED,), replay=REPLAY), rebooted=True))
    assert found.cause is Problem.CHECKPOINT_LOST
    assert any("checksum-mismatch" in each for each in found.evidence)
    assert found.option(RESTORE).snapshots == {"totals": "s0002", "other": "s0002"}


def test_a_damaged_query_is_not_restarted() -> None:
    """A restart is not possible on a damaged checkpoint; the reason states that Spark would read the changed file."""
    option = diagnose(look(DAMAGED)).option(RESTART)
    assert not option.possible
    assert "reads the changed file" in option.why_not


@pytest.mark.parametrize("sink", ["table", "file", "foreach"])
def test_a_missing_commit_is_repaired_by_restart_if_the_sink_records_batches(sink: str) -> None:
    """A missing last commit can be repaired by a restart if the sink records batch numbers; for a ``foreach`` function,
    which would receive the batch twice, a restart is not offered.
    """
    at = look(query(damages=(NO_COMMIT,), committed=6, sink=sink, replay=REPLAY))
    assert diagnose(at).option(RESTART).possible is (sink != "foreach")


def test_a_lost_checkpoint_without_a_snapshot_is_to_be_put_back() -> None:
    """For a lost checkpoint without a possible action the advice is to put the directory back; with a snapshot it is
    the restore.
    """
    lost = query(lost="/cp is missing", planned=None, committed=None, no_restore="no snapshot", no_rebuild="gone")
    assert recovery.diagnose(look(lost)).advice.startswith("put the directory back as it was, then restart")
    assert recovery.diagnose(look(LOST)).advice.startswith("restore")


CUT_SHORT = damage("offset-cut-short", "offsets/8", "offsets/8 holds 1 of 2 sources")
REPLANNED = Replan(batch=8, reads="3 files that the source had listed for it")


def cut(**more: Any) -> QueryLook:
    """Return a query whose plan of batch 8 was cut short before the batch wrote anything."""
    return query(**{"planned": 8, "damages": (CUT_SHORT,), "replan": REPLANNED, "replay": REPLAY, **more})


def test_an_open_batch_whose_plan_is_cut_short_is_planned_again() -> None:
    """For an open batch with a truncated plan, a replan is advised before a restore; it affects only that batch and
    needs no acceptance.
    """
    found = diagnose(look(cut()))
    first = found.options[0]
    assert (first.action, first.asks, first.replans) == (RecoveryAction.REPLAN, False, {"totals": 8})
    assert first.prices[0].sentence == (
        "query totals into sqlite:///w.db#totals: reads batch 8, perhaps with other offsets (3 files that the source"
        " had listed for it), again; writes again: batch 8, which the output does not contain; loses nothing"
    )


@pytest.mark.parametrize(
    ("at", "why_not"),
    [
        (look(cut(sink="foreach")), "does not record whether it has batch 8; your function may have seen it"),
        (look(cut(holds=8)), "contains batch 8; planned again with other rows, the batch would be skipped"),
        (look(cut(holds=None)), "contains no batch of v0001, so it proves nothing about batch 8"),
        (look(cut(sink_unknown="pg does not answer")), "it is unknown whether .* contains batch 8: pg does not answer"),
        (look(cut(committed=8)), "batch 8 is committed, and without its plan its input is unknown"),
        (look(cut(committed=6)), "the batch before it, 7, is not committed"),
        (look(cut(committed=None, holds=None)), "no batch was committed before it"),
        (look(cut(damages=(CUT_SHORT, FLIPPED))), "not only in the plan of its open batch"),
        (look(cut(damages=(NO_OFFSET,))), "not only in the plan of its open batch"),
        (look(cut(lost="it is missing")), "damaged in another way"),
        (look(cut(unproven="op-candidate")), "damaged in another way"),
        (look(cut(), life=Life.ALIVE), "op-candidate is running; stop the job first"),
        (look(cut(), query(query="other", damages=(FLIPPED,))), "query other: the damage is not only in the plan"),
        (look(), "no checkpoint of sales is damaged"),
    ],
)
def test_a_replan_requires_that_every_output_proves_it_lacks_the_batch(at: RecoveryLook, why_not: str) -> None:
    """A replan is possible only if every output proves that it lacks the batch, because the replanned batch has the
    same number and may have other rows, which would be skipped or doubled.

    Negative control: with a table that contains the previous batch, the replan is possible.
    """
    assert re.search(why_not, diagnose(at).option(RecoveryAction.REPLAN).why_not)
    assert diagnose(look(cut())).option(RecoveryAction.REPLAN).possible


def test_a_replan_without_some_files_needs_an_accepted_loss() -> None:
    """A replan without some of the batch's files is a loss that a person must accept, because Spark would plan without
    them and report nothing.
    """
    gone = cut(replan=Replan(batch=8, reads="3 files", gone="1 of 3 files are missing, such as /in/a.csv"))
    option = diagnose(look(gone)).option(RecoveryAction.REPLAN)
    assert (option.possible, option.asks) == (True, True)
    assert "LOSES 1 of 3 files are missing" in option.prices[0].sentence


def test_a_restores_price_states_what_is_read_again() -> None:
    """The price of a restore states the batches and files that are read again and how the sink handles them; it needs
    no acceptance if nothing is lost or doubled.
    """
    option = diagnose(look(DAMAGED)).option(RESTORE)
    assert [each.sentence for each in option.prices] == [
        "query totals into sqlite:///w.db#totals: reads 3 batches after batch 5 (3 files) again;"
        " writes again: the same, each row replaces the one with its key; loses nothing"
    ]
    assert not option.asks


@pytest.mark.parametrize(
    ("changed", "asks"),
    [
        ({"replay": replace(REPLAY, gone="1 of the 3 files is gone")}, True),
        ({"replay": replace(REPLAY, unknown="nobody knows")}, True),
        ({"replay": replace(REPLAY, takes="")}, True),
        ({"replay": replace(REPLAY, takes="", reads="")}, True),
        ({"replay": replace(REPLAY, takes="", batches=0)}, True),
        ({"replay": replace(REPLAY, takes="", batches=0, reads="")}, False),
        ({"replay": replace(REPLAY, batches=0, reads="")}, False),
    ],
)
def test_a_restore_needs_acceptance_only_for_lost_or_doubled_rows(changed: dict[str, Any], asks: bool) -> None:
    """A restore needs acceptance exactly if rows may be lost or doubled; an unknown loss counts as a loss, and an empty
    replay costs nothing.
    """
    assert diagnose(look(replace(DAMAGED, **changed))).option(RESTORE).asks is asks


def test_a_restart_on_an_output_that_lacks_rows_needs_acceptance() -> None:
    """A restart on an output that lacks rows is possible but needs acceptance, and its price names the missing rows;
    with a damaged checkpoint it is not possible.
    """
    option = diagnose(look(query(output_lost=SHORT, holds=6))).option(RESTART)
    assert (option.possible, option.asks) == (True, True)
    assert f"LOSES the rows that the output lacks ({SHORT})" in option.prices[0].sentence
    assert not diagnose(look(replace(DAMAGED, output_lost=SHORT))).option(RESTART).possible


@pytest.mark.parametrize(("holds", "possible"), [(5, True), (4, False), (None, False)])
def test_an_older_output_is_restored_only_from_a_snapshot_as_old(holds: int | None, possible: bool) -> None:
    """An output that lacks batches can be restored from a snapshot only if it contains the snapshot's batch; otherwise
    a gap would remain.
    """
    option = diagnose(look(query(output_lost=SHORT, holds=holds, replay=REPLAY))).option(RESTORE)
    assert option.possible is possible
    assert possible or "its output also lacks batches before s0002 (batch 5)" in option.why_not


def test_actions_that_lose_nothing_are_ranked_first() -> None:
    """A rebuild that reads everything again is ranked before a restore that loses a file."""
    found = diagnose(look(replace(DAMAGED, replay=replace(REPLAY, gone="1 of the 3 files is gone"))))
    assert [each.action for each in found.options] == [REBUILD, RESTORE, RESTART, RecoveryAction.REPLAN]


def test_a_sound_query_is_restored_only_if_it_is_named() -> None:
    """An undamaged query is restored only if it is named; otherwise the restore states that no checkpoint is
    damaged.
    """
    at = look(query(replay=REPLAY))
    assert "no checkpoint of sales is damaged" in diagnose(at).option(RESTORE).why_not
    assert diagnose(at, chosen=["totals"]).option(RESTORE).snapshots == {"totals": "s0002"}


def test_without_the_damage_check_a_killed_driver_is_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the check for damaged checkpoints, the same condition is diagnosed as a killed
    driver.
    """
    rungs = tuple(each for each in recovery._LADDER if each is not recovery._damaged)
    monkeypatch.setattr(recovery, "_LADDER", rungs)
    assert diagnose(look(DAMAGED)).cause is Problem.DRIVER_KILLED


def test_the_diagnosis_of_a_starting_driver_includes_its_last_error() -> None:
    """The diagnosis of a starting driver includes the error that ended its last run, whether the restart or the status
    recorded it.
    """
    known = {"life": Life.ALIVE, "state": DriverState.STARTING}
    for told in ({"before": "restart 1 of 5: the JVM ended"}, {"error": "the JVM ended"}):
        diagnosis = diagnose(look(query(planned=8), **known, **told))
        assert diagnosis.sentence.endswith(f": its last run ended with {next(iter(told.values()))}"), diagnosis.sentence
