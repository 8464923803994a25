"""Finds the effects of importing a module: it assigns the module's names, and may change something outside of the
module.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from streamkeeper.inspection.inert import Reach, is_quiet, reach_of
from streamkeeper.inspection.own_decorators import OwnDecorators, times_bound
from streamkeeper.inspection.variable_uses import assigned_names

_HELD_ALONE = frozenset({"builtins", "collections", "logging", "numpy", "pandas", "pyspark", "types"})
"""The modules whose types create objects to which no library keeps a reference, so that only the creator holds them."""


class ImportEffects:
    """Finds the statements that may change something outside of their module, such as those that patch a library.

    ``names``: the module's globals at the present time.
    ``is_own``: returns whether a module belongs to the job.
    ``decorators``: inspects the decorators of the job.
    """

    def __init__(
        self, names: dict[str, Any], is_own: Callable[[object], bool], decorators: OwnDecorators | None = None
    ) -> None:
        self._names = names
        self._is_own = is_own
        self._decorators = decorators or OwnDecorators()
        self._tree = ast.Module(body=[], type_ignores=[])

    def compiled(self, tree: ast.Module, rewritten: ast.Module | None = None) -> CodeType | None:
        """Return the statements with effects outside of the module, as compiled code that is never run.

        Return None if there are no such statements. ``rewritten``: an equivalent form of ``tree``, from which the
        statements are taken if it is given.
        """
        self._tree = tree
        found = [effect for statement in (rewritten or tree).body for effect in self._effects(statement)]
        if not found:
            return None
        body = ast.Module(body=found, type_ignores=[])
        return compile(ast.fix_missing_locations(body), "<effects>", "exec", flags=0, dont_inherit=True)

    def _effects(self, statement: ast.stmt, within: ast.ClassDef | None = None) -> Iterator[ast.stmt]:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from self._applied(statement, within)
                if isinstance(statement, ast.ClassDef):
                    yield from (effect for inner in statement.body for effect in self._effects(inner, statement))
            case ast.For() if self._only_imports(statement):
                pass
            case ast.If() if _is_guard(statement.test):
                yield from (effect for inner in statement.orelse for effect in self._effects(inner, within))
            case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try() | ast.TryStar() | ast.Match():
                inner = [nested for part in _bodies(statement) for nested in part]
                if any(True for nested in inner for _ in self._effects(nested, within)) or self._calls(statement):
                    yield statement
            case ast.Expr():
                if self._calls(statement):
                    yield statement
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                if any(self._is_outside(assigned) for assigned in targets) or self._calls(statement):
                    yield statement
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                if self._is_outside(target) or self._calls(statement):
                    yield statement
            case _:
                pass

    def _applied(
        self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, within: ast.ClassDef | None
    ) -> Iterator[ast.stmt]:
        """Yield the decorators and base classes by which a library or the job itself may register the definition."""
        bases = statement.bases if isinstance(statement, ast.ClassDef) else []
        for expression in (*statement.decorator_list, *bases):
            found = _resolved(expression.func if isinstance(expression, ast.Call) else expression, self._names)
            if self._is_own_code(found):
                if expression not in bases and not (
                    self._may_only_make(statement, within) and self._only_makes(expression, found)
                ):
                    yield ast.Expr(expression)
            elif expression not in bases and found is None and self._is_unknown(expression):
                yield ast.Expr(expression)
            elif isinstance(found, ModuleType | FunctionType | type) or callable(found):
                module, name = _home(found)
                if reach_of(module, "") is not Reach.NOTHING or _registers(name):
                    yield ast.Expr(expression)
                    yield ast.Expr(ast.Name(statement.name, ast.Load()))

    def _only_makes(self, decorator: ast.expr, found: object) -> bool:
        return isinstance(decorator, ast.Name) and self._decorators.only_makes(found, decorator.id, self._tree)

    def _may_only_make(
        self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, within: ast.ClassDef | None
    ) -> bool:
        """Whether a decorator's wrapper does not run at import, and no metaclass influences which object the decorator
        is.

        A special method may run at import without being named. The metaclass of a class may compute attributes that a
        decorator reads, or names that the class's body uses.
        """
        if isinstance(statement, ast.ClassDef) or self._decorators.may_run_at_import(statement.name, self._tree):
            return False
        bases = [_resolved(base, self._names) for base in within.bases] if within else []
        plain = all(isinstance(base, type) and not self._is_own_code(type(base)) for base in bases)
        return plain and not (within and within.keywords)

    def _is_unknown(self, decorator: ast.expr) -> bool:
        """Whether a decorator is the result of an expression, or is a method of an object of the job."""
        inner = decorator.func if isinstance(decorator, ast.Call) else decorator
        held: ast.expr = inner
        while isinstance(held, ast.Attribute):
            held = held.value
        if not isinstance(held, ast.Name):
            return True
        found = self._names.get(held.id)
        return self._is_own_code(found) and not isinstance(found, ModuleType | FunctionType | type)

    def _calls(self, statement: ast.stmt) -> bool:
        """Whether a statement makes a call that may leave a trace outside of the module's own names."""
        return any(
            self._leaves_trace(call, bare=isinstance(statement, ast.Expr) and statement.value is call)
            for call in _evaluated(statement)
            if isinstance(call, ast.Call)
        )

    def _leaves_trace(self, call: ast.Call, *, bare: bool) -> bool:
        found = _resolved(call.func, self._names)
        if self._is_own_code(found):
            return not isinstance(found, type) or bare
        if found is None:
            # A method of the result of another call, for example `decimal.getcontext().traps.clear()`.
            root, name = _root(call.func), call.func.attr if isinstance(call.func, ast.Attribute) else ""
            owned = isinstance(root, ast.Name) and not self._is_shared(self._names.get(root.id))
            return not (owned or self._builds_schema(call)) and (bare or not is_quiet("builtins", name))
        module, name = _home(found)
        if module.partition(".")[0] == "logging" or isinstance(found, type):
            return False
        written = call.func.attr if isinstance(call.func, ast.Attribute) else name
        return not (is_quiet(module, name) and is_quiet(module, written))

    def _only_imports(self, loop: ast.For) -> bool:
        """Whether the only effect of a loop is to import all modules of the package that contains the loop, and to keep
        parts of them in the package.

        The effects of the imported modules are found in those modules themselves, because they are loaded.
        """
        if not self._lists_package(loop.iter) or loop.orelse or not isinstance(loop.target, ast.Name):
            return False
        loaded = [sys.modules.get(name) for name in self._modules_of_package()]
        if not all(type(module) is ModuleType and "__getattr__" not in vars(module) for module in loaded):
            return False
        held = {loop.target.id}
        for statement in loop.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name != loop.target.id:
                    if not self._imports(value, loop.target.id):
                        return False
                    held.add(name)
                case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
                    if not (
                        self._is_table(name) and name not in held and _is_part(key, held) and _is_part(value, held)
                    ):
                        return False
                case ast.Expr(value=value):
                    if not self._imports(value, loop.target.id):
                        return False
                case _:
                    return False
        return True

    def _lists_package(self, call: ast.expr) -> bool:
        match call:
            case ast.Call(func=listing, args=[ast.Name(id="__path__")], keywords=[]):
                kept = not times_bound(self._tree, "__path__") and not times_bound(self._tree, "__name__")
                return kept and self._always_is(listing, pkgutil.iter_modules)
            case _:
                return False

    def _modules_of_package(self) -> list[str]:
        found = pkgutil.iter_modules(self._names.get("__path__", []))
        return [f"{self._names.get('__name__')}.{module.name}" for module in found]

    def _imports(self, call: ast.expr, target: str) -> bool:
        """Whether an expression is ``importlib.import_module(f"{__name__}.{target.name}")``."""
        match call:
            case ast.Call(func=importing, args=[ast.JoinedStr() as name], keywords=[]):
                known = ast.parse(f'f"{{__name__}}.{{{target}.name}}"', mode="eval").body
                return ast.dump(name) == ast.dump(known) and self._always_is(importing, importlib.import_module)
            case _:
                return False

    def _always_is(self, node: ast.expr, wanted: object) -> bool:
        root = _root(node)
        bound = isinstance(root, ast.Name) and times_bound(self._tree, root.id) == 1
        return bound and _resolved(node, self._names) is wanted

    def _is_table(self, name: str) -> bool:
        """Whether a name refers to a dictionary whose keys are strings, so that adding entries runs no code of the
        job.
        """
        found = self._names.get(name)
        return type(found) is dict and all(type(key) is str for key in found)

    def _builds_schema(self, call: ast.Call) -> bool:
        """Whether a call is of the form ``StructType().add(…).add(…)``, which changes only the type that it builds."""
        node: ast.expr = call
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        made = _resolved(node.func if isinstance(node, ast.Call) else node, self._names)
        return (made if isinstance(made, type) else type(made)).__module__ == "pyspark.sql.types"

    def _is_outside(self, target: ast.expr) -> bool:
        """Whether an assignment to this target changes anything besides the module's own names."""
        if not isinstance(target, ast.Attribute | ast.Subscript):
            return False
        root = _root(target)
        return not isinstance(root, ast.Name) or self._is_shared(self._names.get(root.id))

    def _is_shared(self, found: object) -> bool:
        """Whether code outside of the job may have a reference to the same object."""
        if isinstance(found, ModuleType | FunctionType | type):
            return not self._is_own_code(found)
        return type(found).__module__.partition(".")[0] not in _HELD_ALONE and not self._is_own_code(found)

    def _is_own_code(self, found: object) -> bool:
        if isinstance(found, ModuleType):
            return self._is_own(found)
        inner = getattr(found, "__func__", found)
        if not isinstance(inner, FunctionType | type):
            inner = type(found)
            if inner.__module__ == "builtins":
                return False
        return self._is_own(sys.modules.get(str(inner.__module__)))


def _is_part(node: ast.expr, held: set[str]) -> bool:
    """Whether an expression is a constant, or a name or an attribute of one of the objects in ``held``."""
    inner = node.value if isinstance(node, ast.Attribute) else node
    return isinstance(inner, ast.Constant) or (isinstance(inner, ast.Name) and inner.id in held)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        yield getattr(statement, field, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported. A compound statement is yielded as a whole."""
    for statement in body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not (
            isinstance(statement, ast.If) and _is_guard(statement.test)
        ):
            yield statement


def _is_guard(test: ast.expr) -> bool:
    """Whether a test is ``__name__ == "__main__"`` or ``TYPE_CHECKING``, which are false when a job is imported."""
    text = ast.unparse(test)
    return text in ("__name__ == '__main__'", "TYPE_CHECKING", "typing.TYPE_CHECKING")


def find_bindings(tree: ast.Module | None) -> dict[str, list[str]]:
    """Return, by name, the top-level statements of a module that assign the name or change its value, as text.

    The text is canonical: comments and formatting do not change it.
    """
    return {name: [ast.dump(each) for each in statements] for name, statements in binding_statements(tree).items()}


def binding_statements(tree: ast.Module | None) -> dict[str, list[ast.stmt]]:
    """Return, by name, the top-level statements of a module that assign the name or change its value."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in _top_level(tree.body) if tree else ():
        for name in set(_bound(statement)):
            found.setdefault(name, []).append(statement)
    return found


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement assigns, the names to whose parts it assigns, and the names on which it calls a
    method.
    """
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return
    for node in ast.walk(statement):
        yield from assigned_names(node)
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Call():
                root = _root(node.func if isinstance(node, ast.Call) else node)
                if isinstance(root, ast.Name):
                    yield root.id
            case _:
                pass


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _evaluated(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield all nodes of a statement, without the bodies of functions that it defines."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _resolved(node: ast.expr, names: dict[str, Any]) -> Any:
    """Return the object that a dotted name refers to in a module; None if the object can be determined only when the
    code runs.
    """
    match node:
        case ast.Name(id=name):
            builtins = names.get("__builtins__")
            if name not in names:
                return vars(builtins).get(name) if isinstance(builtins, ModuleType) else (builtins or {}).get(name)
            return names[name]
        case ast.Attribute(value=inner, attr=name):
            found = _resolved(inner, names)
            if isinstance(found, ModuleType | type):
                return vars(found).get(name)
            return None
        case _:
            return None


def _home(found: Any) -> tuple[str, str]:
    """Return the module and the name under which a library's object is defined."""
    if isinstance(found, ModuleType):
        return found.__name__, ""
    inner = getattr(found, "__func__", found)
    module = getattr(inner, "__module__", None) or getattr(type(found), "__module__", "")
    return str(module), str(getattr(inner, "__name__", type(found).__name__))


def _registers(name: str) -> bool:
    return "register" in name
