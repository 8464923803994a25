"""Options of the readers of files that differ from Spark's defaults, which come from the option classes of Spark 4.2.0.

No table contains a time format: if it is unset, Spark's parser accepts more than the documented pattern.
"""

from __future__ import annotations

import re

STREAM = {"cleansource": "off", "filenameonly": "false", "latestfirst": "false", "maxfileage": "7d"}
"""Options of every file stream."""

DEFAULTS = {
    "csv": {
        "enforceschema": "true",
        "encoding": "UTF-8",
        "escape": "\\",
        "header": "false",
        "ignoreleadingwhitespace": "false",
        "ignoretrailingwhitespace": "false",
        "inferschema": "false",
        "locale": "en-US",
        "maxcharspercolumn": "-1",
        "maxcolumns": "20480",
        "mode": "PERMISSIVE",
        "multiline": "false",
        "nanvalue": "NaN",
        "negativeinf": "-Inf",
        "nullvalue": "",
        "positiveinf": "Inf",
        "preferdate": "true",
        "quote": '"',
        "samplingratio": "1.0",
        "sep": ",",
        "unescapedquotehandling": "STOP_AT_DELIMITER",
    },
    "json": {
        "allowbackslashescapinganycharacter": "false",
        "allowcomments": "false",
        "allownonnumericnumbers": "true",
        "allownumericleadingzeros": "false",
        "allowsinglequotes": "true",
        "allowunquotedfieldnames": "false",
        "dropfieldifallnull": "false",
        "infertimestamp": "false",
        "locale": "en-US",
        "mode": "PERMISSIVE",
        "multiline": "false",
        "prefersdecimal": "false",
        "primitivesasstring": "false",
        "samplingratio": "1.0",
    },
    "parquet": {"mergeschema": "false"},
    "text": {"wholetext": "false"},
    "xml": {
        "arrayelementname": "item",
        "attributeprefix": "_",
        "charset": "UTF-8",
        "excludeattribute": "false",
        "ignorenamespace": "false",
        "ignoresurroundingspaces": "true",
        "locale": "en-US",
        "mode": "PERMISSIVE",
        "multiline": "true",
        "preferdate": "true",
        "prefersdecimal": "false",
        "samplingratio": "1.0",
        "valuetag": "_VALUE",
        "wildcardcolname": "xs_any",
    },
}
"""Format -> option in lower case -> its constant default."""

FILES_DEFAULTS = {"recursivefilelookup": "false"}
"""Options of every reader of files."""

SECOND_NAMES = {"csv": {"charset": "encoding", "delimiter": "sep"}, "json": {"charset": "encoding"}}
"""Format -> second name -> the name that takes precedence if both are given."""

FOR_TYPES = {
    "dateformat": re.compile("date"),
    "nanvalue": re.compile("double|float"),
    "negativeinf": re.compile("double|float"),
    "positiveinf": re.compile("double|float"),
    "timestampformat": re.compile("timestamp"),
    "timestampntzformat": re.compile("timestamp"),
    "timezone": re.compile("timestamp"),
}
"""Option -> the only types of columns that it affects."""

FOR_VALUES = frozenset(
    {"emptyvalue", "ignoreleadingwhitespace", "ignoresurroundingspaces", "ignoretrailingwhitespace", "locale"}
    | {"nullvalue", "preferdate", "primitivesasstring", "wholetext"}
)
"""Options that affect values of any type."""
