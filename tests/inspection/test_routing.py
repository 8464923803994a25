"""Tests which parts of a sink's function decide where its rows go, and which provably do not."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

import pytest

from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.functions import find_sink_functions
from streamkeeper.sinks.foreach import ForeachBatch

BEFORE = """
import logging
from enum import Enum
from types import SimpleNamespace

from pyspark.sql import functions as F

LOG = logging.getLogger(__name__)
TABLES = {"eu": "orders_eu", "us": "orders_us"}
PLACES = ("/lake/a", "/lake/b")
VERSION = 3
SETTINGS = SimpleNamespace(live="orders", test="orders_test")
RETRIES = [1, 2]


class Target(Enum):
    EU = "eu.orders"
    US = "us.orders"


def table(name):
    return f"{name}_daily"


def late(batch):
    batch.write.insertInto("late")


def append(rows, place):
    rows.write.mode("append").save(place)


def write(batch, context):
    latest = batch.filter("amount > 0").withColumn("day", F.to_date("sent"))
    latest.write.insertInto(TABLES["eu"])
    batch.sparkSession.sql(f"MERGE INTO {table('orders')} t USING updates u ON t.id = u.id WHEN MATCHED THEN DELETE")
    append(latest, PLACES[0])
    append(batch, f"/lake/v{VERSION}")
    late(batch)
    latest.write.saveAsTable(Target.EU.value)
    latest.write.option("batchsize", 1000).jdbc(SETTINGS.live, "orders")
    LOG.info("wrote %s", context)
"""
SMALL = """
import logging

from pyspark.sql import functions as F

LOG = logging.getLogger(__name__)
LEAST = 3


def write(batch, context):
    latest = batch.filter(F.col("amount") > LEAST).withColumn("day", F.to_date("sent"))
    latest.coalesce(4).write.mode("append").option("batchsize", 1000).save("/lake/orders")
    LOG.info("wrote %s", context)
"""
COMPUTED = """
from pyspark.sql import functions as F

PREFIX = "eu"


def write(batch, context):
    kept = batch.filter("amount > 0").dropDuplicates(["id"])
    kept = kept.withColumn("id", F.concat_ws("-", F.lit(PREFIX), "shop", "number"))
    kept = kept.withColumn("topic", F.when(F.col("amount") > 100, "large").otherwise("small"))
    kept = kept.selectExpr("id", "shop AS key", "topic", "amount").withColumnRenamed("amount", "value").drop("number")
    kept.repartition(4).write.format("kafka").save()
"""
KEYS = {
    "the parts of an id": ('"shop", "number"', '"region", "number"'),
    "the separator of an id": ('concat_ws("-"', 'concat_ws(":"'),
    "a global in an id": ('PREFIX = "eu"', 'PREFIX = "us"'),
    "the threshold of a route": ("> 100", "> 500"),
    "the names of two routes": ('"large").otherwise("small")', '"small").otherwise("large")'),
    "the key of a select": ("shop AS key", "region AS key"),
    "a column that is renamed": ('withColumnRenamed("amount", "value")', 'withColumnRenamed("topic", "value")'),
    "a column that is dropped": ('drop("number")', 'drop("topic")'),
    "one more column": ('.drop("number")', '.drop("number").withColumn("n", F.lit(1))'),
    "the columns of a deduplication": ('["id"]', '["shop"]'),
    "all names at once": ('.drop("number")', '.drop("number").toDF("id", "topic", "key", "value")'),
    "nulls in a key": ('.drop("number")', '.drop("number").fillna("none", ["key"])'),
    "which of two rows is kept": ('.dropDuplicates(["id"])', '.sort("sent").dropDuplicates(["id"])'),
}
NO_KEYS = {
    "another filter": ("amount > 0", "amount > 1"),
    "tuning": ("repartition(4)", "coalesce(1)"),
    "names of variables": ("kept", "rows"),
    "a print": ("    kept = batch", "    print(context)\n    kept = batch"),
    "a guard against empty batches": ("    kept = batch", "    if batch.isEmpty():\n        return\n    kept = batch"),
    "a batch that is kept in memory": ("    kept = batch.filter", "    kept = batch.persist().filter"),
}
INLINE = """
from pyspark.sql import functions as F


def write(batch, context):
    batch.withColumn("id", F.md5("shop")).write.insertInto("orders")
"""
IN_HELPER = """
from pyspark.sql import functions as F


def keyed(rows):
    return rows.withColumn("id", F.md5("shop"))


def write(batch, context):
    keyed(batch).write.insertInto("orders")
"""
TWO = """
def write(batch, context):
    good = batch.filter("amount > 0")
    bad = batch.filter("amount <= 0")
    good.withColumn("x", batch.y).write.save("/lake/good")
    bad.write.save("/lake/bad")
"""
ELSEWHERE = {
    "another entry": ('TABLES["eu"]', 'TABLES["us"]'),
    "another position": ("PLACES[0]", "PLACES[1]"),
    "places that change places": ('"/lake/a", "/lake/b"', '"/lake/b", "/lake/a"'),
    "a number in a name": ("VERSION = 3", "VERSION = 4"),
    "another member": ("Target.EU", "Target.US"),
    "another attribute": ("SETTINGS.live", "SETTINGS.test"),
    "a helper's name": ("{name}_daily", "{name}_hourly"),
    "the end of a statement": ("THEN DELETE", "THEN UPDATE SET *"),
    "the condition of a merge": ("t.id = u.id", "t.id = u.old_id"),
    "arguments that change places": ('jdbc(SETTINGS.live, "orders")', 'jdbc("orders", SETTINGS.live)'),
    "other rows to a place": ("append(latest, PLACES[0])", "append(batch, PLACES[0])"),
    "a helper no more called": ("    late(batch)\n", "    pass\n"),
    "a call only sometimes": ("    late(batch)\n", "    if context:\n        late(batch)\n"),
    "a log line that does more": ('LOG.info("wrote %s", context)', 'LOG.info("wrote %s", late(batch))'),
    "a log line that writes": ('LOG.info("wrote %s", context)', 'LOG.info("wrote %s", batch.write.save("x"))'),
    "a filter that does more": ('filter("amount > 0")', 'filter(late(batch) or "amount > 0")'),
    "an own method of a known name": ("latest.write.saveAsTable", "SETTINGS.filter(1).write.saveAsTable"),
    "which rows go where": ("amount > 0", "amount > 9"),
}
THE_SAME = {
    "a log line": ('LOG.info("wrote %s", context)', 'LOG.warning("%s rows", batch.count())'),
    "no log line": ('    LOG.info("wrote %s", context)\n', ""),
    "a print": ("    LOG.info", '    print(f"{context}")\n    LOG.info'),
    "a comment and a docstring": ("    latest = ", '    """Keep orders."""\n    # the newest\n    latest = '),
    "names of variables": ("latest", "newest"),
    "another way to say it": (
        'latest.coalesce(4).write.mode("append")',
        'writer = latest.write\n    writer.mode("append")',
    ),
    "another filter": ("> LEAST", ">= 7 * LEAST"),
    "a number in a filter": ("LEAST = 3", "LEAST = 4"),
    "a sort": (".coalesce(4)", '.orderBy("sent").coalesce(4)'),
    "another coalesce": ("coalesce(4)", "coalesce(8)"),
    "no coalesce": (".coalesce(4)", ""),
    "a batch that is counted": ("    latest.coalesce", "    batch.count()\n    latest.coalesce"),
    "kept in memory": ("    latest.coalesce", "    latest.persist()\n    latest.coalesce"),
    "a batch size": ('("batchsize", 1000)', '("batchSize", 5000)'),
}

_FIRST = "    latest = "
GUARDS = {
    "at once": ("    if batch.isEmpty():\n        return\n" + _FIRST),
    "with a log line": ('    if batch.isEmpty():\n        LOG.info("nothing")\n        return\n' + _FIRST),
    "after a log line": ('    LOG.info("begin")\n    if batch.isEmpty():\n        return None\n' + _FIRST),
}
GUARDS_THAT_CHOOSE = {
    "the other way round": "    if not batch.isEmpty():\n        return\n" + _FIRST,
    "or something else": "    if context.batch_id > 7 or batch.isEmpty():\n        return\n" + _FIRST,
    "and something else": "    if batch.isEmpty() or context.batch_id > 7:\n        return\n" + _FIRST,
    "only sometimes": "    if batch.isEmpty() and context.batch_id > 7:\n        return\n" + _FIRST,
    "of other rows": "    if context.isEmpty():\n        return\n" + _FIRST,
    "of chosen rows": '    some = batch.filter("x > 7")\n    if some.isEmpty():\n        return\n' + _FIRST,
    "of rows that take its name": '    batch = batch.filter("x")\n    if batch.isEmpty():\n        return\n' + _FIRST,
    "that writes": '    if batch.isEmpty():\n        context.save("/lake/empty")\n        return\n' + _FIRST,
    "that raises": "    if batch.isEmpty():\n        raise ValueError\n" + _FIRST,
    "that says so": "    if batch.isEmpty():\n        return 7\n" + _FIRST,
    "by their number": "    if batch.count() > 7:\n        return\n" + _FIRST,
    "that never leaves": "    if batch.isEmpty():\n        context.save('/lake')\n" + _FIRST,
    "by its columns": "    if batch.columns:\n        return\n" + _FIRST,
}


def digests(tmp_path: Path, source: str) -> tuple[str, str]:
    """Return the digest of the whole function and the digest of its routing."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "job.py"
    path.write_text(textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location("job", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = find_sink_functions(ForeachBatch(module.write), CodeDigest(tmp_path))
    return found.digests["sink/function"], found.routing["sink/function"]


@pytest.mark.parametrize("change", ELSEWHERE)
def test_a_change_that_may_move_rows_changes_the_routing_digest(change: str, tmp_path: Path) -> None:
    """A change of names, numbers, order or conditions that is not known to be harmless changes the routing digest."""
    old, new = ELSEWHERE[change]
    assert old in BEFORE
    before, after = digests(tmp_path / "a", BEFORE), digests(tmp_path / "b", BEFORE.replace(old, new))
    assert before[0] != after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize("change", THE_SAME)
def test_a_change_that_moves_no_row_keeps_the_routing_digest(change: str, tmp_path: Path) -> None:
    """Logging, variable names, tuning and transformations of the rows before they are written do not change the routing
    digest.
    """
    old, new = THE_SAME[change]
    assert old in SMALL
    before, after = digests(tmp_path / "a", SMALL), digests(tmp_path / "b", SMALL.replace(old, new))
    assert before[1] == after[1]
    assert change == "a comment and a docstring" or before[0] != after[0]


@pytest.mark.parametrize("change", KEYS)
def test_a_changed_computed_column_changes_the_routing_digest(change: str, tmp_path: Path) -> None:
    """A changed computed column changes the routing digest, because the output may use it as a key or a route."""
    old, new = KEYS[change]
    assert old in COMPUTED
    assert digests(tmp_path / "a", COMPUTED)[1] != digests(tmp_path / "b", COMPUTED.replace(old, new))[1]


@pytest.mark.parametrize("change", NO_KEYS)
def test_harmless_changes_next_to_a_computed_key_keep_the_routing_digest(change: str, tmp_path: Path) -> None:
    """In a function that computes keys, changed filters, tuning, variable names and prints still do not change the
    routing digest.
    """
    old, new = NO_KEYS[change]
    assert old in COMPUTED
    assert digests(tmp_path / "a", COMPUTED)[1] == digests(tmp_path / "b", COMPUTED.replace(old, new))[1]


@pytest.mark.parametrize("source", [INLINE, IN_HELPER])
def test_a_changed_key_computation_changes_the_digest_in_functions_and_helpers(source: str, tmp_path: Path) -> None:
    """A changed key computation changes the routing digest both in the sink's function itself and in a helper."""
    assert digests(tmp_path / "a", source)[1] != digests(tmp_path / "b", source.replace("md5", "upper"))[1]


def test_routing_digests_of_older_versions_never_equal_present_ones() -> None:
    """Routing digests start with ``2:``, so an older record that left columns out never equals a present one."""
    assert CodeDigest(None).routing(digests).startswith("2:")


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_against_empty_batches_is_left_out(guard: str, tmp_path: Path) -> None:
    """A guard that returns early for an empty batch does not change the routing digest."""
    before, after = (
        digests(tmp_path / "a", SMALL),
        digests(tmp_path / "b", SMALL.replace(_FIRST, GUARDS[guard])),
    )
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_writing_only_nonempty_batches_keeps_the_routing_digest(tmp_path: Path) -> None:
    """Writing only non-empty batches leaves the routing digest unchanged, unless the condition is different or a
    statement stands beside it.
    """
    plain = "def write(batch, context):\n    batch.write.save('/lake')\n    batch.write.save('/copy')\n"
    head, *lines = plain.splitlines()
    within = "\n".join([head, "    if not batch.isEmpty():", *(f"    {each}" for each in lines)])
    beside = f"{within}\n    context.save('/beside')\n"
    both = "\n".join([head, "    if context and not batch.isEmpty():", *(f"    {each}" for each in lines)])
    other = "\n".join([head, "    if batch.isEmpty():", *(f"    {each}" for each in lines)])
    folders = iter("abcdef")
    known = digests(tmp_path / next(folders), plain)[1]
    assert digests(tmp_path / next(folders), within)[1] == known
    for each in (beside, both, other):
        assert digests(tmp_path / next(folders), each)[1] != known


@pytest.mark.parametrize("guard", GUARDS_THAT_CHOOSE)
def test_a_guard_that_may_skip_rows_changes_the_routing_digest(guard: str, tmp_path: Path) -> None:
    """A guard that may skip rows, checks something else or has a side effect changes the routing digest."""
    before, after = (
        digests(tmp_path / "a", SMALL),
        digests(tmp_path / "b", SMALL.replace(_FIRST, GUARDS_THAT_CHOOSE[guard])),
    )
    assert before[1] != after[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('good = batch.filter("amount > 0")', 'good = batch.filter("amount > 5")'),
        ("good.withColumn", "bad.withColumn"),
        ('"/lake/good"', '"/lake/bad"'),
    ],
)
def test_filters_of_a_batch_written_to_two_places_change_the_routing_digest(old: str, new: str, tmp_path: Path) -> None:
    """If a batch is written to two places, its filters are part of the routing digest."""
    assert digests(tmp_path / "a", TWO)[1] != digests(tmp_path / "b", TWO.replace(old, new))[1]


def test_a_filter_in_a_writing_loop_is_in_the_routing_digest(tmp_path: Path) -> None:
    """A filter in a loop that writes is part of the routing digest, because one line may write to many places."""
    loop = """
    def write(batch, context):
        for each in ("eu", "us"):
            batch.filter(batch.region == each).write.save("/lake/" + each)
    """
    assert digests(tmp_path / "a", loop)[1] != digests(tmp_path / "b", loop.replace("==", "!="))[1]


def test_a_filter_of_collected_rows_is_not_in_the_routing_digest(tmp_path: Path) -> None:
    """A filter whose rows are collected and looped over is not part of the routing digest, and neither is a file that
    the function does not read.
    """
    loop = """
    import sqlite3

    def write(batch, context):
        with sqlite3.connect("/srv/orders.db") as database:
            for each in batch.filter("amount > 0").collect():
                database.execute("insert into orders values (?, ?)", list(each))
    """
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").write_text("nothing")
    assert digests(tmp_path / "a", loop)[1] == digests(tmp_path / "b", loop.replace("> 0", "> 1"))[1]


def test_an_equivalent_schema_changes_neither_function_nor_routing_digest(tmp_path: Path) -> None:
    """A schema that a module builds differently on import changes neither the function's digest nor its routing
    digest.
    """
    words = """
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    ORDER = StructType([StructField("a", StringType()), StructField("b", LongType())])


    def write(batch, context):
        batch.write.save("/lake")
    """
    built = words.replace(
        '([StructField("a", StringType()), StructField("b", LongType())])',
        '()\n    for each in ("a",):\n        ORDER = ORDER.add(StructField(each, StringType()))\n'
        '    ORDER = ORDER.add("b", LongType()).add("c", StructType().add("d", LongType()))',
    )
    assert digests(tmp_path / "a", words) == digests(tmp_path / "b", built)


def test_a_data_file_read_by_the_sink_function_affects_the_routing_digest(tmp_path: Path) -> None:
    """A data file that the sink's function reads is part of its routing digest, because it may name a table."""
    source = """
    import json
    from pathlib import Path


    def write(batch, context):
        batch.write.insertInto(json.loads((Path(__file__).parent / "tables.json").read_text())["orders"])
    """
    for folder, text in (("a", '{"orders": "one"}'), ("b", '{"orders": "two"}')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tables.json").write_text(text)
    assert digests(tmp_path / "a", source)[1] != digests(tmp_path / "b", source)[1]
