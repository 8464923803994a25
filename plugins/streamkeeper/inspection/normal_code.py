"""Rewrites a function's syntax to a normal form and recompiles it, so that functions that do the same have equal code.

The syntax is taken from the function's file, after a proof that the function was compiled from it
(``function_source``). A function keeps its code if its syntax is not available or is of an unsupported kind.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Collection, Iterator, Sequence
from copy import copy, deepcopy
from types import CodeType, FunctionType, ModuleType

from streamkeeper.inspection.bundle_names import BundleNames
from streamkeeper.inspection.bytecode import instructions
from streamkeeper.inspection.constant_values import NotConstant, constant_value
from streamkeeper.inspection.function_source import FunctionSources
from streamkeeper.inspection.normal_references import MARK, Reference, References
from streamkeeper.inspection.normal_statements import Statements
from streamkeeper.inspection.object_parts import cell_value
from streamkeeper.inspection.own_code import OwnCode

_FUTURE_ANNOTATIONS = 0x1000000
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
_LOOKS_UP = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_METHODS = frozenset({"classmethod", "property", "staticmethod"})


class NormalCode:
    """Rewrites functions of a bundle to their normal form. ``lifetimes``: whether code may depend on how long an object
    lives.
    """

    def __init__(self, own: OwnCode, bundle: BundleNames, *, lifetimes: bool) -> None:
        self._own = own
        self._bundle = bundle
        self._lifetimes = lifetimes
        self._sources = FunctionSources()
        self.references: dict[str, Reference] = {}

    def of(self, function: FunctionType) -> FunctionType:
        """Return the function with its code in normal form. Return the function unchanged if the new code is not proven
        to do the same as the old code.
        """
        code, module = function.__code__, sys.modules.get(str(function.__globals__.get("__name__")))
        node = self._sources.of(function)
        mangled = any(name.startswith("__") and not name.endswith("__") for name in _all_names(code))
        # A function that Spark sends by value has its own globals.
        known = self._own.is_own(module) and code.co_filename == getattr(module, "__file__", None)
        if not known or module is None or mangled or not isinstance(node, ast.FunctionDef | ast.Lambda):
            return function
        tree = self._own.source_of(module)
        imported = sorted(set(_imported(tree))) if tree else []
        compiled = _compiled(node, code, imported)
        if compiled is None or _told(compiled) != _told(code):
            return function
        bound = set(_bound(code))
        names = function.__globals__
        references = References(self._own, self._bundle, module, bound, self.references, names=names)
        rewritten = references.visit(deepcopy(node))
        if isinstance(rewritten, ast.FunctionDef):
            cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
            with_value = {name for name, cell in cells.items() if cell_value(cell) is not NotImplemented}
            filled = {name for name in with_value if self._bundle.keeps(name)}
            is_constant = lambda name: (  # noqa: E731
                name.startswith(MARK) or (name not in cells and self._bundle.always_has(names, name))
            )
            rewritten = Statements(
                is_constant, filled, lifetimes=self._lifetimes, errors=self._bundle.errors
            ).normalised(rewritten)
        made = _compiled(_on_one_line(rewritten), code, imported)
        if made is None or made.co_freevars != code.co_freevars or _globals_of(made) - _globals_of(code):
            return function
        nested = made.co_flags & ~inspect.CO_NESTED | code.co_flags & inspect.CO_NESTED
        return _with_code(function, made.replace(co_flags=nested))

    def effects(self, tree: ast.Module, module: ModuleType) -> ast.Module:
        """Return a module's syntax tree without these parts:

        - arguments that equal a function's defaults
        - statements that only assign a literal value to a name
        - the decorators ``classmethod``, ``property`` and ``staticmethod``
        """
        return ast.Module(body=list(self._effects(tree, module)), type_ignores=[])

    def _effects(self, tree: ast.Module, module: ModuleType) -> Iterator[ast.stmt]:
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                yield self._without_methods(statement, module)
            elif isinstance(statement, ast.Assign) and self.is_literal(statement, module):
                continue
            else:
                yield self.without_defaults(statement, module)

    def without_defaults(self, statement: ast.stmt, module: ModuleType) -> ast.stmt:
        """Return a top-level statement of a module, without arguments that equal a function's defaults."""
        simple = isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr)
        if not simple or any(isinstance(node, _SCOPES) for node in ast.walk(statement)):
            return statement
        references = References(self._own, self._bundle, module, (), {}, defaults_only=True)
        made: ast.stmt = references.visit(deepcopy(statement))
        return made

    def is_literal(self, statement: ast.Assign, module: ModuleType) -> bool:
        """Whether a statement only assigns a literal value to one name."""
        if not (len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)):
            return False
        try:
            constant_value(statement.value, module, self._bundle)
        except NotConstant:
            return False
        return True

    def _without_methods(self, statement: ast.ClassDef, module: ModuleType) -> ast.ClassDef:
        """Return a class without ``classmethod``, ``property`` and ``staticmethod`` on its functions."""
        bound = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _stores(node)}
        bound |= {node.name for node in ast.walk(statement) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        plain = {name for name in _METHODS - bound - vars(module).keys() if self._bundle.keeps(name)}
        made = copy(statement)
        made.body = [_without_decorators(each, plain) for each in statement.body]
        return made


def _stores(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _without_decorators(statement: ast.stmt, names: Collection[str]) -> ast.stmt:
    if not isinstance(statement, ast.FunctionDef):
        return statement
    made = copy(statement)
    made.decorator_list = [
        each for each in statement.decorator_list if not (isinstance(each, ast.Name) and each.id in names)
    ]
    return made


def _with_code(function: FunctionType, code: CodeType) -> FunctionType:
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    made.__annotations__ = function.__annotations__
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def _compiled(node: ast.FunctionDef | ast.Lambda, code: CodeType, imported: Sequence[str]) -> CodeType | None:
    """Return the code of a function that is compiled separately from its module; None if that is not possible.

    ``imported``: the names that the module imports. Python uses other instructions for calls on imported names.
    """
    made = deepcopy(node)
    made.args.defaults, made.args.kw_defaults = [], [None] * len(made.args.kwonlyargs)
    if isinstance(made, ast.FunctionDef):
        made.decorator_list, made.returns = [], None
    last: ast.stmt = ast.Expr(made) if isinstance(made, ast.Lambda) else made
    none = ast.Constant(None)
    cells: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], none) for name in code.co_freevars]
    arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    around = ast.FunctionDef(name="around", args=arguments, body=[*cells, last], decorator_list=[])
    around.type_params = []  # type: ignore[attr-defined]
    imports = [ast.Import([ast.alias(name)]) for name in imported]
    module = ast.fix_missing_locations(ast.Module(body=[*imports, around], type_ignores=[]))
    flags = code.co_flags & _FUTURE_ANNOTATIONS
    try:
        outer = compile(module, "<normal>", "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError, TypeError, RecursionError):
        return None
    [function] = [each for each in outer.co_consts if isinstance(each, CodeType)]
    found = [each for each in function.co_consts if isinstance(each, CodeType)]
    return found[0] if len(found) == 1 else None


def _on_one_line(node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
    """Return the syntax with all nodes on one line. Otherwise Python would add instructions without an effect where the
    line changes.
    """
    for each in ast.walk(node):
        if isinstance(each, ast.stmt | ast.expr | ast.arg | ast.keyword | ast.alias | ast.pattern | ast.excepthandler):
            each.lineno = each.end_lineno = 1
            each.col_offset = each.end_col_offset = 0
    return node


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the names that are assigned by imports outside of functions and classes."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in inner.names)
        elif not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _imported(inner)


def _globals_of(code: CodeType) -> set[str]:
    """Return the names that a function and its inner functions look up as globals, without the marked names of
    references.
    """
    steps = (step for each in _codes(code) for step in instructions(each))
    return {step.argval for step in steps if step.opname in _LOOKS_UP and not step.argval.startswith(MARK)}


def _told(code: CodeType) -> list[object]:
    """Return everything that a code object contains, except its place in the source and the function that
    encloses it.
    """
    flags = code.co_flags & ~inspect.CO_NESTED
    shape = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, flags, code.co_name]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    return [*shape, *names, code.co_code, code.co_exceptiontable, [_constant(each) for each in code.co_consts]]


def _constant(found: object) -> object:
    if isinstance(found, CodeType):
        return _told(found)
    if isinstance(found, tuple):
        return ["tuple", *map(_constant, found)]
    if isinstance(found, frozenset):
        return ["set", *sorted(repr(each) for each in found)]
    return [type(found), repr(found)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _bound(code: CodeType) -> Iterator[str]:
    """Yield every variable of a function and of its inner functions."""
    for each in _codes(code):
        yield from (*each.co_varnames, *each.co_cellvars, *each.co_freevars)


def _all_names(code: CodeType) -> Iterator[str]:
    yield from _bound(code)
    for each in _codes(code):
        yield from each.co_names
