"""The verdict on a change, from two manifests."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkeeper.compatibility.assess import RULES, assess, find_changes
from streamkeeper.model.finding import Finding, Severity, Verdict, verdict_of
from streamkeeper.model.manifest import UNREADABLE, Manifest, SinkDescription
from tests.compatibility.manifests import (
    AGGREGATE,
    SOURCE,
    STATEFUL,
    STATELESS,
    UPSTREAM,
    changed,
    with_operator,
    with_source,
)

OTHER_SOURCE = msgspec.structs.replace(SOURCE, location="/other")
TWO = changed(STATELESS, sources=(SOURCE, OTHER_SOURCE))
KAFKA = with_source(STATELESS, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
ABOVE = "~Filter (s#2L > 3)\n+- " + UPSTREAM
WITH_CODE = changed(STATEFUL, functions={"below/0 plus": "aa", "above/0 label": "bb", "sink/function": "cc"})


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (STATELESS, changed(STATELESS, sources=(SOURCE, OTHER_SOURCE)), "source-count-changed"),
        (TWO, changed(TWO, sources=(OTHER_SOURCE, SOURCE)), "source-order-changed"),
        (STATELESS, with_source(STATELESS, kind="rate"), "source-kind-changed"),
        (STATELESS, with_source(STATELESS, location="/elsewhere"), "source-location-changed"),
        (KAFKA, with_source(KAFKA, location="subscribe refunds@a:9092"), "source-location-changed"),
        (STATELESS, with_source(STATELESS, options={"format": "csv"}), "source-option-changed"),
        (STATELESS, with_source(STATELESS, schema="k int\nx bigint"), "source-schema-changed"),
        (STATELESS, with_source(STATELESS, schema="x bigint"), "source-schema-changed"),
        (STATEFUL, with_source(STATEFUL, schema="k string\nx bigint\ny bigint"), "source-schema-changed"),
        (STATELESS, with_source(STATELESS, name="orders"), "source-name-changed"),
        (STATEFUL, changed(STATEFUL, operators=()), "stateful-operator-removed"),
        (STATELESS, changed(STATELESS, operators=(AGGREGATE,)), "stateful-operator-added"),
        (STATEFUL, with_operator(STATEFUL, kind="deduplicate"), "stateful-operator-replaced"),
        (STATEFUL, with_operator(STATEFUL, keys=("k2 string",)), "grouping-keys-changed"),
        (
            STATEFUL,
            with_operator(STATEFUL, expressions=("k string", "max(x) AS s bigint")),
            "state-expressions-changed",
        ),
        (STATEFUL, with_operator(STATEFUL, detail={"timeout": "None"}), "operator-timeout-changed"),
        (STATEFUL, with_operator(STATEFUL, upstream=UPSTREAM.replace("> 3", "> 4")), "upstream-changed"),
        (
            STATEFUL,
            with_operator(STATEFUL, upstream=UPSTREAM.replace("structure 11", "structure 9")),
            "upstream-changed",
        ),
        (STATEFUL, changed(STATEFUL, watermarks=("ts 10 minutes",)), "watermark-changed"),
        (STATEFUL, changed(STATEFUL, output_mode="complete"), "output-mode-changed"),
        (STATEFUL, changed(STATEFUL, output_schema="k string"), "output-column-removed"),
        (STATEFUL, changed(STATEFUL, output_schema="k string\ns bigint\nz int"), "output-column-added"),
        (STATEFUL, changed(STATEFUL, output_schema="k string\ns string"), "output-column-type-changed"),
        (STATEFUL, changed(STATEFUL, output_schema="s bigint\nk string"), "output-columns-reordered"),
        (
            STATEFUL,
            changed(STATEFUL, sink=SinkDescription(kind="file", output="/out", options={})),
            "sink-kind-changed",
        ),
        (
            STATEFUL,
            changed(STATEFUL, sink=msgspec.structs.replace(STATEFUL.sink, output="sqlite:/db#other")),
            "sink-output-changed",
        ),
        (STATEFUL, changed(STATEFUL, sink=msgspec.structs.replace(STATEFUL.sink, options={})), "sink-option-changed"),
        (STATEFUL, changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.session.timeZone": "CET"}), "setting-changed"),
        (
            STATEFUL,
            changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}),
            "checkpoint-layout-changed",
        ),
        (STATEFUL, changed(STATEFUL, functions={"below/0 rows": "aa"}), "rows-in-state-changed"),
    ],
)
def test_what_touches_state_offsets_or_output_is_breaking(old: Manifest, new: Manifest, rule: str) -> None:
    """Each such change asks for a switch, and the finding names its reason."""
    findings = find_changes(old, new)
    assert rule in {each.rule for each in findings if each.severity is Severity.BREAKING}
    assert verdict_of(findings) is Verdict.SWITCH


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (STATELESS, changed(STATELESS, plan=STATELESS.plan.replace("x#1L AS", "(x#1L + 1) AS")), "stateless-change"),
        (
            STATELESS,
            changed(STATELESS, plan=STATELESS.plan.replace("structure 22", "structure 23")),
            "stateless-change",
        ),
        (STATELESS, with_source(STATELESS, schema="k string\nx bigint\ny int"), "source-columns-added"),
        (STATELESS, changed(STATELESS, functions={"above/0 label": "aa"}), "stateless-code-changed"),
        (
            STATELESS,
            changed(STATELESS, confs={**STATELESS.confs, "spark.sql.ansi.enabled": "false"}),
            "setting-changed",
        ),
        (STATELESS, changed(STATELESS, watermarks=("ts 10 minutes",)), "watermark-changed"),
        (KAFKA, with_source(KAFKA, location="subscribe orders@b:9092"), "brokers-moved"),
        (STATEFUL, changed(STATEFUL, plan=ABOVE), "above-state-changed"),
        (
            WITH_CODE,
            changed(WITH_CODE, functions={**WITH_CODE.functions, "above/0 label": "x"}),
            "code-above-state-changed",
        ),
        (
            WITH_CODE,
            changed(WITH_CODE, functions={**WITH_CODE.functions, "sink/function": "x"}),
            "sink-function-changed",
        ),
        (STATEFUL, with_source(STATEFUL, limits={"maxfilespertrigger": "100"}), "rate-limit-changed"),
        (STATEFUL, changed(STATEFUL, trigger="availableNow"), "trigger-changed"),
        (STATEFUL, changed(STATEFUL, output_schema="k string\ns bigint not null"), "output-column-nullability-changed"),
        (
            STATEFUL,
            changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.shuffle.partitions": "200"}),
            "setting-pinned",
        ),
        (STATEFUL, changed(STATEFUL, spark_version="4.1.1"), "spark-version-changed"),
    ],
)
def test_what_is_proven_safe_is_resumed_with_a_note(old: Manifest, new: Manifest, rule: str) -> None:
    """Each kind of change that was measured to be safe is resumed, and still told."""
    findings = find_changes(old, new)
    assert [each.rule for each in findings] == [rule]
    assert verdict_of(findings) is Verdict.RESUME


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (
            WITH_CODE,
            changed(WITH_CODE, functions={**WITH_CODE.functions, "below/0 plus": "x"}),
            "code-in-state-changed",
        ),
        (
            changed(STATEFUL, functions={"below/0 plus": UNREADABLE + "1"}),
            changed(STATEFUL, functions={"below/0 plus": UNREADABLE + "1"}),
            "code-in-state-unreadable",
        ),
        (STATEFUL, changed(STATEFUL, spark_version="4.3.0"), "spark-version-not-measured"),
        (
            with_operator(STATEFUL, kind="join"),
            changed(with_operator(STATEFUL, kind="join"), spark_version="4.1.1"),
            "spark-version-not-measured",
        ),
    ],
)
def test_what_nothing_can_prove_asks_for_a_backup(old: Manifest, new: Manifest, rule: str) -> None:
    """Opaque causes, and only they, ask for a snapshot and a person."""
    findings = find_changes(old, new)
    assert [each.rule for each in findings] == [rule]
    assert verdict_of(findings) is Verdict.BACKUP


def test_the_same_manifest_is_resumed_without_a_finding() -> None:
    """Nothing changed, nothing said."""
    for manifest in (STATEFUL, STATELESS, WITH_CODE):
        assert find_changes(manifest, manifest) == ()
    assert assess({"totals": STATEFUL}, {"totals": STATEFUL}).verdict is Verdict.RESUME


def test_a_first_deploy_is_a_resume_of_nothing() -> None:
    """Without a deployed release there is nothing that could be broken."""
    found = assess(None, {"totals": STATEFUL})
    assert found.verdict is Verdict.RESUME
    assert found.queries["totals"].findings == ()


def test_evidence_reads_before_and_after() -> None:
    """A person sees what it was and what it would be."""
    (finding,) = find_changes(STATEFUL, with_operator(STATEFUL, keys=("k2 string",)))
    assert finding.evidence == "k string -> k2 string"
    assert finding.where == "stateful operator 0 (aggregate)"


def test_one_reason_is_told_once() -> None:
    """What follows from a change (the plan above, the structure's digest) is no finding of its own."""
    upper = msgspec.structs.replace(AGGREGATE, upstream="~Aggregate [k#0]\n+- " + UPSTREAM)
    old = changed(STATEFUL, operators=(AGGREGATE, upper), plan=upper.upstream)
    lower = msgspec.structs.replace(AGGREGATE, upstream=UPSTREAM.replace("> 3", "> 4"))
    raised = msgspec.structs.replace(upper, upstream=upper.upstream.replace("> 3", "> 4"))
    new = changed(STATEFUL, operators=(lower, raised), plan=raised.upstream)
    assert [each.rule for each in find_changes(old, new)] == ["upstream-changed"]


def test_a_changed_window_is_named() -> None:
    """A window's size shows only in the expressions below the operator."""
    window = "+- ~Project [named_struct(start, precisetimestampconversion(ts#4 % 600000000))]\n"
    old = with_operator(STATEFUL, upstream=UPSTREAM + "\n" + window)
    new = with_operator(STATEFUL, upstream=UPSTREAM + "\n" + window.replace("600000000", "1200000000"))
    assert [each.rule for each in find_changes(old, new)] == ["window-changed"]


def test_a_changed_watermark_is_one_finding() -> None:
    """The watermark's mark on every attribute above it is not told as another change."""
    below = UPSTREAM + "\n   +- ~EventTimeWatermark UUID, ts#3: timestamp, 10 minutes"
    old = changed(with_operator(STATEFUL, upstream=below.replace("x#1L >", "ts#1-T600000ms >")), watermarks=("ts 10m",))
    new_text = below.replace("x#1L >", "ts#1-T60000ms >").replace("10 minutes", "1 minutes").replace("11", "12")
    new = changed(with_operator(STATEFUL, upstream=new_text), watermarks=("ts 1m",))
    assert [each.rule for each in find_changes(old, new)] == ["watermark-changed"]


def test_a_new_query_may_not_take_over_another_ones_output() -> None:
    """A renamed query would read everything again into the output that is already full."""
    renamed = assess({"totals": STATEFUL}, {"sums": changed(STATEFUL, query="sums")})
    assert renamed.verdict is Verdict.SWITCH
    assert renamed.queries["sums"].findings[0].rule == "output-changes-hands"
    elsewhere = changed(STATEFUL, query="sums", sink=msgspec.structs.replace(STATEFUL.sink, output="sqlite:/db#sums"))
    added = assess({"totals": STATEFUL}, {"totals": STATEFUL, "sums": elsewhere})
    assert added.verdict is Verdict.RESUME
    assert [each.rule for each in added.queries["sums"].findings] == ["query-added"]
    removed = assess({"totals": STATEFUL, "sums": elsewhere}, {"totals": STATEFUL})
    assert removed.verdict is Verdict.RESUME
    assert [each.rule for each in removed.queries["sums"].findings] == ["query-removed"]


def test_a_jobs_verdict_is_the_strictest_of_its_queries() -> None:
    """One query that cannot go on keeps the whole job from it."""
    broken = changed(STATEFUL, output_mode="complete")
    found = assess({"a": STATEFUL, "b": STATEFUL}, {"a": STATEFUL, "b": broken})
    assert (found.queries["a"].verdict, found.queries["b"].verdict) == (Verdict.RESUME, Verdict.SWITCH)
    assert found.verdict is Verdict.SWITCH


def test_a_difference_that_no_rule_knows_is_never_resumed() -> None:
    """The net below the rules: without it a field that rules forgot would pass in silence."""
    odd = changed(STATEFUL, functions={"somewhere/0 new": "aa"})
    assert [finding for rule in RULES for finding in rule(STATEFUL, odd)] == []
    assert [each.rule for each in find_changes(STATEFUL, odd)] == ["unexplained-difference"]
    with_note = changed(odd, trigger="1 second")
    assert verdict_of(find_changes(STATEFUL, with_note)) is Verdict.SWITCH


findings = st.builds(
    Finding,
    rule=st.just("a-fact"),
    severity=st.sampled_from(Severity),
    where=st.just("here"),
    evidence=st.just("a -> b"),
)


@given(st.lists(findings), findings)
def test_another_finding_never_lowers_a_verdict(known: list[Finding], more: Finding) -> None:
    """A verdict is a maximum."""
    assert verdict_of([*known, more]) >= verdict_of(known)
    assert verdict_of([*known, more]) >= verdict_of([more])


words = st.sampled_from(["", "a", "b not null", "a int\nb int", "k string\ns bigint"])
tables = st.dictionaries(st.sampled_from(["spark.sql.x", "spark.sql.shuffle.partitions", "key"]), words, max_size=2)
operators = st.builds(
    msgspec.structs.replace,
    st.just(AGGREGATE),
    kind=st.sampled_from(["aggregate", "join"]),
    keys=st.tuples(words),
    expressions=st.tuples(words),
    upstream=st.sampled_from([UPSTREAM, UPSTREAM.replace("3", "4"), UPSTREAM.replace("11", "12")]),
    detail=tables,
)
sources = st.builds(
    msgspec.structs.replace,
    st.just(SOURCE),
    kind=st.sampled_from(["file", "kafka"]),
    location=st.sampled_from(["/in", "a@b", "a@c"]),
    options=tables,
    limits=tables,
    schema=words,
    name=st.sampled_from([None, "n"]),
)
manifests = st.builds(
    msgspec.structs.replace,
    st.just(STATEFUL),
    spark_version=st.sampled_from(["4.2.0", "4.1.1", "9.9"]),
    sources=st.lists(sources, max_size=2).map(tuple),
    watermarks=st.lists(words, max_size=1).map(tuple),
    operators=st.lists(operators, max_size=2).map(tuple),
    plan=st.sampled_from([UPSTREAM, ABOVE, STATELESS.plan]),
    output_schema=words,
    output_mode=st.sampled_from(["append", "update"]),
    trigger=st.sampled_from(["1 second", "availableNow"]),
    confs=tables,
    functions=st.dictionaries(st.sampled_from(["below/0 f", "above/0 f", "sink/f", "below/1 rows"]), words, max_size=2),
)


@settings(max_examples=200, deadline=None)
@given(manifests, manifests)
def test_every_difference_has_a_finding_and_no_finding_lacks_a_difference(old: Manifest, new: Manifest) -> None:
    """Over arbitrary manifests: RESUME without a word means equal, and equal means RESUME without a word."""
    found = find_changes(old, new)
    assert bool(found) == (old != new)


@settings(max_examples=200, deadline=None)
@given(manifests, manifests)
def test_state_that_means_something_else_is_never_resumed(old: Manifest, new: Manifest) -> None:
    """Whatever else changed along with it: another operator, key, expression or upstream is at least a switch."""
    if old.operators != new.operators and [(o.keys, o.expressions, o.upstream) for o in old.operators] != [
        (o.keys, o.expressions, o.upstream) for o in new.operators
    ]:
        assert verdict_of(find_changes(old, new)) is Verdict.SWITCH
