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
    "equalto": "=",
    "equalnullsafe": "<=>",
    "lessthan": "<",
    "lessthanorequal": "<=",
}
MIRRORED = {"lessthan": ">", "lessthanorequal": ">="}
FUNCTIONS = {
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithStateInPySpark": "transformWithState",
    "TransformWithStateInPandas": "transformWithStateInPandas",
    "approximatepercentile": "percentile_approx",
    "arrayaggregate": "aggregate",
    "arrayexists": "exists",
    "arrayfilter": "filter",
    "arrayforall": "forall",
    "arraysort": "array_sort",
    "arraytransform": "transform",
    "average": "avg",
    "bitwiseand": "bit_and",
    "collectlist": "collect_list",
    "collectset": "collect_set",
    "covpopulation": "covar_pop",
    "covsample": "covar_samp",
    "createarray": "array",
    "createmap": "map",
    "dateadd": "date_add",
    "dateformatclass": "date_format",
    "datesub": "date_sub",
    "either": "union",
    "formatstring": "format_string",
    "fromunixtime": "from_unixtime",
    "getjsonobject": "get_json_object",
    "gettimestamp": "to_timestamp",
    "hyperloglogplusplus": "approx_count_distinct",
    "jsontostructs": "from_json",
    "csvtostructs": "from_csv",
    "mapfilter": "map_filter",
    "maxby": "max_by",
    "minby": "min_by",
    "PosExplode": "posexplode",
    "regexpextract": "regexp_extract",
    "regexpreplace": "regexp_replace",
    "sessionwindow": "session_window",
    "stddevpop": "stddev_pop",
    "stddevsamp": "stddev_samp",
    "stringsplit": "split",
    "stringtrim": "trim",
    "transformkeys": "transform_keys",
    "transformvalues": "transform_values",
    "truncdate": "trunc",
    "trunctimestamp": "date_trunc",
    "tounixtimestamp": "to_unix_timestamp",
    "variancepop": "var_pop",
    "variancesamp": "var_samp",
    "zipwith": "zip_with",
}
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
    told = []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            told.append(f"{count} {name}{'' if count == 1 else 's'}")
    return sign + (" ".join(told) or "0 seconds")


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
