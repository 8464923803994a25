"""Tests that every finding states in one sentence what a resume would do."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamkeeper.checkpoints.shapes import SHAPES, damage
from streamkeeper.compatibility import effects
from streamkeeper.compatibility.assess import assess, find_changes
from streamkeeper.compatibility.checkpoint_damage import damage_findings
from streamkeeper.compatibility.effects import BREAKING, FATAL, OPAQUE, UNCONDITIONAL, effect_of
from streamkeeper.compatibility.effects_of_notes import NOTES, WITHOUT_EFFECT
from streamkeeper.compatibility.rehearsals import rehearsal_failed
from streamkeeper.compatibility.rule import APPROVE, NEW_QUERY
from streamkeeper.compatibility.way_out import GOES_ON_ELSEWHERE as ELSEWHERE
from streamkeeper.compatibility.way_out import READS_AGAIN, priced
from streamkeeper.model.manifests.finding import Finding, Severity, Verdict, verdict_of
from streamkeeper.model.manifests.manifest import BELOW_STATE, Manifest, StateColumn
from tests.compatibility.internals import SPEAKS_INTERNALS, says_twice
from tests.compatibility.manifests import STATEFUL, STATELESS, WINDOWED, changed, with_operator, with_state

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "plugins/streamkeeper/compatibility"
TABLES = {Severity.NOTE: NOTES, Severity.OPAQUE: OPAQUE, Severity.BREAKING: BREAKING, Severity.FATAL: FATAL}
KNOWN = {rule for table in TABLES.values() for rule in table}
NAMES = re.compile(r"(?:\[a-z-\]\+|[a-z]{2,})\\-[a-z]|\[a-z-\]\+s\\-[a-z]")
RULE = re.compile(r"[a-z]+(?:-[a-z]+)+")
NO_RULES = {
    *("deduplicate-within-watermark", "pandas-with-state", "transform-with-state", "rate-micro-batch"),
    *("grouping-key", "deduplication-key", "join-key", "join-column", "state-column", "state-value"),
    *("unplanned-source-entry", "in-the-middle"),
}
"""Words of the same form that are no rules: kinds of operators and sources, parts of rule names, shapes of damage."""


def constants(tree: ast.AST) -> Iterator[str]:
    """Yield every string of a module that may name a rule; placeholders of an f-string become a pattern."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(each) for each in node.values}
            parts = [re.escape(each.value) if isinstance(each, ast.Constant) else "[a-z-]+" for each in node.values]
            if len(parts) > 1 and re.fullmatch(r"[a-z-]*", "".join(parts).replace("[a-z-]+", "").replace("\\", "")):
                yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield re.escape(node.value) if RULE.fullmatch(node.value) else ""


def rules_in_the_source() -> set[str]:
    """Return the names of rules in the modules that define them, as patterns."""
    found: set[str] = set()
    for path in ROOM.glob("*.py"):
        if path.stem not in ("effects", "effects_of_notes", "checkpoint_damage", "source_options", "way_out"):
            found |= set(constants(ast.parse(path.read_text())))
    return {each for each in found if NAMES.match(each)} - {re.escape(each) for each in NO_RULES}


def test_every_rule_has_a_sentence() -> None:
    """Every rule that the source names has a sentence in one of the tables."""
    named = rules_in_the_source()
    assert [each for each in named if not any(re.fullmatch(each, rule) for rule in KNOWN)] == []
    assert len(named) > 80


def test_every_measured_rule_has_a_sentence_of_its_severity() -> None:
    """Every rule in the measured matrix has a sentence for each severity with which it was recorded."""
    lines = (ROOT / "bench/results/matrix.jsonl").read_text().splitlines()
    told = {each for line in lines for each in json.loads(line)["answer"]["rules"]}
    pairs = [each.rstrip(")").split(" (") for each in sorted(told) if not each.startswith("checkpoint-")]
    pairs += [each.rstrip(")").split(" (") for each in told if each.startswith("checkpoint-layout")]
    assert [(rule, severity) for rule, severity in pairs if not effect_of(rule, Severity(severity))] == []


@pytest.mark.parametrize("severity", list(Severity))
def test_every_sentence_is_short_and_free_of_internal_notation(severity: Severity) -> None:
    """Every sentence is at most 180 characters long, begins in lower case or with Spark, has no final stop and contains
    no internal notation.
    """
    for rule in TABLES[severity]:
        text = effect_of(rule, severity, where="aggregation")
        assert not SPEAKS_INTERNALS.search(text), rule
        assert len(text) <= 180, rule
        assert re.fullmatch(r"(?:Spark|[a-z]).*[a-z0-9)]", text), rule
        assert "{" not in text, rule


HOLDS = re.compile(
    r"no effect|accepted loss|the effect|Spark (?:would )?(?:reject|refuse|start|continue)"
    r"|.*\bwould (?:fail|stop|reject)"
)


def test_the_sentences_that_also_hold_for_a_query_that_fails_are_listed() -> None:
    """The sentences that also hold for a failing query are exactly those on the list, which keeps them unconditional
    beside a failed rehearsal.
    """
    for severity in (Severity.NOTE, Severity.OPAQUE, Severity.BREAKING):
        told = {rule for rule, text in TABLES[severity].items() if HOLDS.match(text)}
        assert told == UNCONDITIONAL[severity] & TABLES[severity].keys()
        assert UNCONDITIONAL[severity] <= KNOWN
    assert {rule for rule, text in NOTES.items() if text.startswith("no effect")} == WITHOUT_EFFECT


def test_the_effect_of_a_changed_aggregate_names_open_windows_and_column() -> None:
    """The effect of a changed aggregate over windows names the open windows and the output column."""
    old = with_state(WINDOWED, values=(StateColumn(meaning="sum(source 0.fee)", type="long"),))
    new = with_operator(old, values=(StateColumn(meaning="sum(source 0.tax)", type="long"),))
    fees = StateColumn(meaning="sum(source 0.tax)", type="bigint", name="fees")
    new = changed(new, columns=(STATEFUL.columns[0], fees))
    (finding,) = assess({"q": old}, {"q": new}).queries["q"].findings
    assert finding.effect == "`fees` of open windows would combine old values with values of the new expression"
    assert finding.where.endswith(", column fees")


@pytest.mark.parametrize("before", ["update", "complete"])
def test_the_effect_of_append_mode_states_that_finished_windows_are_written_twice(before: str) -> None:
    """The effect of a change to append mode states that finished windows would be written twice."""
    old = changed(with_state(WINDOWED), output_mode=before)
    new = changed(old, output_mode="append")
    (finding,) = assess({"q": old}, {"q": new}).queries["q"].findings
    assert finding.effect.startswith("finished windows would be written twice")


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_a_damage_finding_states_what_spark_would_do_at_a_start(shape: str) -> None:
    """The finding about each kind of checkpoint damage states what Spark would do, never that nothing is to be done,
    and mentions the approval if the verdict is BACKUP.
    """
    (finding,) = damage_findings([damage(shape, "state", "seen")])
    assert finding.effect.startswith("Spark")
    assert "nothing to do" not in f"{finding.effect} {finding.evidence} {finding.hint}"
    assert verdict_of([finding]) is not Verdict.BACKUP or "person approves" in finding.hint


@pytest.mark.parametrize(
    ("old", "sink", "told"),
    [
        (
            STATEFUL,
            "table",
            "reads the input again from where the current one began, builds the output anew, and takes over",
        ),
        (STATELESS, "table", "continues at the same offsets and reads no input again"),
        (STATEFUL, "foreach", "accept_state_loss"),
    ],
)
def test_a_switch_hint_states_whether_the_input_is_read_again(old: object, sink: str, told: str) -> None:
    """The hint of a switch states whether the input is read again, which follows from the state and from the kind of
    sink.
    """
    base = changed(old, sink=changed(STATEFUL.sink, kind=sink))  # type: ignore[arg-type]
    new = changed(base, confs={**base.confs, "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"})
    (finding,) = assess({"q": base}, {"q": new}).queries["q"].findings
    assert (finding.rule, told in finding.hint) == ("checkpoint-layout-changed", True)


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ("table", "If not, switch with `--strategy rebuild`: a new checkpoint version reads the input again"),
        ("foreach", "If not, revert the change; or switch with `--strategy handoff` and accept_state_loss"),
    ],
)
def test_the_hint_about_changed_state_code_names_the_option_to_switch(sink: str, told: str) -> None:
    """The hint about changed code in state names the option that switches instead, because the verdict BACKUP alone
    does not switch.
    """
    old = changed(STATEFUL, sink=changed(STATEFUL.sink, kind=sink), functions={f"{BELOW_STATE}count": "a"})
    new = changed(old, functions={f"{BELOW_STATE}count": "b"})
    (finding,) = assess({"q": old}, {"q": new}).queries["q"].findings
    assert (finding.rule, told in finding.hint) == ("code-in-state-changed", True), finding.hint


def priced_beside(manifest: Manifest, rule: str) -> list[Finding]:
    """Return the opaque finding of this rule, with its final hint, beside a breaking one."""
    opaque = Finding(rule=rule, severity=Severity.OPAQUE, where="sink function", evidence="e", hint=APPROVE)
    worse = Finding(rule="sink-option-changed", severity=Severity.BREAKING, where="sink", evidence="e", hint="h")
    return [each for each in priced([opaque, worse], manifest, manifest) if each.severity is Severity.OPAQUE]


def test_beside_a_worse_finding_no_approval_is_recommended() -> None:
    """Beside a breaking or fatal finding, an opaque finding's hint refers to that finding instead of an approval,
    unless the handoff keeps the output that the approval is about.
    """
    old = changed(STATEFUL, functions={f"{BELOW_STATE}count": "a"})
    layout = {**old.confs, "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
    new = changed(old, functions={f"{BELOW_STATE}count": "b"}, confs=layout)
    switched = {each.rule: each for each in assess({"q": old}, {"q": new}).queries["q"].findings}
    opaque = switched.pop("code-in-state-changed")
    assert {each.severity for each in switched.values()} == {Severity.BREAKING}
    assert opaque.hint.startswith(f"the deploy switches because of {next(iter(switched))}, without an approval")
    files = changed(STATELESS, sink=changed(STATELESS.sink, kind="file"))
    (kept,) = priced_beside(files, "sink-function-may-write-elsewhere")
    assert "after a person has approved this finding" in kept.hint, "a handoff keeps the output"
    lost = Finding(rule="sink-ahead-of-checkpoint", severity=Severity.FATAL, where="sink", evidence="9 > 7")
    refused = assess({"q": old}, {"q": new}, {"q": [lost]}).queries["q"].findings
    (opaque,) = (each for each in refused if each.severity is Severity.OPAQUE)
    assert opaque.hint.startswith("the deploy is refused because of sink-ahead-of-checkpoint")


@pytest.mark.parametrize(
    ("rule", "other"), [("source-location-changed", {"location": "/elsewhere"}), ("source-renamed", {"name": "sales"})]
)
def test_beside_sources_that_forbid_a_switch_no_switch_is_recommended(rule: str, other: dict[str, str]) -> None:
    """If a changed source makes a switch impossible, every other hint refers to that finding, because a new checkpoint
    version cannot use its offsets either.
    """
    named = tuple(changed(each, name="orders") for each in STATEFUL.sources)
    old = changed(STATEFUL, functions={f"{BELOW_STATE}count": "a"}, sources=named)
    layout = {**old.confs, "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
    new = changed(old, functions={f"{BELOW_STATE}count": "b"}, confs=layout, sources=(changed(named[0], **other),))
    hints = {each.rule: each.hint for each in assess({"q": old}, {"q": new}).queries["q"].findings}
    assert hints.pop(rule).startswith("no switch is possible for this change, so the deploy is refused: re")
    assert set(hints) == {"code-in-state-changed", "checkpoint-layout-changed"}
    assert set(hints.values()) == {f"the deploy is refused because of {rule}: follow the hint of that finding first"}


def costs(base: Manifest) -> str:
    """Return the hint that states what a switch of a query with a sink function costs."""
    old = changed(base, sink=changed(STATEFUL.sink, kind="foreach"))
    new = changed(old, confs={**old.confs, "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"})
    (finding,) = assess({"q": old}, {"q": new}).queries["q"].findings
    return finding.hint


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["aggregate"], "with empty state: every group restarts without its earlier rows"),
        (["deduplicate-within-watermark"], "with empty state: rows already seen are written again if they come again"),
        (["join", "aggregate", "aggregate"], "rows waiting for a match are lost, every group restarts without"),
        (["transform-with-state TransformWithState"], "the stateful code starts with nothing stored for any key"),
    ],
)
def test_the_hint_of_a_switch_without_state_names_what_each_operator_loses(kinds: list[str], told: str) -> None:
    """The hint of a switch without state names what each kind of operator loses: groups, seen keys, waiting rows or
    stored values.
    """
    operators = tuple(changed(STATEFUL.operators[0], kind=each) for each in kinds)
    assert told in costs(changed(STATEFUL, operators=operators))


def test_a_refused_moved_source_has_the_remedy_of_the_source_finding() -> None:
    """If Spark refuses a moved source, its finding has the same remedy as the finding about the source; without that
    finding it recommends to read the input again.
    """
    new = changed(STATELESS, sources=(changed(STATELESS.sources[0], location="/elsewhere"),))
    refused = rehearsal_failed("IllegalArgumentException", "Wrong basePath /elsewhere", 3, again=True)
    findings = assess({"q": STATELESS}, {"q": new}, {"q": [refused]}).queries["q"].findings
    assert {each.rule for each in findings} == {"source-location-changed", "refused-by-spark"}
    assert {each.hint for each in findings} == {NEW_QUERY}
    (alone,) = assess({"q": STATELESS}, {"q": STATELESS}, {"q": [refused]}).queries["q"].findings
    assert alone.hint == READS_AGAIN, "its cause may be the offsets, which a handoff keeps"


@pytest.mark.parametrize(
    ("kind", "options", "effect", "fix"),
    [
        ("table", {}, "the first write would fail, because the output table has the old columns", READS_AGAIN),
        ("file", {"format": "csv"}, "existing files keep the old columns: a reader of the output would", ELSEWHERE),
    ],
)
def test_the_effect_of_changed_output_columns_depends_on_the_sink(
    kind: str, options: dict[str, str], effect: str, fix: str
) -> None:
    """The effect of changed output columns depends on the sink: the first write to a table fails, and existing files
    keep their columns.
    """
    old = changed(STATELESS, sink=changed(STATELESS.sink, kind=kind, options=options))
    new = changed(old, output_schema=f"{old.output_schema}\nextra string")
    (found,) = [
        each for each in assess({"q": old}, {"q": new}).queries["q"].findings if each.rule == "output-column-added"
    ]
    assert found.effect.startswith(effect)
    assert found.hint == fix
    retyped = changed(old, output_schema=old.output_schema.replace("bigint", "int"))
    found = next(
        each for each in assess({"q": old}, {"q": retyped}).queries["q"].findings if "type-changed" in each.rule
    )
    assert ("the output table has the old type of s" in found.effect) == (kind == "table")


def test_evidence_of_a_failed_rehearsal_omits_object_addresses() -> None:
    """The evidence of a failed rehearsal contains the error class and its sentence, without addresses of Spark's
    objects.
    """
    store = "RocksDBStateStore[stateStoreId=StateStoreId[ operatorId=0, partitionId=0 ], version=1]"
    said = f"Error writing files for provider {store}. Cannot commit. SQLSTATE: 58030"
    found = rehearsal_failed("CANNOT_WRITE_STATE_STORE", said, 1, again=False)
    assert found.evidence == "CANNOT_WRITE_STATE_STORE: Error writing files. Cannot commit."


def test_a_finding_numbers_the_operator_if_the_query_has_several() -> None:
    """A finding numbers the stateful operator if the query has several."""
    window, other = with_state(WINDOWED).operators[0], STATEFUL.operators[0]
    old = changed(STATEFUL, operators=(other, window))
    keys = (changed(window.key_columns[0], meaning="source 0.z"),)
    new = changed(old, operators=(other, changed(window, key_columns=keys)))
    (finding,) = [each for each in find_changes(old, new) if each.severity is Severity.BREAKING][:1]
    assert finding.where == "aggregation (stateful operator 2 of 2)"


def test_the_renamed_query_hint_recommends_the_deployed_name_or_new_output() -> None:
    """If a new query writes the output of a removed one, the hint recommends to keep the deployed name or to give the
    new query its own output.
    """
    new = changed(STATEFUL, query="other")
    findings = assess({STATEFUL.query: STATEFUL}, {"other": new}).queries[STATEFUL.query].findings
    name = STATEFUL.query
    told = f"if query other is query {name} under a new name, keep the deployed name {name}. If it is a different query"
    assert [(each.rule, each.hint) for each in findings] == [
        ("query-removed", f"{told}, give query other its own output")
    ]


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_the_hint_for_fatal_file_damage_refers_to_recover(shape: str) -> None:
    """The hint for fatal damage of files refers to ``streamkeeper recover``, which lists what each option loses."""
    (finding,) = damage_findings([damage(shape, "state", "seen")])
    of_files = finding.severity is Severity.FATAL and shape not in ("newer-format", "not-a-checkpoint")
    assert ("streamkeeper recover" in finding.hint) is of_files


def test_the_check_for_repeated_hints_recognizes_a_repetition() -> None:
    """Control: the check for repeated hints recognizes a repetition and accepts a different or empty hint."""
    assert says_twice("rows would be joined by the new type", "rows are joined by the new type from now on")
    assert not says_twice("rows would be joined by the new type", "see that no row comes later than this")
    assert not says_twice("rows would be joined by the new type", "")


def test_an_effect_stated_by_a_rule_overrides_the_table() -> None:
    """An effect that a rule states itself is kept instead of the sentence in the table."""
    own = Finding(rule="window-changed", severity=Severity.BREAKING, where="w", evidence="e", effect="its own")
    bare = Finding(rule="window-changed", severity=Severity.BREAKING, where="w", evidence="e")
    assert [each.effect for each in effects.with_effects([own, bare])] == ["its own", BREAKING["window-changed"]]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("string collate UTF8_LCASE", "; type: `string` → `string collate UTF8_LCASE`"),
        ('{"type":"struct","fields":[{"name":"a"}]}', "; type: `string` → `struct`"),
    ],
)
def test_a_key_of_another_type_shows_the_type(kind: str, told: str) -> None:
    """The evidence about a grouping key of a changed type shows both types, including a collation; fields of a struct
    are left out.
    """
    keys = (StateColumn(meaning="collate(source 0.k, resolvedcollation())", type=kind),)
    (finding,) = assess({"q": STATEFUL}, {"q": with_operator(STATEFUL, key_columns=keys)}).queries["q"].findings
    assert finding.rule == "grouping-key-type-changed"
    assert finding.evidence.endswith(told)


@pytest.mark.parametrize(
    ("mode", "sink", "told"),
    [
        ("complete", "table", "each batch would write the results of all groups"),
        ("complete", "foreach", "check that the sink function replaces the earlier result of a group"),
        ("update", "table", "each batch would write only the groups that changed"),
    ],
)
def test_the_effect_of_a_changed_output_mode_states_which_groups_are_written(mode: str, sink: str, told: str) -> None:
    """A changed output mode states which groups each batch would write, and asks to check that a sink function replaces
    earlier results.
    """
    before = "update" if mode == "complete" else "complete"
    old = changed(STATEFUL, output_mode=before, sink=changed(STATEFUL.sink, kind=sink))
    found = assess({"q": old}, {"q": changed(old, output_mode=mode)}).queries["q"].findings
    (finding,) = [each for each in found if each.rule == "output-mode-changed"]
    assert told in f"{finding.effect}: {finding.hint}"
