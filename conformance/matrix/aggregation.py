"""Cases of aggregations: keys, functions, input rows, and what is computed from the result."""

from __future__ import annotations

from conformance.matrix.case import ALL, BOTH, STATE_STORE, Case, Job, Outcome, in_group
from conformance.matrix.data import NULLS, UNTOUCHED

SUM = Job('s.groupBy("k").agg(F.sum("x").alias("s"))')
_NOT_AGAIN = (Outcome.CORRECT, "a filter says which rows count from now on; what was counted is not counted again")


def _sum(stream: str) -> Job:
    return SUM.but(df=f'{stream}.groupBy("k").agg(F.sum("x").alias("s"))')


def _by(key: str, value: str = 'F.sum("x").alias("s")') -> Job:
    return SUM.but(df=f"s.groupBy({key}).agg({value})")


def _agg(value: str) -> Job:
    return _by('"k"', value)


_DEFAULT_K = 'F.coalesce("k", F.lit("-")).alias("k")'
_UDF = """
@F.udf("int")
def scaled(x):
    return x * {factor}
"""
_HELPERS = """\
from pyspark.sql import functions as F


def totals(s):
    return s.groupBy("k").agg(F.sum("x").alias("s"))
"""
_HELPED = Job("totals(s)", top="from helpers import totals", files=(("helpers.py", _HELPERS),))

KEYS = (
    Case("agg_same", "control: unchanged", SUM, SUM, "none", providers=ALL),
    Case("agg_add_key", "groupBy(k) -> groupBy(k,k2)", SUM, _by('"k", "k2"'), "key"),
    Case("agg_drop_key", "groupBy(k,k2) -> groupBy(k)", _by('"k", "k2"'), SUM, "key", providers=ALL),
    Case("agg_rename_key", "group key renamed k -> kk", SUM, _by('F.col("k").alias("kk")'), "none"),
    Case("agg_swap_key_col", "groupBy(k) -> groupBy(k2)", SUM, _by('"k2"'), "key", providers=ALL),
    Case("agg_swap_key_alias", "groupBy(k) -> groupBy(k2 AS k)", SUM, _by('F.col("k2").alias("k")'), "key"),
    Case("agg_key_expr", "groupBy(k) -> groupBy(upper(k) AS k)", SUM, _by('F.upper("k").alias("k")'), "key"),
    Case("agg_key_widen", "group key int -> long", _by('"y"'), _by('F.col("y").cast("long").alias("y")'), "key"),
    Case(
        "agg_key_type_int_to_string",
        "group key int -> string",
        _by('"y"'),
        _by('F.col("y").cast("string").alias("y")'),
        "key",
    ),
    Case(
        "agg_key_nullable_to_notnull",
        "group key coalesced to not null",
        SUM,
        _by(_DEFAULT_K),
        "none",
        truth=(Outcome.CORRECT, "the rows here have no null key: coalesce is the identity"),
        twin="agg_key_coalesce_nulls",
    ),
    Case("agg_key_notnull_to_nullable", "group key not null -> nullable", _by(_DEFAULT_K), SUM, "key"),
    Case(
        "agg_key_coalesce_nulls", "coalesce on a key that is null in some rows", SUM, _by(_DEFAULT_K), "key", data=NULLS
    ),
    Case(
        "agg_keys_swapped",
        "groupBy(k,k2) -> groupBy(k2,k), same columns out",
        SUM.but(df='s.groupBy("k", "k2").agg(F.sum("x").alias("s"))'),
        SUM.but(df='s.groupBy("k2", "k").agg(F.sum("x").alias("s")).select("k", "k2", "s")'),
        "key",
    ),
    Case(
        "agg_key_cast_same",
        "key cast to the type that it has",
        SUM,
        _by('F.col("k").cast("string").alias("k")'),
        "none",
    ),
    Case(
        "agg_key_substring",
        "groupBy(substring(k||k2,1,1)) -> (…,1,2)",
        _by('F.substring(F.concat("k", "k2"), 1, 1).alias("k")'),
        _by('F.substring(F.concat("k", "k2"), 1, 2).alias("k")'),
        "key",
    ),
    Case(
        "agg_key_literal_param",
        "a literal in the key comes from a param that changes",
        _by('(F.col("y") % params["number"]).alias("b")'),
        _by('(F.col("y") % params["number"]).alias("b")'),
        "key",
        params={"number": 20},
        candidate_params={"number": 30},
    ),
    Case("agg_global_to_keyed", "groupBy() -> groupBy(k)", _by(""), SUM, "key"),
    Case("agg_keyed_to_global", "groupBy(k) -> groupBy()", SUM, _by(""), "key"),
    Case(
        "agg_key_struct",
        "groupBy(k,k2) -> groupBy(struct(k,k2))",
        _by('"k", "k2"'),
        _by('F.struct("k", "k2").alias("kk")'),
        "key",
        providers=("rocksdb",),
    ),
    Case(
        "agg_collation",
        "group key collation UTF8_BINARY -> UTF8_LCASE",
        SUM,
        _by('F.expr("k collate UTF8_LCASE").alias("k")'),
        "key",
    ),
    Case(
        "agg_schemacheck_off_key",
        "key added with stateSchemaCheck=false",
        SUM,
        _by('"k", "k2"'),
        "key",
        candidate_conf={f"{STATE_STORE}stateSchemaCheck": "false"},
    ),
    Case(
        "agg_schemacheck_off_val",
        "count added with stateSchemaCheck=false",
        SUM,
        _agg('F.sum("x").alias("s"), F.count("*").alias("n")'),
        "aggregate",
        candidate_conf={f"{STATE_STORE}stateSchemaCheck": "false"},
    ),
)

FUNCTIONS = (
    Case(
        "agg_val_nullable_to_notnull",
        "sum(x) -> sum(coalesce(x,0))",
        SUM,
        _agg('F.sum(F.coalesce("x", F.lit(0))).alias("s")'),
        "none",
        truth=(Outcome.CORRECT, "the rows here have no null: coalesce is the identity"),
    ),
    Case("agg_count_to_sum_nullable", "count(*) -> sum(x)", _agg('F.count("*").alias("s")'), SUM, "aggregate"),
    Case(
        "agg_reorder_aggs_same_type",
        "agg(sum x, sum y) -> agg(sum y, sum x), same columns out",
        _agg('F.sum("x").alias("s"), F.sum("y").alias("t")'),
        SUM.but(df='s.groupBy("k").agg(F.sum("y").alias("t"), F.sum("x").alias("s")).select("k", "s", "t")'),
        "none",
    ),
    Case(
        "agg_sum_to_max_long",
        "sum(long x) -> max(long x)",
        SUM,
        _agg('F.max(F.col("x").cast("long")).alias("s")'),
        "aggregate",
        providers=ALL,
    ),
    Case(
        "agg_max_to_min", "max(x) -> min(x)", _agg('F.max("x").alias("m")'), _agg('F.min("x").alias("m")'), "aggregate"
    ),
    Case(
        "agg_min_to_max", "min(x) -> max(x)", _agg('F.min("x").alias("m")'), _agg('F.max("x").alias("m")'), "aggregate"
    ),
    Case(
        "agg_count_star_to_count_col",
        "count(*) -> count(x) with null x",
        _agg('F.count("*").alias("n")'),
        _agg('F.count("x").alias("n")'),
        "aggregate",
        data=NULLS,
    ),
    Case(
        "agg_count_col_other",
        "count(x) -> count(y) with nulls",
        _agg('F.count("x").alias("n")'),
        _agg('F.count("y").alias("n")'),
        "aggregate",
        data=NULLS,
    ),
    Case(
        "agg_count_star_to_one",
        "count(*) -> count(1)",
        _agg('F.count("*").alias("n")'),
        _agg('F.count(F.lit(1)).alias("n")'),
        "none",
    ),
    Case(
        "agg_count_to_countdistinct_hll",
        "count(*) -> approx_count_distinct(x)",
        _agg('F.count("*").alias("n")'),
        _agg('F.approx_count_distinct("x").alias("n")'),
        "aggregate",
    ),
    Case(
        "agg_hll_error",
        "approx_count_distinct(x, 0.05) -> (x, 0.2)",
        _agg('F.approx_count_distinct("x", 0.05).alias("n")'),
        _agg('F.approx_count_distinct("x", 0.2).alias("n")'),
        "aggregate",
        providers=("rocksdb",),
    ),
    Case(
        "agg_hll_other_column",
        "approx_count_distinct(x) -> (y % 20)",
        _agg('F.approx_count_distinct("x").alias("n")'),
        _agg('F.approx_count_distinct(F.col("y") % 20).alias("n")'),
        "aggregate",
        providers=("rocksdb",),
    ),
    Case(
        "agg_sum_long_to_double",
        "sum(long) -> sum(double)",
        SUM,
        _agg('F.sum(F.col("x").cast("double")).alias("s")'),
        "aggregate",
    ),
    Case(
        "agg_sum_decimal_precision",
        "sum(decimal(10,2)) -> sum(decimal(12,2))",
        _agg('F.sum(F.col("x").cast("decimal(10,2)")).alias("s")'),
        _agg('F.sum(F.col("x").cast("decimal(12,2)")).alias("s")'),
        "aggregate",
    ),
    Case(
        "agg_sum_decimal_scale",
        "sum(decimal(10,2)) -> sum(decimal(10,4))",
        _agg('F.sum(F.col("x").cast("decimal(10,2)")).alias("s")'),
        _agg('F.sum(F.col("x").cast("decimal(10,4)")).alias("s")'),
        "aggregate",
    ),
    Case(
        "agg_sum_expr", "sum(x) -> sum(x*2)", SUM, _agg('F.sum(F.col("x") * 2).alias("s")'), "aggregate", providers=ALL
    ),
    Case(
        "agg_least_order",
        "sum(least(x, y, 4)) -> sum(least(4, y, x))",
        _agg('F.sum(F.expr("least(x, y, 4)")).alias("s")'),
        _agg('F.sum(F.expr("least(4, y, x)")).alias("s")'),
        "none",
    ),
    Case(
        "agg_least_to_greatest",
        "sum(least(x, y, 4)) -> sum(greatest(4, y, x))",
        _agg('F.sum(F.expr("least(x, y, 4)")).alias("s")'),
        _agg('F.sum(F.expr("greatest(4, y, x)")).alias("s")'),
        "aggregate",
        providers=("rocksdb",),
    ),
    Case(
        "agg_greatest_zeros",
        "greatest(0.0, -0.0) -> greatest(-0.0, 0.0), equal and not the same",
        _agg('F.max(F.expr("string(greatest(x * 0D, x * -0D))")).alias("s")'),
        _agg('F.max(F.expr("string(greatest(x * -0D, x * 0D))")).alias("s")'),
        "aggregate",
        providers=("rocksdb",),
    ),
    Case(
        "agg_sum_other_column", "sum(x) -> sum(y) under the same alias", SUM, _agg('F.sum("y").alias("s")'), "aggregate"
    ),
    Case(
        "agg_sum_literal_param",
        "the factor in a sum comes from a param that changes",
        _agg('F.sum(F.col("x") * params["number"]).alias("s")'),
        _agg('F.sum(F.col("x") * params["number"]).alias("s")'),
        "aggregate",
        params={"number": 2},
        candidate_params={"number": 3},
    ),
    Case(
        "agg_sum_filter_clause",
        "sum(x) -> sum(x) filter (where y > 10)",
        SUM,
        _agg('F.expr("sum(x) filter (where y > 10) as s")'),
        "aggregate",
    ),
    Case("agg_avg_to_sum", "avg(x) -> sum(x)", _agg('F.avg("x").alias("s")'), SUM, "aggregate"),
    Case(
        "agg_avg_to_stddev",
        "avg(x) -> stddev(x)",
        _agg('F.avg("x").alias("s")'),
        _agg('F.stddev("x").alias("s")'),
        "aggregate",
    ),
    Case(
        "agg_stddev_to_variance",
        "stddev(x) -> variance(x): one buffer, another last step",
        _agg('F.stddev("x").alias("s")'),
        _agg('F.variance("x").alias("s")'),
        "aggregate",
    ),
    Case(
        "agg_count_distinct_added",
        "count(x) -> count(distinct x)",
        _agg('F.count("x").alias("n")'),
        _agg('F.countDistinct("x").alias("n")'),
        "aggregate",
    ),
    Case(
        "agg_first_to_last",
        "first(x) -> last(x)",
        _agg('F.first("x").alias("v")'),
        _agg('F.last("x").alias("v")'),
        "aggregate",
        twin="agg_first_to_last_complete",
    ),
    Case(
        "agg_first_to_last_complete",
        "first(x) -> last(x), complete: groups that no new row touched show the first",
        _agg('F.first("x").alias("v")').but(mode="complete"),
        _agg('F.last("x").alias("v")').but(mode="complete"),
        "aggregate",
        data=UNTOUCHED,
    ),
    Case(
        "agg_last_to_first",
        "last(x) -> first(x)",
        _agg('F.last("x").alias("v")'),
        _agg('F.first("x").alias("v")'),
        "aggregate",
    ),
    Case(
        "agg_set_to_list_k2",
        "collect_set(k2) -> collect_list(k2)",
        _agg('F.collect_set("k2").alias("v")'),
        _agg('F.collect_list("k2").alias("v")'),
        "aggregate",
    ),
    Case(
        "agg_list_to_set",
        "collect_list(k2) -> collect_set(k2)",
        _agg('F.collect_list("k2").alias("v")'),
        _agg('F.collect_set("k2").alias("v")'),
        "aggregate",
        providers=("rocksdb",),
    ),
    Case(
        "agg_list_other_column",
        "collect_list(x) -> collect_list(y)",
        _agg('F.collect_list("x").alias("v")'),
        _agg('F.collect_list("y").alias("v")'),
        "aggregate",
        providers=("hdfs",),
    ),
    Case(
        "agg_struct_fields_reordered",
        "max(struct(x,y)) -> max(struct(y,x))",
        _agg('F.max(F.struct("x", "y")).alias("m")'),
        _agg('F.max(F.struct("y", "x")).alias("m")'),
        "aggregate",
    ),
    Case(
        "agg_struct_fields_renamed",
        "max(struct(x,y)) -> max(struct(x AS v,y AS w))",
        _agg('F.max(F.struct("x", "y")).alias("m")'),
        _agg('F.max(F.struct(F.col("x").alias("v"), F.col("y").alias("w"))).alias("m")'),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "agg_bool_and_to_or",
        "every(x > 2) -> some(x > 2)",
        _agg('F.expr("every(x > 2) as b")'),
        _agg('F.expr("some(x > 2) as b")'),
        "aggregate",
        providers=("rocksdb",),
    ),
    Case(
        "agg_max_by_other",
        "max_by(k2, x) -> max_by(k2, y)",
        _agg('F.max_by("k2", "x").alias("v")'),
        _agg('F.max_by("k2", "y").alias("v")'),
        "aggregate",
        data=UNTOUCHED,
        providers=("hdfs",),
    ),
    Case(
        "agg_added",
        "sum(x) -> sum(x), count(*)",
        SUM,
        _agg('F.sum("x").alias("s"), F.count("*").alias("n")'),
        "aggregate",
        providers=ALL,
    ),
    Case(
        "agg_dropped",
        "sum(x), count(*) -> sum(x)",
        _agg('F.sum("x").alias("s"), F.count("*").alias("n")'),
        SUM,
        "aggregate",
        providers=ALL,
    ),
    Case("agg_alias_renamed", "alias s -> total", SUM, _agg('F.sum("x").alias("total")'), "none", providers=ALL),
    Case(
        "agg_two_swapped_alias",
        "sum(x) AS s, sum(y) AS t -> sum(y) AS s, sum(x) AS t",
        _agg('F.sum("x").alias("s"), F.sum("y").alias("t")'),
        _agg('F.sum("y").alias("s"), F.sum("x").alias("t")'),
        "aggregate",
    ),
    Case(
        "agg_key_repeated",
        "a second key that is the first again",
        SUM,
        _by('"k", F.col("k").alias("kk")'),
        "none",
        providers=("rocksdb",),
    ),
)

BELOW = (
    Case(
        "agg_unit_change_upstream",
        "x -> x*100 in a select before the aggregation",
        SUM,
        _sum('s.withColumn("x", F.col("x") * 100)'),
        "below",
    ),
    Case(
        "agg_filter_before_removed",
        "filter x>2 removed before the aggregation",
        _sum('s.filter("x > 2")'),
        SUM,
        "filter",
        truth=_NOT_AGAIN,
    ),
    Case(
        "agg_filter_before_added",
        "filter x>2 added before the aggregation",
        SUM,
        _sum('s.filter("x > 2")'),
        "filter",
        truth=_NOT_AGAIN,
    ),
    Case(
        "agg_filter_before_changed",
        "filter x>2 -> x>4 before the aggregation",
        _sum('s.filter("x > 2")'),
        _sum('s.filter("x > 4")'),
        "filter",
        truth=_NOT_AGAIN,
    ),
    Case(
        "agg_unused_column_below",
        "one more column below, not used",
        SUM,
        _sum('s.withColumn("z", F.col("x") + F.col("y"))'),
        "none",
    ),
    Case(
        "agg_unused_column_read",
        "one more column read from the files, not used",
        SUM.but(schema="k string, x int"),
        SUM.but(schema="k string, x int, y int"),
        "none",
    ),
    Case(
        "agg_unused_column_unread",
        "a column that is not used is read no more",
        SUM,
        SUM.but(schema="k string, x int"),
        "none",
    ),
    Case(
        "agg_read_order",
        "the columns of the schema in another order",
        SUM,
        SUM.but(schema="y int, x int, k2 string, k string, ts timestamp"),
        "none",
    ),
    Case(
        "agg_upstream_rename",
        "x renamed to v below, sum(v) AS s",
        SUM,
        SUM.but(df='s.withColumnRenamed("x", "v").groupBy("k").agg(F.sum("v").alias("s"))'),
        "none",
    ),
    Case(
        "agg_upstream_key_rename",
        "k renamed to g below and back above",
        SUM,
        SUM.but(df='s.withColumnRenamed("k", "g").groupBy("g").agg(F.sum("x").alias("s")).withColumnRenamed("g", "k")'),
        "none",
    ),
    Case(
        "agg_select_reordered",
        "select(k,x,y) -> select(y,x,k) below",
        _sum('s.select("k", "x", "y")'),
        _sum('s.select("y", "x", "k")'),
        "none",
    ),
    Case(
        "agg_select_swapped",
        "x and y swapped below under each other's name",
        _sum('s.select("k", "x", "y")'),
        _sum('s.select("k", F.col("y").alias("x"), F.col("x").alias("y"))'),
        "below",
    ),
    Case(
        "agg_read_wider",
        "x read as long, not int: another sum type? the same",
        SUM,
        SUM.but(schema="k string, k2 string, x long, y int, ts timestamp"),
        "none",
    ),
    Case(
        "agg_read_as_double",
        "x read as double",
        SUM,
        SUM.but(schema="k string, k2 string, x double, y int, ts timestamp"),
        "schema",
    ),
    Case(
        "agg_key_read_wrong",
        "k read as int: null for every row",
        SUM,
        SUM.but(schema="k int, k2 string, x int, y int, ts timestamp"),
        "schema",
    ),
    Case(
        "agg_udf_upstream_changed",
        "a UDF below: x*1 -> x*100",
        _sum('s.withColumn("x", scaled("x"))').but(top=_UDF.format(factor=1)),
        _sum('s.withColumn("x", scaled("x"))').but(top=_UDF.format(factor=100)),
        "python",
        opaque=True,
    ),
    Case(
        "agg_udf_upstream_same",
        "a UDF below: rewritten, same results",
        _sum('s.withColumn("x", scaled("x"))').but(top=_UDF.format(factor=2)),
        _sum('s.withColumn("x", scaled("x"))').but(top=_UDF.format(factor="(1 + 1)")),
        "python",
        opaque=True,
        providers=("rocksdb",),
    ),
    Case(
        "agg_udf_unchanged",
        "a UDF below: only a comment in it",
        _sum('s.withColumn("x", scaled("x"))').but(top=_UDF.format(factor=2)),
        _sum('s.withColumn("x", scaled("x"))').but(top=_UDF.format(factor="2  # twice")),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "agg_repartition_below",
        "repartition(3) before the aggregation",
        SUM,
        _sum("s.repartition(3)"),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "agg_explode_added_below",
        "explode before the aggregation",
        SUM,
        _sum('s.withColumn("e", F.explode(F.array(F.lit(1), F.lit(2))))'),
        "below",
        providers=("rocksdb",),
    ),
    Case(
        "agg_union_branch",
        "union of one stream with itself below",
        SUM,
        _sum("s.union(s)"),
        "below",
        providers=("rocksdb",),
    ),
    Case(
        "agg_nondeterministic_below",
        "a column of rand() added below, not used",
        SUM,
        _sum('s.withColumn("r", F.rand())'),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "agg_literal_below_used",
        "x + number below, number 0 -> 5",
        _sum('s.withColumn("x", F.col("x") + params["number"])'),
        _sum('s.withColumn("x", F.col("x") + params["number"])'),
        "below",
        params={"number": 0},
        candidate_params={"number": 5},
    ),
    Case(
        "agg_coalesce_value_nulls",
        "sum(x) -> sum(coalesce(x, 100)) with nulls",
        SUM,
        _agg('F.sum(F.coalesce("x", F.lit(100))).alias("s")'),
        "aggregate",
        data=NULLS,
        providers=("rocksdb",),
    ),
)

ABOVE = (
    Case(
        "agg_filter_after_hides",
        "filter s<10 added after the aggregation",
        SUM,
        SUM.but(df=f'{SUM.df}.filter("s < 10")'),
        "none",
    ),
    Case(
        "agg_having_removed",
        "filter s<10 removed after the aggregation",
        SUM.but(df=f'{SUM.df}.filter("s < 10")'),
        SUM,
        "none",
    ),
    Case(
        "agg_column_above",
        "a column computed from the sum",
        SUM,
        SUM.but(df=f'{SUM.df}.withColumn("d", F.col("s") * 2)'),
        "none",
    ),
    Case(
        "agg_literal_above",
        "a literal above comes from a param that changes",
        SUM.but(df=f'{SUM.df}.withColumn("d", F.col("s") * params["number"])'),
        SUM.but(df=f'{SUM.df}.withColumn("d", F.col("s") * params["number"])'),
        "none",
        params={"number": 2},
        candidate_params={"number": 3},
    ),
    Case(
        "agg_udf_above_changed",
        "a UDF above the aggregation changes",
        SUM.but(
            df='s.groupBy("k").agg(F.sum("x").alias("s")).withColumn("d", scaled(F.col("s").cast("int")))',
            top=_UDF.format(factor=1),
        ),
        SUM.but(
            df='s.groupBy("k").agg(F.sum("x").alias("s")).withColumn("d", scaled(F.col("s").cast("int")))',
            top=_UDF.format(factor=100),
        ),
        "none",
    ),
    Case(
        "agg_sql_instead",
        "the same query as SQL",
        SUM,
        SUM.but(
            lines='s.createOrReplaceTempView("rows_in")',
            df='spark.sql("select k, sum(x) as s from rows_in group by k")',
        ),
        "none",
    ),
    Case("agg_comment_only", "comments and blank lines only", SUM, SUM.but(lines="# the totals\n\n# per key"), "none"),
    Case("agg_refactored", "code moved into a helper module, same plan", SUM, _HELPED, "none"),
    Case(
        "agg_sink_code",
        "the author's own batch function changes",
        SUM,
        SUM.but(
            top="def write_twice(batch, context):\n    batch.collect()\n    batch.count()\n",
            sink="ForeachBatch(write_twice)",
        ),
        "none",
        providers=("rocksdb",),
    ),
)

MODES = (
    Case("agg_mode_update_to_complete", "output mode update -> complete", SUM, SUM.but(mode="complete"), "output-mode"),
    Case("agg_mode_complete_to_update", "output mode complete -> update", SUM.but(mode="complete"), SUM, "output-mode"),
    Case(
        "agg_mode_complete_to_append",
        "output mode complete -> append, no watermark",
        SUM.but(mode="complete"),
        SUM.but(mode="append"),
        "output-mode",
    ),
    Case(
        "agg_mode_update_to_append",
        "output mode update -> append, no watermark",
        SUM,
        SUM.but(mode="append"),
        "output-mode",
    ),
)

_STATELESS = 's.select("k", F.col("x").cast("long").alias("s"))'
_TWO_AGGS = 's.withWatermark("ts", "1 minute").groupBy(F.window("ts", "10 minutes"), "k").agg(F.sum("x").alias("s"))'

OPERATORS = (
    Case("op_agg_removed", "aggregation -> stateless", SUM, SUM.but(df=_STATELESS), "operator"),
    Case("op_agg_added", "stateless -> aggregation", SUM.but(df=_STATELESS), SUM, "operator"),
    Case(
        "op_dedup_before_agg_added",
        "dedup inserted before an aggregation",
        SUM,
        _sum('s.dropDuplicates(["k", "x"])'),
        "operator",
    ),
    Case(
        "op_dedup_before_agg_removed",
        "dedup before an aggregation removed",
        _sum('s.dropDuplicates(["k", "x"])'),
        SUM,
        "operator",
    ),
    Case(
        "op_dedup_before_agg_keys",
        "key of a dedup before an aggregation changed",
        _sum('s.dropDuplicates(["k"])'),
        _sum('s.dropDuplicates(["k2"])'),
        "key",
        providers=BOTH,
    ),
    Case(
        "op_two_aggs_second_added",
        "second windowed aggregation added",
        Job(_TWO_AGGS, mode="append"),
        Job(f'{_TWO_AGGS}.groupBy(F.window("window", "20 minutes")).agg(F.sum("s").alias("s"))', mode="append"),
        "operator",
    ),
    Case(
        "op_limit_changed",
        "limit(3) -> limit(6)",
        Job("s.limit(3)", mode="append"),
        Job("s.limit(6)", mode="append"),
        "limit",
        providers=BOTH,
        truth=(Outcome.CORRECT, "the counter is kept: the next three are given out"),
    ),
    Case(
        "op_limit_lowered",
        "limit(6) -> limit(3)",
        Job("s.limit(6)", mode="append"),
        Job("s.limit(3)", mode="append"),
        "limit",
        providers=("rocksdb",),
    ),
    Case("op_limit_added", "limit(3) added", Job("s", mode="append"), Job("s.limit(3)", mode="append"), "operator"),
    Case("op_limit_removed", "limit(3) removed", Job("s.limit(3)", mode="append"), Job("s", mode="append"), "operator"),
    Case(
        "op_agg_to_dedup",
        "aggregation -> dedup",
        SUM,
        SUM.but(df='s.select("k", F.col("x").cast("long").alias("s")).dropDuplicates(["k"])'),
        "operator",
        providers=("rocksdb",),
    ),
    Case(
        "op_distinct_instead",
        "groupBy(k).count() -> distinct keys",
        _agg('F.count("*").alias("n")'),
        SUM.but(df='s.select("k").distinct()'),
        "operator",
        providers=("rocksdb",),
    ),
)

CASES = in_group("aggregation", *KEYS, *FUNCTIONS, *BELOW, *ABOVE, *MODES, *OPERATORS)
