"""Cases that change the sink: whether new output fits the output that exists already."""

from __future__ import annotations

from conformance.matrix.case import STATELESS, Case, Job, in_group

_FILES = 'FileSink(params["output"], format="{form}"{more})'
_TABLE = 'TableSink("sqlite:///" + params["output"] + "/out.db", table="{table}", key={key})'


def _files(columns: str = '"k", "x"', form: str = "parquet", more: str = "") -> Job:
    return Job(f"s.select({columns})", mode="append", sink=_FILES.format(form=form, more=more))


def _table(columns: str = '"y", "k", "x"', key: str = '["y"]', table: str = "totals") -> Job:
    return Job(f"s.select({columns})", mode="append", sink=_TABLE.format(key=key, table=table))


def _totals(aggregates: str = 'F.sum("x").alias("s")') -> Job:
    return Job(
        f's.groupBy("k").agg({aggregates}).filter("k is not null")', sink=_TABLE.format(key='["k"]', table="totals")
    )


def _keyed(at: str, value: str = "F.col('s')", mode: str = "update") -> Job:
    """Return a job that writes the totals of ten-minute windows to a table whose key is ``at`` and ``k``."""
    windows = 's.withWatermark("ts", "1 minute").groupBy(F.window("ts", "10 minutes").alias("w"), "k")'
    totals = f'{windows}.agg(F.sum("x").alias("s"))'
    columns = f'F.expr("{at}").alias("at"), "k", {value}.alias("s")'
    return Job(
        f'{totals}.filter("k is not null").select({columns})',
        mode=mode,
        sink=_TABLE.format(key='["at", "k"]', table="totals"),
    )


FILES = _files()
TABLE = _table()
TOTALS = _totals()
KEYED = _keyed("w.start")
SHOP = _keyed("concat(k, date_format(w.start, 'HHmm'))")


def _case(name: str, change: str, old: Job, new: Job, cause: str = "sink", **more: object) -> Case:
    return Case(name, change, old, new, cause, **{"providers": STATELESS, **more})  # type: ignore[arg-type]


FILE_CASES = (
    _case("sink_same_file", "control: file sink unchanged", FILES, FILES, "none"),
    _case("sink_noop_to_file", "foreachBatch -> file sink", Job('s.select("k", "x")', mode="append"), FILES),
    _case("sink_file_to_fb", "file sink -> foreachBatch", FILES, Job('s.select("k", "x")', mode="append")),
    _case("sink_dir_changed", "file sink directory changed", FILES, FILES, candidate_params={"output": "{output}/new"}),
    _case("sink_file_format", "json -> parquet in the same directory", _files(form="json"), FILES),
    _case("sink_partitionby_added", "partitionBy(k) added, same directory", FILES, _files(more=', partition_by=["k"]')),
    _case(
        "sink_partitionby_removed", "partitionBy(k) removed, same directory", _files(more=', partition_by=["k"]'), FILES
    ),
    _case(
        "sink_fb_to_file_update_mode",
        "foreachBatch -> file sink in update mode",
        Job('s.select("k", "x")', mode="update"),
        FILES.but(mode="update"),
        declined=True,
    ),
    _case("sink_file_column_added", "parquet: column added", FILES, _files('"k", "x", "y"')),
    _case("sink_file_column_removed", "parquet: column removed", _files('"k", "x", "y"'), FILES),
    _case("sink_file_column_renamed", "parquet: column renamed", FILES, _files('"k", F.col("x").alias("z")')),
    _case("sink_file_column_widened", "parquet: int -> long", FILES, _files('"k", F.col("x").cast("long").alias("x")')),
    _case(
        "sink_file_column_retyped", "parquet: int -> string", FILES, _files('"k", F.col("x").cast("string").alias("x")')
    ),
    _case("sink_file_columns_reordered", "parquet: columns in another order", FILES, _files('"x", "k"'), "none"),
    _case(
        "sink_file_json_column_added", "json: column added", _files(form="json"), _files('"k", "x", "y"', form="json")
    ),
    _case(
        "sink_file_csv_columns_reordered",
        "csv: columns in another order",
        _files('"k", "k2"', form="csv"),
        _files('"k2", "k"', form="csv"),
    ),
    _case(
        "sink_file_filter",
        "filter added, same columns",
        FILES,
        FILES.but(df='s.filter("x > 2").select("k", "x")'),
        "none",
    ),
    _case(
        "sink_metadata_deleted",
        "_spark_metadata deleted, checkpoint kept",
        FILES,
        FILES,
        "damage",
        damage="sink_log_gone",
    ),
    _case(
        "sink_ahead",
        "checkpoint one batch behind the file sink, and batches planned larger",
        FILES,
        FILES.but(limit=100),
        "damage",
        damage="rewind_one",
    ),
)

TABLE_CASES = (
    _case("sink_same_table", "control: table sink unchanged", TABLE, TABLE, "none"),
    _case("sink_table_column_added", "column added", _table('"y", "k"'), TABLE),
    _case("sink_table_column_removed", "column removed", TABLE, _table('"y", "k"')),
    _case("sink_table_column_renamed", "column renamed", TABLE, _table('"y", "k", F.col("x").alias("z")')),
    _case("sink_table_column_widened", "int -> long", TABLE, _table('"y", "k", F.col("x").cast("long").alias("x")')),
    _case(
        "sink_table_column_retyped", "int -> string", TABLE, _table('"y", "k", F.col("x").cast("string").alias("x")')
    ),
    _case("sink_table_columns_reordered", "columns in another order", TABLE, _table('"x", "k", "y"'), "none"),
    _case("sink_table_key_changed", "key y -> (y,k)", TABLE, _table(key='["y", "k"]')),
    _case("sink_table_renamed", "another table", TABLE, _table(table="others")),
    _case("sink_table_totals_same", "control: totals in a table", TOTALS, TOTALS, "none", providers=("v2",)),
    _case(
        "sink_table_totals_added",
        "one more aggregate",
        TOTALS,
        _totals('F.sum("x").alias("s"), F.count("*").alias("n")'),
        "aggregate",
        providers=("v2",),
    ),
    _case(
        "sink_table_totals_renamed", "alias s -> total", TOTALS, _totals('F.sum("x").alias("total")'), providers=("v2",)
    ),
    _case(
        "sink_table_totals_below",
        "x -> x*100 below the sum",
        TOTALS,
        TOTALS.but(df=TOTALS.df.replace("s.groupBy", 's.withColumn("x", F.col("x") * 100).groupBy', 1)),
        "below",
        providers=("v2",),
    ),
    _case(
        "sink_table_totals_complete",
        "update -> complete: the table is replaced whole",
        TOTALS,
        TOTALS.but(mode="complete"),
        "output-mode",
        providers=("v2",),
    ),
)

_ONE_STORE = ("v2",)
KEY_CASES = (
    _case("sink_table_key_window_end", "key w.start -> w.end", KEYED, _keyed("w.end"), providers=_ONE_STORE),
    _case(
        "sink_table_key_upper",
        "a text in the key in upper case",
        SHOP,
        _keyed("upper(concat(k, date_format(w.start, 'HHmm')))"),
        providers=_ONE_STORE,
    ),
    _case(
        "sink_table_key_format",
        "another date format in the key",
        SHOP,
        _keyed("concat(k, date_format(w.start, 'HH:mm'))"),
        providers=_ONE_STORE,
    ),
    _case(
        "sink_table_key_respelled",
        "the key written otherwise",
        SHOP,
        _keyed("k || DATE_FORMAT(w.start, 'HHmm')"),
        "none",
        providers=_ONE_STORE,
    ),
    _case(
        "sink_table_key_complete",
        "another key of a table that each batch replaces",
        KEYED.but(mode="complete"),
        _keyed("w.end", mode="complete"),
        "none",
        providers=_ONE_STORE,
    ),
    _case(
        "sink_table_value_above",
        "a value beside the key in another unit",
        KEYED,
        _keyed("w.start", "(F.col('s') * 100)"),
        "above",
        providers=_ONE_STORE,
    ),
)

CASES = in_group("sinks", *FILE_CASES, *TABLE_CASES, *KEY_CASES)
