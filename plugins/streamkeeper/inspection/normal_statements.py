"""A normal form of statements that can be written in several ways and do the same, in the same order, with the same
errors.

Each step is proven from the syntax only: what is evaluated first, what cannot fail, which variable is used once. Code
that no step covers is unchanged.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from enum import Enum

from streamkeeper.inspection.normal_loops import KEPT, comprehension_of
from streamkeeper.inspection.variable_uses import seen_elsewhere, uses_of

_MOST_ROUNDS = 20
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SIMPLE = (ast.Return, ast.Expr, ast.Assign, ast.If)
"""Statements that evaluate one expression before anything else."""
_CATCHES = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)

_Change = Callable[[Sequence[ast.stmt]], Iterator[ast.stmt]]


class _Met(Enum):
    """What the evaluation of an expression reaches first: the variable, nothing that matters for the order, or
    something else that matters.
    """

    USE = "use"
    NOTHING = "nothing"
    ELSE = "else"


class Statements:
    """Brings the statements of one function into the normal form.

    ``is_constant``: takes a name that the function does not bind, and returns whether that name always has one value.
    ``filled``: variables of outer functions that have a value.
    ``lifetimes``: whether code may depend on how long an object lives.
    ``errors``: whether code may see the text of an error that Python raises.
    """

    def __init__(
        self, is_constant: Callable[[str], bool], filled: Collection[str], *, lifetimes: bool, errors: bool
    ) -> None:
        self._is_constant = is_constant
        self._filled = frozenset(filled)
        self._lifetimes = lifetimes
        self._errors = errors
        self._uses: Counter[tuple[str, str]] = Counter()
        self._shared: frozenset[str] = frozenset()
        self._guarded = False
        self._plain: frozenset[str] = frozenset()
        self._sure: frozenset[str] = frozenset()
        self._bound: frozenset[str] = frozenset()

    def normalised(self, function: ast.FunctionDef) -> ast.FunctionDef:
        """Return a copy of the function in normal form.

        The copy is unchanged if the function deletes variables, contains a class, or uses ``global`` or ``nonlocal``.
        """
        found = deepcopy(function)
        if any(isinstance(node, ast.Delete | ast.Nonlocal | ast.Global | ast.ClassDef) for node in ast.walk(found)):
            return found
        for _ in range(_MOST_ROUNDS):
            before = ast.dump(found)
            for change in (self._rewritten_block, self._with_results, self._inlined):
                self._count(found)
                self._within(found, change)
            if ast.dump(found) == before:
                break
        return found

    def _count(self, function: ast.FunctionDef) -> None:
        """Count the uses of names in the present form of the function. The proof of each change depends on these
        counts.
        """
        self._uses = Counter(uses_of(function))
        self._bound = frozenset(name for name, kind in self._uses if kind != "load")
        self._sure = self._filled - self._bound
        self._shared = frozenset(seen_elsewhere(function))
        self._guarded = any(isinstance(node, _CATCHES) for node in ast.walk(function))
        self._plain = frozenset(self._always_plain(function))

    def _always_plain(self, function: ast.FunctionDef) -> Iterator[str]:
        """Yield the variables that only hold literals, for which it does not matter how long the value lives."""
        stored: Counter[str] = Counter()
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()):
                    stored[name] += 1
                case _:
                    pass
        for name, count in stored.items():
            if count == self._uses[name, "store"] and not self._uses[name, "argument"] + self._uses[name, "other"]:
                yield name

    def _within(self, node: ast.AST, change: _Change) -> None:
        before = self._sure
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = {each.arg for each in ast.iter_child_nodes(node.args) if isinstance(each, ast.arg)}
            self._sure |= {name for name in arguments if self._is_only_given(name)}
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
                setattr(node, field, self._block(statements, change))
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            part.body = self._block(part.body, change)
        self._sure = before

    def _block(self, statements: Sequence[ast.stmt], change: _Change) -> list[ast.stmt]:
        for statement in statements:
            self._within(statement, change)
        return list(change(statements))

    def _rewritten_block(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            yield from self._rewritten(statement)

    def _is_only_given(self, name: str) -> bool:
        """Whether a parameter is never assigned, neither in its function nor in an outer or inner function."""
        return self._uses[name, "argument"] == 1 and not self._uses[name, "store"] + self._uses[name, "other"]

    def _rewritten(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """Yield the statements that replace one statement."""
        match statement:
            case ast.If() | ast.Return() | ast.Expr() | ast.Assign() if named := _leading(_evaluated(statement)):
                yield ast.Assign(targets=[named.target], value=named.value)
                _Replaced(named, ast.Name(named.target.id, ast.Load())).visit(statement)
                yield statement
            case ast.Return(value=ast.IfExp(test=test, body=body, orelse=orelse)):
                yield ast.If(test=test, body=[ast.Return(body)], orelse=[])
                yield ast.Return(orelse)
            case ast.Assign(targets=[ast.Name() as target], value=ast.IfExp(test=test, body=body, orelse=orelse)):
                first, other = (ast.Assign(targets=[deepcopy(target)], value=each) for each in (body, orelse))
                yield ast.If(test=test, body=[first], orelse=[other])
            case ast.If(orelse=[_, *_]) if _leaves(statement.body):
                yield ast.If(test=statement.test, body=statement.body, orelse=[])
                yield from statement.orelse
            case ast.Try(body=[first, _, *_], handlers=[_, *_], finalbody=[]) if self._cannot_fail(first):
                yield first
                statement.body = statement.body[1:]
                yield statement
            case _:
                yield statement

    def _cannot_fail(self, statement: ast.stmt) -> bool:
        """Whether a statement is of the form ``if x is None: return default``, with variables that certainly have a
        value.
        """
        match statement:
            case ast.If(test=test, body=[ast.Return(value=value)], orelse=[]):
                return self._is_identity(test) and (value is None or self._is_plain(value))
            case _:
                return False

    def _is_identity(self, test: ast.expr) -> bool:
        match test:
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[right]):
                return self._is_plain(left) and self._is_plain(right)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self._is_identity(inner)
            case ast.BoolOp(values=values):
                return all(map(self._is_identity, values))
            case _:
                return False

    def _is_plain(self, value: ast.expr) -> bool:
        match value:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name in self._sure
            case _:
                return False

    def _with_results(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        """Yield the statements after these changes: a ``return x`` that follows an ``if`` is moved into the branches,
        ``x = value`` and ``return x`` become ``return value``, and a loop that only appends to a new list becomes a
        list comprehension.
        """
        match list(statements):
            case [*before, ast.If() as chosen, ast.Return(value=ast.Name() | ast.Constant() | None) as last] if not (
                _leaves(chosen.body)
            ):
                yield from self._with_results(before)
                yield ast.If(test=chosen.test, body=[*chosen.body, deepcopy(last)], orelse=[])
                yield from chosen.orelse
                if not chosen.orelse or not _leaves(chosen.orelse):
                    yield last
            case [
                *before,
                ast.Assign(targets=[ast.Name(id=name)], value=value),
                ast.Return(value=ast.Name(id=other)),
            ] if name == other and self._is_unseen(name, value):
                yield from self._with_results(before)
                yield ast.Return(value)
            case _:
                yield from self._collected(statements)

    def _is_unseen(self, name: str, value: ast.expr) -> bool:
        """Whether only the statements of the function itself use a variable, and no code runs after they return."""
        own = any(isinstance(node, KEPT) for node in ast.walk(value))
        kept = self._lifetimes and name not in self._plain
        return not kept and name not in self._shared and not own

    def _collected(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        waiting = list(statements)
        while waiting:
            match waiting:
                case [
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=[])) as made,
                    ast.For() as loop,
                    *waiting,
                ]:
                    found = (
                        None
                        if self._guarded or self._lifetimes
                        else comprehension_of(name, loop, self._uses, self._shared, errors=self._errors)
                    )
                    yield ast.Assign(targets=made.targets, value=found) if found else made
                    waiting = waiting if found else [loop, *waiting]
                case [statement, *waiting]:
                    yield statement

    def _inlined(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        """Yield the statements after inlining variables. A variable is replaced by its value if only the next statement
        uses it, and evaluates it before anything else.
        """
        waiting = list(statements)
        while waiting:
            statement = waiting.pop(0)
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if waiting and self._is_single(name, value):
                    following = waiting[0]
                    use = isinstance(following, _SIMPLE) and self._first(_evaluated(following), name) is _Met.USE
                    if use and not self._shares_target(following):
                        waiting[0] = _Placed(name, value).visit(following)
                        continue
                case _:
                    pass
            yield statement

    def _is_single(self, name: str, value: ast.expr) -> bool:
        own = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
        once = self._uses[name, "store"] == self._uses[name, "load"] == 1 and not self._uses[name, "other"]
        return not self._lifetimes and once and not any(isinstance(node, own) for node in ast.walk(value))

    def _shares_target(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Assign(targets=[ast.Name()]):
                return False
            case ast.Assign():
                return True
            case _:
                return False

    def _first(self, node: ast.expr | None, name: str) -> _Met:
        """Return what the evaluation of an expression reaches first: the variable ``name``, something else that
        matters, or nothing that matters.
        """
        match node:
            case ast.Constant():
                return _Met.NOTHING
            case ast.Name(id=other):
                if other == name:
                    return _Met.USE
                # A variable of an outer function may get another value in between.
                known = other in self._sure - self._filled or (other not in self._bound and self._is_constant(other))
                return _Met.NOTHING if known else _Met.ELSE
            case ast.Call(func=called, args=arguments, keywords=keywords):
                named = [each.value if each.arg else ast.Starred(each.value) for each in keywords]
                return self._of([called, *arguments, *named], name)
            case ast.BinOp(left=left, right=right):
                return self._of([left, right], name)
            case ast.Compare(left=left, comparators=[right, *_]):
                return self._of([left, right], name)
            case ast.Subscript(value=value, slice=key):
                return self._of([value, key], name)
            case ast.Attribute(value=inner) | ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
                return self._of([inner], name)
            case ast.BoolOp(values=[inner, *_]) | ast.IfExp(test=inner):
                return self._of([inner], name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self._of(parts, name)
            case ast.JoinedStr(values=parts):
                formatted = [part.value for part in parts if isinstance(part, ast.FormattedValue)]
                return self._of(formatted[:1], name)
            case _:
                return _Met.ELSE

    def _of(self, parts: Sequence[ast.expr], name: str) -> _Met:
        """Return what the evaluation of these parts, in order, reaches first. If nothing in them matters, the result is
        ELSE, because something that may matter follows.
        """
        for part in parts:
            if (met := self._first(part, name)) is not _Met.NOTHING:
                return met
        return _Met.ELSE


class _Replaced(ast.NodeTransformer):
    """Replaces one syntax node by another node."""

    def __init__(self, old: ast.AST, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


class _Placed(ast.NodeTransformer):
    """Replaces the only use of a variable by a value."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._value if node.id == self._name and isinstance(node.ctx, ast.Load) else node


def _evaluated(statement: ast.stmt) -> ast.expr | None:
    return statement.test if isinstance(statement, ast.If) else getattr(statement, "value", None)


def _leading(node: ast.expr | None) -> ast.NamedExpr | None:
    """Return the ``(x := …)`` that an expression evaluates before anything else; None if there is none."""
    match node:
        case ast.NamedExpr():
            return node
        case ast.Compare(left=inner) | ast.UnaryOp(operand=inner) | ast.BinOp(left=inner) | ast.IfExp(test=inner):
            return _leading(inner)
        case ast.BoolOp(values=[inner, *_]) | ast.Attribute(value=inner) | ast.Subscript(value=inner):
            return _leading(inner)
        case ast.Call(func=inner):
            return _leading(inner)
        case _:
            return None


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether control never continues after a block that was entered: the block always leaves the enclosing
    statements.
    """
    match statements[-1]:
        case ast.If(body=body, orelse=[_, *_] as orelse):
            return _leaves(body) and _leaves(orelse)
        case last:
            return isinstance(last, _LEAVES)
