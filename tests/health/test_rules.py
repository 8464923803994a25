"""Tests each health rule at its threshold, below it and switched off, and which of several causes is reported."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput
from streamkeeper.health.acts import Act, decide_acts
from streamkeeper.health.rules import EXPLAINS, PERMANENT, RULES, check_thresholds, find_rule, find_symptoms
from streamkeeper.health.told_errors import find_fault
from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.watch.health import JobLook, Urgency
from tests.health.looks import (
    GIB,
    NOW,
    backup,
    changed,
    checkpoint,
    dead,
    history,
    operation,
    person,
    serving,
    source,
    status,
    well,
    written,
)

DAY_S = 86_400.0
USED_UP = "it failed with exit code 5; 5 restarts in 10 minutes used up: boom"
LACKING = "query totals: output /out lacks committed batches: it holds batch 6 of v0001, and batch 7 was committed"
AHEAD = "query totals: output t holds batch 9 of v0001, its checkpoint knows up to 7"
SHORT = "query totals: source-no-longer-holds-offsets (events partition 0: offsets 5 to 9 are gone): what is gone"
LOST = "checkpoint v0001 of sales/totals is not what was recorded: /cp/sales/totals/v0001 is missing"

CASES: dict[str, list[tuple[JobLook, JobLook]]] = {
    "driver-dead": [
        (dead(USED_UP.replace("restarts", "x")), well()),
        (well(life=Life.ABSENT), well(wanted=False, life=Life.ABSENT)),
        (dead(), dead(state=DriverState.FINISHED, code=3)),
        (dead(**operation(owned=False)), dead(**operation())),
        (dead(**operation(step="standby")), dead(**operation())),
    ],
    "machine-rebooted": [(dead(rebooted=True), dead())],
    "driver-fenced": [
        (dead(state=DriverState.FENCED, code=4), dead()),
        (dead(state=DriverState.FENCED, code=4, cause="permanent"), dead(code=4, cause="permanent")),
    ],
    "driver-refused": [
        (dead(code=ExitCode.REFUSED), dead()),
        (dead("it does not import", cause="permanent"), dead("it does not import", cause="failure")),
        (dead(exit=None, status=status("no", cause="permanent")), dead(exit=None, status=status("no"))),
        (dead("no", cause="permanent"), dead("no", cause="permanent", state=DriverState.FENCED)),
    ],
    "driver-unknown": [(well(life=Life.UNKNOWN), well())],
    "driver-lost": [
        (well(life=Life.UNKNOWN, silent_s=600.0), well(life=Life.UNKNOWN, silent_s=599.0)),
        # What the job's own delay allows, unless the rule has a threshold of its own.
        (
            well(life=Life.UNKNOWN, silent_s=60.0, thresholds={"lag-seconds": 60.0}),
            well(life=Life.UNKNOWN, silent_s=60.0, thresholds={"lag-seconds": 60.0, "driver-lost": 61.0}),
        ),
        (
            well(life=Life.UNKNOWN, silent_s=900.0, thresholds={"lag-seconds": None}),
            well(life=Life.UNKNOWN, silent_s=900.0, thresholds={"lag-seconds": 901.0}),
        ),
        (well(life=Life.UNKNOWN, silent_s=9e4), well(silent_s=9e4)),
        (well(life=Life.UNKNOWN, silent_s=9e4), well(life=Life.UNKNOWN, silent_s=9e4, wanted=False)),
    ],
    "operation-stuck": [
        (dead(silent_s=1800.0, **operation(open_s=1800.0)), dead(silent_s=1799.0, **operation(open_s=1800.0))),
        # A job that was down before the operation began.
        (dead(silent_s=9e4, **operation(open_s=1800.0)), dead(silent_s=9e4, **operation(open_s=1799.0))),
        (
            well(life=Life.UNKNOWN, silent_s=9e4, **operation(open_s=9e4)),
            well(life=Life.UNKNOWN, silent_s=9e4, **operation(open_s=9e4, step="standby")),
        ),
        (well(silent_s=9e4, **operation(open_s=9e4)), well(silent_s=9e4, **operation(open_s=9e4, owned=False))),
        (
            dead(silent_s=9e4, **operation(open_s=9e4)),
            dead(silent_s=9e4, state=DriverState.FINISHED, code=3, **operation(open_s=9e4)),
        ),
    ],
    "owner-unproven": [
        (dead(**checkpoint(unproven="op-candidate")), dead(**checkpoint())),
        (dead(**checkpoint(unproven="op-candidate")), well(**checkpoint(unproven="op-candidate"))),
    ],
    "crash-loop": [
        (well(restarts_s=(1.0, 300.0, 600.0)), well(restarts_s=(1.0, 300.0, 601.0))),
        (dead(USED_UP), dead("boom")),
        (dead("boom", cause="failure"), dead("terminated by signal 15, restarts in a word")),
        (dead("boom", cause="failure"), dead("boom", cause="no-capacity", code=ExitCode.NO_CAPACITY)),
    ],
    "restarts": [(well(restarts_s=(3600.0,)), well(restarts_s=(3601.0,)))],
    "heartbeat-lost": [(well(silent_s=90.0), well(silent_s=89.0))],
    "frozen": [(well(frozen=True, silent_s=30.0), well(frozen=True, silent_s=29.0))],
    "frozen-in-part": [(well(frozen=True, frozen_s=30.0), well(frozen=True, frozen_s=29.0))],
    "store-out-of-reach": [
        (well(unlooked={"store": "timed out"}), well()),
        (well(status=status(error="store s3://b: cannot read x: timed out")), well(status=status(error="boom"))),
        (dead("no answer", code=ExitCode.STORE_LOST), dead("no answer")),
        (
            well(status=status(cause="dependency-down", waiting="the store does not answer; it is tried again")),
            well(status=status(cause="dependency-down", waiting="a dependency does not answer; retrying")),
        ),
    ],
    "disk-full": [
        (dead("OSError: [Errno 28] No space left on device"), dead("boom")),
        (dead("Too many open files", cause="no-capacity"), dead("Too many open files", cause="failure")),
        (dead("boom", code=ExitCode.NO_CAPACITY), dead("boom")),
        (well(status=status(cause="no-capacity", waiting="no room; 30 s")), well(status=status(waiting="no room"))),
    ],
    "out-of-memory": [
        (dead("java.lang.OutOfMemoryError: Java heap space"), dead("boom")),
        (dead("unable to create native thread", cause="no-capacity"), dead("boom", cause="no-capacity")),
        # Its runner has told what the driver could not.
        (dead(exit=None, fault=Fault.OUT_OF_MEMORY), dead(exit=None, fault=Fault.EVICTED)),
    ],
    "checkpoint-missing": [
        (well(**checkpoint("/cp is missing")), well(**checkpoint(""))),
        (dead(LOST), dead("boom")),
    ],
    "checkpoint-damaged": [
        (dead("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED: no"), dead("boom")),
        (dead(**checkpoint(damaged="offset-empty at offsets/7")), dead(**checkpoint())),
        (dead(**checkpoint(damaged="offset-empty")), dead(**checkpoint(damaged="offset-empty"), wanted=False)),
        (
            dead("CANNOT_LOAD_STATE_STORE: ConnectException: Connection refused", cause="permanent"),
            dead("CANNOT_LOAD_STATE_STORE: ConnectException: Connection refused", cause="dependency-down"),
        ),
    ],
    "input-gone": [
        (dead(**checkpoint(input_gone="1 of 2 files of open batch 7 are gone")), dead(**checkpoint())),
        (dead(**checkpoint(input_gone="1 of 2")), dead(**checkpoint(input_gone="1 of 2"), wanted=False)),
    ],
    "output-lost": [(dead(LACKING), dead("boom")), (well(status=status(query_error=LACKING)), well())],
    "sink-ahead": [(dead(AHEAD), dead("boom")), (well(status=status(query_error=AHEAD)), well())],
    "sink-down": [
        (
            well(status=status(query_error='OperationalError: (psycopg) connection refused: "db"')),
            well(status=status(query_error="ValueError: a row is wrong")),
        ),
        (
            well(status=status(query_error="java.net.UnknownHostException: db", cause="dependency-down")),
            well(status=status(query_error="java.net.UnknownHostException: db", cause="failure")),
        ),
        (dead("boom", code=ExitCode.DEPENDENCY_DOWN), dead("boom")),
    ],
    "source-down": [
        (
            well(status=status("SourceOutOfReach: topic sales", cause="dependency-down")),
            well(status=status("OperationalError: server closed the connection", cause="dependency-down")),
        ),
        (
            well(status=status(query_error="TimeoutException: Timed out waiting for a node assignment.")),
            well(status=status(query_error="TimeoutException: of something else")),
        ),
    ],
    "source-offset-lost": [
        (dead("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: gone"), dead("boom")),
        # What was killed has said nothing; its start was refused.
        (dead(exit=None, last_failure=SHORT), dead(exit=None, last_failure=SHORT, desired_release="r0003")),
        (dead(exit=None, last_failure=SHORT), well(last_failure=SHORT)),
        # What is stored counts, whatever the text says.
        (
            dead(exit=None, last_failure="no words", last_fault="source-lost"),
            dead(exit=None, last_failure=SHORT, last_fault="unclassified"),
        ),
    ],
    "not-looked": [(well(unlooked={"backups": "no credentials"}), well())],
    "stalled": [
        (serving(open_since=NOW - 60.0), serving(open_since=NOW - 59.0)),
        (serving(open_since=NOW - 100.0, usual_batch_s=10.0), serving(open_since=NOW - 99.0, usual_batch_s=10.0)),
        (serving(last_trigger=NOW - 60.0), serving(last_trigger=NOW - 59.0)),
        (serving(last_trigger=NOW - 600.0, trigger_s=60.0), serving(last_trigger=NOW - 599.0, trigger_s=60.0)),
    ],
    "scheduling-delay": [(serving(scheduling_delay_s=30.0), serving(scheduling_delay_s=29.9))],
    "batch-longer-than-trigger": [
        (written(*[(5.0, 0.1)] * 3), written(*[(4.9, 0.1)] * 3)),
        (written(*[(5.0, 0.1)] * 3), written(*[(5.0, 0.1)] * 2)),
    ],
    "lag-seconds": [(serving(**source(lag_s=600.0)), serving(**source(lag_s=599.0)))],
    "lag-growing": [
        (well(**history(12, 660.0, lag_records=1200)), well(**history(12, 500.0, lag_records=1200))),
        (well(**history(12, 660.0, lag_records=1200)), well(**history(3, 660.0, lag_records=1200))),
    ],
    "checkpoint-write-slow": [
        (written(*[(4.0, 2.0)] * 3), written((4.0, 2.0), (4.0, 1.9), (4.0, 2.0))),
        (written(*[(1.2, 1.0)] * 3), written(*[(1.2, 0.9)] * 3)),
        (written(*[(4.0, 2.0)] * 3), written(*[(4.0, 2.0)] * 2)),
    ],
    "checkpoint-growing": [
        (
            well(**history(60, 3660.0, checkpoint_bytes=256 * 2**20)),
            well(**history(60, 3660.0, checkpoint_bytes=255 * 2**20)),
        )
    ],
    "state-memory-forecast": [
        (serving(state_memory_bytes=4 * GIB), serving(state_memory_bytes=4 * GIB - 1)),
        (
            well(**history(6, 3600.0, state_memory_bytes=GIB), status=status(state_memory_bytes=GIB)),
            well(**history(6, 40 * DAY_S, state_memory_bytes=GIB), status=status(state_memory_bytes=GIB)),
        ),
    ],
    "state-repaired": [(serving(repaired_stores=1), serving(repaired_stores=0))],
    "input-too-old": [
        (serving(**source(too_old_files=1, too_old_example="/in/a")), serving(**source(too_old_files=0))),
        (serving(**source(too_old_files=9, too_old_example="/in/a")), serving(**source(lag_files=9))),
    ],
    "runway-short": [(serving(**source(runway_s=14_400.0)), serving(**source(runway_s=14_401.0)))],
    "backup-late": [
        (well(**backup(age_s=9.0, lacks_s=DAY_S)), well(**backup(age_s=9.0, lacks_s=DAY_S - 1))),
        (well(**backup(lacks_s=600.0), objective_s=600.0), well(**backup(lacks_s=600.0))),
    ],
    "none-verified": [
        (well(**backup(age_s=1, verified_age_s=7 * DAY_S)), well(**backup(age_s=1, verified_age_s=7 * DAY_S - 1))),
        (well(**backup(age_s=1, oldest_age_s=7 * DAY_S)), well(**backup(age_s=1, oldest_age_s=7 * DAY_S - 1))),
    ],
    "prune-stopped": [
        (well(prune_age_s=3 * DAY_S), well(prune_age_s=3 * DAY_S - 1)),
        (well(prune_failed="s0001 is not what was stored"), well(prune_age_s=None)),
    ],
    "operation-open": [
        (well(**operation(open_s=3600.0)), well(**operation(open_s=3599.0))),
        (well(**operation(owned=False)), well(**operation(open_s=9e9, waits_for_person=True))),
    ],
    "approval-waiting": [
        (well(**operation(waits_for_person=True, open_s=300)), well(**operation(waits_for_person=True, open_s=299)))
    ],
    "recovery-waiting": [
        (well(**person(waited_s=60.0)), well(**person(waited_s=59.0))),
        (dead(**person(waited_s=60.0)), dead()),
    ],
    "release-differs": [
        (well(desired_release="r0003", last_failure="no first commit"), well()),
        (well(serving_release="r0001", desired_release=""), well(desired_release="")),
        (well(desired_release="r0003"), well(desired_release="r0003", **operation())),
    ],
    "journal-lost": [(well(wanted=False, lost="control/sales names it", unlooked={"journal": "gone"}), well())],
    "journal-unreadable": [
        (dead(unreadable="entry 7 cannot be read", unlooked={"records": "entry 7 cannot be read"}), dead())
    ],
    "journal-outdated": [(dead(outdated="the journal ends at epoch 1", **checkpoint("/cp is missing")), dead())],
}
PAIRS = [pytest.param(rule, *pair, id=f"{rule}-{number}") for rule in CASES for number, pair in enumerate(CASES[rule])]


def rules_of(look: JobLook, **given: frozenset[str]) -> list[str]:
    """Return the ids of the rules that find something."""
    return [each.rule for each in find_symptoms(look, **given)]


def test_every_rule_has_cases() -> None:
    """Every health rule has test cases, and rule ids are unique."""
    ids = [rule.id for rule in RULES]
    assert sorted(ids) == sorted(CASES)


def test_a_healthy_or_intentionally_stopped_job_has_no_symptom() -> None:
    """A job that runs, keeps up and is backed up has no symptom, and neither has a job that was stopped on purpose."""
    assert find_symptoms(well()) == ()
    assert find_symptoms(well(wanted=False, stopped="by ann", life=Life.DEAD, status=None)) == ()


@pytest.mark.parametrize(("rule", "at", "below"), PAIRS)
def test_a_rule_fires_at_its_threshold_and_not_below(rule: str, at: JobLook, below: JobLook) -> None:
    """At its threshold a rule reports a cause with all placeholders filled in; one step below it reports nothing."""
    found = next(each for each in find_symptoms(at) if each.rule == rule)
    assert found.cause
    assert "{" not in found.cause + found.action
    assert rule not in rules_of(below)


@pytest.mark.parametrize(("rule", "at", "below"), PAIRS)
def test_a_disabled_rule_does_not_report_its_cause(rule: str, at: JobLook, below: JobLook) -> None:
    """Negative control: with the rule switched off by the caller or by the job, the same observation does not report
    that cause.
    """
    assert rule not in rules_of(at, but=frozenset({rule}))
    assert rule not in rules_of(changed(at, thresholds={rule: None}))


def test_a_stated_termination_is_not_described_as_a_proven_one() -> None:
    """A termination that a person stated is described as counting as terminated, not as a proof that no process is
    left.
    """
    (proven,), (stated,) = (find_symptoms(dead(exit=None, why="no proof", ended_stated=word)) for word in (False, True))
    assert proven.cause.startswith("no process of op-candidate is left: ")
    assert stated.cause.startswith("op-candidate counts as terminated: ")


OWN = (
    "order 4711 no longer holds a discount",
    "upstream API returned 'Connection refused' for shop 7",
    "metadata.json is missing",
    "OutOfMemory items left in stock, and No space left on device",
    "terminated by signal 15, stated by nobody: KAFKA_DATA_LOSS",
)


@pytest.mark.parametrize("text", OWN)
def test_a_stored_fault_kind_overrides_the_text_of_the_error(text: str) -> None:
    """With a stored fault kind, each error counts as a crash loop whatever words the job's own message contains.
    Negative control: a record of an older version without the kind is classified by its words.
    """
    look = dead(f"query totals: ValueError: {text}", cause="failure")
    assert look.driver.exit is not None
    stored = changed(look, exit=replace(look.driver.exit, fault="unclassified"))
    assert rules_of(stored) == ["crash-loop"]
    assert rules_of(look) != ["crash-loop"]


def test_the_file_at_the_end_of_an_error_is_not_cut_off() -> None:
    """A cause keeps the file name at the end of a driver's error line of at most 500 characters, although the
    supervisor's text precedes it.
    """
    line = f"query totals: {'x' * 400}; file file:///in/orders-0007.json"
    (found,) = find_symptoms(dead(f"it failed with exit code 5; 5 restarts of 10 min used up: {line}", cause="failure"))
    assert found.cause.endswith("file file:///in/orders-0007.json")


def test_a_kind_of_fault_that_only_a_newer_version_knows_is_unclassified() -> None:
    """A stored fault kind that this version does not have counts as unclassified, and the error's text is not parsed
    instead.
    """
    look = dead(f"ValueError: {OWN[0]}", cause="failure")
    assert look.driver.exit is not None
    assert rules_of(changed(look, exit=replace(look.driver.exit, fault="solar-flare"))) == ["crash-loop"]


def test_a_threshold_in_the_job_file_overrides_the_default() -> None:
    """A threshold in the job's file overrides the default."""
    look = serving(**source(lag_s=60.0))
    assert rules_of(look) == []
    assert rules_of(changed(look, thresholds={"lag-seconds": 60.0})) == ["lag-seconds"]


@pytest.mark.parametrize(
    ("look", "causes"),
    [
        (dead(USED_UP, rebooted=True), ["machine-rebooted"]),
        (dead(f"{USED_UP} OperationalError: refused", restarts_s=(1, 2, 3, 4, 5)), ["sink-down"]),
        (dead(AHEAD, code=ExitCode.REFUSED), ["sink-ahead"]),
        (dead(LACKING, code=ExitCode.REFUSED), ["output-lost"]),
        (dead(LOST, code=ExitCode.REFUSED, **checkpoint("/cp is missing")), ["checkpoint-missing"]),
        (well(frozen=True, silent_s=500.0), ["frozen"]),
        (well(restarts_s=(1, 2, 3), silent_s=200.0), ["crash-loop"]),
        (dead("store s3://b: cannot read x: timed out", code=ExitCode.STORE_LOST), ["store-out-of-reach"]),
        (dead("no space: No space left on device", restarts_s=(5,)), ["disk-full"]),
        (dead("boom", cause="no-capacity", code=ExitCode.NO_CAPACITY, restarts_s=(1, 2, 3)), ["disk-full"]),
        (dead("boom", cause="dependency-down", code=ExitCode.DEPENDENCY_DOWN), ["sink-down"]),
        (dead("no such class", cause="permanent", code=ExitCode.REFUSED), ["driver-refused"]),
        (dead(**checkpoint(input_gone="1 of 2 files are gone")), ["input-gone"]),
        (written(*[(40.0, 1.0)] * 3, scheduling_delay_s=90.0), ["batch-longer-than-trigger"]),
        (written(*[(40.0, 30.0)] * 3, scheduling_delay_s=90.0), ["checkpoint-write-slow"]),
        (dead(**operation(owned=False), desired_release="r0003"), ["driver-dead", "operation-open"]),
    ],
)
def test_only_the_cause_is_reported_for_related_symptoms(look: JobLook, causes: list[str]) -> None:
    """If one symptom causes the others, only that cause is reported."""
    assert rules_of(look) == causes


def test_a_pending_approval_does_not_hide_a_symptom_that_pages() -> None:
    """A job that is down while a fix waits for approval reports the page first. Negative control: once the operation
    replaces the driver, no symptom of that work is reported.
    """
    waits = operation(step="approve", waits_for_person=True, open_s=600.0)
    down = dead(USED_UP, cause="failure", **waits)
    found = find_symptoms(down)
    assert [(each.rule, each.severity) for each in found] == [
        ("crash-loop", Urgency.PAGE),
        ("approval-waiting", Urgency.TICKET),
    ]
    assert [each.act for each in decide_acts(down, found, {}, now=NOW)] == []
    assert rules_of(dead(USED_UP, cause="failure", **operation())) == []


def test_an_error_of_one_query_does_not_hide_another_querys_trouble() -> None:
    """A cause suppresses symptoms of its own query and of the whole job, but none of a different query."""
    told = status(query_error=AHEAD)
    late = replace(told.queries["totals"], query="other", error="", signals=serving(**source(lag_s=900.0)).driver.status.queries["totals"].signals)  # type: ignore[union-attr]  # fmt: skip # noqa: E501
    look = well(status=replace(told, queries={**told.queries, "other": late}))
    assert [(each.rule, each.query) for each in find_symptoms(look)] == [
        ("sink-ahead", "totals"),
        ("lag-seconds", "other"),
    ]


def test_rule_explanations_have_no_cycle_so_one_finding_is_always_reported() -> None:
    """The relation of which rule explains which has no cycle, so at least one of any set of findings is reported."""
    for cause, effect in combinations(EXPLAINS, 2):
        assert not (cause in EXPLAINS[effect] and effect in EXPLAINS[cause]), (cause, effect)
    order: list[str] = []
    left = {name: set(effects) & set(EXPLAINS) for name, effects in EXPLAINS.items()}
    while left:
        free = [name for name in left if not any(name in effects for effects in left.values())]
        assert free, sorted(left)
        order += free
        left = {name: effects for name, effects in left.items() if name not in free}
    assert set().union(*EXPLAINS.values()) | set(EXPLAINS) | PERMANENT <= {rule.id for rule in RULES}


def test_symptoms_are_sorted_by_severity() -> None:
    """Symptoms are sorted by severity, so the one that pages a person comes first."""
    found = find_symptoms(well(silent_s=300.0, prune_age_s=9 * DAY_S))
    assert [each.severity for each in found] == [Urgency.PAGE, Urgency.TICKET]


RUNBOOK = Path(__file__).resolve().parents[2] / "docs" / "operations" / "runbook.md"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_runbook_has_a_heading_for_each_rule(rule) -> None:
    """The runbook has the heading that each rule names, and that section mentions the rule's id."""
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL))
    assert rule.heading in sections
    assert f"`{rule.id}`" in sections[rule.heading]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"lag-secnds": 6}, "health rule 'lag-secnds' is not known (perhaps lag-seconds)"),
        (
            {"lag-seconds": "6"},
            "job sales: the threshold of health rule lag-seconds cannot be '6' (give a number of at least 0, in"
            " seconds, or None",
        ),
        ({"lag-seconds": -1}, "job sales: the threshold of health rule lag-seconds cannot be -1"),
        ({"lag-seconds": True}, "job sales: the threshold of health rule lag-seconds cannot be True"),
        (
            {"driver-dead": 3},
            "job sales: health rule driver-dead accepts no threshold (use None to switch the rule off)",
        ),
        ({7: 3}, "job sales: 7 is not the name of a health rule"),
    ],
)
def test_an_invalid_threshold_is_refused_in_one_line_that_names_the_rule(given: dict[str, object], line: str) -> None:
    """An invalid threshold or an unknown rule is refused in one line that names the rule, and suggests the nearest name
    for an unknown one.
    """
    with pytest.raises(InvalidInput) as caught:
        check_thresholds("sales", given)
    assert str(caught.value).startswith(line)


def test_thresholds_are_numbers_or_off() -> None:
    """Thresholds of a job's file are returned as floats, or as None for a rule that is switched off."""
    assert check_thresholds("sales", {"lag-seconds": 6, "frozen": None}) == {"lag-seconds": 6.0, "frozen": None}
    assert find_rule("lag-seconds").unit == "seconds"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (AHEAD, Fault.SINK_AHEAD),
        (AHEAD.replace("its checkpoint knows up to 7", "but checkpoint v0001 has no batch"), Fault.SINK_AHEAD),
        (LACKING, Fault.OUTPUT_LOST),
        (LOST, Fault.CHECKPOINT_LOST),
        ("checkpoint v0001 of sales/totals has gone back: batch 7 comes again", Fault.CHECKPOINT_LOST),
        ("store file:///s: cannot create /s/x: No space left on device (free some space)", Fault.DISK_FULL),
        ("query totals: epoch 3 has been superseded by epoch 4", Fault.FENCED),
        ("Partition sales-0's offset was changed from 90 to 20, some data may have been missed", Fault.SOURCE_LOST),
        ("FAILED_READ_FILE.FILE_NOT_EXIST: Encountered error while reading file", Fault.SOURCE_LOST),
        ("ValueError: 3 is no colour", None),
        ("", None),
    ],
)
def test_each_listed_error_message_maps_to_one_fault_kind(text: str, fault: Fault | None) -> None:
    """Each known error message of Streamkeeper or Spark maps to exactly one fault kind, and an unlisted message maps to
    none.
    """
    assert find_fault(text) is fault


def starts(look: JobLook) -> bool:
    """Return whether the watch would start the job."""
    return any(each.act is Act.START for each in decide_acts(look, find_symptoms(look), {}, now=NOW))


@pytest.mark.parametrize(
    ("look", "started"),
    [
        (dead(exit=None), True),
        (dead("boom", cause="permanent"), False),
        (dead("boom", cause="permanent", thresholds={"driver-refused": None}), False),
        (dead("boom", cause="permanent", code=4, state=DriverState.FENCED), False),
        (dead("boom", cause="failure"), False),
        (dead("boom", cause="no-capacity"), False),
        (dead("no answer", cause="dependency-down", code=ExitCode.DEPENDENCY_DOWN), True),
        (dead("no answer", cause="dependency-down", code=ExitCode.STORE_LOST), True),
        (dead("no answer", code=ExitCode.STORE_LOST, unlooked={"store": "timed out"}), False),
        (dead(**checkpoint("/cp is missing")), False),
        (dead(**checkpoint(damaged="offset-empty at offsets/7")), False),
        (dead(**checkpoint(input_gone="1 of 2 files are gone")), False),
        (dead(exit=None, **checkpoint(unproven="op-candidate")), False),
        (dead(exit=None, status=status("boom", cause="permanent")), False),
        (dead(exit=None, last_failure=SHORT), False),
        (dead(exit=None, last_failure="refused: somebody declined"), True),
        (dead(exit=None, fault=Fault.OUT_OF_MEMORY), False),
        (dead("terminated by signal 15", fault=Fault.OUT_OF_MEMORY), False),
        (dead(exit=None, fault=Fault.DISK_FULL), False),
        (dead(exit=None, fault=Fault.EVICTED), True),
    ],
)
def test_the_watch_starts_a_job_only_if_that_fixes_the_cause(look: JobLook, started: bool) -> None:
    """The watch starts a job only if a start can fix the reported cause, even if the job has switched off the rule for
    that cause.
    """
    assert starts(look) is started


def test_a_restarted_driver_without_a_batch_is_judged_by_its_earlier_batches() -> None:
    """A driver that has just restarted and has no batch yet is judged by its earlier batches: the slow checkpoint is
    reported with the last slow batch's figures, not with zeros.
    """
    look = changed(written(*[(4.0, 2.0)] * 4), status=status(batch=-1, batch_s=0.0, usual_batch_s=0.0))
    (slow,) = [each for each in find_symptoms(look) if each.rule == "checkpoint-write-slow"]
    assert "2.0 s of a batch's 4.0 s (50%)" in slow.cause
