"""Cases of joins of two streams, and of a stream with rows that the job itself contains."""

from __future__ import annotations

from conformance.matrix.case import ALL, BOTH, STATELESS, Case, Job, Outcome, in_group
from conformance.matrix.data import JOIN, JOIN_FLUSH, JOIN_RANGE

_SHOWN = '.select("k", "k2", "x", F.col("r.k").alias("rk"), F.col("r.k2").alias("rk2"), F.col("r.y").alias("y"))'
_RANGE = "r.ts between l.ts - interval {minutes} minutes and l.ts + interval {minutes} minutes"


def _join(
    how: str = "inner",
    *,
    on: str = "l.k = r.k",
    minutes: int | None = 5,
    delay: str = "10 minutes",
    left: str = 's.select("k", "k2", "x", "ts")',
    right: str = 'o.select("k", "k2", "y", "ts")',
    shown: str = "",
) -> Job:
    condition = f"{on} and {_RANGE.format(minutes=minutes)}" if minutes else on
    marked = f'.withWatermark("ts", "{delay}")' if delay else ""
    if not shown:
        shown = (
            '.select("l.k", "l.k2", "l.x")'
            if how == "left_semi"
            else _SHOWN.replace('"k", "k2", "x"', '"l.k", "l.k2", "l.x"', 1)
        )
    df = f'{left}{marked}.alias("l").join({right}{marked}.alias("r"), F.expr("{condition}"), "{how}"){shown}'
    return Job(df, mode="append", two=True)


INNER = _join()
KINDS = {"inner": "inner", "left": "left_outer", "right": "right_outer", "full": "full_outer", "semi": "left_semi"}
_MEASURED = {("inner", "left"), ("left", "inner"), ("inner", "semi")}

TYPES = tuple(
    Case(
        f"join_{old}_to_{new}_flush" if (old, new) in _MEASURED else f"join_{old}_to_{new}",
        f"join type {old} -> {new}; then the watermark passes the old rows",
        _join(KINDS[old], delay="1 minute"),
        _join(KINDS[new], delay="1 minute"),
        "join-type",
        data=JOIN_FLUSH,
        providers=BOTH if (old, new) in _MEASURED else ("rocksdb",),
    )
    for old in KINDS
    for new in KINDS
    if old != new
)

_LEFT_XY = 's.select("k", "k2", "x", "y", "ts")'
_REGIONS = """
regions = spark.createDataFrame([{rows}], "k string, region string")
"""
_ONE = '("a", "A")'
_TWO = '("a", "A"), ("b", "B")'
_STATIC = Job(
    's.join(regions, "k", "inner").select("k", "x", "region")', mode="append", lines=_REGIONS.format(rows=_ONE)
)
_STATIC_BELOW = Job(
    's.join(regions, "k", "left").groupBy("region").agg(F.sum("x").alias("s"))', lines=_REGIONS.format(rows=_ONE)
)

CASES = in_group(
    "joins",
    Case("join_same", "control: unchanged", INNER, INNER, "none", data=JOIN, providers=ALL),
    Case("join_key_other_same_type", "join key k -> k2", INNER, _join(on="l.k2 = r.k2"), "key", data=JOIN),
    Case("join_key_dropped", "join key (k,k2) -> k", _join(on="l.k = r.k and l.k2 = r.k2"), INNER, "key", data=JOIN),
    Case("join_key_added", "join key k -> (k,k2)", INNER, _join(on="l.k = r.k and l.k2 = r.k2"), "key", data=JOIN),
    Case("join_key_expr", "join key k -> upper(k)", INNER, _join(on="upper(l.k) = upper(r.k)"), "key", data=JOIN),
    Case(
        "join_key_order",
        "join keys (k,k2) -> (k2,k)",
        _join(on="l.k = r.k and l.k2 = r.k2"),
        _join(on="l.k2 = r.k2 and l.k = r.k"),
        "key",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_sides_written",
        "l.k = r.k -> r.k = l.k",
        INNER,
        _join(on="r.k = l.k"),
        "none",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_inner_to_left",
        "join type inner -> left outer",
        INNER,
        _join("left_outer"),
        "join-type",
        data=JOIN,
        truth=(Outcome.CORRECT, "no row leaves the state here; when one does: see join_inner_to_left_flush"),
        twin="join_inner_to_left_flush",
    ),
    Case("join_left_to_inner", "join type left outer -> inner", _join("left_outer"), INNER, "join-type", data=JOIN),
    Case(
        "join_inner_to_semi",
        "join type inner -> left semi",
        INNER,
        _join("left_semi"),
        "join-type",
        data=JOIN,
        providers=("hdfs",),
    ),
    *TYPES,
    Case(
        "join_col_added_left",
        "a column added on the left side of the join",
        INNER,
        _join(
            left=_LEFT_XY,
            shown=_SHOWN.replace('"k", "k2", "x"', '"l.k", "l.k2", "l.x", "l.y"', 1).replace(
                'F.col("r.y").alias("y")', 'F.col("r.y").alias("ry")'
            ),
        ),
        "payload",
        data=JOIN,
    ),
    Case(
        "join_col_added_unused",
        "a column added on the left side, not used above",
        INNER,
        _join(left=_LEFT_XY),
        "none",
        data=JOIN,
    ),
    Case(
        "join_col_dropped_left",
        "a payload column dropped on the left side",
        INNER,
        _join(
            left='s.select("k", "x", "ts")',
            shown=_SHOWN.replace('"k", "k2", "x"', '"l.k", "l.x"', 1),
        ),
        "payload",
        data=JOIN,
    ),
    Case(
        "join_col_swapped_same_type",
        "left payload column x -> y under the same alias",
        INNER,
        _join(left='s.select("k", "k2", F.col("y").alias("x"), "ts")'),
        "payload",
        data=JOIN,
    ),
    Case(
        "join_col_expr_below",
        "left payload x -> x*10 below the join",
        INNER,
        _join(left='s.select("k", "k2", (F.col("x") * 10).alias("x"), "ts")'),
        "payload",
        data=JOIN,
    ),
    Case(
        "join_col_expr_above",
        "x -> x*10 above the join",
        INNER,
        INNER.but(df=f'{INNER.df}.withColumn("x", F.col("x") * 10)'),
        "none",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_payload_renamed",
        "left payload column renamed",
        INNER,
        _join(
            left='s.select("k", "k2", F.col("x").alias("v"), "ts")',
            shown=_SHOWN.replace('"k", "k2", "x"', '"l.k", "l.k2", F.col("v").alias("x")', 1),
        ),
        "none",
        data=JOIN,
    ),
    Case(
        "join_payload_reordered",
        "left payload columns in another order",
        INNER,
        _join(left='s.select("x", "ts", "k2", "k")'),
        "payload",
        data=JOIN,
    ),
    Case(
        "join_payload_swapped_order",
        "k and k2 in another order: two columns of one type",
        INNER,
        _join(left='s.select("k2", "k", "x", "ts")'),
        "payload",
        data=JOIN,
    ),
    Case(
        "join_filter_below",
        "filter x>1 added on the left, below the join",
        INNER,
        _join(left='s.select("k", "k2", "x", "ts").filter("x > 1")'),
        "filter",
        data=JOIN,
        truth=(Outcome.CORRECT, "a filter says which rows count from now on"),
        providers=("rocksdb",),
    ),
    Case(
        "join_filter_above",
        "filter x>2 added above the join",
        INNER,
        INNER.but(df=f'{INNER.df}.filter("x > 2")'),
        "none",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_wm_removed",
        "watermarks removed (inner, no range)",
        _join(minutes=None),
        _join(minutes=None, delay=""),
        "watermark",
        data=JOIN,
    ),
    Case(
        "join_wm_added",
        "watermarks added (inner, no range)",
        _join(minutes=None, delay=""),
        _join(minutes=None),
        "watermark",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_wm_delay",
        "watermark delay 10m -> 1m",
        INNER,
        _join(delay="1 minute"),
        "watermark",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case("join_range_narrowed", "range 5m -> 1m", INNER, _join(minutes=1), "range", data=JOIN, providers=("rocksdb",)),
    Case(
        "join_range_widened",
        "range 1m -> 5m, after rows were evicted under 1m",
        _join(minutes=1, delay="1 minute"),
        _join(minutes=5, delay="1 minute"),
        "range",
        data=JOIN_RANGE,
        providers=("rocksdb",),
    ),
    Case(
        "join_range_removed",
        "range condition removed",
        INNER,
        _join(minutes=None),
        "range",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_condition_added",
        "one more condition: l.x > 2",
        INNER,
        _join(on="l.k = r.k and l.x > 2"),
        "filter",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_sides_swapped",
        "s join o -> o join s",
        INNER,
        _join(left='o.select("k", "k2", "x", "ts")', right='s.select("k", "k2", "y", "ts")'),
        "sources",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_join_to_union",
        "join removed, replaced by union",
        INNER,
        Job('s.select("k", "x").union(o.select("k", "y"))', mode="append", two=True),
        "operator",
        data=JOIN,
        providers=("hdfs",),
    ),
    Case(
        "join_agg_above",
        "an aggregation added above the join",
        INNER,
        INNER.but(df=f'{INNER.df}.groupBy("k").agg(F.sum("y").alias("s"))', mode="update"),
        "operator",
        data=JOIN,
        providers=("rocksdb",),
    ),
    Case(
        "join_static_inner_to_left",
        "stream-static join inner -> left",
        _STATIC,
        _STATIC.but(df=_STATIC.df.replace('"inner"', '"left"')),
        "none",
        providers=STATELESS,
    ),
    Case(
        "join_static_rows",
        "rows of the static side change, no state",
        _STATIC,
        _STATIC.but(lines=_REGIONS.format(rows=_TWO)),
        "none",
        providers=STATELESS,
    ),
    Case(
        "join_static_rows_below_agg",
        "rows of the static side change, below an aggregation",
        _STATIC_BELOW,
        _STATIC_BELOW.but(lines=_REGIONS.format(rows=_TWO)),
        "static",
    ),
    Case(
        "join_static_added_below_agg",
        "a static join added below an aggregation",
        Job('s.groupBy("k").agg(F.sum("x").alias("s"))'),
        Job('s.join(regions, "k", "left").groupBy("k").agg(F.sum("x").alias("s"))', lines=_REGIONS.format(rows=_TWO)),
        "none",
        providers=("rocksdb",),
    ),
)
