"""Writes expressions in a canonical form, their *meaning*, in which columns are resolved down to the sources.

The meaning includes the whole expression: its class and every argument, as ``inspection.plan_tree`` returns them. Only
what is proven to be irrelevant is left out: names of columns, aliases and Python functions; the order of operands that
commute; what follows from a session setting that is compared separately; a widening that an aggregate performs anyway;
and fields of parsed JSON that no expression reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.fields import (
    EXPLODED,
    EXPLODED_STEP,
    FIELDS,
    ORDERED,
    PARSER_SCHEMA,
    PARSERS,
    TRANSPARENT,
    chooses_in_any_order,
    field_step,
    field_type,
    fields_before,
    holds_fields,
    parses_fields_apart,
    type_of,
    without_default_mode,
)
from streamkeeper.inspection.nesting import Nesting
from streamkeeper.inspection.plan_parts import flattened
from streamkeeper.inspection.plan_text import shortened, type_text
from streamkeeper.inspection.plan_tree import EXPRESSION, PLAN, Node, Tagged, stable_fields
from streamkeeper.inspection.windows import is_window, window_text
from streamkeeper.model.manifests.quoting import quoted

SESSION = "session"
"""The text in a meaning that replaces the session's time zone."""

_COMMUTES = frozenset({"Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "EqualNullSafe", "EqualTo", "Multiply"})
_MIRRORED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}
_ZONED_TYPES = frozenset({"date", "string", "timestamp", "timestamp_ntz"})
_ZONES = frozenset({"timeZoneId", "zoneId", "timeZone"})
_FAILS = frozenset({"ansiEnabled", "failOnError"})
_NAMES = frozenset({("PythonUDF", "name"), ("PythonUDAF", "name"), ("PythonUDTF", "name"), ("ScalarSubquery", "hint")})
_ELEMENTS = frozenset((name, "argument") for name in ("ArrayAggregate", "ArrayExists", "ArrayForAll", "ArrayTransform"))
"""Arrays of which only the part that a lambda function reads counts. The function tells the type of that part."""

_LEAVES = frozenset({"AttributeReference", "Literal", spark_classes.LAMBDA_VARIABLE})
"""Nodes for whose meaning no ``file:line`` is recorded, because many lines may contain the same meaning."""

_WIDENED = frozenset({"Average", "Count", "Sum"})
"""Aggregates with the same result for a column and for the widened column.

A sum of whole numbers is kept as a long, a mean and a sum of other numbers as doubles, and a count as a long. Each of
these aggregates casts its input to that type itself.
"""

_WIDENS = {
    "byte": {"short", "integer", "long"},
    "short": {"integer", "long"},
    "integer": {"long"},
    "float": {"double"},
}
"""Casts that lose nothing, each within one kind of number."""

_BY_NAME = ("AvroFileFormat", "JsonFileFormat", "OrcFileFormat", "ParquetFileFormat")
"""File formats whose columns are found by name, so that their unused columns do not matter."""


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a session that Spark repeats in expressions. Rules compare these settings separately."""

    time_zone: str = "UTC"
    """The time zone of the session."""
    ansi: bool = True
    """Whether the session follows ANSI SQL."""
    partial_results: bool = True
    """Whether a JSON text with a field of the wrong type keeps its other fields."""
    corrupt_record: str = "_corrupt_record"
    """The column for texts that cannot be parsed."""


class Meanings:
    """The meanings of attributes found so far, by expression id. A meaning is a canonical expression.

    ``of_plan``: returns the meaning of a subquery's plan.
    ``unresolved``: the parts that could not be resolved; ``unknown``: the classes that Streamkeeper does not recognise.
    ``nesting``: counts how deep expressions and plans are nested in each other.
    ``written``: the ``file:line`` of each meaning, if recorded, for expressions with arguments or an alias.
    ``function_names``: the name of each Python function, by the number that stands for the function in meanings.
    """

    def __init__(self, session: SessionSettings, of_plan: Callable[[Node], str]) -> None:
        self._session = session
        self._of_plan = of_plan
        self._of: dict[int, str] = {}
        self._made_by: dict[int, Node] = {}
        self._variables: dict[int, str] = {}
        self._used_whole: set[int] = set()
        self._functions: dict[int, int] = {}
        self.nesting = Nesting()
        self.unresolved: list[str] = []
        self.unknown: list[str] = []
        self.written: dict[str, str] = {}
        self.function_names: dict[int, str] = {}

    def define(self, number: int, canonical: str, made_by: Node | None = None) -> None:
        """Set a new attribute's meaning; ``made_by``: its expression, if fields of its value may be read separately."""
        self._of.setdefault(number, shortened(canonical))
        if made_by is not None:
            self._made_by.setdefault(number, made_by)

    def redefine(self, number: int, canonical: str) -> None:
        """Replace the meaning of an attribute for all plan nodes above the node that is being read."""
        self._of[number] = shortened(canonical)
        self._made_by.pop(number, None)

    def known(self, number: int) -> str | None:
        """Return the meaning of the attribute with this expression id, or None if no plan node so far defines it."""
        return self._of.get(number)

    def of(self, node: Node) -> str:
        """Return the meaning of an expression."""
        canonical = self.nesting.call(self._meaning, node)
        if node.written and node.name not in _LEAVES:
            self.written.setdefault(canonical, node.written)
        return canonical

    def _meaning(self, node: Node) -> str:
        name = node.name
        if name in TRANSPARENT:
            return self.of(node.children[0])
        if name == "AttributeReference":
            return self._attribute(node)
        if name == "Literal":
            return f"{self._value(node.fields['value'])}:{type_text(node.fields['dataType'], names=False)}"
        if name in ("And", "Or"):
            return f"({f' {name.lower()} '.join(self._parts(node, name))})"
        if name == spark_classes.LAMBDA:
            return self._lambda(node)
        if name == spark_classes.LAMBDA_VARIABLE:
            self._used_whole.add(node.expression_id)
            return self._variables.get(node.expression_id) or self._lost(str(node.fields["name"]))
        if name in FIELDS:
            return self._field(node)
        if name == EXPLODED:
            return f"{self.of(node.fields['child'])}{EXPLODED_STEP}"
        if name == "AggregateExpression":
            return self._aggregate(node)
        if name == "CreateNamedStruct":
            return self._struct([self.of(child) for child in node.children])
        return self._whole(node)

    def conjuncts(self, node: Node) -> list[str]:
        """Return the parts of a condition that ``AND`` joins, each once, in sorted order."""
        return self._parts(node, "And")

    def ordered_conjuncts(self, node: Node) -> list[str]:
        """Return the parts of a condition that ``AND`` joins, each once, in the order in which they are written."""
        return list(dict.fromkeys(self.of(conjunct) for conjunct in flattened(node, "And")))

    def _parts(self, node: Node, name: str) -> list[str]:
        return sorted({self.of(part) for part in flattened(node, name)})

    def _attribute(self, node: Node) -> str:
        return self._of.get(node.expression_id) or self._lost(str(node.fields.get("name")))

    def _lost(self, shown: str) -> str:
        self.unresolved.append(shown)
        return f"?{shown}"

    def _whole(self, node: Node) -> str:
        name = node.name
        parts = [f"{key}={text}" if key else text for key, text in self.arguments(node)]
        if name in spark_classes.PYTHON_FUNCTIONS:
            self._name_function(node)
        if name in _MIRRORED:
            name, parts = _MIRRORED[name], [*parts[1::-1], *parts[2:]]
        elif name in _COMMUTES:
            parts = [*sorted(parts[:2]), *parts[2:]]
        elif chooses_in_any_order(node):
            parts = sorted(parts)
        elif name == "In":
            parts = [parts[0], *sorted(set(parts[1:]))]
        return f"{name.lower()}({', '.join(parts)})"

    def _name_function(self, node: Node) -> None:
        function = node.fields.get("func")
        if isinstance(function, Tagged) and function.found in self._functions:
            self.function_names[self._functions[function.found]] = str(node.fields.get("name"))

    def arguments(self, node: Node, *, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
        """Yield name and text of each argument to compare; the name is empty for an argument identified by position."""
        named: list[tuple[str, str]] = []
        missing = False
        for key, value in stable_fields(node):
            if key in without or (node.name, key) in _NAMES or _read_by_name(node, key):
                continue
            inner = [value] if isinstance(value, Node) else value if isinstance(value, list) else []
            if (node.name, key) in _ELEMENTS:
                yield "", self.place(value)
            elif inner and all(isinstance(part, Node) and part.kind == EXPRESSION for part in inner):
                texts = [self.of(part) for part in inner]
                if missing or (isinstance(value, list) and self._followed(node, key)):
                    named.append((key, f"[{', '.join(texts)}]" if isinstance(value, list) else texts[0]))
                else:
                    yield from (("", text) for text in texts)
            elif value is None or value == []:
                # The text has to show whether an optional value was given, so later arguments are named.
                missing = True
            else:
                named += self._argument(node, key, value)
        yield from sorted(named)

    def _followed(self, node: Node, key: str) -> bool:
        """Whether another argument with expressions follows a list. If so, the text shows where the list ends."""
        keys = list(node.fields)
        after = [node.fields[later] for later in keys[keys.index(key) + 1 :]]
        return any(isinstance(value, Node | list) and bool(value) for value in after)

    def _argument(self, node: Node, key: str, value: Any) -> Iterator[tuple[str, str]]:
        """Yield an argument that is not an expression, unless its value follows from the session."""
        if key in _ZONES and isinstance(value, str):
            if node.name != "Cast" or _zoned(node):
                yield "", f"in {SESSION if value == self._session.time_zone else quoted(value)}"
        elif key == "evalContext" and isinstance(value, Node):
            yield from ((name, text) for field in stable_fields(value) for name, text in self._argument(value, *field))
        elif key == "evalMode" and isinstance(value, Tagged):
            if value.found != ("ANSI" if self._session.ansi else "LEGACY"):
                yield key, str(value.found)
        elif key in _FAILS and isinstance(value, bool):
            if value != self._session.ansi:
                yield key, str(value)
        elif key == "nullOnOverflow" and isinstance(value, bool):
            if value == self._session.ansi:
                yield key, str(value)
        elif key == "options" and node.name in PARSERS:
            value_given = without_default_mode(value)
            if value_given.found:
                yield key, self._value(value_given)
        elif not (key == "allowDecimalPrecisionLoss" and value is True):
            yield key, self._value(value)

    def _value(self, found: Any) -> str:
        """Return an argument as text; different arguments have different texts."""
        if isinstance(found, Node):
            return self._node(found)
        if isinstance(found, list):
            return f"[{', '.join(self._value(element) for element in found)}]"
        if isinstance(found, Tagged):
            return self._tagged(found)
        return "null" if found is None else quoted(found) if isinstance(found, str) else str(found)

    def _node(self, found: Node) -> str:
        if found.kind == EXPRESSION:
            return self.of(found)
        if found.kind == PLAN:
            return self._of_plan(found)
        return self._whole(found)

    def _tagged(self, found: Tagged) -> str:
        if found.tag == "t":
            return type_text(found)
        if found.tag in ("s", "m"):
            return f"{found.tag}[{', '.join(self._value(element) for element in found.found)}]"
        if found.tag == "c":
            return str(found.found).rpartition(".")[2].rstrip("$")
        if found.tag == "u":
            self.unknown.append(str(found.found))
            return f"unknown {found.found}"
        if found.tag == "f":
            return str(self._functions.setdefault(found.found, len(self._functions)))
        if found.tag == "id":
            return self._of.get(found.found) or self._lost(f"#{found.found}")
        return str(found.found) if found.tag in ("d", "x") else f"{found.tag} {found.found}"

    def _aggregate(self, node: Node) -> str:
        fields = node.fields
        function = fields["aggregateFunction"]
        text = self._widened(function) or self.of(function)
        distinct = ["distinct"] if fields.get("isDistinct") else []
        kept = [f"where {self.of(fields['filter'])}"] if fields.get("filter") is not None else []
        return " ".join([text, *distinct, *kept])

    def _widened(self, function: Node) -> str | None:
        """Return the text of an aggregate without the widening of its column, if the result is the same without it."""
        if function.name not in _WIDENED:
            return None
        inner = function.children
        if len(inner) != 1 or inner[0].name != "Cast":
            return None
        before, after = type_of(inner[0].children[0]), type_text(inner[0].fields["dataType"])
        if not isinstance(before, str) or after not in _WIDENS.get(before, ()):
            return None
        child = inner[0].children[0]
        fields = {key: _replaced(value, inner[0], child) for key, value in function.fields.items()}
        return self.of(Node(function.kind, function.name, fields, function.written))

    def _struct(self, parts: list[str]) -> str:
        if is_window(parts):
            return window_text(parts)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return f"struct({', '.join(f'{_struct_field(name)}{value}' for name, value in pairs)})"

    def _lambda(self, node: Node) -> str:
        """Return a lambda function with variables numbered by binding, outer first, and typed where used whole."""
        outer = dict(self._variables)
        names = {}
        for argument in node.fields["arguments"]:
            names[argument.expression_id] = self._variables[argument.expression_id] = f"x{len(self._variables)}"
        body = self.of(node.fields["function"])
        self._variables = outer
        shown = [
            f"{names[argument.expression_id]} {type_text(argument.fields['dataType'])}"
            if argument.expression_id in self._used_whole or not holds_fields(argument)
            else names[argument.expression_id]
            for argument in node.fields["arguments"]
        ]
        return f"lambda({', '.join(shown)}: {body})"

    def _field(self, node: Node) -> str:
        """Return the text of a field with its name and type, but without its position and the other fields."""
        kind = field_type(node)
        return self._whole(node) if kind is None else f"{self.place(node)}:{type_text(kind)}"

    def place(self, node: Node) -> str:
        """Return the origin of an expression's value: a column, or a field's path in a column. The type is left out."""
        return self.nesting.call(self._place, self.behind(node))

    def _place(self, node: Node) -> str:
        if node.name in FIELDS and (step := field_step(node)) is not None:
            within = self.behind(node.fields["child"])
            return f"{self._parsed(within, node) or self.place(within)}{step}"
        if node.name == EXPLODED:
            return f"{self.place(node.fields['child'])}{EXPLODED_STEP}"
        if node.name == "GetArrayItem":
            return f"{self.place(node.fields['child'])}[{self.of(node.fields['ordinal'])}]"
        if node.name in ORDERED:
            texts = [text for _, text in self.arguments(node, without=frozenset({"argument"}))]
            return f"{node.name.lower()}({', '.join([self.place(node.fields['argument']), *texts])})"
        if node.name == spark_classes.LAMBDA_VARIABLE and node.expression_id in self._variables:
            return self._variables[node.expression_id]
        return self.of(node)

    def behind(self, node: Node) -> Node:
        """Return an attribute's expression without aliases and marks of nullability; ``node`` if it is unknown."""
        while node.name in TRANSPARENT:
            node = node.children[0]
        while node.name == "AttributeReference" and node.expression_id in self._made_by:
            node = self._made_by[node.expression_id]
            while node.name in TRANSPARENT:
                node = node.children[0]
        return node

    def _parsed(self, node: Node, field: Node) -> str | None:
        """Return parsed text, without those fields of its schema that do not influence ``field``."""
        of = self._session
        if not parses_fields_apart(node, corrupt_record=of.corrupt_record, partial_results=of.partial_results):
            return None
        texts = [f"{key}={text}" if key else text for key, text in self.arguments(node, without=PARSER_SCHEMA)]
        texts += [f"after {kind}" for kind in fields_before(node, field)]
        return f"{PARSERS[node.name]}({', '.join([self.of(node.fields['child']), *texts])})"


def _read_by_name(node: Node, key: str) -> bool:
    """Whether an argument is the schema of static files whose columns are found by name. Such a schema is left out,
    because the used columns include their types.
    """
    return (
        node.name == "HadoopFsRelation"
        and key == "dataSchema"
        and isinstance(node.fields["fileFormat"], Tagged)
        and str(node.fields["fileFormat"].found).endswith(_BY_NAME)
    )


def _replaced(value: Any, before: Node, after: Node) -> Any:
    if isinstance(value, list):
        return [_replaced(element, before, after) for element in value]
    return after if value is before else value


def _struct_field(name: str) -> str:
    """Return a field's name in angle brackets, which distinguish it from the meaning of the field."""
    return f"<{name.removesuffix(':string')}>"


def _zoned(cast: Node) -> bool:
    """Whether a cast may depend on a time zone: to a time, date or string, where one side is a timestamp or a date.

    Also true for such a target if the type of the input is nested, or if it only follows from other expressions.
    """
    target = type_text(cast.fields["dataType"])
    source = type_of(cast.children[0]) or "timestamp"
    return target in _ZONED_TYPES and (not isinstance(source, str) or bool({target, source} & {"date", "timestamp"}))
