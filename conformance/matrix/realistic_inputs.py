"""Changes of realistic jobs: static tables, schemas of JSON and CSV, aggregates, refactorings."""

from __future__ import annotations

from conformance.matrix.case import Case, Job, Outcome, in_group
from conformance.matrix.realistic_jobs import (
    BASKETS,
    CLEAN,
    CSV_DAYS,
    FEED,
    HITS,
    LOG,
    ORDERS,
    PLAIN_TOTALS,
    RULES,
    SEEN,
    SILENT,
    SQL_TOTALS,
    TOTALS,
    Edit,
    varied,
)

_NOT_AGAIN = (Outcome.CORRECT, "a filter says which rows count from now on; what was counted is not counted again")


def _totals(name: str, change: str, *edits: Edit, base: Job = PLAIN_TOTALS, **more: object) -> Case:
    return varied(base, ORDERS, name, change, *edits, **more)  # type: ignore[arg-type]


_READ = '.csv(params["other"] + "/shops.csv")\n'
_LEFT = 'orders.join(F.broadcast(shops), "shop", "left")'
_EXTRA: tuple[Edit, ...] = (
    (
        "enriched = orders",
        'extra = spark.read.parquet(params["other"] + "/fees.parquet").filter("fee > 0")\n'
        '    extra = extra.groupBy("shop").agg(F.max("fee").alias("extra"))\n'
        "    enriched = orders",
    ),
    ('"shop", "left")', '"shop", "left").join(extra, "shop", "left")'),
    ('F.col("gift") * F.col("fee")', 'F.col("gift") * F.col("extra")'),
)
_REGIONS = (
    'regions = spark.read.schema("region string, manager string, target int").json(params["other"] + "/regions.json")\n'
)
_BELOW: tuple[Edit, ...] = (
    ("enriched = orders", f"{_REGIONS}    enriched = orders"),
    ('"shop", "left")', '"shop", "left").join(regions, "region", "left")'),
    ('F.col("gift") * F.col("fee")', 'F.col("gift") * F.col("target")'),
)
_ABOVE: tuple[Edit, ...] = (
    ("enriched = orders", f"{_REGIONS}    enriched = orders"),
    (
        'F.max("hour").alias("last_hour"),\n        )',
        'F.max("hour").alias("last_hour"),\n        )\n        .join(regions, "region", "left")',
    ),
)
_INLINE: tuple[Edit, ...] = (
    (
        "enriched = orders",
        'weights = spark.createDataFrame([("s1", 2), ("s2", 3), ("s3", 5)], "shop string, weight int")\n'
        "    enriched = orders",
    ),
    ('"shop", "left")', '"shop", "left").join(weights, "shop", "left")'),
    ('F.sum("qty")', 'F.sum(F.col("qty") * F.col("weight"))'),
)
_VALUES: tuple[Edit, ...] = (
    (
        _INLINE[0][0],
        "weights = spark.sql(\"select * from values ('s1', 2), ('s2', 3), ('s3', 5) as w(shop, weight)\")\n"
        "    enriched = orders",
    ),
    *_INLINE[1:],
)

STATIC = (
    _totals("static_path", "another table of shops", ("/shops.csv", "/shops_2026.csv")),
    _totals(
        "static_now_path",
        "another table of shops, the clock in the output",
        ("/shops.csv", "/shops_2026.csv"),
        base=TOTALS,
    ),
    _totals(
        "static_option",
        "nullValue north, in the reader of shops",
        ('"header", True)', '"header", True).option("nullValue", "north")'),
    ),
    _totals(
        "static_left_filter",
        "a filter on the optional side of a left join",
        (_READ, _READ + "        .filter(\"open = 'yes'\")\n"),
    ),
    _totals(
        "static_inner_filter",
        "a filter on the static side of an inner join",
        (_READ, _READ + "        .filter(\"open = 'yes'\")\n"),
        first=(('"shop", "left")', '"shop")'),),
        cause="filter",
        truth=_NOT_AGAIN,
    ),
    _totals(
        "static_column",
        "another column of the table as the key",
        ('groupBy("region"', 'groupBy(F.col("area").alias("region")'),
        cause="key",
    ),
    _totals(
        "static_aggregate",
        "max -> min of a static aggregate",
        ('F.max("fee").alias("extra")', 'F.min("fee").alias("extra")'),
        first=_EXTRA,
    ),
    _totals(
        "static_aggregate_filter", "a filter below a static aggregate", ('"fee > 0"', "\"kind = 'a'\""), first=_EXTRA
    ),
    _totals(
        "static_aggregate_renamed",
        "a name inside a static aggregate",
        ('"extra"', '"surcharge"'),
        first=_EXTRA,
        cause="none",
    ),
    _totals("static_json", "another JSON table joined below", ("/regions.json", "/regions_2026.json"), first=_BELOW),
    _totals(
        "static_above",
        "another JSON table joined above the state",
        ("/regions.json", "/regions_2026.json"),
        first=_ABOVE,
        cause="none",
    ),
    _totals("static_hint", "broadcast hint removed", ("F.broadcast(shops)", "shops"), cause="none"),
    _totals(
        "static_condition",
        "the same join by a condition",
        ('"shop", "left")', 'orders.shop == shops.shop, "left").drop(shops.shop)'),
        cause="none",
    ),
    _totals(
        "static_columns",
        "the columns that are used selected from the table",
        (_READ, _READ + '        .select("shop", "region", "fee")\n'),
        cause="none",
    ),
    _totals("static_inline", "a value of an inline table", ('("s2", 3)', '("s2", 4)'), first=_INLINE),
    _totals("static_inline_same", "control: an inline table", first=_INLINE, cause="none"),
    _totals("static_values", "a value of an inline table in SQL", ("('s2', 3)", "('s2', 4)"), first=_VALUES),
    varied(
        SQL_TOTALS, ORDERS, "static_subquery", "max -> min in a scalar subquery", ("select max(fee)", "select min(fee)")
    ),
    varied(
        SQL_TOTALS,
        ORDERS,
        "static_subquery_filter",
        "the condition inside a scalar subquery",
        ("open = 'yes'", "open = 'no'"),
    ),
    varied(
        SQL_TOTALS,
        ORDERS,
        "static_sql_path",
        "another table behind a temporary view",
        ("/shops.csv", "/shops_2026.csv"),
    ),
)


def _rule(name: str, change: str, *edits: Edit, **more: object) -> Case:
    return varied(RULES, ORDERS, f"rule_{name}", change, *edits, **{"cause": "aggregate", **more})  # type: ignore[arg-type]


_WRITES = (Outcome.LOSES, "the totals of before stay in the old table and are never brought up to date")

_WRITER: tuple[Edit, ...] = (
    ("import sqlite3", "import logging\nimport sqlite3"),
    (
        "def upsert(",
        'TABLES = {"daily": "totals", "hourly": "totals_hourly"}\nVERSION = 1\n'
        "LOG = logging.getLogger(__name__)\n\n\ndef upsert(",
    ),
    ("replace into totals values", "replace into {TABLES['daily']}_v{VERSION} values"),
    ("in batch.collect()", "in batch.coalesce(1).collect()"),
)
"""Edits after which the writing function builds its table's name from a dictionary of names and a number."""


def _writes(name: str, change: str, *edits: Edit, elsewhere: bool) -> Case:
    more = {"cause": "sink", "truth": _WRITES, "opaque": True} if elsewhere else {"cause": "none"}
    return _rule(f"fb_{name}", f"foreachBatch: {change}", *edits, first=_WRITER, **more)


RULES_CASES = (
    _rule("same", "control: unchanged", cause="none"),
    _rule(
        "first_other",
        "first(channel) -> last(note) ignoring nulls",
        ('F.first("channel")', 'F.last("note", ignorenulls=True)'),
        first=(('F.first("note")', 'F.first("channel")'),),
    ),
    _rule("first_last", "first(note) -> last(note)", ('F.first("note")', 'F.last("note")'), cause="none"),
    _rule("first_nulls", "first(note) -> ignoring nulls", ('F.first("note")', 'F.first("note", ignorenulls=True)')),
    varied(
        RULES,
        SILENT,
        "rule_first_last_nulls",
        "first(note) -> last(note) ignoring nulls",
        ('F.first("note")', 'F.last("note", ignorenulls=True)'),
        cause="aggregate",
    ),
    _rule("max_by", "max_by(code, qty) -> (code, gift)", ('max_by("code", "qty")', 'max_by("code", "gift")')),
    _rule("max_to_min_by", "max_by -> min_by", ('max_by("code", "qty")', 'min_by("code", "qty")')),
    _rule(
        "min_by_value", "min_by(code, gift) -> (channel, gift)", ('min_by("code", "gift")', 'min_by("channel", "gift")')
    ),
    _rule("array_agg", "collect_list -> array_agg", ("F.collect_list", "F.array_agg"), cause="none"),
    _rule("list_other", "collect_list(channel) -> (country)", ('collect_list("channel")', 'collect_list("country")')),
    _rule(
        "percentile_input", "percentile_approx(gift) -> (qty)", ('percentile_approx("gift"', 'percentile_approx("qty"')
    ),
    _rule("percentile_point", "percentile_approx 0.5 -> 0.9", ('"gift", 0.5', '"gift", 0.9'), cause="none"),
    _rule(
        "percentile_accuracy",
        "percentile_approx accuracy 1 -> 100",
        ("0.5, 1)", "0.5, 100)"),
        first=(("0.5, 100)", "0.5, 1)"),),
    ),
    _rule("count_if", "count_if(qty > 3) -> (qty > 5)", ('F.col("qty") > 3', 'F.col("qty") > 5')),
    _rule("hll_error", "approx_count_distinct 0.05 -> 0.2", ('"country", 0.05', '"country", 0.2')),
    _rule(
        "hll_input",
        "approx_count_distinct(country) -> (code)",
        ('approx_count_distinct("country"', 'approx_count_distinct("code"'),
    ),
    _rule("filter_clause", "filter (where country …) another value", ("'DE', 'AT'", "'DE', 'FR'")),
    _rule("filter_clause_order", "its values in another order", ("'DE', 'AT'", "'AT', 'DE'"), cause="none"),
    _rule("corr_swapped", "corr(qty, gift) -> (gift, qty)", ('F.corr("qty", "gift")', 'F.corr("gift", "qty")')),
    _rule("any_other", "any_value(country) -> (channel)", ('any_value("country")', 'any_value("channel")')),
    _rule("any_first", "any_value -> first", ('F.any_value("country")', 'F.first("country")'), cause="none"),
    _rule(
        "struct_order",
        "max(struct(placed, qty, …)) -> (placed, gift, …)",
        ('"placed", "qty", "gift"', '"placed", "gift", "qty"'),
    ),
    _rule(
        "fb_table",
        "foreachBatch writes another table",
        ("replace into totals", "replace into totals_2026"),
        cause="sink",
        truth=_WRITES,
        opaque=True,
    ),
    _rule(
        "fb_database",
        "foreachBatch writes another database",
        ("reports/orders.db", "reports/orders_2026.db"),
        cause="sink",
        truth=_WRITES,
        opaque=True,
    ),
    _rule(
        "fb_comment",
        "a comment in the foreachBatch function",
        ("    with sqlite3", "    # one transaction\n    with sqlite3"),
        cause="none",
    ),
    _writes("entry", "another entry of a table of names", ("TABLES['daily']", "TABLES['hourly']"), elsewhere=True),
    _writes("number", "a number within a name", ("VERSION = 1", "VERSION = 2"), elsewhere=True),
    _writes(
        "swapped",
        "two names change places",
        ('"daily": "totals", "hourly": "totals_hourly"', '"daily": "totals_hourly", "hourly": "totals"'),
        elsewhere=True,
    ),
    _writes("log", "a log line", ("    with sqlite3", '    LOG.info("a batch")\n    with sqlite3'), elsewhere=False),
    _writes(
        "guard",
        "a guard against empty batches",
        ("    with sqlite3", "    if batch.isEmpty():\n        return\n    with sqlite3"),
        elsewhere=False,
    ),
    _rule(
        "fb_guard_reversed",
        "foreachBatch: a guard the wrong way round",
        ("    with sqlite3", "    if not batch.isEmpty():\n        return\n    with sqlite3"),
        first=_WRITER,
        cause="sink",
        opaque=True,
        truth=(Outcome.LOSES, "no batch with rows is written any more"),
    ),
    _writes("coalesce", "another number of files", ("coalesce(1)", "coalesce(3)"), elsewhere=False),
    _writes("locals", "other names of variables", ("connection", "database"), elsewhere=False),
    _writes("filter", "a filter of the batch's rows", ("batch.coalesce(1)", 'batch.filter("1 = 1")'), elsewhere=False),
)

_CORRUPT: tuple[Edit, ...] = (
    ("customer struct<", "_bad string, customer struct<"),
    ('HH:mm:ss"', 'HH:mm:ss", "columnNameOfCorruptRecord": "_bad"'),
    ('.select("shop", "market"', '.select("_bad", "shop", "market"'),
    ('F.count("*").alias("orders")', 'F.count("_bad").alias("orders")'),
)
_FAILFAST: tuple[Edit, ...] = (('HH:mm:ss"', 'HH:mm:ss", "mode": "FAILFAST"'),)
_SENT = ("sent string", "sent timestamp")
_BY_CUSTOMER: tuple[Edit, ...] = (('["shop", "side", "buyer"]', '["customer"]'),)
_TYPED = """
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

ORDER = StructType()
for name in ("order_id", "shop", "country", "amount"):
    ORDER = ORDER.add(StructField(name, StringType()))
ORDER = ORDER.add("qty", IntegerType()).add("gift", IntegerType()).add("placed", TimestampType())
for name in ("sent", "note", "code", "channel"):
    ORDER = ORDER.add(StructField(name, StringType()))
ORDER = ORDER.add("customer", StructType().add("id", StringType()).add("tier", StringType()).add("age", IntegerType()))
"""
_DDL = RULES.top[RULES.top.index("ORDER = ") : RULES.top.index("OPTIONS")]

SCHEMA = (
    _totals("schema_added", "an unused field added", ("note string", "coupon string, note string"), cause="none"),
    _totals(
        "schema_now_added",
        "an unused field added, the clock in the output",
        ("note string", "coupon string, note string"),
        base=TOTALS,
        cause="none",
    ),
    _totals("schema_removed", "an unused field removed", (", channel string", ""), cause="none"),
    _totals("schema_retyped", "an unused field of another type", _SENT, cause="none"),
    _totals(
        "schema_reordered",
        "fields in another order",
        ("order_id string, shop string", "shop string, order_id string"),
        cause="none",
    ),
    _totals(
        "schema_nested_added",
        "an unused field added to an unused struct",
        ("age: int>", "age: int, city: string>"),
        cause="none",
    ),
    _totals(
        "schema_nested_retyped",
        "a field of an unused struct of another type",
        ("age: int", "age: string"),
        cause="none",
    ),
    _totals("schema_typed", "the schema as a StructType", (_DDL, _TYPED), cause="none"),
    _totals("schema_used_retyped", "a used field string -> double", ("amount string", "amount double")),
    _totals("schema_used_widened", "a used field int -> long, below sum", ("qty int", "qty bigint"), cause="none"),
    _totals(
        "schema_used_renamed",
        "a used field missing, another one read as it",
        ('F.col("gift").alias("gift")', 'F.col("gift_wrap").alias("gift")'),
        ("gift int", "gift_wrap int"),
    ),
    _totals(
        "schema_nested_key",
        "an unused field added to a struct of which another field is the key",
        ("age: int>", "age: int, city: string>"),
        first=(
            ('.select("shop", "market"', '.select("customer", "shop", "market"'),
            ('groupBy("region"', 'groupBy(F.col("customer.tier").alias("region")'),
        ),
        cause="none",
    ),
    varied(PLAIN_TOTALS, CLEAN, "schema_failfast_same", "control: FAILFAST", first=_FAILFAST, cause="none"),
    varied(PLAIN_TOTALS, CLEAN, "schema_failfast", "an unused field retyped, FAILFAST", _SENT, first=_FAILFAST),
    varied(
        PLAIN_TOTALS, CLEAN, "schema_corrupt", "an unused field retyped, corrupt records counted", _SENT, first=_CORRUPT
    ),
    varied(
        SEEN,
        ORDERS,
        "schema_struct_key",
        "a field added to a struct that is a key",
        ("age: int>", "age: int, city: string>"),
        first=_BY_CUSTOMER,
        cause="key",
    ),
    varied(
        RULES,
        ORDERS,
        "schema_struct_max",
        "a field added to a struct of which a maximum is kept",
        ("age: int>", "age: int, city: string>"),
        cause="aggregate",
    ),
    varied(
        BASKETS,
        ORDERS,
        "schema_element_added",
        "an unused field added to the struct of an array",
        ("price: int>", "price: int, color: string>"),
        cause="none",
    ),
    varied(CSV_DAYS, FEED, "csv_same", "control: unchanged", cause="none"),
    varied(
        CSV_DAYS,
        FEED,
        "csv_added",
        "an unused field added at the end",
        ("tag string", "tag string, more string"),
        cause="none",
    ),
    varied(
        CSV_DAYS,
        FEED,
        "csv_moved",
        "an unused field added in the middle",
        ("price decimal", "unit string, price decimal"),
    ),
    varied(CSV_DAYS, FEED, "csv_null", "nullValue - -> s1", ('"nullValue": "-"', '"nullValue": "s1"'), cause="key"),
    varied(CSV_DAYS, FEED, "csv_date", "dateFormat dd.MM -> MM.dd", ("dd.MM.yyyy", "MM.dd.yyyy"), cause="key"),
)

_WATERMARK: tuple[Edit, ...] = (
    (
        'hits = read_hits(s).select(\n        "at",',
        'taken = read_hits(s).withColumn("seen", F.expr("at + interval 1 minute"))\n'
        '    hits = taken.withWatermark("at", "30 minutes").select(\n        "at",\n        "seen",',
    ),
)
_PAST: tuple[Edit, ...] = (
    (
        '.select("shop", "market"',
        '.withColumn("past", F.col("placed") < F.current_timestamp())\n        .select("past", "shop", "market"',
    ),
    ('F.count("*").alias("orders")', 'F.count_if("past").alias("orders")'),
)
_HELPED = (
    "orders = (\n        read_orders(s)\n",
    "orders = (\n        with_market(read_orders(s))\n",
)
_MARKET = '.withColumn("market", F.when(F.col("country").isin(COUNTRIES), "europe").otherwise("abroad"))'
_WITH_MARKET = """
def with_market(frame):
    europe = F.col("country").isin(COUNTRIES)
    return frame.withColumn("market", F.when(europe, "europe").otherwise("abroad"))


"""
_API = """
    orders = read_orders(s)
    shops = (
        spark.read.option("header", True)
        .schema("shop string, region string, area string, fee int, open string")
        .csv(params["other"] + "/shops.csv")
    )
    open_shops = shops.filter("open = 'yes'")
    top_fee = open_shops.agg(F.max("fee").alias("fee"))
    totals = (
        orders.join(shops, "shop", "left")
        .select(
            "region", "qty", "gift", "country", "note",
            (F.col("placed") < F.current_timestamp()).alias("past"),
            (F.col("qty") * top_fee.scalar()).alias("cost"),
        )
        .groupBy("region")
        .agg(
            F.sum("cost").alias("cost"),
            F.expr("sum(qty) filter (where gift > 3)").alias("gifted"),
            F.count_if(F.col("country").isin(COUNTRIES)).alias("european"),
            F.count_if("past").alias("past"),
            F.sum(F.when(F.col("note").like("n%"), 1).otherwise(0)).alias("noted"),
        )
    )
"""

CONTROLS = (
    _totals("ctl_totals", "control: unchanged", cause="none"),
    _totals("ctl_count_if_now", "control: count_if of a comparison with the clock", first=_PAST, cause="none"),
    _totals("ctl_count_if_now_changed", "the comparison turned round", ('"placed") < F', '"placed") > F'), first=_PAST),
    varied(SQL_TOTALS, ORDERS, "ctl_sql", "control: temporary views and the clock", cause="none"),
    varied(
        SQL_TOTALS,
        ORDERS,
        "ctl_sql_alias",
        "aliases inside the query renamed",
        ("priced", "costed"),
        ("shops s on o.shop = s.shop", "shops t on o.shop = t.shop"),
        ("s.region", "t.region"),
        cause="none",
    ),
    varied(
        SQL_TOTALS,
        ORDERS,
        "ctl_sql_view",
        "a temporary view renamed",
        ('View("shops")', 'View("shop_table")'),
        ("join shops", "join shop_table"),
        ("from shops", "from shop_table"),
        cause="none",
    ),
    varied(SQL_TOTALS, ORDERS, "ctl_sql_input", "another column in a sum", ("sum(cost) as cost", "sum(gift) as cost")),
    varied(SQL_TOTALS, ORDERS, "ctl_sql_like", "another pattern", ("'n%'", "'%1'")),
    varied(
        SQL_TOTALS,
        ORDERS,
        "ctl_sql_to_api",
        "the same query by the DataFrame API",
        (SQL_TOTALS.lines, _API),
        cause="none",
    ),
    _totals(
        "ctl_helper",
        "a step moved into a helper function",
        ("        read_orders(s)\n        " + _MARKET + "\n", "        with_market(read_orders(s))\n"),
        (
            "def upsert(",
            _WITH_MARKET + "def upsert(",
        ),
        cause="none",
    ),
    _totals(
        "ctl_columns",
        "columns selected in another order below",
        ('"market", "placed", "amount"', '"amount", "placed", "market"'),
        cause="none",
    ),
    _totals(
        "ctl_repartition",
        "repartitioned below",
        ('"shop", "left")', '"shop", "left").repartition(3, "shop")'),
        cause="none",
    ),
    _totals(
        "ctl_named",
        "a column renamed below and used by its new name",
        ('F.col("qty").alias("qty")', 'F.col("qty").alias("pieces_in")'),
        ('F.sum("qty")', 'F.sum("pieces_in")'),
        cause="none",
    ),
    _totals(
        "ctl_filter_split",
        "a filter split in two",
        ('.filter("order_id is not null and qty > 0")', '.filter("order_id is not null").filter("qty > 0")'),
        first=(('.filter("order_id is not null")', '.filter("order_id is not null and qty > 0")'),),
        cause="none",
    ),
    _totals(
        "ctl_cast",
        "cast written otherwise",
        ('F.col("amount").cast("decimal(10,2)")', 'F.expr("cast(amount as decimal(10, 2))")'),
        cause="none",
    ),
    varied(
        LOG,
        HITS,
        "ctl_delay_up",
        "delay 30 minutes -> 2 hours, nothing was evicted",
        ("30 minutes", "2 hours"),
        first=_WATERMARK,
        cause="none",
    ),
    varied(
        LOG,
        HITS,
        "ctl_event_time",
        "watermark of another column, nothing was evicted",
        ('withWatermark("at"', 'withWatermark("seen"'),
        first=_WATERMARK,
        cause="none",
    ),
)

CASES = in_group("realistic", *STATIC, *RULES_CASES, *SCHEMA, *CONTROLS)
