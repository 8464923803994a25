"""Tests that the verdicts documented for changes with two possible readings, in docs/reference/compatibility.md, are
the ones that the check returns.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from streamkeeper.compatibility.assess import assess
from streamkeeper.model.manifests.finding import Finding, Verdict
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription, StateColumn, Watermark
from tests.compatibility.manifests import (
    AGGREGATE,
    JOIN,
    MINUTE_MS,
    SOURCE,
    STATEFUL,
    STATELESS,
    TEN_MINUTES,
    WINDOWED,
    changed,
    watermarked,
    with_operator,
    with_source,
    with_state,
)

DOCS = (Path(__file__).resolve().parents[2] / "docs/reference/compatibility.md").read_text()
SECTION = DOCS.partition("## Two readings\n")[2].partition("\n## ")[0]
ROW = re.compile(r"\| (?P<change>[^|]+) \| `(?P<rule>[a-z-]+)` \| (?P<verdict>[A-Z]+) \| [^|]+ \| [^|]+ \|")
ROWS = {row["change"]: row for row in ROW.finditer(SECTION)}

ABOVE = {"plan": "~Filter (s#2L > 3)\n+- " + STATEFUL.plan}
FEWER = {**ABOVE, "output_rows": (*(STATEFUL.output_rows or ()), "lessthan(3:long, s)")}
COMPLETE = changed(STATEFUL, output_mode="complete")
MINUTE = Watermark(column="source 0.ts", delay_ms=MINUTE_MS)
BOUND = "lessthan(source 1.ts, timestampaddinterval(source 0.ts, 5:interval minute))"
RANGE = {**JOIN.detail, "condition": BOUND}
NARROWER = {**RANGE, "condition": BOUND.replace("5:", "1:")}
FIRST, LAST = (
    with_operator(STATEFUL, values=(StateColumn(meaning=f"{name}(source 0.x, ignoreNulls=false)", type="long"),))
    for name in ("first", "last")
)
KAFKA = with_source(STATELESS, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
NAMED = with_source(STATELESS, name="orders")
MORE = msgspec.structs.replace(SOURCE, location="/more", name="more")
LIMIT = with_state(msgspec.structs.replace(AGGREGATE, kind="limit", key_columns=(), values=(), expressions=("3",)))
TO_FUNCTION = changed(
    STATEFUL,
    sink=SinkDescription(kind="foreach", output="jobs:write", options={}),
    functions={"sink/function": "aa"},
    sink_routing={"sink/function": "rr"},
    sink_names=("orders",),
)
WITH_CODE = changed(STATEFUL, functions={"above/0 label": "aa"})
UDF = "pythonudf(source 0.k, dataType=string, evalType=101, func=0, udfDeterministic=True)"


def files(form: str, partition: str = "") -> Manifest:
    """Return a query without state that writes files."""
    sink = SinkDescription(kind="file", output="/out", options={"format": form, "partition_by": partition})
    return changed(STATELESS, sink=sink)


def column(name: str, meaning: str, manifest: Manifest = STATEFUL, **fields: object) -> Manifest:
    """Return the manifest with a different expression for one of its output columns."""
    columns = [
        msgspec.structs.replace(each, meaning=meaning) if each.name == name else each for each in manifest.columns
    ]
    return changed(manifest, **{"columns": tuple(columns), **ABOVE, **fields})


def conf(manifest: Manifest, key: str, value: str) -> Manifest:
    """Return the manifest with one setting added or replaced."""
    return changed(manifest, confs={**manifest.confs, key: value})


def aggregated(meaning: str) -> Manifest:
    """Return the manifest with a different aggregate."""
    return with_operator(STATEFUL, values=(StateColumn(meaning=meaning, type="long"),))


def two_aggregations(*between: str) -> Manifest:
    """Return a query with two aggregations and these filters between them."""
    rows = (*AGGREGATE.rows, *between)
    upper = msgspec.structs.replace(AGGREGATE, rows=rows, upstream=f"{AGGREGATE.upstream} {between}")
    return changed(STATEFUL, operators=(AGGREGATE, upper), plan=upper.upstream)


def keyed_by_code(digest: str) -> Manifest:
    """Return a query that writes a table whose key a Python function computes."""
    key = StateColumn(meaning=UDF, type="string", name="k", functions=("above/0 shop",))
    return changed(STATEFUL, columns=(key, STATEFUL.columns[1]), functions={"above/0 shop": digest})


ANSI_KEY, ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"
CASES: dict[str, tuple[Manifest, Manifest]] = {
    "filter below an aggregate": (STATEFUL, with_operator(STATEFUL, rows=())),
    "filter below a join of streams": (with_state(JOIN), with_state(JOIN, rows=("left: isnotnull(source 0.z)",))),
    "HAVING between two aggregations": (two_aggregations(), two_aggregations("lessthan(3:long, sum(source 0.x))")),
    "HAVING above the state, update mode": (STATEFUL, changed(STATEFUL, **FEWER)),
    "value column above the state, update mode": (STATEFUL, column("s", "multiply(100:long, sum(source 0.x))")),
    "value column above the state, complete mode": (
        COMPLETE,
        column("s", "multiply(100:long, sum(source 0.x))", COMPLETE),
    ),
    "Python function above the state": (WITH_CODE, changed(WITH_CODE, functions={"above/0 label": "bb"})),
    "expression or filter without state": (STATELESS, changed(STATELESS, plan=f"~Filter x\n{STATELESS.plan}")),
    "key column of a table": (STATEFUL, column("k", "upper(source 0.k)")),
    "key column of a table in complete mode": (COMPLETE, column("k", "upper(source 0.k)", COMPLETE)),
    "function that computes a table's key": (keyed_by_code("aa"), keyed_by_code("bb")),
    "partition column of files": (files("json", "k"), column("k", "upper(source 0.k)", files("json", "k"))),
    "constant for a null key of a table": (STATEFUL, column("k", "coalesce(source 0.k, 1:string)")),
    "aggregate that keeps the same buffer": (
        aggregated("stddevsamp(source 0.x)"),
        aggregated("variancepop(source 0.x)"),
    ),
    "`first` read as `last`, update mode": (FIRST, LAST),
    "null summed as zero": (STATEFUL, aggregated("sum(coalesce(source 0.x, 0:long))")),
    "watermark delay decreased": (watermarked(WINDOWED, TEN_MINUTES), watermarked(WINDOWED, MINUTE)),
    "watermark delay increased over a window": (watermarked(WINDOWED, MINUTE), watermarked(WINDOWED, TEN_MINUTES)),
    "join range narrowed": (with_state(JOIN, detail=RANGE), with_state(JOIN, detail=NARROWER)),
    "limit raised": (LIMIT, with_operator(LIMIT, expressions=("6",))),
    "update to complete mode": (STATEFUL, COMPLETE),
    "update to append mode": (STATEFUL, changed(STATEFUL, output_mode="append")),
    "setting of which nothing is known, with state": (STATEFUL, conf(STATEFUL, "spark.sql.legacy.x", "1")),
    "setting of which nothing is known, without state": (STATELESS, conf(STATELESS, "spark.sql.legacy.x", "1")),
    "time zone, without state": (STATELESS, conf(STATELESS, ZONE, "CET")),
    "ANSI mode switched off": (conf(STATEFUL, ANSI_KEY, "true"), conf(STATEFUL, ANSI_KEY, "false")),
    "ANSI mode switched on, without state": (conf(STATELESS, ANSI_KEY, "false"), conf(STATELESS, ANSI_KEY, "true")),
    "FAILFAST to DROPMALFORMED": (
        with_source(STATEFUL, options={"format": "json", "mode": "FAILFAST"}),
        with_source(STATEFUL, options={"format": "json", "mode": "DROPMALFORMED"}),
    ),
    "column added to JSON files": (
        files("json"),
        changed(files("json"), output_schema=f"{STATELESS.output_schema}\nz int"),
    ),
    "topic added": (KAFKA, with_source(KAFKA, location="subscribe orders,refunds@a:9092")),
    "named source removed": (changed(NAMED, sources=(*NAMED.sources, MORE)), NAMED),
    "query that may be renamed, into a function": (TO_FUNCTION, changed(TO_FUNCTION, query="sums")),
    "the same function with another text in it": (
        TO_FUNCTION,
        changed(
            TO_FUNCTION, functions={"sink/function": "bb"}, sink_routing={"sink/function": "ss"}, sink_names=("o",)
        ),
    ),
    "Spark version that was not measured": (STATEFUL, changed(STATEFUL, spark_version="4.3.0")),
}


def judge(old: Manifest, new: Manifest) -> tuple[Verdict, list[Finding]]:
    """Return the verdict on the change of one query, and its findings."""
    judged = assess({old.query: old}, {new.query: new}).queries[new.query]
    return judged.verdict, list(judged.findings)


@pytest.mark.parametrize("change", sorted(CASES))
def test_each_documented_change_gets_the_documented_verdict(change: str) -> None:
    """Each change in the documented table gets the documented verdict, by the documented rule."""
    verdict, findings = judge(*CASES[change])
    assert verdict.name == ROWS[change]["verdict"]
    assert ROWS[change]["rule"] in {each.rule for each in findings}


def test_every_row_has_a_case_and_every_case_a_row() -> None:
    """Every row of the documented table has a case here and every case a row, and no line of the table is skipped by
    the parser.
    """
    assert ROWS.keys() == CASES.keys()
    assert len(ROWS) == len([line for line in SECTION.splitlines() if line.startswith("| ")]) - 1


def test_a_wrong_verdict_in_the_table_would_be_seen() -> None:
    """Control: the documented verdicts differ between rows, and a case does not match the verdict of another row."""
    assert {row["verdict"] for row in ROWS.values()} == {"RESUME", "BACKUP", "SWITCH"}
    verdict, _ = judge(*CASES["key column of a table"])
    assert verdict.name != ROWS["value column above the state, update mode"]["verdict"]
