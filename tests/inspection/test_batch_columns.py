"""Tests which columns of its batch a sink's function may use as a key or a route, and which ones it certainly reads."""

from __future__ import annotations

import functools
import importlib.util
import textwrap
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.inspection.batch_columns import BatchColumns, columns_of_function
from streamkeeper.inspection.own_code import OwnCode

COLUMNS = ("id", "shop", "amount", "key")
ANY = None

HEAD = """
import sqlite3

from pyspark.sql import Window
from pyspark.sql import functions as F

NAMES = ("id", "amount")
LIMIT = 3
PREFIX = "i"


def is_large(name):
    return F.col(name) > LIMIT


def measure(rows):
    rows.write.mode("append").format("noop").save()


def store(rows, table):
    rows.write.insertInto(table)


def keyed(rows):
    return rows.withColumn("route", F.concat("shop", F.lit("-x")))


"""
NAMED: dict[str, tuple[str, list[str] | None]] = {
    "files, whose readers may know rows by any column": ('batch.write.mode("append").parquet("/lake")', ANY),
    "files by a column": ('batch.write.partitionBy("shop").parquet("/lake")', ANY),
    "files by a format": ('batch.coalesce(1).write.format("json").option("compression", "gzip").save("/lake")', ANY),
    "files of chosen columns": ('batch.select("id").write.partitionBy("shop").json("/lake")', ["id", "shop"]),
    "no output": ('batch.coalesce(1).write.mode("append").format("noop").save()', []),
    "a format that may be a table's": ('batch.write.format("delta").save("/lake")', ANY),
    "a format that is the session's": ('batch.write.save("/lake")', ANY),
    "a table": ('batch.write.insertInto("orders")', ANY),
    "a database": ('batch.write.jdbc("jdbc:x", "orders")', ANY),
    "a view": ('batch.createOrReplaceTempView("updates")', ANY),
    "rows that are counted": ("rows = batch.collect()\nlen(rows)\nprint(batch.count())", []),
    "rows that go on whole": ("for row in batch.collect():\n    context.put(list(row))", ANY),
    "rows as texts": ("for row in batch.collect():\n    context.put(str(row))", ANY),
    "rows by their names": ('for row in batch.collect():\n    context.put(row["id"], row.amount)', ["id", "amount"]),
    "rows by position": ("for row in batch.toLocalIterator():\n    context.put(row[0])", ANY),
    "rows in a list": ('context.put([(row["id"], row.shop) for row in batch.collect()])', ["id", "shop"]),
    "rows in a dictionary": ('context.put({row["id"]: row for row in batch.collect()})', ANY),
    "columns that are chosen": ('batch.select("id", F.col("amount")).write.insertInto("orders")', ["id", "amount"]),
    "all columns that are chosen": ('batch.select("*", F.lit(1)).write.insertInto("orders")', ANY),
    "columns by a list": ("batch.select(*NAMES).write.insertInto('orders')", ["id", "amount"]),
    "columns by their names in a list": ("batch.select([F.col(name) for name in NAMES]).toPandas()", ["id", "amount"]),
    "columns by all names": ("batch.select([F.col(name) for name in batch.columns]).toPandas()", ANY),
    "columns by a name that is made": ('batch.filter(F.col(PREFIX + "d") > 1).write.parquet("/lake")', ANY),
    "columns by a text that is made": ('batch.filter(f"{PREFIX}d > 1").write.parquet("/lake")', ANY),
    "columns by what another object says": ("batch.filter(context.condition).write.parquet('/lake')", ANY),
    "a filter": ('batch.filter("amount > 0").write.format("noop").save()', ["amount"]),
    "a filter of a helper": ('batch.filter(is_large("amount")).write.format("noop").save()', ["amount"]),
    "a filter by an index": ('batch[batch["amount"] > LIMIT].write.format("noop").save()', ["amount"]),
    "a filter by a window": (
        'batch.filter(F.row_number().over(Window.partitionBy("shop").orderBy("amount")) > 1)'
        '.write.format("noop").save()',
        ["shop", "amount"],
    ),
    "a helper": ("measure(batch)", []),
    "a helper that writes a table": ('store(batch, "orders")', ANY),
    "a helper that chooses": ('store(keyed(batch).select("route"), "orders")', ["shop"]),
    "a helper with all columns": ('store(keyed(batch), "orders")', ANY),
    "a function inside": ('def put(rows):\n    rows.write.insertInto("t")\nput(batch.select("id"))', ["id"]),
    "a function inside, of the whole": ('def put():\n    batch.write.insertInto("t")\nput()', ANY),
    "a function inside that is handed on": ('context.run(lambda: batch.write.insertInto("t"))', ANY),
    "a library": ("context.put(batch)", ANY),
    "an object": ("context.last = batch", ANY),
    "a container": ("context.put([batch])", ANY),
    "every partition": ("batch.foreachPartition(print)", ANY),
    "parts of the batch": (
        'for part in (batch.filter("amount > 0"), batch.filter("amount <= 0")):\n    part.write.format("noop").save()',
        ["amount"],
    ),
    "parts of the batch in a table": (
        'for part in (batch.filter("amount > 0"), batch.filter("amount <= 0")):\n    store(part, "t")',
        ANY,
    ),
    "a message": ('batch.write.format("kafka").option("topic", "t").save()', ["key"]),
    "a message whose payload is the row": (
        'batch.select("id", F.to_json(F.struct("*")).alias("value")).write.format("kafka").save()',
        ["id"],
    ),
    "a message whose payload is the row, in SQL": (
        'batch.selectExpr("id AS k", "to_json(struct(*)) AS value").write.format("kafka").save()',
        ["id"],
    ),
    "a message whose key is of the row": (
        'batch.select(F.sha2(F.to_json(F.struct("*")), 256).alias("key")).write.format("kafka").save()',
        ANY,
    ),
    "a key of the row in SQL": ('batch.selectExpr("md5(to_json(struct(*))) AS digest").toPandas()', ANY),
    "a product in SQL": ('batch.selectExpr("id * amount AS x").toPandas()', ["id", "amount"]),
    "counts": ('batch.groupBy("shop").count().toPandas()', ["shop"]),
    "sums": ('batch.groupBy("shop").agg(F.sum("amount"), F.count("*")).toPandas()', ["shop", "amount"]),
    "a row that is missing": ("rows = None\nif context.x:\n    rows = batch\nrows.write.insertInto('t')", ANY),
    "a variable of a try": (
        "rows = batch\ntry:\n    rows = rows.select('id')\nexcept ValueError:\n    pass\nrows.write.insertInto('t')",
        ANY,
    ),
    "a variable of a loop": (
        "rows = batch.select('id')\nfor each in 'ab':\n    rows.toPandas()\n    rows = batch",
        ANY,
    ),
    "a variable of a turn that ends": (
        "rows = batch.select('id')\nfor each in 'ab':\n    if context.x:\n        rows = batch\n        break\n"
        "    rows = batch.select('shop')\nrows.toPandas()",
        ANY,
    ),
    "a loop that is not followed": ("while context.x:\n    batch.write.parquet('/lake')", ANY),
    "an attribute by its name": ('context.put(batch.select(getattr(batch, "shop")).collect())', ["shop"]),
    "a schema": ("context.put(batch.schema)", ANY),
    "a join": ('batch.join(context.table("t"), "id").select("amount").toPandas()', ["id", "amount"]),
    "a join of everything": ('batch.join(context.table("t"), "id").toPandas()', ANY),
    "columns without a name": ('batch.toDF("a", "b").toPandas()', ANY),
    "columns that are dropped": ('batch.drop("amount").toPandas()', ANY),
    "a merge": (
        'context.table.alias("t").merge(batch.alias("u"), "t.id = u.id").whenMatchedUpdateAll().execute()',
        ANY,
    ),
}
READS: dict[str, tuple[str, list[str]]] = {
    "a name in brackets": ('batch.filter(batch["gone"] > 1).toPandas()', ["gone"]),
    "an attribute": ("batch.filter(batch.gone > 1).toPandas()", ["gone"]),
    "a method's name": ("batch.count()\nbatch.columns\nbatch.rdd\nbatch.dtypes", []),
    "a column of an expression": ('batch.withColumn("n", F.upper(F.col("gone"))).toPandas()', ["gone"]),
    "a function's column": ('batch.withColumn("n", F.to_date("gone")).toPandas()', ["gone"]),
    "a literal": ('batch.withColumn("n", F.lit("gone")).filter(F.col("shop") == "x").toPandas()', ["shop"]),
    "a selected name": ('batch.select("gone", "shop").toPandas()', ["gone", "shop"]),
    "a name behind a select": ('batch.select(F.lit(1).alias("n")).select("n").toPandas()', []),
    "a column that was made": ('batch.withColumn("gone", F.lit(1)).select("gone").toPandas()', []),
    "a column that was made in other letters": ('batch.withColumn("Gone", F.lit(1)).select("gone").toPandas()', []),
    "a column that makes itself": ('batch.withColumn("gone", F.col("gone") + 1).toPandas()', ["gone"]),
    "a column that was renamed": ('batch.withColumnRenamed("shop", "gone").select("gone").toPandas()', []),
    "columns that were made": ('batch.withColumns({"gone": F.lit(1)}).select("gone").toPandas()', []),
    "a column that is dropped": ('batch.drop("gone", F.col("other")).toPandas()', []),
    "names of tables and paths": ('batch.write.mode("append").parquet("gone")', []),
    "a statement": ('batch.filter("gone > 1").selectExpr("gone AS x").toPandas()', []),
    "a partition": ('batch.write.partitionBy("gone").parquet("/x")', ["gone"]),
    "keys of a group": ('batch.groupBy("gone").agg(F.sum("other")).toPandas()', ["gone", "other"]),
    "a deduplication": ('batch.dropDuplicates(["gone"]).toPandas()', ["gone"]),
    "a sort": ('batch.orderBy(F.desc("gone")).toPandas()', ["gone"]),
    "rows": ('for row in batch.collect():\n    print(row["gone"], row.other)', ["gone", "other"]),
    "a method of a row": ('for row in batch.collect():\n    print(row.asDict(), row.count("x"))', []),
    "rows in a list": ('print([row["gone"] for row in batch.collect()])', ["gone"]),
    "rows that are chosen": ('for row in batch.filter("shop = 1").collect():\n    print(row["gone"])', []),
    "rows in a condition": ('print([row["gone"] for row in batch.collect() if row["x"]])', []),
    "a connection": (
        'with sqlite3.connect("/x") as base:\n    for row in batch.collect():\n        base.execute(row["gone"])',
        ["gone"],
    ),
    "an error that is kept": ('with context.suppress():\n    batch.select("gone").toPandas()', []),
    "a helper": ('keyed(batch.withColumn("n", batch.gone)).toPandas()', ["gone"]),
    "a helper's own": ("def put(rows):\n    rows.select('gone').toPandas()\nput(batch)", ["gone"]),
    "a helper that is not called": ("def put(rows):\n    rows.select('gone').toPandas()", []),
    "only sometimes": ('if context.x:\n    batch.select("gone").toPandas()', []),
    "after a guard": ('if batch.isEmpty():\n    return\nbatch.select("gone").toPandas()', ["gone"]),
    "in a guard": ('if not batch.isEmpty():\n    batch.select("gone").toPandas()', ["gone"]),
    "beside a guard": ('if batch.isEmpty():\n    batch.select("gone").toPandas()', []),
    "after another way out": ('if context.x:\n    return\nbatch.select("gone").toPandas()', []),
    "after a guard of some rows": (
        'some = batch.filter("shop = 1")\nif some.isEmpty():\n    return\nbatch.select("gone").toPandas()',
        [],
    ),
    "behind the end": ('return\nbatch.select("gone").toPandas()', []),
    "tried": ('try:\n    batch.select("gone").toPandas()\nexcept Exception:\n    pass', []),
    "tried, and left to fail": ('try:\n    batch.select("gone").toPandas()\nfinally:\n    print()', ["gone"]),
    "after a join": ('batch.join(context.table("t"), "id").select("gone").toPandas()', []),
    "after another name": ('batch.alias("u").select("u.gone", "gone").toPandas()', []),
    "a field of a struct": ('batch.select("gone.x", F.col("other.y")).toPandas()', []),
    "in a loop": ('for each in ("a", "b"):\n    batch.filter(F.col("gone") == each).toPandas()', ["gone"]),
    "in a loop over nothing": ('for each in context.x:\n    batch.select("gone").toPandas()', []),
    "on one side": ('(batch.select("gone") if context.x else batch).toPandas()', []),
    "of another frame": ('context.table("t").select("gone").toPandas()', []),
}


def module(folder: Path, body: str, after: str = "") -> Any:
    """Return the module of a job whose function ``write`` has this body."""
    path = folder / "job.py"
    path.write_text(f"{HEAD}def write(batch, context):\n{textwrap.indent(body, '    ')}\n\n\n{after}\n")
    spec = importlib.util.spec_from_file_location("job", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def found(folder: Path, body: str, after: str = "", name: str = "write") -> BatchColumns:
    return columns_of_function(getattr(module(folder, body, after), name), OwnCode(folder))


@pytest.mark.parametrize("case", NAMED)
def test_a_sink_function_uses_its_named_columns_or_possibly_any_column(case: str, tmp_path: Path) -> None:
    """A sink function uses exactly the columns that it names, or possibly any column once whole rows reach code that
    cannot be followed.
    """
    body, columns = NAMED[case]
    assert found(tmp_path, body).used(COLUMNS) == columns


@pytest.mark.parametrize("case", READS)
def test_a_column_is_certainly_read_only_if_every_nonempty_batch_reads_it(case: str, tmp_path: Path) -> None:
    """A column counts as certainly read only if every batch with rows reads it; columns that the function creates,
    methods, tables and conditional reads do not count.
    """
    body, columns = READS[case]
    wanted = [name for name in columns if name not in ("shop",)]
    assert [name for name in found(tmp_path, body).reads if name not in ("shop", "id")] == wanted


SHAPES = """
import functools


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


class Writer:
    column = "amount"

    def __init__(self, by):
        self.by = by

    def __call__(self, batch, context):
        self.put(batch.select(self.by, self.column, "gone"))

    def put(self, rows):
        rows.write.insertInto("orders")


def made(place):
    def inner(batch, context):
        batch.select("gone", "id").write.insertInto(place)
    return inner


def with_place(place, batch, context):
    batch.select("gone", "id").write.insertInto(place)


traced_write = traced(write)
an_object = Writer("id")
a_method = an_object.__call__
a_closure = made("orders")
a_lambda = lambda batch, context: write(batch, context)
a_partial = functools.partial(with_place, "orders")
"""


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("traced_write", ["id"]),
        ("an_object", ["id", "amount"]),
        ("a_method", ["id", "amount"]),
        ("a_closure", ["id"]),
        ("a_lambda", ["id"]),
        ("a_partial", ["id"]),
    ],
)
def test_columns_are_found_in_every_form_of_sink_function(name: str, columns: list[str], tmp_path: Path) -> None:
    """Columns are found in wrappers, callable objects, methods, closures, lambdas and partial functions."""
    body = 'batch.select("id", "gone").write.insertInto("orders")'
    answer = found(tmp_path, body, SHAPES, name)
    assert answer.used(COLUMNS) == columns
    assert list(answer.reads)[-1:] == ["gone"] or "gone" in answer.reads
    assert answer.reads["gone"].startswith(f"{tmp_path}/job.py:")


def test_a_function_without_its_source_may_use_any_column(tmp_path: Path) -> None:
    """A function whose source differs from the loaded code, or which belongs to a library, may use any column."""
    loaded = module(tmp_path, 'print("/lake")')
    assert columns_of_function(loaded.write, OwnCode(tmp_path)).used(COLUMNS) == []
    (tmp_path / "job.py").write_text((tmp_path / "job.py").read_text().replace('"/lake"', '"/other"'))
    for function in (loaded.write, functools.partial(print), len):
        assert columns_of_function(function, OwnCode(tmp_path)) == BatchColumns()


def test_a_column_name_matches_whole_words_regardless_of_case(tmp_path: Path) -> None:
    """A column name is matched as a whole word regardless of case: ``id`` matches ``u.ID`` and not ``paid``."""
    answer = found(tmp_path, 'batch.filter("u.ID > 1 and paid and `two words`").write.format("noop").save()')
    assert answer.used(["id", "ai", "paid", "two words", "words also"]) == ["id", "paid", "two words"]
