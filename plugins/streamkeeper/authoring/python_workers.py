"""Prepares a Python worker for importing a job's file, from which the worker gets a function or a class by name.

A worker has no session. PySpark therefore cannot parse the type in a call such as ``F.udf(f, "int")`` in that file, and
without this preparation the import would fail before the needed function is defined. A worker never reads the type of
such a UDF.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

_WORKER = "pyspark.worker"
_PARSE = "_parse_datatype_string"
_CHECK = "_check_return_type"


def leave_types_unparsed() -> None:
    """In a Python worker without a session, make PySpark neither parse nor check types that a job gives as text.

    Each such type, as in ``F.udf(f, "int")``, becomes an empty struct.
    """
    if _WORKER not in sys.modules:
        return
    types, udf, context = (sys.modules[f"pyspark.{name}"] for name in ("sql.types", "sql.udf", "core.context"))

    def in_a_session(function: Callable[..., Any], instead: Callable[[], Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(*arguments: Any) -> Any:
            return function(*arguments) if context.SparkContext._active_spark_context is not None else instead()

        return called

    parse = in_a_session(getattr(types, _PARSE), types.StructType)
    for module in (types, udf, sys.modules.get("pyspark.sql.udtf")):
        if module is not None:
            setattr(module, _PARSE, parse)
    function: Any = udf.UserDefinedFunction
    setattr(function, _CHECK, staticmethod(in_a_session(getattr(function, _CHECK), lambda: None)))
