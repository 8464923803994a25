"""Small changes of realistic jobs: changes that an inspection of the plan can overlook, and harmless ones that it can
overrate.
"""

from __future__ import annotations

from conformance.matrix.case import Case, Job, Outcome, in_group
from conformance.matrix.realistic_jobs import (
    BASKETS,
    HITS,
    LOG,
    ORDERS,
    PAID,
    PAIRS,
    PLAIN_TOTALS,
    SEEN,
    SQL_TOTALS,
    TOTALS,
    Edit,
    varied,
)


def _totals(name: str, change: str, *edits: Edit, base: Job = PLAIN_TOTALS, **more: object) -> Case:
    return varied(base, ORDERS, name, change, *edits, **more)  # type: ignore[arg-type]


_SWAPPED = (
    'F.col("qty").alias("qty"), F.col("gift").alias("gift")',
    'F.col("gift").alias("qty"), F.col("qty").alias("gift")',
)
_LATE_ORDERS = (
    '.select("shop", "market"',
    '.filter(F.col("placed") < F.localtimestamp())\n        .select("shop", "market"',
)
_DAYS = (
    (
        '.withColumn("hour", F.date_trunc("hour", "placed"))',
        '.withColumn("hour", F.date_trunc("hour", "placed")).withColumn(\n'
        '        "due", F.when(F.to_date("placed") < F.current_date(), F.col("gift") * F.col("fee"))\n    )',
    ),
    ('F.sum(F.col("gift") * F.col("fee"))', 'F.sum("due")'),
)

NOW = (
    _totals("now_same", "control: unchanged", base=TOTALS, cause="none"),
    _totals("now_swapped", "two columns swapped in a select below, the clock in the output", _SWAPPED, base=TOTALS),
    _totals(
        "now_input",
        "sum(gift*fee) -> sum(qty*fee), the clock in the output",
        ('F.col("gift") *', 'F.col("qty") *'),
        base=TOTALS,
    ),
    _totals("now_renamed", "processed_at -> written_at", ("processed_at", "written_at"), base=TOTALS, cause="none"),
    _totals(
        "now_unused",
        "one more column below, not used",
        ('"amount", F.col("qty")', '"amount", "note", F.col("qty")'),
        base=TOTALS,
        cause="none",
    ),
    _totals(
        "now_filter_moved",
        "a filter of the groups, above -> below",
        ('.filter("region is not null")\n', "\n"),
        ('"shop", "left")', '"shop", "left").filter("region is not null")'),
        base=TOTALS,
        first=(
            (
                '        .withColumn("processed_at"',
                '        .filter("region is not null")\n        .withColumn("processed_at"',
            ),
        ),
        cause="none",
    ),
    _totals(
        "now_date_input",
        "another input beside one that looks at current_date",
        ('F.sum("qty").alias("pieces")', 'F.sum("gift").alias("pieces")'),
        first=_DAYS,
    ),
    _totals(
        "now_date_operand",
        "gift -> qty where a past day is asked for",
        ('F.col("gift") *', 'F.col("qty") *'),
        first=_DAYS,
    ),
    _totals("now_date_same", "control: an input that looks at current_date", first=_DAYS, cause="none"),
    _totals(
        "now_local_key",
        "another column as the key, below a filter by localtimestamp",
        ('groupBy("region"', 'groupBy(F.col("area").alias("region")'),
        first=(_LATE_ORDERS,),
        cause="key",
    ),
    _totals(
        "now_local_helper",
        "the filter by localtimestamp in SQL",
        ('F.col("placed") < F.localtimestamp()', '"placed < localtimestamp()"'),
        first=(_LATE_ORDERS,),
        cause="none",
    ),
    varied(
        SEEN,
        ORDERS,
        "now_dedup_key",
        "lower(channel) -> lower(country) below the deduplication",
        ('F.lower("channel")', 'F.lower("country")'),
        cause="key",
    ),
    varied(
        SEEN,
        ORDERS,
        "now_dedup_case",
        "lower(channel) -> substring(lower(channel), 1, 1)",
        ('F.lower("channel")', 'F.substring(F.lower("channel"), 1, 1)'),
        cause="key",
    ),
    varied(
        SEEN,
        ORDERS,
        "now_dedup_filter",
        "a filter added below the deduplication",
        ('.dropDuplicates(["shop"', '.filter("qty > 1")\n        .dropDuplicates(["shop"'),
        cause="filter",
        truth=(Outcome.CORRECT, "a filter says which rows count from now on; keys that were seen stay seen"),
    ),
    varied(SEEN, ORDERS, "now_dedup_above", "two columns swapped above the deduplication", _SWAPPED, cause="none"),
    varied(PAID, PAIRS, "now_join_same", "control: unchanged", cause="none"),
    varied(
        PAID,
        PAIRS,
        "now_join_output",
        "another column of the same type kept beside the key",
        ('F.col("qty").alias("pieces")', 'F.col("gift").alias("pieces")'),
        cause="join-column",
    ),
    varied(
        PAID,
        PAIRS,
        "now_join_column",
        "one more column in the output",
        ('"paid_at")\n        .withColumn', '"paid_at", "note")\n        .withColumn'),
        cause="join-column",
    ),
    varied(
        PAID,
        PAIRS,
        "now_join_filter",
        "a filter of one side added above the join",
        ('.withColumn("joined_at"', '.filter("pieces < 5")\n        .withColumn("joined_at"'),
        cause="below-join",
    ),
    varied(PAID, PAIRS, "now_join_renamed", "joined_at -> seen_at", ("joined_at", "seen_at"), cause="none"),
    varied(
        PAID,
        PAIRS,
        "now_join_computed",
        "a column computed above the join",
        ('F.col("units").alias("units")', '(F.col("units") * 2).alias("units")'),
        cause="none",
    ),
)

_MARKET = 'F.col("country").isin(COUNTRIES)'
_IN_SUM = (
    'F.sum("qty").alias("pieces")',
    'F.sum(F.when(F.col("shop").isin(BIG), F.col("qty")).otherwise(0)).alias("pieces")',
)
_BIG = ("\nORDER = ", '\nBIG = ["s2", *(f"x{n}" for n in range(15))]\n\nORDER = ')
_ZONELESS = ("dd/MM/yyyy HH:mm:ss", 'dd/MM/yyyy HH:mm:ss", "timeZone": "UTC')

IN = (
    _totals("in_key_removed", "a value of twelve removed, in the key", ('"NL", "BE", "LU"', '"NL", "BE"'), cause="key"),
    _totals("in_key_added", "a thirteenth value, in the key", ('"DK"]', '"DK", "US"]'), cause="key"),
    _totals("in_key_replaced", "one value of twelve replaced, in the key", ('"FR"', '"US"'), cause="key"),
    _totals(
        "in_input",
        "a value added to sixteen, in an aggregate's input",
        ('["s2", *', '["s2", "s1", *'),
        first=(_IN_SUM, _BIG),
    ),
    _totals(
        "in_reordered", "the twelve values in another order", ('"DE", "AT", "CH"', '"CH", "DE", "AT"'), cause="none"
    ),
    _totals("in_twice", "one of the twelve values twice", ('"DE", "AT"', '"DE", "DE", "AT"'), cause="none"),
    varied(
        SEEN,
        ORDERS,
        "in_dedup_key",
        "a value of twelve removed, in a key of the deduplication",
        ('"LU", "PL", "DK"]', '"PL", "DK"]'),
        cause="key",
    ),
    varied(SQL_TOTALS, ORDERS, "in_sql", "a value of twelve removed, in count_if", ("'LU',", "")),
    varied(
        SQL_TOTALS, ORDERS, "in_sql_reordered", "the values in another order", ("'DE','AT'", "'AT','DE'"), cause="none"
    ),
    _totals("json_format", "timestampFormat dd/MM -> MM/dd", ("dd/MM/yyyy", "MM/dd/yyyy")),
    _totals(
        "json_quotes",
        "allowSingleQuotes true -> false, where such rows count as unknown",
        ('HH:mm:ss"', 'HH:mm:ss", "allowSingleQuotes": "false"'),
        first=(('    return orders.filter("order_id is not null")', "    return orders"),),
    ),
    _totals("json_zone", "timeZone UTC -> Asia/Tokyo", ('"UTC"', '"Asia/Tokyo"'), first=(_ZONELESS,)),
    _totals(
        "json_mode_said", "mode PERMISSIVE said aloud", ('HH:mm:ss"', 'HH:mm:ss", "mode": "PERMISSIVE"'), cause="none"
    ),
    _totals(
        "json_mode",
        "mode PERMISSIVE -> FAILFAST, where rows do not parse",
        ('HH:mm:ss"', 'HH:mm:ss", "mode": "FAILFAST"'),
    ),
    _totals(
        "json_lenient",
        "timestampFormat said to be the one that is documented as the default",
        ('"timestampFormat": "yyyy-MM-dd HH:mm:ss"', '"timestampFormat": "yyyy-MM-dd\'T\'HH:mm:ss[.SSS][XXX]"'),
        first=(
            ("placed timestamp, sent string", "placed string, sent timestamp"),
            ("dd/MM/yyyy", "yyyy-MM-dd"),
            ('"placed"', '"sent"'),
        ),
    ),
    _totals(
        "json_date_pattern",
        "to_timestamp dd/MM -> MM/dd",
        ('"dd/MM/yyyy HH:mm:ss"))', '"MM/dd/yyyy HH:mm:ss"))'),
        first=(
            ("placed timestamp", "placed string"),
            (
                '.select("shop", "market"',
                '.withColumn("placed", F.to_timestamp("placed", "dd/MM/yyyy HH:mm:ss"))\n'
                '        .select("shop", "market"',
            ),
        ),
    ),
)


def _lambda(name: str, change: str, *edits: Edit, **more: object) -> Case:
    return varied(BASKETS, ORDERS, f"lambda_{name}", change, *edits, **more)  # type: ignore[arg-type]


LAMBDAS = (
    _lambda("same", "control: unchanged", cause="none"),
    _lambda("zip", "zip_with old - new -> new - old", ("old - new", "new - old")),
    _lambda(
        "zip_renamed", "lambda variables renamed", ("lambda old, new: old - new", "lambda a, b: a - b"), cause="none"
    ),
    _lambda(
        "zip_swapped",
        "variables and operands swapped",
        ("lambda old, new: old - new", "lambda new, old: new - old"),
        cause="none",
    ),
    _lambda(
        "zip_sides", "zip_with(was, now) -> zip_with(now, was)", ('zip_with("was", "now"', 'zip_with("now", "was"')
    ),
    _lambda("index", "transform x + i -> x + x", ("lambda x, i: x + i", "lambda x, i: x + x")),
    _lambda("merge", "aggregate qty * price -> qty + price", ("x.qty * x.price", "x.qty + x.price")),
    _lambda(
        "merge_from", "aggregate acc + qty*price -> acc*price + qty", ("acc + x.qty * x.price", "acc * x.price + x.qty")
    ),
    _lambda("finish", "finish acc * 2 -> acc * 3", ("lambda acc: acc * 2", "lambda acc: acc * 3")),
    _lambda("filter", "filter x > 3 -> x > 5", ("x > 3", "x > 5")),
    _lambda("forall", "exists -> forall", ("F.exists", "F.forall")),
    _lambda("map_filter", "map_filter by value -> by key", ("lambda k, v: v > 2", "lambda k, v: F.length(k) > 2")),
    _lambda("map_values", "transform_values value + length -> value - length", ("v + F.length(k)", "v - F.length(k)")),
    _lambda("sort", "comparator a - b -> b - a", ("a.qty - b.qty", "b.qty - a.qty"), cause="key"),
    _lambda("sort_field", "comparator by another field", ("a.qty - b.qty", "a.price - b.price"), cause="key"),
    _lambda("nested", "variables of nested lambdas swapped", ("b + a * 10 - c", "b + c * 10 - a")),
    _lambda(
        "nested_renamed",
        "variables of nested lambdas renamed, the inner shadowing none",
        ("lambda a: F.aggregate", "lambda w: F.aggregate"),
        ("lambda b, c: b + a * 10 - c", "lambda acc, n: acc + w * 10 - n"),
        cause="none",
    ),
    _lambda(
        "in_sql",
        "a lambda written in SQL",
        ('F.zip_with("was", "now", lambda old, new: old - new)', 'F.expr("zip_with(was, now, (p, c) -> p - c)")'),
        cause="none",
    ),
    _lambda(
        "in_sql_swapped",
        "zip_with in SQL (p, c) -> p - c to c - p",
        ("p - c", "c - p"),
        first=(
            ('F.zip_with("was", "now", lambda old, new: old - new)', 'F.expr("zip_with(was, now, (p, c) -> p - c)")'),
        ),
    ),
)


def _log(name: str, change: str, *edits: Edit, **more: object) -> Case:
    return varied(LOG, HITS, f"text_{name}", change, *edits, **more)  # type: ignore[arg-type]


TEXTS = (
    _log("same", "control: unchanged", cause="none"),
    _log("braces", "regex {2,3} -> {2,4}, in the key", ("{2,3}", "{2,4}"), cause="key"),
    _log("braces_input", "regex + -> {1,3}, in an input", ("([a-z]+)-", "([a-z]{1,3})-")),
    _log("group", "regexp_extract group 1 -> 2", ("PAGE, 1", "PAGE, 2")),
    _log("replacement", "regexp_replace $1-$2 -> $2-$1", ("$1-$2", "$2-$1")),
    _log(
        "date_pattern",
        "date_format HH -> hh, in the key",
        ('"at", "yyyy-MM-dd HH")', '"at", "yyyy-MM-dd hh")'),
        cause="key",
    ),
    _log("format", "format_string %s at %s -> %2$s at %1$s", ("%s at %s", "%2$s at %1$s")),
    _log("split_limit", "split limit 2 -> 3", ('"[?#]", 2', '"[?#]", 3')),
    _log("json_path", "get_json_object $.a.b -> $.a.c", ("$.a.b", "$.a.c")),
    _log("hash", "a literal with #12 -> #13", ("it's #12", "it's #13")),
    _log("quote", "a quote in a literal", ("it's #12", "its #12")),
    _log("brace_literal", "a literal {'a'} -> plain", ("\"{'a'}\"", '"plain"')),
    _log("above", "a format string above the state", ('"%s/%s"', '"%s:%s"'), cause="none"),
    _log(
        "spelled",
        "the same regex without a raw string, the same limit by name",
        ('r"/([a-z]+)-(\\d{1,2})"', '"/([a-z]+)-(\\\\d{1,2})"'),
        cause="none",
    ),
)

CASES = in_group("realistic", *NOW, *IN, *LAMBDAS, *TEXTS)
