"""The effects of Spark's methods and functions on a batch's columns; all other methods count as unknown."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING

from pyspark.sql import Row as SparkRow
from pyspark.sql import Window
from pyspark.sql.classic.dataframe import DataFrame

from streamkeeper.inspection.batch_values import (
    COLUMN,
    UNKNOWN,
    CollectedRow,
    Frame,
    Grouped,
    Known,
    Local,
    Other,
    Plain,
    Rows,
    Scope,
    Several,
    Value,
    Writer,
)
from streamkeeper.sinks.kinds.known_kinds import columns_read_by_name

if TYPE_CHECKING:
    from streamkeeper.inspection.batch_expressions import BatchExpressions

ROW = SparkRow()

_SAME_ROWS = frozenset(
    {"cache", "checkpoint", "coalesce", "distinct", "dropDuplicates", "drop_duplicates", "hint", "localCheckpoint"}
    | {"orderBy", "persist", "repartition", "repartitionByRange", "sort", "sortWithinPartitions", "unpersist"}
    | {"fillna"}
)
_FEWER_ROWS = frozenset({"dropna", "filter", "limit", "sample", "where"})
_LOOKS = frozenset({"count", "explain", "isEmpty", "printSchema", "show"})
_GIVES_ROWS = frozenset({"collect", "head", "tail", "take", "toLocalIterator"})
_GROUPS = frozenset({"cube", "groupBy", "groupby", "rollup"})
_AGGREGATES = frozenset({"agg", "avg", "count", "max", "mean", "min", "sum"})
_NAMES_COLUMNS = frozenset(
    {"distinct", "dropDuplicates", "drop_duplicates", "orderBy", "sort", "sortWithinPartitions"} | _GROUPS
)
"""Methods of a frame whose strings are names of columns."""
_LITERALS = frozenset({"coalesce", "hint", "limit", "persist", "repartition", "sample", "checkpoint", "fillna"})
_TELLS_NOTHING = frozenset({"isStreaming", "sparkSession", "storageLevel"})
_OF_THE_FRAME = frozenset({"is_cached"})
_WRITER_COLUMNS = frozenset({"bucketBy", "partitionBy", "sortBy"})
_ARE_COLUMNS = frozenset({"asc", "col", "column", "desc"})
_FIRST_IS_COLUMN = frozenset(
    {"avg", "date_format", "length", "lower", "max", "md5", "min", "sha1", "sha2", "sum", "to_date", "to_timestamp"}
    | {"trim", "upper"}
)
_STAR = re.compile(r"(?:^|[(,.])\s*\*\s*(?:[),]|$)")
_COUNTED = re.compile(r"\bcount\s*\(\s*(?:1|\*)\s*\)", re.IGNORECASE)
_PAYLOAD = re.compile(r"\bas\s+`?value`?\s*$", re.IGNORECASE)
_VALUE = "value"


def chosen(frame: Frame) -> Frame:
    """Return ``frame``, marked as possibly without some of its rows."""
    return replace(frame, all_rows=False)


def is_function_of_columns(found: object) -> bool:
    """Whether an object is a function that makes a column from columns: one of Spark's, or a UDF of the job."""
    if not isinstance(found, FunctionType):
        return False
    is_made = "returnType" in vars(found) and "evalType" in vars(found)
    return is_made or str(found.__module__).startswith("pyspark.sql.functions")


def column_of(walk: BatchExpressions, name: str, arguments: Sequence[Value], node: ast.Call) -> Value:
    """Return the result of calling one of Spark's functions with these arguments."""
    if name in ("udf", "pandas_udf", "udtf"):
        return walk.opaque(*arguments)
    if name == "broadcast" and len(arguments) == 1:
        return arguments[0]
    for number, value in enumerate(arguments):
        match value:
            case Plain(value=str() as text):
                if name != "count":
                    _star(walk, text)
                if name in _ARE_COLUMNS or (name in _FIRST_IS_COLUMN and not number):
                    walk.read(walk.frame, text, node)
            case Local():
                walk.lose(walk.call(value, [COLUMN] * len(value.node.args.args)))
            case _:
                _in_column(walk, value, literal=name == "lit")
    return COLUMN


def _in_column(walk: BatchExpressions, value: Value, *, literal: bool = False) -> None:
    """Record the columns in a value within an expression; an unknown value may name any column."""
    if isinstance(value, Several):
        for each in value.values:
            _in_column(walk, each, literal=literal)
    elif value != COLUMN and not isinstance(value, Plain):
        walk.lose(value)
        if not literal and not walk.payload:
            walk.lose(walk.frame or Frame())


def _star(walk: BatchExpressions, text: str) -> None:
    """Record the use of all columns at once, because a hash of all columns may be a key. All columns as the payload of
    a message are not recorded.
    """
    if _STAR.search(_COUNTED.sub("", text)) and not walk.payload and not _PAYLOAD.search(text):
        walk.every_column = True
        walk.lose(walk.frame or Frame())


def makes_payload(node: ast.Call) -> bool:
    """Whether a call is ``….alias("value")``, which makes the payload of a message."""
    named = node.args[0].value if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) else None
    return isinstance(node.func, ast.Attribute) and node.func.attr == "alias" and named == _VALUE


def attribute_of_frame(walk: BatchExpressions, frame: Frame, name: str, node: ast.AST) -> Value:
    """Return the value of ``batch.x``, which is a column unless frames have an attribute of that name."""
    if name == "write":
        return Writer(frame)
    if name in _TELLS_NOTHING | _OF_THE_FRAME:
        return UNKNOWN
    if name == "columns" and walk.payload:
        return UNKNOWN
    if hasattr(DataFrame, name) or name.startswith("_"):
        walk.every_column |= name == "columns"
        return walk.opaque(frame)
    walk.read(frame, name, node)
    return COLUMN


def method(walk: BatchExpressions, holder: Value, name: str, node: ast.Call, scope: Scope) -> Value | None:
    """Return the result of a method call; None if this module does not describe the method of that object.

    ``walk``: the walk over the job's code.
    ``holder``: the object on which the method is called.
    ``name``: the method.
    ``node``: the call.
    ``scope``: the values of the variables at the call.
    """
    match holder:
        case Frame():
            return _of_frame(walk, holder, name, node, scope)
        case Grouped(frame=frame):
            if name == "pivot" or name in _AGGREGATES:
                _columns(walk, frame, _all(node), scope, texts=name not in ("agg", "pivot"))
                return holder if name == "pivot" else Frame(whole=False, firm=False)
        case Writer():
            return _of_writer(walk, holder, name, node, scope)
        case Other(is_column=True):
            arguments = list(walk.arguments(_all(node), scope))
            for value in arguments:
                _in_column(walk, value, literal=name != "over")
            return COLUMN
        case Known(found=found) if found is Window:
            walk.lose(*walk.arguments(_all(node), scope))
            return COLUMN
    return None


def _all(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)]


def _columns(
    walk: BatchExpressions, frame: Frame, nodes: Iterable[ast.expr], scope: Scope, *, texts: bool, read: bool = True
) -> bool:
    """Follow arguments that name columns of the frame; return whether one of them is a plain ``*``.

    ``walk``: the walk.
    ``frame``: the frame.
    ``nodes``: the arguments.
    ``scope``: the variables.
    ``texts``: whether strings are names of columns here.
    ``read``: whether the columns are read, and not only named.
    """
    every = False
    with walk.during(frame=frame if read else None):
        for node in nodes:
            for value in walk.arguments([node], scope):
                every |= _column(walk, frame, value, node, texts=texts, read=read)
    return every


def _column(walk: BatchExpressions, frame: Frame, value: Value, node: ast.AST, *, texts: bool, read: bool) -> bool:
    """Record the columns that a value reads when it is used as a column. Return whether the value means all columns.

    ``walk``: the walk over the job's code.
    ``frame``: the frame on which the method is called.
    ``value``: the value.
    ``node``: where it is used.
    ``texts``: whether strings are names of columns here.
    ``read``: whether the column is read, and not only named.
    """
    match value:
        case Plain(value=str() as text):
            if texts and text.rpartition(".")[2].strip() == "*":
                return True
            _star(walk, text)
            if texts and read:
                walk.read(frame, text, node)
        case Several(values=values):
            return any([_column(walk, frame, each, node, texts=texts, read=read) for each in values])
        case Plain():
            pass
        case _ if value != COLUMN:
            walk.lose(value, frame)
    return False


def select(walk: BatchExpressions, frame: Frame, node: ast.expr, names: Value) -> Frame:
    """Return the frame that ``batch[["a", "b"]]`` produces."""
    _column(walk, frame, names, node, texts=True, read=True)
    return Frame(whole=False, firm=False, all_rows=frame.all_rows)


def _of_frame(walk: BatchExpressions, frame: Frame, name: str, node: ast.Call, scope: Scope) -> Value:
    """Return the result of a frame's method.

    ``walk``: the walk over the job's code.
    ``frame``: the frame.
    ``name``: the method.
    ``node``: the call.
    ``scope``: the values of the variables at the call.
    """
    if name in _LOOKS:
        walk.lose(*walk.arguments(_all(node), scope))
        return UNKNOWN
    if name in _SAME_ROWS | _FEWER_ROWS:
        if name in _LITERALS:
            walk.lose(*walk.arguments(_all(node), scope))
        else:
            _columns(walk, frame, _all(node), scope, texts=name in _NAMES_COLUMNS)
        return frame if name in _SAME_ROWS else chosen(frame)
    if name in ("select", "selectExpr"):
        every = _columns(walk, frame, _all(node), scope, texts=True, read=name == "select")
        return Frame(whole=frame.whole and every, firm=False, all_rows=frame.all_rows)
    if name in _GROUPS:
        _columns(walk, frame, _all(node), scope, texts=True)
        return Grouped(frame)
    if name == "agg":
        _columns(walk, frame, _all(node), scope, texts=False)
        return Frame(whole=False, firm=False)
    if name in _GIVES_ROWS or name == "first":
        walk.lose(*walk.arguments(_all(node), scope))
        one = name == "first" or (name == "head" and not _all(node))
        return CollectedRow(frame) if one else Rows(frame)
    if name == "drop":
        _columns(walk, frame, _all(node), scope, texts=True, read=False)
        return replace(frame, made=frame.made | _texts_in(node))
    if name.startswith("withColumn"):
        return _with_columns(walk, frame, name, node, scope)
    if name in ("alias", "join", "crossJoin"):
        return _joined(walk, frame, node, scope)
    if name == "transform" and node.args and not node.keywords:
        function, *arguments = walk.arguments(node.args, scope)
        return walk.call(function, [frame, *arguments])
    walk.lose(frame, *walk.arguments(_all(node), scope))
    return UNKNOWN


def _texts_in(node: ast.AST) -> frozenset[str]:
    constants = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return frozenset(each for each in constants if isinstance(each, str))


def _with_columns(walk: BatchExpressions, frame: Frame, name: str, node: ast.Call, scope: Scope) -> Frame:
    """Return the frame after ``withColumn(s)`` or ``withColumn(s)Renamed``, whose names must be strings.

    ``walk``: the walk over the job's code.
    ``frame``: the frame.
    ``name``: the method.
    ``node``: the call.
    ``scope``: the values of the variables at the call.
    """
    match name, node.args:
        case "withColumn", [ast.expr() as named, ast.expr() as made]:
            pairs = [(named, made)]
        case "withColumnRenamed", [ast.expr() as named, ast.expr() as made]:
            pairs = [(named, named), (made, made)]
        case (("withColumns" | "withColumnsRenamed"), [ast.Dict(keys=keys, values=values)]) if None not in keys:
            pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
        case _:
            walk.lose(frame, *walk.arguments(_all(node), scope))
            return replace(frame, firm=False)
    found: set[str] = set()
    for key, made in pairs:
        text = walk.value(key, scope)
        if not isinstance(text, Plain):
            walk.lose(text, frame)
            frame = replace(frame, firm=False)
        elif isinstance(text.value, str):
            found.add(text.value)
        is_payload = isinstance(text, Plain) and text.value == _VALUE
        with walk.during(payload=walk.payload or is_payload):
            _columns(walk, frame, [made], scope, texts=False)
    if name.endswith("sRenamed"):
        found |= _texts_in(node)
    return replace(frame, made=frame.made | found)


def _joined(walk: BatchExpressions, frame: Frame, node: ast.Call, scope: Scope) -> Frame:
    """Return the join with another frame. The other frame's columns are unknown here, or have other names."""
    whole, every = frame.whole, frame.all_rows and len(node.args) == 1 and not node.keywords
    with walk.during(frame=replace(frame, firm=False)):
        for value in walk.arguments(_all(node), scope):
            if isinstance(value, Frame):
                whole |= value.whole
            elif not isinstance(value, Known) and value != UNKNOWN:
                _column(walk, frame, value, node, texts=True, read=False)
    return Frame(whole=whole, made=frame.made, firm=False, all_rows=every)


def _of_writer(walk: BatchExpressions, writer: Writer, name: str, node: ast.Call, scope: Scope) -> Value:
    """Return the result of a writer's method.

    ``walk``: the walk over the job's code.
    ``writer``: the writer.
    ``name``: the method.
    ``node``: the call.
    ``scope``: the values of the variables at the call.
    """
    arguments = list(walk.arguments(_all(node), scope))
    if name == "format":
        named = arguments[0].value if len(arguments) == 1 and isinstance(arguments[0], Plain) else "?"
        return replace(writer, format=str(named).lower())
    if name in ("mode", "option", "options"):
        walk.lose(*arguments)
        return writer
    if name in _WRITER_COLUMNS:
        for value in arguments:
            _column(walk, writer.frame, value, node, texts=name == "partitionBy", read=True)
        return writer
    walk.lose(*arguments)
    kept = writer.format if name == "save" else name
    columns = columns_read_by_name(kept or "")
    if columns and writer.frame.whole:
        walk.texts.update(columns)
    elif kept != "noop":
        # Files too: their readers may know rows by a column that the function does not name.
        walk.lose(writer.frame)
    return UNKNOWN
