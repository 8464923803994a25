"""Finds the code of a sink's function that may decide where rows go: all code except the parts that provably do not.

These parts do not decide: log lines, names of local variables, tuning of writes, guards against empty batches, and
filters of the batch if all rows go to one place (like a filter above all state, such filters apply to new rows).
Columns that the function creates, renames or drops may decide, because any of them may be a row's key, route or topic.
"""

from __future__ import annotations

import dis
import logging
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from pyspark.sql import Column, functions

from streamkeeper.inspection.bytecode import JUMPS, start_of_value
from streamkeeper.inspection.local_names import LOCALS

_TUNES = frozenset({"cache", "coalesce", "hint", "persist", "repartition", "sortWithinPartitions", "unpersist"})
_READS = frozenset({"collect", "count", "head", "isEmpty", "show", "take"})
"""Methods that only run the batch's query if a statement discards their result."""
_SHAPES = frozenset(
    {"drop", "dropDuplicates", "drop_duplicates", "fillna", "select", "selectExpr"}
    | {"toDF", "withColumn", "withColumnRenamed", "withColumns", "withColumnsRenamed"}
)
"""Methods that change a frame's columns, and so always matter: a column may be a key, a route or a topic."""
_CHOOSES = frozenset({"distinct", "dropna", "filter", "limit", "sample", "where"})
"""Methods that decide which rows go to which place, if one batch goes to several places."""
_SORTS = frozenset({"orderBy", "sort"})
_NEEDS_ORDER = frozenset(
    {"collect", "dropDuplicates", "drop_duplicates", "first", "foreach", "foreachPartition", "head", "limit", "rdd"}
    | {"tail", "take", "toLocalIterator", "toPandas"}
)
"""Methods for which a preceding sort matters, because it decides which row is kept or which of two rows comes last."""
_OF_FRAMES = _TUNES | _READS | _SHAPES | _CHOOSES | _SORTS
_TUNING_OPTIONS = frozenset({"batchsize", "compression", "fetchsize", "maxrecordsperfile", "numpartitions"})
_LOGS = frozenset({"critical", "debug", "error", "exception", "info", "log", "warning"})
_LOGGERS = frozenset({"_log", "_logger", "log", "logger", "LOG", "LOGGER"})
_HARMLESS = frozenset({len, str, int, float, bool, round, sum, min, max, sorted, list, tuple, set, dict})
_ONLY_MAKES = frozenset(
    {*dir(functions), *dir(Column), *dir(str), "batch_id", "columns", "count", "dtypes", "isEmpty", "rdd", "schema"}
)
"""Methods and attributes that only make a value from other values, and write nothing."""
_WRITES = frozenset(
    {
        *("boto3", "botocore", "clickhouse_connect", "confluent_kafka", "delta", "elasticsearch", "google", "httpx"),
        *("kafka", "mysql", "oracledb", "psycopg", "psycopg2", "pymongo", "pymysql", "redis", "requests"),
        *("_sqlite3", "snowflake", "sqlalchemy", "sqlite3", "urllib3"),
    }
)
"""Libraries through which sink functions write, and which write only to places that their caller names."""
_ATTRIBUTES_SAY = sys.version_info >= (3, 12)
"""Whether the lowest bit of ``LOAD_ATTR`` marks a method call. Older versions of Python have a separate instruction."""
_PASSED = frozenset({"NOT_TAKEN", "PRECALL", "TO_BOOL"})
"""Instructions that accompany a call or a condition in some versions of Python."""

_ATOMS = (str, int, float, bytes, type(None))

Steps = Sequence[dis.Instruction]


def is_told_where(module: str) -> bool:
    """Whether a library writes only to targets that its caller names, and never to a target of its own choice."""
    return module.partition(".")[0] in _WRITES


class Routing:
    """Restricts a walk over code to the parts that may decide where a sink's function writes its rows."""

    def __init__(self, function: object) -> None:
        self._sink = _batch_of(function)

    def counting(self, code: CodeType, steps: Steps, names: Mapping[str, Any]) -> tuple[Sequence[int], dict[int, Any]]:
        """Return the positions of the instructions to compare.

        The second result has, by position, the value that is compared instead of the instruction's own argument, for
        instructions that name a variable or a place in the code.

        ``steps``: the instructions of ``code``.
        ``names``: the globals of ``code``.
        """
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        batch = self._sink[1] if self._sink and code is self._sink[0] else None
        kept = _counting(steps, names, parameters, batch)
        return kept, _arguments(steps, kept, parameters)

    def beside(self, _code: CodeType, _handlers: Any) -> list[Any]:
        """Return an empty list, because only the instructions of the code are compared."""
        return []


def _batch_of(function: object) -> tuple[CodeType, str] | None:
    """Return the function's own code, and the name of its parameter for the batch."""
    match function:
        case FunctionType():
            code, position = function.__code__, 0
        case MethodType(__func__=FunctionType() as inner):
            code, position = inner.__code__, 1
        case _:
            if not isinstance(called := vars(type(function)).get("__call__"), FunctionType):
                return None
            code, position = called.__code__, 1
    return (code, code.co_varnames[position]) if code.co_argcount > position else None


def _counting(steps: Steps, names: Mapping[str, Any], parameters: Sequence[str], batch: str | None) -> list[int]:
    out = {*_logging(steps, names), *_tuning_options(steps)}
    if batch is None:
        return _kept(steps, out)
    out |= {*_empty_guards(steps, out, batch)}
    frames = _frames(steps, names, parameters, batch)
    left_out = _TUNES | _READS
    if not any(step.argval in _NEEDS_ORDER for step in steps if isinstance(step.argval, str)):
        left_out |= _SORTS
    if _goes_to_one_place(steps, _kept(steps, out | _on_frames(steps, names, frames, _OF_FRAMES)), frames):
        left_out |= _CHOOSES
    return _kept(steps, out | _on_frames(steps, names, frames, left_out))


def _goes_to_one_place(steps: Steps, kept: Sequence[int], frames: set[str]) -> bool:
    """Whether a frame is used at most once, and not in a loop; ``kept``: the instructions except those that make
    frames.
    """
    loaded = [steps[number].opname == "LOAD_FAST" and steps[number].argval in frames for number in kept]
    renamed = [steps[number].opname == "STORE_FAST" for number in kept[1:]]
    uses = [number for number, here, after in zip(kept, loaded, [*renamed, False], strict=True) if here and not after]
    return len(uses) <= 1 and not any(steps[number].offset in loop for number in uses for loop in _loops(steps))


def _empty_guards(steps: Steps, out: set[int], batch: str) -> Iterator[int]:
    """Yield the guards ``if batch.isEmpty(): return``, and ``if not batch.isEmpty():`` around everything that follows.

    Only guards on the batch itself are included. If a guard tests rows that were selected from the batch, the other
    rows may still be written further down.
    """
    if any(step.argval == batch and step.opname in ("STORE_FAST", "DELETE_FAST") for step in steps):
        return
    targets = Counter(step.argval for step in steps if step.opcode in JUMPS)
    tail = next(
        (index for index in (len(steps) - 1, len(steps) - 2) if _returns_nothing(steps, index) == len(steps) - index), 0
    )
    left = [number for number in range(len(steps)) if number not in out and steps[number].opname not in _PASSED]
    for loaded, method, call, number, leaves in zip(left, left[1:], left[2:], left[3:], left[4:], strict=False):
        asks = steps[loaded].opname == "LOAD_FAST" and steps[loaded].argval == batch
        asks = asks and steps[method].argval == "isEmpty" and steps[call].opname == "CALL" and not steps[call].arg
        if not asks or _method_of(steps, call) != method:
            continue
        jump, end = steps[number], leaves + _returns_nothing(steps, leaves)
        if _ends(jump, "IF_FALSE") and leaves < end < len(steps) and jump.argval == steps[end].offset:
            guard, others = range(loaded, end), range(0)
        elif _ends(jump, "IF_TRUE") and tail and jump.argval == steps[tail].offset:
            guard, others = range(loaded, number + 1), range(tail, len(steps))
            if targets[jump.argval] > 1 or not _returns_nothing(steps, tail - (len(steps) - tail)):
                continue
        else:
            continue
        if not any(steps[index].offset in targets for index in guard[1:]):
            yield from (*guard, *others)


def _ends(jump: dis.Instruction, condition: str) -> bool:
    return jump.opcode in JUMPS and jump.opname.endswith(condition)


def _returns_nothing(steps: Steps, index: int) -> int:
    """Return the number of instructions from ``index`` that only return None; 0 if they do anything else."""
    found = [(step.opname, step.argval) for step in steps[max(index, 0) : index + 2]]
    if found[:1] == [("RETURN_CONST", None)]:
        return 1
    return 2 if [name for name, _ in found] == ["LOAD_CONST", "RETURN_VALUE"] and found[0][1] is None else 0


def _loops(steps: Steps) -> Iterator[range]:
    """Yield the ranges of offsets that run in a loop."""
    for step in steps:
        if step.opname.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD")):
            yield range(step.argval, step.offset)


def _arguments(steps: Steps, kept: Sequence[int], parameters: Sequence[str]) -> dict[int, Any]:
    """Return the new arguments of instructions that name a variable or a place in the code.

    A variable is replaced by its position in the order of first use, and a place by its position in the code that is
    kept.
    """
    order = {name: number for number, name in enumerate(parameters)}
    left = [steps[number].offset for number in kept]
    found: dict[int, Any] = {}
    for number in kept:
        step = steps[number]
        if step.opname in LOCALS:
            found[number] = order.setdefault(str(step.argval), len(order))
        elif step.opcode in JUMPS:
            found[number] = bisect_left(left, step.argval)
    return found


def _kept(steps: Steps, out: set[int]) -> list[int]:
    """Return the positions of the instructions that are not in ``out``, without those that only pass a variable on."""
    found: list[int] = []
    for number, step in enumerate(steps):
        if number in out:
            continue
        before = steps[found[-1]] if found else None
        if before is not None and before.opname == "LOAD_FAST" and found[-1] + 1 < number:
            same = step.opname == "STORE_FAST" and step.argval == before.argval
            if step.opname == "POP_TOP" or same:
                found.pop()
                continue
        found.append(number)
    uses = Counter(steps[number].argval for number in found if steps[number].opname in LOCALS)
    passed: set[int] = set()
    for number, after in pairwise(found):
        name = steps[number].argval
        stored = steps[number].opname == "STORE_FAST" and steps[after].opname == "LOAD_FAST"
        if stored and steps[after].argval == name and uses[name] == 2:
            passed |= {number, after}
    return [number for number in found if number not in passed]


def _frames(steps: Steps, names: Mapping[str, Any], parameters: Sequence[str], batch: str) -> set[str]:
    """Return the variables that never hold anything but the batch or a frame that was made from its rows."""
    stores = [number for number, step in enumerate(steps) if step.opname == "STORE_FAST"]
    frames = {batch} | {str(steps[number].argval) for number in stores} - set(parameters)
    while True:
        ends = _frame_ends(steps, names, frames)
        others = {str(steps[number].argval) for number in stores if number - 1 not in ends} & frames
        if not others:
            return frames
        frames -= others


def _frame_ends(steps: Steps, names: Mapping[str, Any], frames: set[str]) -> dict[int, range]:
    """Return position of an instruction that leaves a frame on top of the stack -> the instructions of the call that
    made it.
    """
    ends: dict[int, range] = {}
    for number, step in enumerate(steps):
        if step.opname == "LOAD_FAST" and step.argval in frames:
            ends[number] = range(0)
        elif step.opname == "CALL" and (called := _method_of(steps, number)) is not None:
            method = steps[called].argval
            reads = method in _READS and steps[number + 1 : number + 2] and steps[number + 1].opname == "POP_TOP"
            known = (reads or method in _OF_FRAMES - _READS) and called - 1 in ends
            if known and _is_plain(steps[called + 1 : number], names):
                ends[number] = range(called, number + 1)
    return ends


def _on_frames(steps: Steps, names: Mapping[str, Any], frames: set[str], methods: frozenset[str]) -> set[int]:
    made = _frame_ends(steps, names, frames).values()
    return {number for span in made if span and steps[span[0]].argval in methods for number in span}


def _method_of(steps: Steps, call: int) -> int | None:
    """Return the position of the instruction that loads the method or function called at ``call``; None if it is
    unclear.
    """
    start = call
    while start > 0 and steps[start - 1].opname in ("PRECALL", "KW_NAMES"):
        start -= 1
    for _ in range(steps[call].arg or 0):
        if (start := start_of_value(steps, start)) <= 0:
            return None
    step = steps[start - 1]
    method = step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and _ATTRIBUTES_SAY and (step.arg or 0) & 1)
    return start - 1 if method or step.opname == "LOAD_GLOBAL" else None


def _is_plain(steps: Steps, names: Mapping[str, Any]) -> bool:
    """Whether the instructions only make a value from constants, variables and Spark's own functions."""
    for step in steps:
        if step.opcode in JUMPS or step.opname in ("LOAD_DEREF", "MAKE_FUNCTION", "LOAD_CLOSURE", "CALL_FUNCTION_EX"):
            return False
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and not _is_harmless(str(step.argval), names):
            return False
        if step.opname in ("LOAD_METHOD", "LOAD_ATTR") and step.argval not in _ONLY_MAKES:
            return False
        if step.opname.startswith(("STORE_", "DELETE_", "IMPORT_", "YIELD", "SEND", "RAISE")):
            return False
    return True


def _is_harmless(name: str, names: Mapping[str, Any]) -> bool:
    built_in = names.get("__builtins__", {})
    found = names.get(name, (built_in if isinstance(built_in, dict) else vars(built_in)).get(name))
    match found:
        case ModuleType():
            return found.__name__.startswith("pyspark.sql")
        case type() | FunctionType() | BuiltinFunctionType():
            return found in _HARMLESS or str(found.__module__).startswith("pyspark.sql")
        case list() | tuple() | set() | frozenset():
            return all(isinstance(element, _ATOMS) for element in found)
        case _:
            return isinstance(found, _ATOMS)


def _logging(steps: Steps, names: Mapping[str, Any]) -> Iterator[int]:
    """Yield the instructions of statements that only write a line to a log."""
    for number, step in enumerate(steps[:-1]):
        if step.opname != "CALL" or steps[number + 1].opname != "POP_TOP":
            continue
        called = _method_of(steps, number)
        if called is None or not _is_plain(steps[called + 1 : number], names):
            continue
        if steps[called].opname == "LOAD_GLOBAL":
            if steps[called].argval == "print" and "print" not in names:
                yield from range(called, number + 2)
        elif steps[called].argval in _LOGS and called and _is_logger(steps[called - 1], names):
            yield from range(start_of_value(steps, called), number + 2)


def _is_logger(step: dis.Instruction, names: Mapping[str, Any]) -> bool:
    if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
        found = names.get(str(step.argval))
        return isinstance(found, logging.Logger | logging.LoggerAdapter) or found is logging
    return step.opname in ("LOAD_FAST", "LOAD_ATTR", "LOAD_DEREF") and step.argval in _LOGGERS


def _tuning_options(steps: Steps) -> Iterator[int]:
    """Yield the instructions of calls like ``.option("batchsize", …)`` with a constant value."""
    for number, step in enumerate(steps):
        called = _method_of(steps, number) if step.opname == "CALL" and step.arg == 2 else None
        if called is None or steps[called].argval != "option" or steps[called].opname == "LOAD_GLOBAL":
            continue
        key, value = steps[called + 1], steps[called + 2]
        if key.opname == value.opname == "LOAD_CONST" and str(key.argval).lower() in _TUNING_OPTIONS:
            yield from range(called, number + 1)
