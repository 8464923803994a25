"""Determines which columns of its batch a sink's function uses, by following the function's syntax.

There are two results. The first is the set of columns that the function may use as a key, a route or a unit: the
columns that it names, or all columns once a whole row is passed to something that cannot be followed (a table, a view,
a library, a connection). The second is the set of columns that it certainly reads: those read for every batch with
rows, so that the function fails without such a column.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Sequence
from types import FunctionType, MethodType

import msgspec

from streamkeeper.inspection.batch_expressions import BatchExpressions, LostTrack
from streamkeeper.inspection.batch_values import (
    UNKNOWN,
    CollectedRow,
    Frame,
    Known,
    Local,
    Method,
    Plain,
    Rows,
    Scope,
    Several,
    Value,
    either,
)
from streamkeeper.inspection.own_code import OwnCode

_MOST_CALLS, _DEEPEST = 200, 12
_LETS_FAIL = frozenset({"begin", "closing", "connect", "cursor", "open", "transaction"})
"""Context managers that let an error pass instead of suppressing it."""


class BatchColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a batch that a sink's function uses.

    ``texts``: all names that the function contains; None if the function may use any column.
    ``every``: whether the function computes something from all columns at once.
    ``reads``: column -> the ``file:line`` at which the function certainly reads the column from the batch.
    """

    texts: frozenset[str] | None = None
    every: bool = False
    reads: dict[str, str] = {}

    def used(self, columns: Iterable[str]) -> list[str] | None:
        """Return the given columns whose name occurs as a whole word in the function; None if the function may use any
        column.
        """
        if self.texts is None:
            return None
        text = "\n".join(sorted(self.texts))
        return [name for name in columns if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]


def columns_of_function(function: object, own: OwnCode) -> BatchColumns:
    """Determine how a sink's function, called with (batch, context), uses the batch's columns."""
    walk = _Walk(own)
    try:
        walk.call(walk.known(function), [Frame(), UNKNOWN])
    except (LostTrack, RecursionError):
        return BatchColumns()
    texts = None if walk.any_column else frozenset(walk.texts)
    return BatchColumns(texts=texts, every=walk.every_column, reads=walk.reads)


class _Walk(BatchExpressions):
    """A walk over the code of a sink's function that follows calls and statements."""

    def __init__(self, own: OwnCode) -> None:
        super().__init__(own)
        self._calls = 0
        self._inside: list[ast.AST] = []

    def call(self, called: Value, arguments: Sequence[Value], named: dict[str, Value] | None = None) -> Value:
        """Return the result of a call. A function of the job's own is followed; values passed to any other function are
        no longer followed.
        """
        named = named or {}
        match called:
            case Local(node=node, scope=scope):
                return self._run(node, Scope(scope.function, scope.file, outer=scope), arguments, named)
            case Method(function=function, holder=holder):
                return self.call(Known(function), [self.known(holder), *arguments], named)
            case Known(found=functools.partial() as partial):
                bound = {name: self.known(value) for name, value in partial.keywords.items()}
                return self.call(Known(partial.func), [*map(self.known, partial.args), *arguments], bound | named)
            case Known(found=MethodType() as method):
                return self.call(Known(method.__func__), [self.known(method.__self__), *arguments], named)
            case Known(found=FunctionType() as function) if self._is_own(function):
                if (found := self.sources.of(function)) is not None:
                    return self._run(found, Scope(function, function.__code__.co_filename), arguments, named)
            case Known(found=found) if isinstance(own := vars(type(found)).get("__call__"), FunctionType):
                return self.call(Known(own), [called, *arguments], named)
        self.lose(*arguments, *named.values())
        return UNKNOWN

    def _is_own(self, function: FunctionType) -> bool:
        return self.own.is_own_file(function.__code__.co_filename)

    def _run(self, node: ast.AST, scope: Scope, values: Sequence[Value], named: dict[str, Value]) -> Value:
        self._calls += 1
        if self._calls > _MOST_CALLS or len(self._inside) > _DEEPEST or node in self._inside:
            raise LostTrack
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            raise LostTrack
        self._bind(node.args, scope, values, named)
        self._inside.append(node)
        try:
            with self.during(file=scope.file, frame=None, payload=False, weak=False, sure=self.sure):
                if isinstance(node, ast.Lambda):
                    return self.value(node.body, scope)
                self.block(node.body, scope)
        finally:
            self._inside.pop()
        return self.joined([*scope.returned]) if scope.returned else Plain(None)

    def _bind(self, arguments: ast.arguments, scope: Scope, values: Sequence[Value], named: dict[str, Value]) -> None:
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        rest = dict(named)
        for name, value in zip(names, values, strict=False):
            scope.variables[name] = value
        for name in (*names[len(values) :], *(each.arg for each in arguments.kwonlyargs)):
            scope.variables[name] = rest.pop(name) if name in rest else self._default(scope, name)
        left = tuple(values[len(names) :])
        if arguments.vararg is not None:
            scope.variables[arguments.vararg.arg] = Several(left)
        else:
            self.lose(*left)
        if arguments.kwarg is not None:
            scope.variables[arguments.kwarg.arg] = UNKNOWN
        self.lose(*rest.values())

    def _default(self, scope: Scope, name: str) -> Value:
        if scope.outer is not None:
            return UNKNOWN
        code = scope.function.__code__
        defaults = scope.function.__defaults__ or ()
        positional = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
        by_name = dict(zip(positional, defaults, strict=True)) | (scope.function.__kwdefaults__ or {})
        return self.known(by_name[name]) if name in by_name else UNKNOWN

    def joined(self, values: Sequence[Value]) -> Value:
        """Return one value for a variable that may have any of the given values. If the values are of different kinds,
        their rows are no longer followed.
        """
        found = values[0]
        for value in values[1:]:
            joined = either(found, value)
            if joined is None:
                self.lose(found, value)
                return UNKNOWN
            found = joined
        return found

    def block(self, statements: Sequence[ast.stmt], scope: Scope) -> bool:
        """Follow statements in order; return whether they leave the function or the current iteration of a loop."""
        return any(self.statement(each, scope) for each in statements)

    def statement(self, node: ast.stmt, scope: Scope) -> bool:
        """Follow one statement; return whether it leaves the block, so that the next statement is not reached."""
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self.value(value, scope)
                for target in targets:
                    self.assign(target, found, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.value(value, scope), scope)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self.lose(scope.find(name), self.value(value, scope))
                scope.variables[name] = UNKNOWN
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self.value(value, scope)
            case ast.Return(value=value):
                scope.returned.append(self.value(value, scope) if value is not None else Plain(None))
                return True
            case ast.If():
                return self._if(node, scope)
            case ast.For():
                self._for(node, scope)
            case ast.With(items=items, body=body):
                return self._with(items, body, scope)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                with self.during(sure=self.sure and not handlers, weak=self.weak or bool(handlers)):
                    ends = self.block(body, scope)
                for other in (*(handler.body for handler in handlers), orelse):
                    self._maybe(other, scope)
                self.sure = self.sure and not handlers
                return self.block(final, scope) or (ends and not handlers)
            case ast.FunctionDef(name=name, decorator_list=[], args=arguments):
                scope.variables[name] = self.local(node, arguments, scope)
            case ast.ImportFrom(module="pyspark.sql", names=names) | ast.Import(names=names):
                for each in names:
                    scope.variables[each.asname or each.name.partition(".")[0]] = _imported(node, each)
            case ast.ImportFrom(names=names):
                for each in names:
                    scope.variables[each.asname or each.name] = UNKNOWN
            case ast.Raise() | ast.Break() | ast.Continue():
                self.children(node, scope)
                return True
            case ast.AnnAssign() | ast.Assert() | ast.Delete():
                self.children(node, scope)
            case _:
                raise LostTrack
        return False

    def _maybe(self, statements: Sequence[ast.stmt], scope: Scope) -> bool:
        """Follow a block that some batches do not reach; return whether the block leaves the function or the current
        iteration of a loop.
        """
        before = dict(scope.variables)
        with self.during(sure=False):
            ends = self.block(statements, scope)
        scope.variables = self._merged(before, scope.variables)
        return ends

    def _merged(self, one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
        both = {name: self.joined([one[name], other[name]]) for name in one.keys() & other.keys()}
        return {**one, **other, **both}

    def _if(self, node: ast.If, scope: Scope) -> bool:
        test = node.test
        is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        asked = test.operand if isinstance(test, ast.UnaryOp) and is_not else test
        guards = self._is_empty(asked, scope)
        self.value(test, scope)
        before = dict(scope.variables)
        with self.during(sure=self.sure and guards and is_not):
            ends = self.block(node.body, scope)
        after, scope.variables = scope.variables, before
        with self.during(sure=self.sure and guards and not is_not):
            others_end = self.block(node.orelse, scope)
        scope.variables = self._merged(scope.variables, after)
        leaves = ends if guards and is_not else others_end if guards else ends or others_end
        self.sure = self.sure and not leaves
        return ends and others_end

    def _is_empty(self, test: ast.expr, scope: Scope) -> bool:
        """Whether a test is ``frame.isEmpty()``, for a frame that has rows for every batch with rows."""
        match test:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="isEmpty"), args=[]):
                frame = scope.find(name)
                return isinstance(frame, Frame) and frame.all_rows
        return False

    def _for(self, node: ast.For, scope: Scope) -> None:
        found = self.value(node.iter, scope)
        match found:
            case Rows(frame=frame):
                elements: tuple[Value, ...] = (CollectedRow(frame),)
                runs = frame.all_rows
            case Several(values=values):
                elements, runs = values, bool(values)
            case _:
                self.lose(found)
                elements, runs = (UNKNOWN,), False
        before = dict(scope.variables)
        with self.during(sure=self.sure and runs, weak=True):
            for element in elements:
                self.assign(node.target, element, scope)
                self.block(node.body, scope)
            for element in elements[:1]:  # once more, with the variables that one iteration leaves to the next
                self.sure = False
                self.assign(node.target, element, scope)
                self.block(node.body, scope)
        scope.variables = self._merged(before, scope.variables)
        self._maybe(node.orelse, scope)

    def _with(self, items: Sequence[ast.withitem], body: Sequence[ast.stmt], scope: Scope) -> bool:
        lets_fail = True
        for item in items:
            self.lose(self.value(item.context_expr, scope))
            called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            lets_fail &= name in _LETS_FAIL
            if item.optional_vars is not None:
                self.assign(item.optional_vars, UNKNOWN, scope)
        with self.during(sure=self.sure and lets_fail):
            return self.block(body, scope)

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Assign a variable; a value stored in an object or a container is no longer followed."""
        match target:
            case ast.Name(id=name):
                held = scope.variables.get(name) if self.weak else None
                scope.variables[name] = value if held is None else self.joined([held, value])
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                each = value.values if isinstance(value, Several) and len(value.values) == len(targets) else None
                if each is None:
                    self.lose(value)
                for number, inner in enumerate(targets):
                    self.assign(inner, each[number] if each else UNKNOWN, scope)
            case _:
                self.lose(value)
                self.children(target, scope)


def _imported(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> Value:
    """Return the module of Spark's functions if a function imports it when it runs; other imports are not resolved."""
    from pyspark.sql import functions

    full = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
    known = full == "pyspark.sql.functions" and (isinstance(node, ast.ImportFrom) or alias.asname)
    return Known(functions) if known else UNKNOWN
