"""Realistic jobs, with the rows and tables that they read; cases change a line or two of them."""

from __future__ import annotations

import json
from dataclasses import replace

from conformance.matrix.case import Case, Job
from conformance.matrix.data import Data, File

Edit = tuple[str, str]
"""A text and its replacement."""

DIMS = {"other": "{root}/dims"}
"""Params whose second path is that of the static tables."""


def edited(job: Job, *changes: Edit) -> Job:
    """Return the job with each text replaced at every occurrence; raises ValueError if a text does not occur."""
    for old, new in changes:
        files = tuple((name.replace(old, new), text.replace(old, new)) for name, text in job.files)
        parts = {name: getattr(job, name).replace(old, new) for name in ("df", "top", "lines", "schema", "sink")}
        found = replace(job, files=files, **parts)
        if found == job:
            raise ValueError(f"the job does not say {old!r}")
        job = found
    return job


def varied(
    base: Job,
    data: Data,
    name: str,
    change: str,
    *edits: Edit,
    cause: str = "below",
    first: tuple[Edit, ...] = (),
    **more: object,
) -> Case:
    """Return a case that compares a job with a copy in which some texts are replaced; ``first``: replacements on both
    sides.
    """
    old = edited(base, *first)
    params = {} if old.two else DIMS
    return Case(f"real_{name}", change, old, edited(old, *edits), cause, data=data, params=params, **more)  # type: ignore[arg-type]


def _lines(*rows: dict[str, object] | str) -> File:
    return File(tuple(row if isinstance(row, str) else json.dumps(row) for row in rows))


def _order(name: str, shop: str, country: str, qty: int, gift: int, placed: str, **more: object) -> dict[str, object]:
    """Return an order whose day is below 13, so that days and months can be confused."""
    number = int(name[1:])
    given = {
        "order_id": name,
        "shop": shop,
        "country": country,
        "amount": f"{10 * qty + gift}.50",
        "qty": qty,
        "gift": gift,
        "placed": placed,
        "sent": f"2026-{placed[3:5]}-{placed[:2]}T{placed[11:]}Z",
        "note": f"n{number % 4}",
        "code": f"ab-{number}",
        "channel": "web" if number % 2 else "App",
        "customer": {"id": f"c{number % 3}", "tier": "gold" if number % 2 else "basic", "age": 20 + number},
        "tags": {"size": number % 5, "rush": qty},
        "was": [qty * 3, gift + 4, 7],
        "now": [qty, gift, 5],
        "items": [{"sku": "pen", "qty": qty, "price": 3}, {"sku": "ink", "qty": gift, "price": 4 + number % 2}],
    }
    return {**given, **more}


ORDER_FIELDS = """
order_id string, shop string, country string, amount string, qty int, gift int, placed timestamp, sent string,
note string, code string, channel string, customer struct<id: string, tier: string, age: int>
"""

_TORN = '{"order_id": "o99", "shop": "s1", "country": "DE", "qty"'
_BEFORE = (
    _lines(
        _order("o1", "s1", "DE", 1, 4, "01/02/2026 10:05:00"),
        _order("o2", "s2", "AT", 2, 1, "01/02/2026 10:20:00", note=None),
        _order("o3", "s1", "FR", 3, 5, "02/03/2026 11:10:00", note=None),
        _order("o4", "s3", "US", 4, 2, "02/03/2026 23:30:00"),
        _TORN,
        str(_order("o5", "s2", "DE", 9, 3, "03/02/2026 09:00:00")),
    ),
    _lines(
        _order("o6", "s1", "LU", 5, 2, "03/02/2026 09:40:00"),
        _order("o7", "s9", "PL", 6, 7, "04/02/2026 23:10:00"),
        _order("o8", "s3", "DK", 2, 9, "04/02/2026 12:10:00", note=None),
    ),
)
_AFTER = (
    _lines(
        _order("o1", "s1", "DE", 1, 4, "01/02/2026 10:05:00"),
        _TORN,
        _order("o9", "s2", "AT", 7, 2, "01/02/2026 10:40:00"),
        _order("o10", "s1", "LU", 4, 9, "03/02/2026 09:20:00"),
        _order("o11", "s3", "US", 8, 3, "04/02/2026 12:30:00"),
        _order("o12", "s9", "DE", 3, 5, "02/03/2026 11:30:00", note=None),
        str(_order("o13", "s1", "FR", 6, 1, "02/03/2026 11:50:00", note="late")),
        _order("o14", "s2", "DK", 1, 8, "05/02/2026 08:00:00"),
    ),
)

_SHOPS = """shop,region,area,fee,open
s1,north,hill,3,yes
s2,south,hill,5,no
s3,north,coast,7,yes
"""
_SHOPS_2 = """shop,region,area,fee,open
s1,south,coast,4,yes
s2,south,hill,6,yes
s3,north,hill,9,no
"""
_REGIONS = """{"region": "north", "manager": "Ada", "target": 10}
{"region": "south", "manager": "Bo", "target": 20}
"""
_TABLES = (
    ("shops.csv", _SHOPS),
    ("shops_2026.csv", _SHOPS_2),
    ("shops_semicolon.csv", _SHOPS.replace(",", ";")),
    ("regions.json", _REGIONS),
    ("regions_2026.json", _REGIONS.replace("Ada", "Cy").replace("10", "30")),
    (
        "fees.parquet",
        '{"shop": "s1", "kind": "a", "fee": 3}\n{"shop": "s1", "kind": "b", "fee": 8}\n'
        '{"shop": "s2", "kind": "a", "fee": 5}\n{"shop": "s3", "kind": "b", "fee": 1}\n',
    ),
)

ORDERS = Data(_BEFORE, _AFTER, form="text", tables=_TABLES)
"""Orders as JSON text: one is repeated, two have single quotes, two do not parse, s9 is missing in every table of
shops.
"""

CLEAN = Data(
    (
        _lines(
            _order("o1", "s1", "DE", 1, 4, "01/02/2026 10:05:00"), _order("o2", "s2", "AT", 2, 1, "01/02/2026 10:20:00")
        ),
        _lines(_order("o3", "s1", "FR", 3, 5, "02/03/2026 11:10:00")),
    ),
    (
        _lines(
            {**_order("o4", "s1", "LU", 4, 9, "03/02/2026 09:20:00"), "sent": "soon"},
            _order("o5", "s2", "AT", 7, 2, "01/02/2026 10:40:00"),
        ),
    ),
    form="text",
    tables=_TABLES,
)
"""Orders that all parse; of those added after the change, one holds a word in place of a time."""

SILENT = replace(ORDERS, after=(_lines(_order("o12", "s1", "DE", 3, 5, "02/03/2026 11:30:00", note=None)),))
"""The orders of ORDERS; those added after the change have no note."""

_COUNTRIES = '["DE", "AT", "CH", "FR", "IT", "ES", "PT", "NL", "BE", "LU", "PL", "DK"]'
_ORDERS_TOP = f'''
import sqlite3

DATABASE = "/srv/reports/orders.db"
COUNTRIES = {_COUNTRIES}

ORDER = """{ORDER_FIELDS}"""

OPTIONS = {{"timestampFormat": "dd/MM/yyyy HH:mm:ss"}}


def read_orders(raw):
    orders = raw.select(F.from_json("value", ORDER, OPTIONS).alias("o")).select("o.*")
    return orders.filter("order_id is not null")


def upsert(batch, context):
    with sqlite3.connect(DATABASE) as connection:
        for row in batch.collect():
            values = [str(each) for each in row]
            marks = ", ".join("?" * len(values))
            connection.execute(f"insert or replace into totals values ({{marks}})", values)
'''

TOTALS = Job(
    "totals",
    form="text",
    schema="value string",
    sink="ForeachBatch(upsert)",
    top=_ORDERS_TOP,
    lines="""
    shops = (
        spark.read.option("header", True)
        .schema("shop string, region string, area string, fee int, open string")
        .csv(params["other"] + "/shops.csv")
    )
    orders = (
        read_orders(s)
        .withColumn("market", F.when(F.col("country").isin(COUNTRIES), "europe").otherwise("abroad"))
        .select("shop", "market", "placed", "amount", F.col("qty").alias("qty"), F.col("gift").alias("gift"))
    )
    enriched = orders.join(F.broadcast(shops), "shop", "left").withColumn("hour", F.date_trunc("hour", "placed"))
    totals = (
        enriched.groupBy("region", "market")
        .agg(
            F.count("*").alias("orders"),
            F.sum("qty").alias("pieces"),
            F.sum(F.col("gift") * F.col("fee")).alias("fees"),
            F.sum(F.col("amount").cast("decimal(10,2)")).alias("amount"),
            F.max("hour").alias("last_hour"),
        )
        .withColumn("processed_at", F.current_timestamp())
    )
    """,
)
"""Orders as JSON, joined with a table of shops and summed per region and market; each row holds the time at which it
was written.
"""

PLAIN_TOTALS = edited(TOTALS, ('\n        .withColumn("processed_at", F.current_timestamp())\n', "\n"))
"""The job TOTALS without the time of writing."""

SEEN = Job(
    "fresh",
    mode="append",
    form="text",
    schema="value string",
    sink="ForeachBatch(upsert)",
    top=_ORDERS_TOP,
    lines="""
    orders = read_orders(s).withColumn("loaded_at", F.now())
    partners = F.when(F.col("country").isin(COUNTRIES), F.lit("own")).otherwise(F.lit("partner"))
    fresh = (
        orders.withColumn("side", partners)
        .withColumn("buyer", F.lower("channel"))
        .dropDuplicates(["shop", "side", "buyer"])
        .select("order_id", "shop", F.col("qty").alias("qty"), F.col("gift").alias("gift"), "loaded_at")
    )
    """,
)
"""The first order of each shop, side and channel."""

BASKETS = Job(
    "baskets",
    form="text",
    schema="value string",
    sink="ForeachBatch(upsert)",
    top=_ORDERS_TOP.replace(
        "age: int>",
        "age: int>,\nwas array<int>, now array<int>, tags map<string, int>,\n"
        "items array<struct<sku: string, qty: int, price: int>>",
    ),
    lines="""
    orders = read_orders(s)
    priced = orders.select(
        "shop",
        F.zip_with("was", "now", lambda old, new: old - new).alias("saved"),
        F.transform("now", lambda x, i: x + i).alias("ranked"),
        F.aggregate("items", F.lit(0), lambda acc, x: acc + x.qty * x.price, lambda acc: acc * 2).alias("worth"),
        F.filter("now", lambda x: x > 3).alias("many"),
        F.exists("now", lambda x: x > 6).alias("any_big"),
        F.map_filter("tags", lambda k, v: v > 2).alias("tags"),
        F.transform_values("tags", lambda k, v: v + F.length(k)).alias("weights"),
        F.array_sort("items", lambda a, b: a.qty - b.qty).getItem(0).sku.alias("least"),
        F.transform("was", lambda a: F.aggregate("now", F.lit(0), lambda b, c: b + a * 10 - c)).alias("crossed"),
    )
    baskets = priced.groupBy("shop", "least").agg(
        F.sum(F.expr("saved[0] + saved[1]")).alias("saved"),
        F.sum(F.expr("ranked[0] + ranked[2]")).alias("ranked"),
        F.sum("worth").alias("worth"),
        F.sum(F.size("many")).alias("many"),
        F.count_if("any_big").alias("big"),
        F.sum(F.size("tags")).alias("tagged"),
        F.sum(F.expr("weights['rush']")).alias("weight"),
        F.max(F.expr("crossed[0]")).alias("crossed"),
    )
    """,
)
"""Sums over the results of higher-order functions on arrays and maps."""


def _hit(minute: int, text: str) -> str:
    return f"2026-01-01 00:{minute:02d}:07|{text}"


HITS = Data(
    (
        File(
            (
                _hit(1, 'GET /ab/cart-12?u=ann#top|it\'s #12|{\'a\'}|{"a":{"b":1,"c":5}}'),
                _hit(3, 'GET /abc/cart-77?u=bob#end|it\'s #13|plain|{"a":{"b":2,"c":6}}'),
                _hit(8, 'PUT /abcd/home-12?u=ann#top|its #12|plain|{"a":{"b":3,"c":7}}'),
            )
        ),
        File((_hit(12, 'GET /ab/home-31?u=cy#end|it\'s #12|{\'a\'}|{"a":{"b":4,"c":8}}'),)),
    ),
    (
        File(
            (
                _hit(14, 'GET /abcd/cart-12?u=ann#top|it\'s #13|plain|{"a":{"b":5,"c":9}}'),
                _hit(16, 'GET /abc/cart-45?u=bob#top|it\'s #12|{\'a\'}|{"a":{"b":6,"c":1}}'),
                _hit(2, 'PUT /ab/home-12?u=cy#end|its #13|plain|{"a":{"b":7,"c":2}}'),
            )
        ),
    ),
    form="text",
)
"""Lines of a log: a time, a request, a remark, a word and a document, separated by bars."""

LOG = Job(
    "hits",
    form="text",
    schema="value string",
    top=r"""
SECTION = r"^[A-Z]+ /([a-z]{2,3})"
PAGE = r"/([a-z]+)-(\d{1,2})"


def read_hits(raw):
    parts = F.split("value", r"\|", 5)
    return raw.select(
        F.to_timestamp(parts[0], "yyyy-MM-dd HH:mm:ss").alias("at"),
        parts[1].alias("request"),
        parts[2].alias("remark"),
        parts[3].alias("word"),
        parts[4].alias("document"),
    )
""",
    lines=r"""
    hits = read_hits(s).select(
        "at",
        F.regexp_extract("request", SECTION, 1).alias("section"),
        F.regexp_extract("request", PAGE, 1).alias("page"),
        F.regexp_replace("request", r"^([A-Z]+) (/[a-z]+).*$", "$1-$2").alias("route"),
        F.date_format("at", "yyyy-MM-dd HH").alias("hour"),
        F.format_string("%s at %s", F.split("request", "[?#]", 2)[1], "word").alias("place"),
        F.get_json_object("document", "$.a.b").cast("int").alias("number"),
        F.when(F.col("remark") == "it's #12", 1).otherwise(0).alias("remarked"),
        F.when(F.col("word") == "{'a'}", 10).otherwise(1).alias("braced"),
    )
    hits = (
        hits.groupBy(F.window("at", "10 minutes", "5 minutes"), "section", "hour")
        .agg(
            F.sum("number").alias("numbers"),
            F.sum("remarked").alias("remarked"),
            F.sum("braced").alias("braced"),
            F.max("page").alias("page"),
            F.min("route").alias("route"),
            F.max("place").alias("place"),
        )
        .select("window.start", "section", "hour", "numbers", "remarked", "braced", "page", "route", "place")
        .withColumn("label", F.format_string("%s/%s", "section", "page"))
    )
    """,
)
"""Counts per sliding window and section, all parsed from the text of a line."""

_PAYMENT = "order_id string, units int, spare int, paid_at timestamp"


def _payment(name: str, units: int, spare: int, minute: int) -> dict[str, object]:
    return {"order_id": name, "units": units, "spare": spare, "paid_at": f"2026-02-01T10:{minute:02d}:00Z"}


def _bought(name: str, qty: int, gift: int, minute: int) -> dict[str, object]:
    return {"order_id": name, "qty": qty, "gift": gift, "note": f"n{qty}", "at": f"2026-02-01T10:{minute:02d}:00Z"}


PAIRS = Data(
    (_lines(_bought("o1", 1, 7, 1), _bought("o2", 2, 8, 2)), _lines(_bought("o3", 5, 9, 4))),
    (_lines(_bought("o4", 6, 3, 9)),),
    (_lines(_payment("o1", 1, 5, 3)), _lines(_payment("o9", 3, 6, 4))),
    (_lines(_payment("o2", 2, 4, 10), _payment("o3", 4, 4, 11), _payment("o4", 6, 1, 12)),),
    form="text",
)
"""o1 is paid before the change; o2 and o3 wait for their payments."""

PAID = Job(
    "paid",
    mode="append",
    form="text",
    schema="value string",
    two=True,
    sink="ForeachBatch(store)",
    top=f'''
BOUGHT = "order_id string, qty int, gift int, note string, at timestamp"
PAYMENT = "{_PAYMENT}"


def store(batch, context):
    batch.write.format("noop").mode("append").save()
''',
    lines="""
    bought = s.select(F.from_json("value", BOUGHT).alias("b")).select("b.*").withWatermark("at", "30 minutes")
    paid = (
        o.select(F.from_json("value", PAYMENT).alias("p"))
        .select("p.*")
        .withColumnRenamed("order_id", "paid_id")
        .withWatermark("paid_at", "30 minutes")
    )
    near = F.expr("order_id = paid_id and paid_at between at and at + interval 1 hour")
    paid = (
        bought.join(paid, near, "inner")
        .select("order_id", F.col("qty").alias("pieces"), F.col("units").alias("units"), "paid_at")
        .withColumn("joined_at", F.current_timestamp())
    )
    """,
)
"""Orders with their payments, which arrive within an hour."""

SQL_TOTALS = Job(
    "totals",
    form="text",
    schema="value string",
    top=_ORDERS_TOP,
    sink="ForeachBatch(upsert)",
    lines='''
    read_orders(s).createOrReplaceTempView("orders")
    spark.read.option("header", True).schema("shop string, region string, area string, fee int, open string").csv(
        params["other"] + "/shops.csv"
    ).createOrReplaceTempView("shops")
    totals = spark.sql("""
        with priced as (
            select o.shop, s.region, o.qty, o.gift, o.country, o.note, o.code, o.placed,
                   o.placed < current_timestamp() as past,
                   o.qty * (select max(fee) from shops where open = 'yes') as cost
            from orders o left join shops s on o.shop = s.shop
        )
        select region,
               sum(cost) as cost,
               sum(qty) filter (where gift > 3) as gifted,
               count_if(country in ('DE','AT','CH','FR','IT','ES','PT','NL','BE','LU','PL','DK')) as european,
               count_if(past) as past,
               sum(case when note like 'n%' then 1 else 0 end) as noted
        from priced
        group by region
    """)
    ''',
)
"""Totals of the same orders, in SQL over temporary views."""

RULES = Job(
    "best",
    form="text",
    schema="value string",
    top=_ORDERS_TOP,
    sink="ForeachBatch(upsert)",
    lines="""
    orders = read_orders(s)
    best = orders.groupBy("shop").agg(
        F.first("note").alias("first_note"),
        F.last("code", ignorenulls=True).alias("last_code"),
        F.max_by("code", "qty").alias("best"),
        F.min_by("code", "gift").alias("least"),
        F.collect_list("channel").alias("channels"),
        F.percentile_approx("gift", 0.5, 100).alias("median"),
        F.count_if(F.col("qty") > 3).alias("big"),
        F.approx_count_distinct("country", 0.05).alias("countries"),
        F.expr("sum(qty) filter (where country in ('DE', 'AT'))").alias("german"),
        F.corr("qty", "gift").alias("related"),
        F.any_value("country").alias("some"),
        F.max(F.struct("placed", "qty", "gift")).alias("newest"),
        F.max("customer").alias("customer"),
    )
    """,
)
"""One job with many kinds of aggregates."""

FEED = Data(
    (
        File(("s1;4;1.50;01.02.2026;a", "s2;2;2.50;02.02.2026;b", "s1;1;0.50;02.02.2026;c")),
        File(("s3;7;9.00;03.02.2026;a",)),
    ),
    (File(("s1;5;1.00;01.02.2026;d", "s2;9;-;03.02.2026;a", "s3;1;3.00;02.02.2026;b")),),
    form="text",
)
"""Lines with fields separated by semicolons."""

CSV_DAYS = Job(
    "days",
    form="text",
    schema="value string",
    sink="ForeachBatch(keep)",
    top="""
FIELDS = "shop string, pieces int, price decimal(10,2), day date, tag string"
OPTIONS = {"sep": ";", "dateFormat": "dd.MM.yyyy", "nullValue": "-"}


def keep(batch, context):
    batch.createOrReplaceTempView("days")
    batch.sparkSession.sql("select day, sum(pieces) from days group by day").collect()
""",
    lines="""
    feed = s.select(F.from_csv("value", FIELDS, OPTIONS).alias("f")).select("f.*")
    days = (
        feed.withColumn("cost", F.col("pieces") * F.coalesce("price", F.lit(1)))
        .groupBy("shop", F.date_format("day", "MM-dd").alias("day"))
        .agg(F.sum("pieces").alias("pieces"), F.sum("cost").alias("cost"))
    )
    """,
)
"""Sums per shop and day of lines that are parsed by from_csv."""
