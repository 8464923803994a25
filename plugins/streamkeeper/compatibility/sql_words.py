"""SQL names of Spark's operators, functions, literals and durations. Pure."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:E-?\d+)?")
_HEXADECIMAL = re.compile(r"\b[0-9a-f]{16,}\b")

OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "integraldivide": "div",
    "remainder": "%",
    "bitwiseand": "&",
    "bitwiseor": "|",
    "bitwisexor": "^",
    "equalto": "=",
    "equalnullsafe": "<=>",
    "lessthan": "<",
    "lessthanorequal": "<=",
}
MIRRORED = {"lessthan": ">", "lessthanorequal": ">="}
_WITH_UNDERSCORES = (
    "add_months aes_decrypt aes_encrypt any_value array_append array_compact array_contains array_distinct "
    "array_except array_insert array_intersect array_join array_max array_min array_position array_prepend "
    "array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip assert_true bit_length "
    "bool_and bool_or collect_list collect_set concat_ws convert_timezone count_if cume_dist current_catalog "
    "current_database current_user date_from_unix_date date_sub dense_rank element_at find_in_set format_number "
    "format_string from_avro from_protobuf from_unixtime from_utc_timestamp get_json_object grouping_id "
    "hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg input_file_name is_valid_utf8 is_variant_null "
    "json_object_keys json_tuple last_day luhn_check make_date make_interval map_concat map_contains_key "
    "map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with max_by min_by "
    "monotonically_increasing_id months_between next_day nth_value octet_length parse_url percent_rank "
    "regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr row_number "
    "schema_of_csv schema_of_json session_window sort_array spark_partition_id split_part stddev_pop stddev_samp "
    "substring_index to_avro to_binary to_number to_protobuf to_unix_timestamp to_utc_timestamp to_variant_object "
    "transform_keys transform_values try_add try_divide try_element_at try_mod try_multiply try_subtract "
    "try_to_binary try_to_number unix_date unix_micros unix_millis unix_seconds unix_timestamp url_decode "
    "url_encode width_bucket window_time zip_with"
)
"""Functions whose class in Catalyst has the same name without underscores."""
FUNCTIONS = {
    **{name.replace("_", ""): name for name in _WITH_UNDERSCORES.split()},
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithStateInPySpark": "transformWithState",
    "TransformWithStateInPandas": "transformWithStateInPandas",
    "approximatepercentile": "percentile_approx",
    "arrayaggregate": "aggregate",
    "arrayexists": "exists",
    "arrayfilter": "filter",
    "arrayforall": "forall",
    "arraytransform": "transform",
    "average": "avg",
    "bitandagg": "bit_and",
    "bitoragg": "bit_or",
    "bitwisecount": "bit_count",
    "bitxoragg": "bit_xor",
    "covpopulation": "covar_pop",
    "covsample": "covar_samp",
    "createarray": "array",
    "createmap": "map",
    "csvtostructs": "from_csv",
    "dateadd": "date_add",
    "dateformatclass": "date_format",
    "either": "union",
    "gettimestamp": "to_timestamp",
    "hyperloglogplusplus": "approx_count_distinct",
    "jsontostructs": "from_json",
    "lengthofjsonarray": "json_array_length",
    "log": "ln",
    "logarithm": "log",
    "microstotimestamp": "timestamp_micros",
    "millistotimestamp": "timestamp_millis",
    "murmur3hash": "hash",
    "parsetodate": "to_date",
    "parsetotimestamp": "to_timestamp",
    "PosExplode": "posexplode",
    "secondstotimestamp": "timestamp_seconds",
    "sparkversion": "version",
    "stringinstr": "instr",
    "stringlocate": "locate",
    "stringrepeat": "repeat",
    "stringreplace": "replace",
    "stringspace": "space",
    "stringsplit": "split",
    "stringtomap": "str_to_map",
    "stringtranslate": "translate",
    "stringtrim": "trim",
    "stringtrimboth": "btrim",
    "stringtrimleft": "ltrim",
    "stringtrimright": "rtrim",
    "structstocsv": "to_csv",
    "structstojson": "to_json",
    "todegrees": "degrees",
    "toradians": "radians",
    "truncdate": "trunc",
    "trunctimestamp": "date_trunc",
    "variancepop": "var_pop",
    "variancesamp": "var_samp",
    "xmltostructs": "from_xml",
}
"""Name of an expression in a canonical expression -> its function in SQL, if the two differ."""
CURRENT = {"date": "current_date()", "timestamp_ntz": "localtimestamp()"}
"""Type -> the function that returns a batch's time as this type."""
PARSERS = {"fromjson": "from_json", "jsontostructs": "from_json", "fromcsv": "from_csv", "csvtostructs": "from_csv"}
WORDS = frozenset(OPERATORS.values()) | frozenset(MIRRORED.values())


def literal_of(text: str, kind: str) -> str | None:
    """Return the literal ``text`` of the type ``kind`` in SQL syntax. Return None if ``text`` is not a literal."""
    if text == "null" or (text.startswith('"') and text.endswith('"')):
        return text
    if text in ("True", "False"):
        return text.lower()
    if not NUMBER.fullmatch(text):
        return None
    try:
        if kind.startswith("interval"):
            months = "month" in kind or "year" in kind
            return f"interval {f'{text} months' if months else duration(int(text))}"
        if kind in ("timestamp", "timestamp_ntz"):
            return f"timestamp {datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(text)):%Y-%m-%d %H:%M:%S}"
        if kind == "date":
            return f"date {date(1970, 1, 1) + timedelta(days=int(text))}"
    except OverflowError:
        return text
    return text


def duration(microseconds: int) -> str:
    """Return a duration in its largest units, as text."""
    sign, left = ("-" if microseconds < 0 else ""), abs(microseconds)
    parts = []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}")
    return sign + (" ".join(parts) or "0 seconds")


_UNITS = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)


def without_digests(text: str) -> str:
    """Return the text with ``…`` in place of each hexadecimal digest."""
    return _HEXADECIMAL.sub("…", text)
