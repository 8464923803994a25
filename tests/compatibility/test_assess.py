"""Tests of the verdict on a change, from two manifests."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamkeeper.compatibility.assess import RULES, assess, assess_evidence, find_changes
from streamkeeper.compatibility.effects import with_effects
from streamkeeper.compatibility.state_keys import without_nulls
from streamkeeper.compatibility.watermarks import without_eviction
from streamkeeper.model.manifests.evidence import Evidence, Look, QueryEvidence
from streamkeeper.model.manifests.finding import Finding, Severity, Verdict, verdict_of
from streamkeeper.model.manifests.manifest import (
    UNREADABLE,
    Manifest,
    Operator,
    SinkDescription,
    StateColumn,
    Watermark,
)
from tests.compatibility.internals import SPEAKS_INTERNALS, says_twice
from tests.compatibility.manifests import (
    AGGREGATE,
    JOIN,
    MINUTE_MS,
    SOURCE,
    STATEFUL,
    STATELESS,
    TEN_MINUTES,
    UPSTREAM,
    WINDOWED,
    changed,
    watermarked,
    with_operator,
    with_source,
    with_state,
)

OTHER_SOURCE = msgspec.structs.replace(SOURCE, location="/other")
TWO = changed(STATELESS, sources=(SOURCE, OTHER_SOURCE))
KAFKA = with_source(STATELESS, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
BY_PATTERN = with_source(KAFKA, location="subscribepattern ord.*@a:9092")
PARSED_AT = "fromjson(source 0.value, in session).at:timestamp"
PARSED, PARSED_LATER = (Watermark(column=PARSED_AT, delay_ms=each * MINUTE_MS) for each in (1, 10))
CUT_SHORT = msgspec.structs.replace(
    WINDOWED, key_columns=(StateColumn(meaning="window(fromjson(source 0.value, 600000000; 0a)", type="window"),)
)
"""An operator whose window over a parsed column has its meaning recorded in an earlier, truncated form."""
ABOVE = "~Filter (s#2L > 3)\n+- " + UPSTREAM
WITH_CODE = changed(
    STATEFUL,
    functions={"below/0 plus": "aa", "above/0 label": "bb", "sink/function": "cc"},
    sink_routing={"sink/function": "rr"},
)


def keys(*meanings: str, kind: str = "string") -> tuple[StateColumn, ...]:
    """Return state columns of one type with these meanings."""
    return tuple(StateColumn(meaning=each, type=kind) for each in meanings)


def keyed(key: str) -> Manifest:
    """Return a query that writes a table with this key."""
    return changed(STATEFUL, sink=msgspec.structs.replace(STATEFUL.sink, options={"key": key}))


def old_format(manifest: Manifest) -> Manifest:
    """Return the manifest as a release of format 1 described it."""
    bare = [
        msgspec.structs.replace(each, key_columns=(), values=(), rows=(), shape=(), resolved=False)
        for each in manifest.operators
    ]
    return changed(manifest, format=1, operators=tuple(bare), delays=(), columns=())


CSV = with_source(STATELESS, options={"format": "csv"})
NAMED = with_source(STATELESS, name="orders")
NEW_NAMED = msgspec.structs.replace(SOURCE, location="/more", name="more")
MINUTE = Watermark(column="source 0.ts", delay_ms=MINUTE_MS)
OTHER_COLUMN = Watermark(column="source 0.at", delay_ms=10 * MINUTE_MS)
WITHIN = msgspec.structs.replace(AGGREGATE, kind="deduplicate-within-watermark")
OTHER_WINDOW = keys("window(source 0.ts, 1200000000; 0b)", "source 0.k", kind="window")
OTHER_JOIN_KEY = keys("equalto(source 0.z, source 1.k)", kind="")
FIRST = with_operator(STATEFUL, values=keys("first(source 0.x, ignoreNulls=false)"))
LAST = with_operator(STATEFUL, values=keys("last(source 0.x, ignoreNulls=false)"))
IN_ANSI = changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.ansi.enabled": "true"})
IN_ZONE = with_operator(STATEFUL, key_columns=keys("dateformat(source 0.ts, in session)"))
FILLED = keys("coalesce(source 0.k, ?:string)", kind="string not null")
BOUND = "lessthan(source 1.ts, timestampaddinterval(source 0.ts, 5:interval minute))"
RANGE = {**JOIN.detail, "condition": BOUND}
NARROWER = {**JOIN.detail, "condition": BOUND.replace("5:", "1:")}
TO_PARQUET = changed(
    STATELESS, sink=SinkDescription(kind="file", output="/out", options={"format": "parquet", "partition_by": ""})
)
TO_FUNCTION = changed(STATEFUL, sink=SinkDescription(kind="foreach", output="function", options={}))


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (STATELESS, changed(STATELESS, sources=(SOURCE, OTHER_SOURCE)), "source-count-changed"),
        (TWO, changed(TWO, sources=(OTHER_SOURCE, SOURCE)), "source-order-changed"),
        (STATELESS, with_source(STATELESS, kind="rate"), "source-kind-changed"),
        (STATELESS, with_source(STATELESS, location="/elsewhere"), "source-location-changed"),
        (KAFKA, with_source(KAFKA, location="subscribe refunds@a:9092"), "source-location-changed"),
        (BY_PATTERN, KAFKA, "source-location-changed"),
        (STATELESS, with_source(STATELESS, options={"format": "csv"}), "source-selection-changed"),
        (STATELESS, with_source(STATELESS, options={"format": "json", "maxfileage": "1h"}), "source-selection-changed"),
        (STATEFUL, with_source(STATEFUL, options={"format": "json", "mode": "x"}), "source-reading-changed"),
        (STATELESS, with_source(STATELESS, schema="k int\nx bigint"), "source-column-type-changed"),
        (STATELESS, with_source(STATELESS, schema="k string\nx int"), "source-column-type-changed"),
        (STATEFUL, with_source(STATEFUL, schema="k string\nx string"), "source-column-type-changed"),
        (CSV, with_source(CSV, schema="x bigint\nk string"), "source-columns-moved"),
        (STATELESS, with_source(STATELESS, name="orders"), "source-naming-changed"),
        (NAMED, with_source(NAMED, name="sales"), "source-renamed"),
        (STATEFUL, changed(STATEFUL, operators=()), "stateful-operator-removed"),
        (STATELESS, changed(STATELESS, operators=(AGGREGATE,)), "stateful-operator-added"),
        (STATEFUL, with_operator(STATEFUL, kind="deduplicate"), "stateful-operator-replaced"),
        (STATEFUL, with_operator(STATEFUL, key_columns=keys("source 0.k2")), "grouping-key-changed"),
        (STATEFUL, with_operator(STATEFUL, key_columns=keys("source 0.k", "source 0.k2")), "grouping-key-added"),
        (STATEFUL, with_operator(STATEFUL, key_columns=()), "grouping-key-removed"),
        (STATEFUL, with_operator(STATEFUL, key_columns=keys("source 0.k", kind="long")), "grouping-key-type-changed"),
        (
            with_operator(STATEFUL, key_columns=keys("source 0.k", kind="string not null")),
            STATEFUL,
            "grouping-key-became-nullable",
        ),
        (
            STATEFUL,
            with_operator(STATEFUL, key_columns=keys("coalesce(source 0.k, ?:string)")),
            "grouping-key-null-replaced",
        ),
        (
            with_operator(STATEFUL, key_columns=keys("source 0.k", "source 0.k2")),
            with_operator(STATEFUL, key_columns=keys("source 0.k2", "source 0.k")),
            "grouping-keys-reordered",
        ),
        (with_state(WINDOWED), with_state(WINDOWED, key_columns=OTHER_WINDOW), "window-changed"),
        (STATEFUL, with_operator(STATEFUL, values=keys("max(source 0.x)", kind="long")), "aggregate-function-changed"),
        (STATEFUL, with_operator(STATEFUL, values=keys("sum(source 0.y)", kind="long")), "aggregate-input-changed"),
        (STATEFUL, with_operator(STATEFUL, values=keys("sum(source 0.x)", kind="double")), "aggregate-type-changed"),
        (STATEFUL, with_operator(STATEFUL, values=()), "aggregate-removed"),
        (STATEFUL, with_operator(STATEFUL, values=keys("sum(source 0.x)", "count(1)")), "aggregate-added"),
        (
            with_operator(STATEFUL, values=keys("sum(source 0.x)", "sum(source 0.y)")),
            with_operator(STATEFUL, values=keys("sum(source 0.y)", "sum(source 0.x)")),
            "aggregates-reordered",
        ),
        (LAST, FIRST, "aggregate-function-changed"),
        (
            with_operator(STATEFUL, values=keys("collectset(source 0.x)")),
            with_operator(STATEFUL, values=keys("collectlist(source 0.x)")),
            "aggregate-function-changed",
        ),
        (
            with_operator(STATEFUL, values=keys('max(structstojson(struct(<"a">source 0.x)))')),
            with_operator(STATEFUL, values=keys('max(structstojson(struct(<"b">source 0.x)))')),
            "aggregate-input-changed",
        ),
        (with_state(JOIN, detail=NARROWER), with_state(JOIN, detail=RANGE), "operator-condition-changed"),
        (
            watermarked(WINDOWED, TEN_MINUTES, output_mode="append"),
            watermarked(WINDOWED, TEN_MINUTES, output_mode="complete"),
            "output-mode-changed",
        ),
        (CSV, with_source(CSV, options={"format": "csv", "header": "true"}), "source-selection-changed"),
        (TO_PARQUET, changed(TO_PARQUET, output_schema="k string\ns bigint\nz int"), "output-column-added"),
        (changed(FIRST, output_mode="append"), changed(LAST, output_mode="append"), "aggregate-function-changed"),
        (STATEFUL, with_operator(STATEFUL, detail={"timeout": "None"}), "operator-timeout-changed"),
        (STATEFUL, with_operator(STATEFUL, shape=("source 0", "generate explode")), "upstream-changed"),
        (STATEFUL, with_operator(STATEFUL, resolved=False), "upstream-changed"),
        (with_state(JOIN), with_state(JOIN, rows=("left: isnotnull(source 0.z)",)), "filter-below-join-changed"),
        (with_state(JOIN), with_state(JOIN, values=keys("source 0.k", "source 1.y")), "join-column-changed"),
        (
            with_state(JOIN),
            with_state(JOIN, key_columns=keys("equalto(source 0.z, source 1.k)", kind="")),
            "join-key-changed",
        ),
        (with_state(JOIN), with_state(JOIN, detail={**JOIN.detail, "condition": ""}), "operator-condition-changed"),
        (with_state(JOIN, detail={**JOIN.detail, "type": "LEFT SEMI"}), with_state(JOIN), "join-type-changed"),
        (watermarked(WINDOWED, TEN_MINUTES), watermarked(WINDOWED), "watermark-removed"),
        (watermarked(WINDOWED, MINUTE), watermarked(WINDOWED, TEN_MINUTES), "watermark-delay-increased"),
        (
            without_eviction(watermarked(WITHIN, MINUTE), 0),
            without_eviction(watermarked(WITHIN, TEN_MINUTES), 0),
            "watermark-delay-increased",
        ),
        (watermarked(CUT_SHORT, PARSED), watermarked(CUT_SHORT, PARSED_LATER), "watermark-delay-increased"),
        (watermarked(WITHIN, TEN_MINUTES), watermarked(WITHIN, MINUTE), "watermark-delay-decreased"),
        (watermarked(AGGREGATE, TEN_MINUTES), watermarked(AGGREGATE, OTHER_COLUMN), "watermark-column-changed"),
        (STATEFUL, changed(STATEFUL, output_mode="append"), "output-mode-changed"),
        (changed(STATEFUL, output_mode="append"), STATEFUL, "output-mode-changed"),
        (old_format(STATEFUL), old_format(with_operator(STATEFUL, keys=("k2 string",))), "grouping-keys-changed"),
        (
            old_format(STATEFUL),
            with_operator(STATEFUL, expressions=("k string", "max(x) AS s bigint")),
            "state-expressions-changed",
        ),
        (old_format(STATEFUL), with_operator(STATEFUL, upstream=UPSTREAM.replace("> 3", "> 4")), "upstream-changed"),
        (STATEFUL, changed(STATEFUL, output_schema="k string"), "output-column-removed"),
        (STATEFUL, changed(STATEFUL, output_schema="k string\ns bigint\nz int"), "output-column-added"),
        (STATEFUL, changed(STATEFUL, output_schema="k string\ns string"), "output-column-type-changed"),
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
        (keyed("k,z"), keyed("k"), "sink-option-changed"),
        (IN_ZONE, changed(IN_ZONE, confs={**STATEFUL.confs, "spark.sql.session.timeZone": "CET"}), "time-zone-changed"),
        (STATEFUL, changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.legacy.x": "1"}), "setting-changed"),
        (
            STATEFUL,
            changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}),
            "checkpoint-layout-changed",
        ),
        (STATEFUL, changed(STATEFUL, functions={"below/0 rows": "aa"}), "rows-in-state-changed"),
    ],
)
def test_what_touches_state_offsets_or_output_is_breaking(old: Manifest, new: Manifest, rule: str) -> None:
    """Each change that does not fit the state, the offsets or the output has a breaking finding under its rule, and the
    verdict is SWITCH.
    """
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
        (STATEFUL, with_source(STATEFUL, schema="k string\nx bigint\ny bigint"), "source-columns-added"),
        (STATELESS, with_source(STATELESS, schema="x bigint"), "source-columns-removed"),
        (STATELESS, with_source(STATELESS, schema="x bigint\nk string"), "source-columns-reordered"),
        (
            with_source(STATELESS, schema="k string\nx int"),
            with_source(STATELESS, schema="k string\nx bigint"),
            "source-column-widened",
        ),
        (STATELESS, with_source(STATELESS, options={"format": "json", "mode": "x"}), "source-reading-changed"),
        (
            STATELESS,
            with_source(STATELESS, options={"format": "json", "latestfirst": "true"}),
            "source-order-of-files-changed",
        ),
        (
            STATELESS,
            with_source(STATELESS, options={"format": "json", "latestfirst": "false"}),
            "source-option-spelled-out",
        ),
        (NAMED, changed(NAMED, sources=(*NAMED.sources, NEW_NAMED)), "named-source-added"),
        (KAFKA, with_source(KAFKA, location="subscribe orders,refunds@a:9092"), "topics-added"),
        (KAFKA, with_source(KAFKA, location="subscribepattern ord.*@a:9092"), "topics-added"),
        (keyed("k,z"), keyed("z,k"), "sink-key-reordered"),
        (BY_PATTERN, with_source(KAFKA, catches_up=True), "topics-named-otherwise"),
        (KAFKA, with_source(KAFKA, options={"includeheaders": "true"}), "source-upkeep-changed"),
        (STATEFUL, with_operator(STATEFUL, rows=()), "filter-below-state-changed"),
        (STATEFUL, with_operator(STATEFUL, keys=("kk string",)), "rewritten-below-state"),
        (
            STATEFUL,
            with_operator(STATEFUL, key_columns=keys("source 0.k", kind="string not null")),
            "grouping-key-became-not-null",
        ),
        (
            STATEFUL,
            with_operator(STATEFUL, values=keys("sum(coalesce(source 0.x, 0:long))", kind="long")),
            "null-summed-as-zero",
        ),
        (FIRST, LAST, "first-became-last"),
        (without_nulls(STATEFUL, 0, 0), with_operator(STATEFUL, key_columns=FILLED), "grouping-key-null-replaced"),
        (
            without_eviction(watermarked(WINDOWED, TEN_MINUTES), 0),
            without_eviction(watermarked(WINDOWED), 0),
            "watermark-removed",
        ),
        (
            without_eviction(watermarked(WINDOWED, MINUTE), 0),
            without_eviction(watermarked(WINDOWED, TEN_MINUTES), 0),
            "watermark-delay-increased",
        ),
        (
            without_eviction(watermarked(WINDOWED, TEN_MINUTES, output_mode="append"), 0),
            without_eviction(watermarked(WINDOWED, TEN_MINUTES, output_mode="complete"), 0),
            "output-mode-changed",
        ),
        (
            with_operator(STATEFUL, values=keys("stddevsamp(source 0.x)")),
            with_operator(STATEFUL, values=keys("variancepop(source 0.x)")),
            "aggregate-function-changed",
        ),
        (
            with_operator(STATEFUL, values=keys('max(struct(<"a">source 0.x))')),
            with_operator(STATEFUL, values=keys('max(struct(<"b">source 0.x))')),
            "fields-renamed",
        ),
        (with_state(JOIN, detail=RANGE), with_state(JOIN, detail=NARROWER), "join-range-narrowed"),
        (with_state(JOIN), with_state(JOIN, detail={**JOIN.detail, "type": "LEFT OUTER"}), "join-type-changed"),
        (watermarked(WINDOWED), watermarked(WINDOWED, TEN_MINUTES), "watermark-added"),
        (watermarked(AGGREGATE, TEN_MINUTES), watermarked(AGGREGATE), "watermark-removed"),
        (watermarked(WINDOWED, TEN_MINUTES), watermarked(WINDOWED, MINUTE), "watermark-delay-decreased"),
        (STATEFUL, changed(STATEFUL, output_mode="complete"), "output-mode-changed"),
        (STATELESS, changed(STATELESS, output_mode="update"), "output-mode-changed"),
        (STATEFUL, changed(STATEFUL, output_schema="s bigint\nk string"), "output-columns-reordered"),
        (TO_FUNCTION, changed(TO_FUNCTION, output_schema="k string"), "output-column-removed"),
        (TO_FUNCTION, changed(TO_FUNCTION, output_schema="k string\ns string"), "output-column-type-changed"),
        (
            STATEFUL,
            changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.session.timeZone": "CET"}),
            "time-zone-changed",
        ),
        (IN_ANSI, changed(IN_ANSI, confs={**STATEFUL.confs, "spark.sql.ansi.enabled": "false"}), "ansi-mode-changed"),
        (
            STATEFUL,
            changed(STATEFUL, confs={**STATEFUL.confs, "spark.sql.streaming.noDataMicroBatches.enabled": "false"}),
            "tuning-changed",
        ),
        (
            WITH_CODE,
            changed(WITH_CODE, functions={"below/0 add": "aa", "above/0 label": "bb", "sink/function": "cc"}),
            "function-renamed",
        ),
        (STATELESS, changed(STATELESS, functions={"above/0 label": "aa"}), "stateless-code-changed"),
        (
            STATELESS,
            changed(STATELESS, confs={**STATELESS.confs, "spark.sql.legacy.x": "1"}),
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
    """Each kind of change that was measured to be safe has exactly one finding, a note, and the verdict is RESUME."""
    findings = find_changes(old, new)
    assert [each.rule for each in findings] == [rule]
    assert verdict_of(findings) is Verdict.RESUME
    assert not [each for each in with_effects(findings) if says_twice(each.effect, each.hint)]


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
        (with_state(JOIN), changed(with_state(JOIN), spark_version="4.1.1"), "spark-version-not-measured"),
        (
            with_operator(STATEFUL, kind="unknown Novelty"),
            with_operator(STATEFUL, kind="unknown Novelty"),
            "unknown-operator",
        ),
    ],
)
def test_changes_with_unprovable_effect_give_backup(old: Manifest, new: Manifest, rule: str) -> None:
    """Each change whose effect cannot be proven has one opaque finding, and the verdict is BACKUP."""
    findings = find_changes(old, new)
    assert [each.rule for each in findings] == [rule]
    assert verdict_of(findings) is Verdict.BACKUP


def test_the_same_manifest_is_resumed_without_a_finding() -> None:
    """An unchanged manifest has no findings and the verdict RESUME."""
    for manifest in (STATEFUL, STATELESS, WITH_CODE):
        assert find_changes(manifest, manifest) == ()
    assert assess({"totals": STATEFUL}, {"totals": STATEFUL}).verdict is Verdict.RESUME


def test_a_first_release_resumes_without_findings() -> None:
    """The first release of a job has no findings and the verdict RESUME, because there is nothing to compare it
    with.
    """
    found = assess(None, {"totals": STATEFUL})
    assert found.verdict is Verdict.RESUME
    assert found.queries["totals"].findings == ()


def test_evidence_shows_deployed_and_candidate_expression() -> None:
    """The evidence of a finding shows the deployed and the candidate's expression, and the finding names the
    operator.
    """
    (finding,) = find_changes(STATEFUL, with_operator(STATEFUL, key_columns=keys("source 0.k2")))
    assert finding.evidence == "`k` → `k2`"
    assert finding.where == "aggregation"


def test_a_change_below_two_aggregations_is_reported_once() -> None:
    """A change below two aggregations is reported once, although it also changes the plan and the operator above."""
    upper = msgspec.structs.replace(AGGREGATE, key_columns=keys("sum(source 0.x)"))
    raised = msgspec.structs.replace(upper, key_columns=keys("sum(source 0.y)"))
    lower = msgspec.structs.replace(AGGREGATE, values=keys("sum(source 0.y)", kind="long"))
    old = changed(STATEFUL, operators=(AGGREGATE, upper))
    new = changed(STATEFUL, operators=(lower, raised))
    assert [each.rule for each in find_changes(old, new)] == ["aggregate-input-changed"]


def test_a_new_query_may_not_take_over_another_ones_output() -> None:
    """A new query that writes the output of a removed one gets the verdict SWITCH; a query with its own output is added
    or removed with RESUME.
    """
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
    """A job's verdict is the strictest verdict of its queries."""
    broken = changed(STATEFUL, output_mode="append")
    found = assess({"a": STATEFUL, "b": STATEFUL}, {"a": STATEFUL, "b": broken})
    assert (found.queries["a"].verdict, found.queries["b"].verdict) == (Verdict.RESUME, Verdict.SWITCH)
    assert found.verdict is Verdict.SWITCH


def test_a_difference_that_no_rule_knows_is_never_resumed() -> None:
    """A difference that no rule covers is reported as unexplained, also beside a note, and the verdict is SWITCH."""
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
    """Adding a finding never makes the verdict less strict."""
    assert verdict_of([*known, more]) >= verdict_of(known)
    assert verdict_of([*known, more]) >= verdict_of([more])


words = st.sampled_from(["", "a", "b not null", "a int\nb int", "k string\ns bigint"])
tables = st.dictionaries(st.sampled_from(["spark.sql.x", "spark.sql.shuffle.partitions", "key"]), words, max_size=2)
columns = st.builds(StateColumn, meaning=words, type=words, name=st.sampled_from(["", "n"]))
operators = st.builds(
    msgspec.structs.replace,
    st.just(AGGREGATE),
    kind=st.sampled_from(["aggregate", "join"]),
    keys=st.tuples(words),
    expressions=st.tuples(words),
    key_columns=st.lists(columns, max_size=2).map(tuple),
    values=st.lists(columns, max_size=2).map(tuple),
    rows=st.tuples(words),
    shape=st.tuples(words),
    resolved=st.booleans(),
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
    delays=st.lists(st.sampled_from([TEN_MINUTES, MINUTE]), max_size=1).map(tuple),
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
    """For arbitrary pairs of manifests there is a finding exactly if they differ."""
    found = find_changes(old, new)
    assert bool(found) == (old != new)


@settings(max_examples=200, deadline=None)
@given(manifests, manifests)
def test_state_that_means_something_else_is_never_resumed(old: Manifest, new: Manifest) -> None:
    """For arbitrary pairs of manifests the verdict is SWITCH if an operator, its keys, its shape or its unresolved text
    differs, whatever else changed.
    """
    pairs = zip(old.operators, new.operators, strict=False)
    if len(old.operators) != len(new.operators) or not all(_keep_the_same(*each) for each in pairs):
        assert verdict_of(find_changes(old, new)) is Verdict.SWITCH


SUMMED_TWICE = (*AGGREGATE.values, StateColumn(meaning="max(source 0.x)", type="long"))


@given(manifests, manifests)
@example(STATEFUL, with_operator(STATEFUL, resolved=False, rows=(), values=SUMMED_TWICE, upstream=UPSTREAM))
@example(STATEFUL, changed(STATEFUL, functions={"sink/0 save": "ab" * 32}))
def test_every_finding_states_the_effect_of_a_resume(old: Manifest, new: Manifest) -> None:
    """Every finding on arbitrary manifests states the effect of a resume without internal notation, and its hint does
    not repeat the effect.
    """
    for each in assess({"q": old}, {"q": new}).queries["q"].findings:
        assert each.effect, each.rule
        assert not SPEAKS_INTERNALS.search(f"{each.where} {each.effect} {each.evidence} {each.hint}"), each
        assert not says_twice(each.effect, each.hint), each


def _keep_the_same(before: Operator, after: Operator) -> bool:
    """Return whether two operators keep the same state: by its meaning where both are resolved, otherwise by their
    text.
    """
    if not (before.resolved and after.resolved):
        return (before.kind, before.upstream) == (after.kind, after.upstream)
    meant = [(each.kind, [key.meaning for key in each.key_columns], each.shape) for each in (before, after)]
    return meant[0] == meant[1]


@pytest.mark.parametrize("look", list(Look))
def test_a_failed_observation_gives_backup_with_its_reason(look: Look) -> None:
    """An observation that could not be made gives the verdict BACKUP with its reason, beside a note too; a fatal
    finding refuses the change and replaces the reason.
    """
    query = QueryEvidence(deployed=STATEFUL, candidate=STATEFUL, not_looked={look: "nobody answered"})
    found = assess_evidence(Evidence(queries={"totals": query})).queries["totals"]
    assert (found.verdict, [each.evidence for each in found.findings]) == (Verdict.BACKUP, ["nobody answered"])
    note = Finding(rule="row-risk", severity=Severity.NOTE, where="conf", evidence="on")
    beside = msgspec.structs.replace(query, found={Look.SOURCES: (note,)})
    told = assess_evidence(Evidence(queries={"totals": beside})).queries["totals"]
    assert (told.verdict, [each.evidence for each in told.findings]) == (Verdict.BACKUP, ["on", "nobody answered"])
    fatal = Finding(rule="checkpoint-state-missing", severity=Severity.FATAL, where="state", evidence="gone")
    refused = msgspec.structs.replace(query, found={Look.DAMAGE: (fatal,)})
    assert assess_evidence(Evidence(queries={"totals": refused})).queries["totals"].findings == with_effects((fatal,))


def test_queries_of_a_first_release_are_not_reported_as_added() -> None:
    """Queries of a first release are not reported as added."""
    evidence = Evidence(first=True, queries={"totals": QueryEvidence(candidate=STATEFUL)})
    assert assess_evidence(evidence).queries["totals"].findings == ()


@pytest.mark.parametrize("kind", ["pandas-with-state", "transform-with-state TransformWithState"])
def test_a_changed_filter_below_stateful_python_code_gives_backup(kind: str) -> None:
    """A changed filter below an operator with stateful Python code gives the verdict BACKUP, because the effect on what
    the code keeps cannot be proven.
    """
    old, new = (with_operator(STATEFUL, kind=kind, rows=rows) for rows in (("left: a",), ("left: b",)))
    findings = find_changes(old, new)
    assert {each.rule for each in findings if each.severity is Severity.OPAQUE} >= {"filter-below-code-changed"}
    assert verdict_of(findings) is Verdict.BACKUP
