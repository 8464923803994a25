"""Follows the batch through the expressions of a sink's function. The module has one class, which ``batch_columns``
completes with calls and statements.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any

from streamkeeper.inspection import batch_methods
from streamkeeper.inspection.batch_values import (
    COLUMN,
    UNKNOWN,
    CollectedRow,
    Frame,
    Known,
    Local,
    Method,
    Other,
    Plain,
    Rows,
    Scope,
    Several,
    Value,
    frames_in,
)
from streamkeeper.inspection.function_source import FunctionSources
from streamkeeper.inspection.own_code import OwnCode

_ATOMS = (str, bytes, int, float, complex, bool, type(None))
_MOST_ELEMENTS = 100
_ONLY_LOOKS = frozenset({"bool", "id", "isinstance", "len", "print"})
_KEEPS_ROWS = frozenset({"iter", "list", "reversed", "sorted", "tuple"})


class LostTrack(Exception):
    """Raised if the code contains a construct that the walk cannot follow."""


class BatchExpressions:
    """One walk over the code of a sink's function, which finds the batch's columns that the code uses.

    ``texts``, ``reads``, ``any_column`` and ``every_column`` collect the findings. These fields describe the present
    point of the walk:

    ``sure``: whether every batch with rows reaches this point.
    ``frame``: the DataFrame on which a method is called here, so that names in the call are columns; None elsewhere.
    ``payload``: whether a whole row is used here only as the ``value`` of a message.
    ``weak``: whether a statement here may not complete, so that a variable may keep its old value.
    """

    def __init__(self, own: OwnCode) -> None:
        self.own = own
        self.sources = FunctionSources()
        self.texts: set[str] = set()
        self.reads: dict[str, str] = {}
        self.any_column = False
        self.every_column = False
        self.sure = True
        self.frame: Frame | None = None
        self.payload = False
        self.weak = False
        self.file = ""

    @contextmanager
    def during(self, **fields: Any) -> Iterator[None]:
        """Set some of the walk's fields to other values until the ``with`` block ends."""
        before = {name: getattr(self, name) for name in fields}
        for name, value in fields.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def lose(self, *values: Value | None) -> None:
        """Stop following these values. If a whole row is among them, any column may be used from now on."""
        for value in values:
            if value is None:
                continue
            if isinstance(value, Local):
                with self.during(sure=False):
                    self.call(value, [])
            elif isinstance(value, Several):
                self.lose(*value.values)
            self.any_column |= any(frame.whole for frame in frames_in(value))

    def read(self, frame: Frame | None, name: str, node: ast.AST) -> None:
        """Record that the code uses a column of the frame; ``name``: the string by which the code names the column."""
        self.texts.add(name)
        if frame is None or not (frame.whole and frame.firm and self.sure) or not re.fullmatch(r"\w+", name):
            return
        if name.casefold() not in {made.casefold() for made in frame.made} and not name.startswith("_"):
            self.reads.setdefault(name, f"{self.file}:{getattr(node, 'lineno', 0)}")

    def known(self, found: object) -> Value:
        """Return the value that stands for a Python object of this process. Record the strings in the object as names
        that the function may use.
        """
        if isinstance(found, CellType):
            try:
                found = found.cell_contents
            except ValueError:
                return UNKNOWN
        if isinstance(found, str):
            self.texts.add(found)
        if isinstance(found, _ATOMS):
            return Plain(found)
        if isinstance(found, list | tuple | set | frozenset) and len(found) < _MOST_ELEMENTS:
            return Several(tuple(self.known(each) for each in found))
        return Known(found)

    def call(self, called: Value, arguments: Sequence[Value], named: dict[str, Value] | None = None) -> Value:
        """Return the result of a call. A function of the job's own is followed; values passed to any other function are
        no longer followed.
        """
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Assign a variable; a value stored in an object or a container is no longer followed."""
        raise NotImplementedError

    def joined(self, values: Sequence[Value]) -> Value:
        """Return one value for a variable that may have any of the given values. If their kinds differ, their rows are
        no longer followed.
        """
        raise NotImplementedError

    def local(self, node: ast.FunctionDef | ast.Lambda, arguments: ast.arguments, scope: Scope) -> Value:
        """Return the function that a ``def`` or a ``lambda`` creates. From here on, the walk does not track the values
        that are used as defaults of its parameters.
        """
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.lose(self.value(default, scope))
        return Local(node, scope)

    def children(self, node: ast.AST, scope: Scope) -> Value:
        """Evaluate every part of an expression of an unsupported kind, and stop following the values of the parts.
        Return UNKNOWN.
        """
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.lose(self.value(child, scope))
            else:
                self.children(child, scope)
        return UNKNOWN

    def value(self, node: ast.expr, scope: Scope) -> Value:
        """Return the value of an expression."""
        match node:
            case ast.Constant(value=value):
                return self.known(value)
            case ast.Name(id=name):
                return self._variable(name, scope)
            case ast.Attribute(value=holder, attr=name):
                return self._attribute(self.value(holder, scope), name, node)
            case ast.Subscript():
                return self._part(node, scope)
            case ast.Call():
                return self._called(node, scope)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return Several(tuple(self.arguments(elements, scope)))
            case ast.Lambda(args=arguments):
                return self.local(node, arguments, scope)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.value(test, scope)
                with self.during(sure=False):
                    return self.joined([self.value(body, scope), self.value(orelse, scope)])
            case ast.NamedExpr(target=target, value=value):
                found = self.value(value, scope)
                self.assign(target, found, scope)
                return found
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, scope)
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare():
                return self._operation(node, scope)
            case _:
                return self.children(node, scope)

    def arguments(self, nodes: Iterable[ast.expr], scope: Scope) -> Iterator[Value]:
        """Yield the values of a call's arguments. An unpacked list whose elements are known yields one value per
        element.
        """
        for node in nodes:
            if not isinstance(node, ast.Starred):
                yield self.value(node, scope)
                continue
            spread = self.value(node.value, scope)
            yield from spread.values if isinstance(spread, Several) else [self.opaque(spread)]

    def opaque(self, *values: Value) -> Other:
        """Stop following ``values``, and return the unknown value of a computation that uses them."""
        self.lose(*values)
        return UNKNOWN

    def _variable(self, name: str, scope: Scope) -> Value:
        found = scope.find(name)
        if found is not None:
            return found
        code, closure = scope.function.__code__, scope.function.__closure__ or ()
        cells = dict(zip(code.co_freevars, closure, strict=False))
        if name in cells:
            return self.known(cells[name])
        names = scope.function.__globals__
        return self.known(names[name]) if name in names else Known(getattr(builtins, name, None))

    def _attribute(self, holder: Value, name: str, node: ast.AST) -> Value:
        match holder:
            case Frame():
                return batch_methods.attribute_of_frame(self, holder, name, node)
            case CollectedRow(frame=frame):
                if hasattr(batch_methods.ROW, name):
                    return self.opaque(holder)
                self.read(frame, name, node)
                return UNKNOWN
            case Other(is_column=True):
                self.texts.add(name)
                return COLUMN
            case Known(found=ModuleType() as module):
                return self.known(vars(module)[name]) if name in vars(module) else UNKNOWN
            case Known(found=found):
                return self._held(found, name)
            case _:
                self.texts.add(name)
                return self.opaque(holder)

    def _held(self, found: object, name: str) -> Value:
        """Return the value of an object's attribute, read from the object or its class without running any code."""
        held = getattr(found, "__dict__", {})
        if name in held:
            is_bound = isinstance(held[name], staticmethod | classmethod | property)
            return UNKNOWN if is_bound else self.known(held[name])
        for base in type(found).__mro__:
            if name in vars(base):
                inner = vars(base)[name]
                if isinstance(inner, FunctionType):
                    return Method(inner, found)
                return UNKNOWN if hasattr(type(inner), "__get__") else self.known(inner)
        return UNKNOWN

    def _part(self, node: ast.Subscript, scope: Scope) -> Value:
        holder, index = self.value(node.value, scope), self.value(node.slice, scope)
        match holder, index:
            case (Frame() as frame, Plain(value=str() as name)) | (
                CollectedRow(frame=frame),
                Plain(value=str() as name),
            ):
                self.read(frame, name, node)
                return COLUMN if isinstance(holder, Frame) else UNKNOWN
            case Frame(), Several():
                return batch_methods.select(self, holder, node.slice, index)
            case Frame(), Other(is_column=True):
                return batch_methods.chosen(holder)
            case Rows(frame=frame), Plain():
                return CollectedRow(frame)
            case Rows(), _:
                return holder
            case Several(values=values), Plain(value=int() as number) if -len(values) <= number < len(values):
                return values[number]
            case Other(is_column=True), _:
                return COLUMN
            case _:
                return self.opaque(holder, index)

    def _operation(self, node: ast.expr, scope: Scope) -> Value:
        parts = [self.value(each, scope) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        if isinstance(node, ast.Compare) and all(isinstance(each, ast.Is | ast.IsNot) for each in node.ops):
            return UNKNOWN
        self.lose(*parts)
        if any(isinstance(each, Other) and each.is_column for each in parts):
            return COLUMN
        numbers = all(isinstance(each, Plain) and not isinstance(each.value, str | bytes) for each in parts)
        return Plain(None) if numbers else UNKNOWN

    def _comprehension(self, node: ast.expr, scope: Scope) -> Value:
        """Follow a comprehension's elements once for each value of a known list, or once for each kind of rows."""
        inner = Scope(scope.function, scope.file, outer=scope)
        first, *others = node.generators  # type: ignore[attr-defined]
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]  # type: ignore[attr-defined]
        source = self.value(first.iter, inner)
        match source:
            case Rows(frame=frame):
                turns: tuple[Value, ...] = (CollectedRow(frame),)
                runs = frame.all_rows
            case Several(values=values):
                turns, runs = values, True
            case _:
                turns, runs = (self.opaque(source),), False
        made: list[Value] = []
        for turn in turns:
            self.assign(first.target, turn, inner)
            with self.during(sure=self.sure and runs and not first.ifs and not others):
                for condition in first.ifs:
                    self.lose(self.value(condition, inner))
                for other in others:
                    self.assign(other.target, self.opaque(self.value(other.iter, inner)), inner)
                    for condition in other.ifs:
                        self.lose(self.value(condition, inner))
                made += [self.value(each, inner) for each in elements]
        self.lose(*made)
        known = isinstance(source, Several) and not first.ifs and not others and not isinstance(node, ast.DictComp)
        return Several(tuple(made)) if known else UNKNOWN

    def _called(self, node: ast.Call, scope: Scope) -> Value:
        if isinstance(node.func, ast.Attribute):
            with self.during(payload=self.payload or batch_methods.makes_payload(node)):
                holder = self.value(node.func.value, scope)
            answer = batch_methods.method(self, holder, node.func.attr, node, scope)
            if answer is not None:
                return answer
            called = self._attribute(holder, node.func.attr, node.func)
        else:
            called = self.value(node.func, scope)
        arguments = list(self.arguments(node.args, scope))
        named = {str(each.arg): self.value(each.value, scope) for each in node.keywords}
        return self._result(called, arguments, named, node)

    def _result(self, called: Value, arguments: list[Value], named: dict[str, Value], node: ast.Call) -> Value:
        found = called.found if isinstance(called, Known) else None
        if batch_methods.is_function_of_columns(found):
            return batch_methods.column_of(
                self, str(getattr(found, "__name__", "")), [*arguments, *named.values()], node
            )
        name = found.__name__ if isinstance(found, type | BuiltinFunctionType) else ""
        name = name if getattr(builtins, name, None) is found else ""
        if name in _ONLY_LOOKS and not any(isinstance(each, CollectedRow) for each in arguments):
            return UNKNOWN
        if name in _KEEPS_ROWS and len(arguments) == 1 and isinstance(arguments[0], Rows):
            return arguments[0]
        if (
            name == "getattr"
            and len(arguments) >= 2
            and isinstance(arguments[1], Plain)
            and isinstance(arguments[1].value, str)
        ):
            return self._attribute(arguments[0], arguments[1].value, node)
        return self.call(called, arguments, named)
