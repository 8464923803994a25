"""Determines, from expressions, their types, the field of a struct that they use, and whether they return one of their
arguments.
"""

from __future__ import annotations

from typing import Any

from streamkeeper.inspection.plan_text import type_text
from streamkeeper.inspection.plan_tree import Node, Tagged
from streamkeeper.model.manifests.quoting import quoted_name

TRANSPARENT = frozenset({"Alias", "KnownNullable", "KnownNotNull", "KnownNotContainsNull"})
"""Expressions whose value equals the value of their operand."""

FIELDS = frozenset({"GetStructField", "GetArrayStructFields"})
ORDERED = frozenset({"ArrayFilter", "ArraySort"})
"""Functions that choose or order the elements of an array without changing them."""

EXPLODED = "Exploded"
"""The name for one element of an array, as a generator emits it; Spark has no class of this name."""

EXPLODED_STEP = "[*]"
PARSERS = {"JsonToStructs": "fromjson", "CsvToStructs": "fromcsv"}
"""Expressions that parse a string into a struct, and their names in canonical expressions."""

PARSER_SCHEMA = frozenset({"child", "schema"})
"""Arguments of a parser that do not affect how it reads a string."""

_CHOOSE = frozenset({"Greatest", "Least"})
_EXACT = ("boolean", "byte", "date", "integer", "long", "short", "timestamp", "timestamp_ntz")
"""Types whose equal values are identical, unlike doubles (0.0 equals -0.0) and strings with some collations."""


def type_of(node: Node) -> Any:
    """Return an expression's type, as decoded JSON, if the expression itself states the type; None if the type follows
    from other expressions.
    """
    while node.name in TRANSPARENT | ORDERED:
        node = node.fields["argument"] if node.name in ORDERED else node.children[0]
    if node.name in FIELDS:
        return field_type(node)
    if node.name == "GetArrayItem":
        array = type_of(node.fields["child"])
        return array.get("elementType") if isinstance(array, dict) else None
    found = node.fields.get("schema" if node.name in PARSERS else "dataType")
    return found.found if isinstance(found, Tagged) and found.tag == "t" else None


def chooses_in_any_order(node: Node) -> bool:
    """Whether an expression returns one of its arguments, and the result does not depend on the arguments' order."""
    return node.name in _CHOOSE and type_of(node) in _EXACT


def field_type(node: Node) -> Any:
    """Return the type of the field that an expression reads; None if other expressions determine the struct's type."""
    if node.name == "GetArrayStructFields":
        return node.fields["field"].fields["dataType"].found
    inner = type_of(node.fields["child"])
    if isinstance(inner, dict) and inner.get("type") == "struct":
        return inner["fields"][node.fields["ordinal"]]["type"]
    return None


def field_step(node: Node) -> str | None:
    """Return the field that an expression reads, as a step of a path; None if the struct's type is unknown."""
    if node.name == "GetArrayStructFields":
        return f"[].{quoted_name(str(node.fields['field'].fields['name']))}"
    inner = type_of(node.fields["child"])
    if not isinstance(inner, dict) or inner.get("type") != "struct":
        return None
    return f".{quoted_name(inner['fields'][node.fields['ordinal']]['name'])}"


def without_default_mode(options: Tagged) -> Tagged:
    """Return a parser's options. The option for the mode is left out if it only states the default."""
    kept = [
        option for option in options.found if (str(option[0]).lower(), str(option[1]).upper()) != ("mode", "PERMISSIVE")
    ]
    return Tagged(options.tag, kept)


def holds_fields(variable: Node) -> bool:
    """Whether a lambda variable is a struct."""
    kind = type_of(variable)
    return isinstance(kind, dict) and kind.get("type") == "struct"


def fields_before(parser: Node, field: Node) -> list[str]:
    """Return the types of the fields before ``field`` if the parser finds fields by position; empty if the parser finds
    them by name.
    """
    if parser.name == "JsonToStructs":
        return []
    return [type_text(column["type"]) for column in type_of(parser)["fields"][: field.fields["ordinal"]]]


def parses_fields_apart(node: Node, *, corrupt_record: str, partial_results: bool) -> bool:
    """Whether a field that a parser returns keeps its value, no matter which other fields the query requests.

    For CSV, true only means that requests for fields after this field cannot change its value. Requests for fields
    before it still may. The result is true only in the mode PERMISSIVE and without a column for corrupt records. For
    JSON, ``partial_results`` (``spark.sql.json.enablePartialResults``) must be on, too: a text with one field of the
    wrong type then keeps its other fields. ``corrupt_record`` is the name of the column for corrupt records, unless the
    parser's options contain a different name. Source: Spark's JacksonParser, UnivocityParser and FailureSafeParser.
    """
    schema = type_of(node) if node.name in PARSERS else None
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        return False
    options = {str(key).lower(): value for key, value in node.fields["options"].found}
    permissive = str(options.get("mode", "PERMISSIVE")).upper() == "PERMISSIVE" and "singlevariantcolumn" not in options
    partial = partial_results or node.name != "JsonToStructs"
    corrupt = str(options.get("columnnameofcorruptrecord", corrupt_record)).lower()
    return permissive and partial and corrupt not in {str(field["name"]).lower() for field in schema["fields"]}
