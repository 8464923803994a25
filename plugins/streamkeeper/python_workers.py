"""What a job's file meets where a Python worker imports it, to find a function or a class of it by name.

There is no session in a worker, so ``F.udf(f, "int")`` in that file could not parse its type, and the worker would not
get as far as the function that it looks for. Nobody asks a worker's copy of such a UDF for its type.
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
    """In a worker, while no session is there, a type that is named in text stands for an empty struct, unchecked."""
    if _WORKER not in sys.modules:
        return
    types, udf, context = (sys.modules[f"pyspark.{name}"] for name in ("sql.types", "sql.udf", "core.context"))

    def in_a_session(function: Callable[..., Any], instead: Callable[[], Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(*given: Any) -> Any:
            return function(*given) if context.SparkContext._active_spark_context is not None else instead()

        return called

    parse = in_a_session(getattr(types, _PARSE), types.StructType)
    for module in (types, udf, sys.modules.get("pyspark.sql.udtf")):
        if module is not None:
            setattr(module, _PARSE, parse)
    function: Any = udf.UserDefinedFunction
    setattr(function, _CHECK, staticmethod(in_a_session(getattr(function, _CHECK), lambda: None)))
