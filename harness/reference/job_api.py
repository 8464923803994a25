"""Generates the page about the classes and functions that a job's file imports, from their code."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise
from typing import Any

import streamkeeper
from harness.reference.markdown import code, page, prose

_INTRODUCTION = """
A job is a function of a Spark session and its params that yields queries. It sets no checkpoint location and starts no
query. Everything here is imported from `streamkeeper`.

```python
from pyspark.sql import functions as F
from streamkeeper import Param, Query, TableSink, streaming_job


@streaming_job(name="order_totals", params={"input": Param(str), "warehouse": Param(str)})
def order_totals(spark, params):
    orders = spark.readStream.schema("order_id string, shop string, amount long").csv(params["input"])
    totals = orders.groupBy("shop").agg(F.sum("amount").alias("total"))
    sink = TableSink(params["warehouse"], table="order_totals", key=["shop"])
    yield Query("totals", totals, sink=sink, output_mode="update", trigger="5 seconds")
```

The job's file is `order_totals.py` in the directory that `STREAMKEEPER_JOBS` names. Helpers beside it may be imported.
"""
_ORDER = (
    *("streaming_job", "Param", "Query", "TableSink", "AppendTableSink", "FileSink"),
    *("read_serving", "DeltaSink", "KafkaSink", "newest_attempts", "ForeachBatch", "BatchContext"),
)


def render_job_api() -> str:
    """Return the text of docs/reference/job-api.md."""
    missing = set(streamkeeper.__all__) - set(_ORDER)
    if missing:
        raise LookupError(f"not in the reference: {', '.join(sorted(missing))}")
    return page("Job API", _INTRODUCTION, *(_section(name) for name in _ORDER))


def _section(name: str) -> str:
    node = _definition(getattr(streamkeeper, name))
    parts = [f"## {name}", f"```python\n{_signature(node)}\n```", _text(ast.get_docstring(node))]
    if isinstance(node, ast.ClassDef):
        parts.extend(_attributes(node))
    return "\n\n".join(part for part in parts if part)


def _definition(what: Any) -> ast.ClassDef | ast.FunctionDef:
    node = ast.parse(inspect.getsource(what)).body[0]
    if not isinstance(node, ast.ClassDef | ast.FunctionDef):
        raise TypeError(f"{what} is neither a class nor a function")
    return node


def _signature(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the signature of a class or function, on one line if it fits, else with one line per argument."""
    if isinstance(node, ast.FunctionDef):
        every = [*node.args.args, *node.args.kwonlyargs]
        defaults = [None] * (len(node.args.args) - len(node.args.defaults)) + [*node.args.defaults]
        values = dict(zip((each.arg for each in every), [*defaults, *node.args.kw_defaults], strict=True))
        found = [_argument(each.arg, each.annotation, values[each.arg]) for each in every]
        arguments = [
            *found[: len(node.args.args)],
            *(["*"] if node.args.kwonlyargs else []),
            *found[len(node.args.args) :],
        ]
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return _call(node.name, arguments, result)
    fields = [each for each in node.body if _is_field(each)]
    plain = [_field(each) for each in fields if not _is_keyword_only(each)]
    keyword = [_field(each) for each in fields if _is_keyword_only(each)]
    return _call(node.name, [*plain, *(["*", *keyword] if keyword else [])], "")


def _call(name: str, arguments: list[str], result: str) -> str:
    arguments = [each.replace("'", '"') for each in arguments]
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= 88:
        return line
    return "\n".join((f"{name}(", *(f"    {each}," for each in arguments), f"){result}"))


def _argument(name: str, annotation: ast.expr | None, default: ast.expr | None) -> str:
    typed = f"{name}: {ast.unparse(annotation)}" if annotation else name
    return f"{typed} = {ast.unparse(default)}" if default is not None else typed


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)


def _is_keyword_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is not None and "kw_only=True" in ast.unparse(node.value)


def _field(node: ast.stmt) -> str:
    assert isinstance(node, ast.AnnAssign)
    value = node.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        values = {each.arg: each.value for each in value.keywords}
        factory = values.get("default_factory")
        made = ast.Call(factory, [], []) if factory is not None else None
        value = values.get("default", made)
    if value is not None and "REQUIRED" in ast.unparse(value):
        return f"{ast.unparse(node.target)}: {_public(node.annotation)} = ..."
    return _argument(ast.unparse(node.target), node.annotation, value)


def _public(annotation: ast.expr) -> str:
    """Return an annotation without the marker of a required value."""
    return re.sub(r" \| Literal\[_Required\.REQUIRED\]", "", ast.unparse(annotation))


def _attributes(node: ast.ClassDef) -> list[str]:
    """Return a Markdown list of the fields that have their own docstring."""
    found = []
    for field, after in pairwise(node.body):
        match after:
            case ast.Expr(value=ast.Constant(value=str() as text)) if isinstance(field, ast.AnnAssign):
                found.append(f"- {code(ast.unparse(field.target))}: {prose(' '.join(text.split()))}")
    return ["\n".join(found)] if found else []


def _text(docstring: str | None) -> str:
    return "\n\n".join(prose(" ".join(part.split())) for part in (docstring or "").split("\n\n"))
