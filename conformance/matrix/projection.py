"""Cases of queries without state: any change of their expressions applies to new rows only."""

from __future__ import annotations

from conformance.matrix.case import STATELESS, Case, Job, in_group

SELECT = Job('s.select("k", "x")', mode="append")
_UDF = """
@F.udf("int")
def shifted(x):
    return x + {number}
"""
_PANDAS = (
    's.select("k", "x")'
    '.mapInPandas(lambda frames: (each.assign(x=each.x * {factor}) for each in frames), "k string, x int")'
)


def _select(text: str) -> Job:
    return SELECT.but(df=text)


def _case(name: str, change: str, new: Job, old: Job = SELECT, cause: str = "none") -> Case:
    return Case(name, change, old, new, cause, providers=STATELESS)


_CALLED = _select('s.select("k", shifted("x").alias("x"))')

CASES = in_group(
    "projection",
    _case("proj_same", "control: unchanged", SELECT),
    _case("proj_add_col", "select k,x -> k,x,y", _select('s.select("k", "x", "y")')),
    _case("proj_drop_col", "select k,x -> k", _select('s.select("k")')),
    _case("proj_rename_col", "select k,x -> k,x AS z", _select('s.select("k", F.col("x").alias("z"))')),
    _case(
        "proj_retype_col",
        "select x -> cast(x as string)",
        _select('s.select("k", F.col("x").cast("string").alias("x"))'),
    ),
    _case("proj_reorder", "select k,x -> x,k", _select('s.select("x", "k")')),
    _case("proj_filter_remove", "filter x>2 removed", SELECT, _select('s.filter("x > 2").select("k", "x")')),
    _case("proj_filter_add", "filter x>2 added", _select('s.filter("x > 2").select("k", "x")')),
    _case(
        "proj_filter_change",
        "filter x>2 -> x>4",
        _select('s.filter("x > 4").select("k", "x")'),
        _select('s.filter("x > 2").select("k", "x")'),
    ),
    _case("proj_expr", "x -> x * 100", _select('s.select("k", (F.col("x") * 100).alias("x"))')),
    _case(
        "proj_param",
        "a literal from a param that changes",
        _select('s.select("k", (F.col("x") * 2).alias("x"))'),
        _select('s.select("k", (F.col("x") * 3).alias("x"))'),
    ),
    _case(
        "proj_udf_change",
        "Python UDF x+1 -> x+1000",
        _CALLED.but(top=_UDF.format(number=1000)),
        _CALLED.but(top=_UDF.format(number=1)),
    ),
    _case("proj_udf_added", "Python UDF added", _CALLED.but(top=_UDF.format(number=1))),
    _case("proj_repartition", "repartition(3) added", _select('s.repartition(3).select("k", "x")')),
    _case("proj_explode", "explode added", _select('s.select("k", F.explode(F.array("x", "y")).alias("x"))')),
    _case(
        "proj_explode_removed",
        "explode removed",
        SELECT,
        _select('s.select("k", F.explode(F.array("x", "y")).alias("x"))'),
    ),
    _case(
        "proj_map_in_pandas",
        "mapInPandas: its code changes",
        _select(_PANDAS.format(factor=3)),
        _select(_PANDAS.format(factor=2)),
    ),
    _case("proj_mode_update", "output mode append -> update, no state", SELECT.but(mode="update"), cause="output-mode"),
    _case("proj_sort_within", "sortWithinPartitions added", _select('s.sortWithinPartitions("x").select("k", "x")')),
    _case(
        "proj_now",
        "a column of current_timestamp() compared with a far date",
        _select('s.filter("current_timestamp() > timestamp\'2020-01-01\'").select("k", "x")'),
    ),
    _case("trig_an_to_ptime", "trigger availableNow -> 200 milliseconds", SELECT.but(trigger="200 milliseconds")),
    _case(
        "trig_ptime_to_an", "trigger 200 milliseconds -> availableNow", SELECT, SELECT.but(trigger="200 milliseconds")
    ),
    _case(
        "trig_interval",
        "trigger 200 milliseconds -> 1 second",
        SELECT.but(trigger="1 second"),
        SELECT.but(trigger="200 milliseconds"),
    ),
)
