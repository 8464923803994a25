"""Cases of deduplication: its keys, its input rows, its watermark."""

from __future__ import annotations

from conformance.matrix.case import ALL, Case, Job, Outcome, in_group
from conformance.matrix.data import AGAIN, LATE


def _dedup(keys: str = '["k"]', *, stream: str = "s", above: str = '.select("k", "k2", "x")') -> Job:
    return Job(f"{stream}.dropDuplicates({keys}){above}", mode="append")


def _within(delay: str, keys: str = '["k"]') -> Job:
    return Job(
        f's.withWatermark("ts", "{delay}").dropDuplicatesWithinWatermark({keys}).select("k", "k2", "x")', mode="append"
    )


SAME = _dedup()
_NOT_AGAIN = (Outcome.CORRECT, "a filter says which rows count from now on; keys that were seen stay seen")
_UDF = """
@F.udf("string")
def cleaned(k):
    return k.{call}()
"""
_SHIFTED = """
@F.udf("int")
def shifted(x):
    return (x or 0) + {number}
"""
_CARRIED = _dedup(
    '["k"]', stream='s.withColumn("n", shifted("x")).selectExpr("k", "k2", "n * 2 AS x").dropDuplicates(["k", "k2"])'
)
_TWICE = _dedup('["x"]', stream='s.withColumn("x", shifted("x")).dropDuplicates(["k"])')

CASES = in_group(
    "dedup",
    Case("dedup_same", "control: unchanged", SAME, SAME, "none", providers=ALL),
    Case("dedup_other_key_same_type", "dropDuplicates(k) -> (k2)", SAME, _dedup('["k2"]'), "key", providers=ALL),
    Case("dedup_key_added", "dropDuplicates(k) -> (k,k2)", SAME, _dedup('["k", "k2"]'), "key"),
    Case("dedup_key_dropped", "dropDuplicates(k,k2) -> (k)", _dedup('["k", "k2"]'), SAME, "key"),
    Case("dedup_key_order", "dropDuplicates(k,k2) -> (k2,k)", _dedup('["k", "k2"]'), _dedup('["k2", "k"]'), "key"),
    Case(
        "dedup_key_order_mixed",
        "dropDuplicates(k,x) -> (x,k)",
        _dedup('["k", "x"]'),
        _dedup('["x", "k"]'),
        "key",
        providers=("rocksdb",),
    ),
    Case(
        "dedup_key_content",
        "upper(k) applied upstream of dropDuplicates(k)",
        SAME,
        _dedup(stream='s.withColumn("k", F.upper("k"))'),
        "below",
    ),
    Case(
        "dedup_key_type",
        "x int -> long under dropDuplicates(x)",
        _dedup('["x"]'),
        _dedup('["x"]', stream='s.withColumn("x", F.col("x").cast("long"))'),
        "key",
    ),
    Case(
        "dedup_keys_renamed",
        "k renamed to g upstream, dropDuplicates(g)",
        SAME,
        Job(
            's.withColumnRenamed("k", "g").dropDuplicates(["g"]).select(F.col("g").alias("k"), "k2", "x")',
            mode="append",
        ),
        "none",
    ),
    Case(
        "dedup_all_columns_one_more",
        "dropDuplicates() over all columns, one more column",
        Job('s.select("k", "k2").dropDuplicates()', mode="append"),
        Job('s.select("k", "k2", "x").dropDuplicates()', mode="append"),
        "key",
    ),
    Case(
        "dedup_all_columns_reordered",
        "distinct() over (k,k2) -> (k2,k)",
        Job('s.select("k", "k2").distinct()', mode="append"),
        Job('s.select("k2", "k").distinct()', mode="append"),
        "key",
        providers=("rocksdb",),
    ),
    Case(
        "dedup_payload_added",
        "one more column kept beside the key",
        _dedup(above='.select("k", "x")'),
        _dedup(above='.select("k", "x", "y")'),
        "none",
    ),
    Case(
        "dedup_payload_expr",
        "x -> x*10 beside the key, below the dedup",
        SAME,
        _dedup(stream='s.withColumn("x", F.col("x") * 10)'),
        "none",
    ),
    Case(
        "dedup_payload_above",
        "x -> x*10 above the dedup",
        SAME,
        _dedup(above='.select("k", "k2", (F.col("x") * 10).alias("x"))'),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "dedup_filter_added",
        "filter x>2 added below",
        SAME,
        _dedup(stream='s.filter("x > 2")'),
        "filter",
        truth=_NOT_AGAIN,
    ),
    Case(
        "dedup_filter_changed",
        "filter x>2 -> x>3 below",
        _dedup(stream='s.filter("x > 2")'),
        _dedup(stream='s.filter("x > 3")'),
        "filter",
        truth=_NOT_AGAIN,
        providers=("rocksdb",),
    ),
    Case(
        "dedup_filter_removed",
        "filter x>2 removed below",
        _dedup(stream='s.filter("x > 2")'),
        SAME,
        "filter",
        truth=_NOT_AGAIN,
        providers=("rocksdb",),
    ),
    Case(
        "dedup_filter_above",
        "filter x>2 added above",
        SAME,
        _dedup(above='.select("k", "k2", "x").filter("x > 2")'),
        "none",
    ),
    Case(
        "dedup_udf_below",
        "a UDF on the key below: lower -> upper",
        _dedup(stream='s.withColumn("k", cleaned("k"))').but(top=_UDF.format(call="lower")),
        _dedup(stream='s.withColumn("k", cleaned("k"))').but(top=_UDF.format(call="upper")),
        "python",
        opaque=True,
    ),
    Case(
        "dedup_udf_carried",
        "a UDF beside the key, below the dedup: x+1 -> x+1000",
        _dedup(stream='s.withColumn("x", shifted("x"))').but(top=_SHIFTED.format(number=1)),
        _dedup(stream='s.withColumn("x", shifted("x"))').but(top=_SHIFTED.format(number=1000)),
        "none",
    ),
    Case(
        "dedup_udf_carried_renamed",
        "a UDF beside the key, through a projection and a second dedup: x+1 -> x+1000",
        _CARRIED.but(top=_SHIFTED.format(number=1)),
        _CARRIED.but(top=_SHIFTED.format(number=1000)),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "dedup_udf_in_second_key",
        "a UDF beside the first key, in the second: x%1000 -> x%2",
        _TWICE.but(top=_SHIFTED.format(number=0).replace("+ 0", "% 1000")),
        _TWICE.but(top=_SHIFTED.format(number=0).replace("+ 0", "% 2")),
        "python",
        opaque=True,
        providers=("rocksdb",),
    ),
    Case(
        "dedup_wm_added",
        "watermark added, ts not in keys",
        SAME,
        _dedup(stream='s.withWatermark("ts", "1 minute")'),
        "watermark",
    ),
    Case(
        "dedup_wm_added_late",
        "watermark added, ts not in keys, late rows",
        SAME,
        _dedup(stream='s.withWatermark("ts", "1 minute")'),
        "watermark",
        data=LATE,
        providers=("rocksdb",),
    ),
    Case(
        "dedup_wm_removed_tskey",
        "dropDuplicates(k,ts): watermark removed",
        _dedup('["k", "ts"]', stream='s.withWatermark("ts", "1 minute")'),
        _dedup('["k", "ts"]'),
        "watermark",
        truth=(Outcome.CORRECT, "no late rows here"),
        twin="dedup_wm_removed_late",
    ),
    Case(
        "dedup_wm_removed_late",
        "dropDuplicates(k,ts): watermark removed, late rows come again",
        _dedup('["k", "ts"]', stream='s.withWatermark("ts", "1 minute")'),
        _dedup('["k", "ts"]'),
        "watermark",
        data=AGAIN,
    ),
    Case(
        "dedup_wm_delay_late",
        "dropDuplicates(k,ts): delay 1m -> 30m, late rows arrive",
        _dedup('["k", "ts"]', stream='s.withWatermark("ts", "1 minute")'),
        _dedup('["k", "ts"]', stream='s.withWatermark("ts", "30 minutes")'),
        "watermark",
        data=LATE,
    ),
    Case(
        "dedup_ts_key_added",
        "dropDuplicates(k) -> (k,ts) with a watermark",
        _dedup(stream='s.withWatermark("ts", "1 minute")'),
        _dedup('["k", "ts"]', stream='s.withWatermark("ts", "1 minute")'),
        "key",
        providers=("rocksdb",),
    ),
    Case(
        "dedup_within_delay",
        "WithinWatermark delay 30m -> 1m (stored expiry stays)",
        _within("30 minutes"),
        _within("1 minute"),
        "watermark",
    ),
    Case(
        "dedup_within_delay_up",
        "WithinWatermark delay 1m -> 30m",
        _within("1 minute"),
        _within("30 minutes"),
        "watermark",
        providers=("rocksdb",),
    ),
    Case(
        "dedup_within_key", "WithinWatermark key k -> k2", _within("30 minutes"), _within("30 minutes", '["k2"]'), "key"
    ),
    Case(
        "dedup_to_within",
        "dropDuplicates -> dropDuplicatesWithinWatermark",
        _dedup(stream='s.withWatermark("ts", "30 minutes")'),
        _within("30 minutes"),
        "operator",
        providers=("rocksdb",),
    ),
    Case(
        "dedup_removed",
        "dedup operator removed",
        SAME,
        Job('s.select("k", "k2", "x")', mode="append"),
        "operator",
        providers=ALL,
    ),
    Case(
        "dedup_added",
        "dedup operator added",
        Job('s.select("k", "k2", "x")', mode="append"),
        SAME,
        "operator",
        providers=ALL,
    ),
    Case(
        "dedup_as_first",
        "dedup -> groupBy(k).agg(first)",
        SAME.but(mode="update"),
        Job('s.groupBy("k").agg(F.first("k2").alias("k2"), F.first("x").alias("x"))'),
        "operator",
        providers=("rocksdb",),
    ),
    Case("dedup_mode", "output mode append -> update", SAME, SAME.but(mode="update"), "output-mode"),
)
