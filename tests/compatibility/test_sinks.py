"""Tests of changes of the output for sinks whose readers take only new rows: other topics, kinds and columns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamkeeper.compatibility.assess import assess, find_changes
from streamkeeper.compatibility.output_keys import placing_columns
from streamkeeper.compatibility.way_out import priced
from streamkeeper.model.manifests.concern import Concern, concern_of, is_carried_over
from streamkeeper.model.manifests.finding import Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription, StateColumn
from streamkeeper.model.manifests.switching import why_no_handoff
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from tests.compatibility.manifests import STATEFUL, STATELESS, changed, with_source

TOPIC = SinkDescription(kind="kafka", output="totals", options={"servers": "a:9092", "batch_headers": "true"})
FILES = SinkDescription(kind="file", output="/out", options={"format": "json", "partition_by": ""})
TABLE = STATEFUL.sink
FUNCTION = SinkDescription(kind="foreach", output="jobs:write", options={})


def sending(base: Manifest = STATELESS, sink: SinkDescription = TOPIC, **columns: str) -> Manifest:
    """Return a query that sends records; ``columns``: name -> expression, by default a key and a value."""
    columns = columns or {"key": "source 0.k", "value": "tojson(struct(source 0.k))"}
    found = tuple(StateColumn(meaning=each, type="string", name=name, functions=()) for name, each in columns.items())
    plan = f"{base.plan}\nstructure {abs(hash(tuple(columns.items())))}"
    schema = "\n".join(f"{name} string" for name in columns)
    return changed(base, sink=sink, columns=found, output_schema=schema, plan=plan)


def judged(old: Manifest, new: Manifest) -> QueryAssessment:
    """Return the assessment of a change."""
    return assess({"q": old}, {"q": new}).queries["q"]


def named(rule: str, found: QueryAssessment) -> Finding:
    """Return the only finding of a rule."""
    (finding,) = [each for each in found.findings if each.rule == rule]
    return finding


@pytest.mark.parametrize("base", [STATELESS, STATEFUL], ids=["no state", "state"])
def test_another_topic_needs_an_approval_and_keeps_the_checkpoint(base: Manifest) -> None:
    """Another topic gives BACKUP, with and without state, because readers of a topic take only new records; the hint
    names the topic in which the earlier records stay.
    """
    old = sending(base)
    found = judged(old, changed(old, sink=msgspec.structs.replace(TOPIC, output="others")))
    finding = named("sink-output-changed", found)
    assert (found.verdict, finding.severity) == (Verdict.BACKUP, Severity.OPAQUE)
    assert finding.evidence == "`totals` → `others`"
    assert finding.hint.endswith("Rows written so far stay in totals")
    assert "only new batches" in finding.effect


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (FILES, TOPIC, Verdict.BACKUP),
        (TABLE, TOPIC, Verdict.BACKUP),
        (FUNCTION, TOPIC, Verdict.BACKUP),
        (TOPIC, FUNCTION, Verdict.BACKUP),
        (TOPIC, FILES, Verdict.SWITCH),
        (TOPIC, TABLE, Verdict.SWITCH),
        (FILES, FUNCTION, Verdict.SWITCH),
    ],
    ids=lambda each: each.kind if isinstance(each, SinkDescription) else "",
)
def test_another_kind_of_sink_needs_an_approval_if_its_readers_take_only_new_rows(
    before: SinkDescription, after: SinkDescription, verdict: Verdict
) -> None:
    """A change to a topic, and from a topic to a function, gives BACKUP; a change from a topic to files or a table,
    which must contain all rows, gives SWITCH, as does a change from files to a function.
    """
    found = judged(sending(sink=before), sending(sink=after))
    finding = named("sink-kind-changed", found)
    assert found.verdict is verdict
    place = "the output of function jobs:write" if before is FUNCTION else before.output
    assert finding.hint.endswith(f"Rows written so far stay in {place}") is (verdict is Verdict.BACKUP)


@pytest.mark.parametrize(
    ("before", "after", "ends"),
    [(FILES, TOPIC, True), (TABLE, TOPIC, True), (FUNCTION, TOPIC, False), (TOPIC, FUNCTION, False)],
    ids=lambda each: each.kind if isinstance(each, SinkDescription) else "",
)
def test_the_approval_of_a_change_to_a_topic_says_that_exactly_once_ends(
    before: SinkDescription, after: SinkDescription, ends: bool
) -> None:
    """The finding about a change from a table or files to a topic says that batches may be there twice from then on; a
    change between a topic and a function, which both get batches twice, does not say so.
    """
    finding = named("sink-kind-changed", judged(sending(sink=before), sending(sink=after)))
    assert ("at least once" in finding.effect) is ends
    assert ("newest_attempts sees them once" in finding.effect) is ends
    assert "only new batches" in finding.effect


def test_a_change_to_a_topic_may_come_with_the_columns_of_a_record() -> None:
    """A change from files to a topic is approved together with the columns that a record needs."""
    old = changed(STATELESS, sink=FILES)
    found = judged(old, sending(old))
    assert found.verdict is Verdict.BACKUP
    assert {each.rule for each in found.findings if each.severity is Severity.OPAQUE} == {"sink-kind-changed"}


def test_a_change_from_a_topic_to_a_function_may_come_with_other_columns() -> None:
    """A change from a topic to a function is approved together with the columns that the function takes."""
    old = sending()
    found = judged(old, changed(STATELESS, sink=FUNCTION, plan=old.plan))
    assert found.verdict is Verdict.BACKUP


def test_a_handoff_may_continue_in_another_topic() -> None:
    """A query may be handed off to another topic, and not to another directory."""
    old = sending()
    for sink, refused in ((TOPIC, False), (FILES, True)):
        new = changed(old, sink=msgspec.structs.replace(sink, output="others"))
        before = changed(old, sink=sink)
        why = why_no_handoff([], before, new, capabilities_of(sink.kind), accept_state_loss=False)
        assert ("would be missing" in why) is refused


def test_changed_options_of_a_topics_producer_are_notes() -> None:
    """Changed options of the producer give notes with both values."""
    sink = msgspec.structs.replace(TOPIC, options={**TOPIC.options, "kafka.linger.ms": "7"})
    found = judged(sending(), sending(sink=sink))
    finding = named("sink-option-changed", found)
    assert (found.verdict, finding.severity, "7" in finding.evidence) == (Verdict.RESUME, Severity.NOTE, True)


@pytest.mark.parametrize(
    ("option", "values", "effect"),
    [
        ("servers", ("a:9092", "b:9092"), "another cluster"),
        ("batch_headers", ("true", "false"), "newest_attempts could not drop"),
        ("batch_headers", ("false", "true"), "newest_attempts could not drop"),
    ],
)
def test_options_that_readers_of_a_topic_rely_on_need_an_approval(
    option: str, values: tuple[str, str], effect: str
) -> None:
    """Other servers, which may be another cluster, and batch headers that are switched off or on need an approval, and
    the finding says what readers would miss.
    """
    sinks = [msgspec.structs.replace(TOPIC, options={**TOPIC.options, option: value}) for value in values]
    old, new = (sending(sink=sink) for sink in sinks)
    found = judged(old, new)
    finding = named("sink-option-changed", found)
    assert (found.verdict, finding.severity) == (Verdict.BACKUP, Severity.OPAQUE)
    assert effect in finding.effect
    assert concern_of(finding) is Concern.OUTPUT


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({"value": "source 0.k"}, {"value": "source 0.k", "key": "source 0.k"}, Verdict.BACKUP),
        ({"value": "source 0.k", "partition": "source 0.k"}, {"value": "source 0.k"}, Verdict.BACKUP),
        ({"value": "source 0.k"}, {"value": "source 0.k", "headers": "source 0.k"}, Verdict.RESUME),
        (
            {"value": "source 0.k", "key": "source 0.k"},
            {"key": "source 0.k", "value": "source 0.k"},
            Verdict.RESUME,
        ),
        ({"value": "source 0.k"}, {"value": "upper(source 0.k)"}, Verdict.RESUME),
    ],
    ids=["key added", "partition removed", "headers added", "reordered", "value redefined"],
)
def test_only_columns_that_place_a_record_need_an_approval(
    before: dict[str, str], after: dict[str, str], verdict: Verdict
) -> None:
    """An added or removed key or partition needs an approval; other columns, their order and another value are
    notes.
    """
    assert judged(sending(**before), sending(**after)).verdict is verdict


@pytest.mark.parametrize("base", [STATELESS, STATEFUL], ids=["no state", "state"])
@pytest.mark.parametrize("column", ["key", "partition"])
def test_another_expression_of_a_key_or_partition_needs_an_approval(base: Manifest, column: str) -> None:
    """Another expression of the key or the partition of a record needs an approval, with and without state, and no new
    checkpoint version, which would not change the earlier records.
    """
    columns = {"value": "source 0.k", column: "source 0.k"}
    old, new = sending(base, **columns), sending(base, **{**columns, column: "upper(source 0.k)"})
    assert placing_columns(new) == (column,)
    found = judged(old, new)
    finding = named("sink-key-redefined", found)
    assert (found.verdict, finding.severity) == (Verdict.BACKUP, Severity.OPAQUE)
    assert finding.evidence == "`k` → `upper(k)`"
    assert "revert the change" in finding.hint
    assert "checkpoint version" not in finding.hint


def test_beside_another_topic_the_finding_that_prevents_a_handoff_is_named() -> None:
    """If a query moves to another topic and no switch is possible, the hints name the finding about its offsets, and
    not one about its state, which a handoff could give up.
    """
    old = sending(STATEFUL)
    new = changed(old, sink=msgspec.structs.replace(TOPIC, output="others"))
    moved = named("sink-output-changed", judged(old, new))
    state = Finding(rule="grouping-key-changed", severity=Severity.BREAKING, where="aggregation", evidence="a", hint="")
    offsets = msgspec.structs.replace(state, rule="source-column-type-changed", where="source 0 (file /in)")
    hints = [each.hint for each in priced((moved, state, offsets), old, new)]
    assert offsets.rule in hints[0]
    assert state.rule not in hints[0]


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [("update", "complete", "unchanged results again"), ("complete", "update", "only the groups that changed")],
)
def test_another_output_mode_of_a_topic_needs_an_approval(before: str, after: str, effect: str) -> None:
    """A change between update and complete mode of a topic needs an approval, also in a handoff, because its readers
    get other groups in each batch. Negative control: for a function it is a note.
    """
    old = changed(sending(STATEFUL), output_mode=before)
    found = judged(old, changed(old, output_mode=after))
    finding = named("output-mode-changed", found)
    assert (found.verdict, finding.severity, effect in finding.effect) == (Verdict.BACKUP, Severity.OPAQUE, True)
    assert is_carried_over(finding, keeps_state=True)
    other = changed(old, sink=FUNCTION)
    assert judged(other, changed(other, output_mode=after)).verdict is Verdict.RESUME


def of_queries(deployed: dict[str, Manifest], candidate: dict[str, Manifest]) -> dict[str, list[tuple[str, Any]]]:
    """Return query -> the rules and severities of its findings."""
    found = assess(deployed, candidate).queries
    return {name: [(each.rule, each.severity) for each in query.findings] for name, query in found.items()}


def test_a_second_query_may_write_to_a_topic_that_keeps_its_first_one() -> None:
    """A query may be added that writes to the topic of another query, which stays, or removed beside it; in a table it
    may not.
    """
    one, two = sending(), changed(sending(with_source(STATELESS, location="/other")), query="two")
    assert of_queries({"q": one}, {"q": one, "two": two})["two"] == [("query-added", Severity.NOTE)]
    assert of_queries({"q": one, "two": two}, {"q": one})["two"] == [("query-removed", Severity.NOTE)]
    tables = [changed(each, sink=TABLE) for each in (one, two)]
    added = of_queries({"q": tables[0]}, {"q": tables[0], "two": tables[1]})["two"]
    assert added == [("output-changes-hands", Severity.BREAKING)]


def test_a_query_that_takes_over_the_topic_of_a_removed_one_is_refused() -> None:
    """A new query that writes to the topic of a removed query may be that query renamed, which would send all records
    again, so both findings are breaking.
    """
    one, two = sending(), changed(sending(), query="two")
    found = of_queries({"q": one}, {"two": two})
    assert found == {
        "q": [("query-removed", Severity.BREAKING)],
        "two": [("output-changes-hands", Severity.BREAKING)],
    }


def test_an_unchanged_query_into_a_topic_gives_no_finding() -> None:
    """Control: an unchanged query into a topic gives no finding."""
    assert find_changes(sending(), sending()) == ()
