"""The job's own code as it lies on disk: what belongs to it, and what its modules do when they are imported."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from streamkeeper.inspection.inert import Reach, is_quiet, reach_of, reach_of_attribute, reach_of_global
from streamkeeper.job_code import own_files

PLACE = "<bundle>"
"""Stands for the bundle's directory wherever a path shows it."""

_LIBRARIES = tuple(
    {
        Path(path).resolve()
        for key, path in sysconfig.get_paths().items()
        if key in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    | {Path(__file__).resolve().parents[1]}
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_BY_NAME = frozenset({"builtins", "os", "sys"})
"""Libraries of which some names reach further than others."""
_SHIPPED = frozenset({"py4j", "pyspark", "streamkeeper"})
"""Libraries that may lie outside of the interpreter's own directories."""
_SOURCE = ".py"
_HELD_ALONE = frozenset({"builtins", "collections", "logging", "numpy", "pandas", "pyspark", "types"})
"""Homes of types whose objects are made by whoever uses them, not shared with a library."""


class OwnCode:
    """The job's code below ``root`` (None: wherever it lies outside of the libraries); reads each file once."""

    def __init__(self, root: Path | None) -> None:
        self._root = root.resolve() if root else None
        self._places = sorted({str(each) for each in (root, self._root) if each and len(each.parts) > 1}, key=len)
        self._trees: dict[str, ast.Module | None] = {}
        self._bindings: dict[str, dict[str, list[str]]] = {}
        self._files: list[Path] | None = None

    def is_own(self, module: object) -> bool:
        """Whether a module is the job's code rather than a library's."""
        if not isinstance(module, ModuleType):
            return False
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if module.__name__.partition(".")[0] in _SHIPPED:
            return False
        return self.is_own_file(file) if file else module.__name__ == "__main__"

    def is_own_file(self, file: str | None) -> bool:
        """Whether a file is the job's code; what is built into the interpreter has none."""
        if not file or file in ("built-in", "frozen"):
            return False
        path = Path(file).resolve()
        if self._root and path.is_relative_to(self._root):
            return not _INSTALLED & set(path.relative_to(self._root).parts)
        return not _INSTALLED & set(path.parts) and not any(path.is_relative_to(each) for each in _LIBRARIES)

    def named(self, text: str) -> str:
        """``text`` without the place where the bundle lies."""
        for place in reversed(self._places):
            if place in text:
                text = text.replace(place, PLACE)
        return text

    def relative(self, path: Path) -> str:
        """A file's name within the bundle; its bare name where it lies elsewhere."""
        path = path.resolve()
        return str(path.relative_to(self._root)) if self._root and path.is_relative_to(self._root) else path.name

    def loaded(self) -> list[ModuleType]:
        """The modules below the bundle's root that this process has imported, by name."""
        found = [each for _, each in sorted(sys.modules.items()) if isinstance(each, ModuleType)]
        return [each for each in found if self._is_below(each) and self.is_own(each)]

    def _is_below(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and any(file.startswith(f"{place}/") for place in self._places)

    def data_files(self) -> list[list[str]] | None:
        """Name and content of every file of the bundle that is no loaded module; None when they cannot be told."""
        loaded = {str(getattr(each, "__file__", "")) for each in self.loaded()}
        return self._contents(lambda path: str(path) not in loaded)

    def all_files(self, *, as_written: bool = False) -> list[list[str]] | None:
        """Name and content of every file of the bundle; None when they cannot be told."""
        return self._contents(lambda path: True, as_written=as_written)

    def _contents(self, wanted: Any, *, as_written: bool = False) -> list[list[str]] | None:
        if self._root is None:
            return None
        if self._files is None:
            self._files = own_files(self._root)
        if self._files is None:
            return None
        return [[self.relative(each), self.content(each, as_written)] for each in self._files if wanted(each)]

    def content(self, path: Path, as_written: bool = False) -> str:
        """A digest of a file; a Python source's without comments, docstrings and formatting."""
        tree = None if as_written else self.tree(path)
        if tree is not None:
            return _sha256(ast.dump(tree).encode())
        # A module inside of an archive is as old as the archive.
        held = next((each for each in (path, *path.parents) if each.is_file()), None)
        return _sha256(held.read_bytes()) if held else "missing"

    def tree(self, path: Path) -> ast.Module | None:
        """A source's syntax without docstrings; None for what is no Python source."""
        key = str(path)
        if key not in self._trees:
            self._trees[key] = _parsed(path) if path.suffix == _SOURCE else None
        return self._trees[key]

    def compiled(self, module: object) -> str:
        """A digest of the file of one of the job's modules that has no source; empty for all others."""
        file = getattr(module, "__file__", None) if self.is_own(module) else None
        return self.content(Path(file)) if file and self.tree(Path(file)) is None else ""

    def source_of(self, module: ModuleType) -> ast.Module | None:
        """A loaded module's syntax."""
        file = getattr(module, "__file__", None)
        return self.tree(Path(file)) if file else None

    def bindings(self, module: ModuleType, name: str) -> list[str]:
        """The statements of a module that give a global its value, as canonical text.

        A process that imports the module anew runs these; the value in this process may have been changed since.
        """
        key = str(getattr(module, "__file__", None))
        if key not in self._bindings:
            self._bindings[key] = _bindings(self.source_of(module))
        return self._bindings[key].get(name, [])

    def effects(self, module: ModuleType) -> CodeType | None:
        """What importing a module does beyond giving values to its own names, such as patching a library.

        Compiled, to be run never; None where there is nothing of the kind.
        """
        tree = self.source_of(module)
        if tree is None:
            return None
        found = [each for statement in tree.body for each in self._effects(statement, vars(module))]
        if not found:
            return None
        body = ast.Module(body=found, type_ignores=[])
        return compile(ast.fix_missing_locations(body), "<effects>", "exec", flags=0, dont_inherit=True)

    def _effects(self, statement: ast.stmt, names: dict[str, Any]) -> Iterator[ast.stmt]:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from self._applied(statement, names)
                if isinstance(statement, ast.ClassDef):
                    yield from (each for inner in statement.body for each in self._effects(inner, names))
            case ast.If() if _is_guard(statement.test):
                yield from (each for inner in statement.orelse for each in self._effects(inner, names))
            case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try():
                inner = [each for part in _bodies(statement) for each in part]
                if any(True for each in inner for _ in self._effects(each, names)) or self._calls(statement, names):
                    yield statement
            case ast.Expr():
                if self._calls(statement, names):
                    yield statement
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                if any(self._is_outside(each, names) for each in targets) or self._calls(statement, names):
                    yield statement
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                if self._is_outside(target, names) or self._calls(statement, names):
                    yield statement
            case _:
                pass

    def _applied(
        self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, names: dict[str, Any]
    ) -> Iterator[ast.stmt]:
        """Decorators and base classes that a library or the job itself may have taken note of."""
        bases = statement.bases if isinstance(statement, ast.ClassDef) else []
        for each in (*statement.decorator_list, *bases):
            found = _resolved(each.func if isinstance(each, ast.Call) else each, names)
            if self._is_own_code(found):
                if each not in bases:
                    yield ast.Expr(each)
            elif isinstance(found, ModuleType | FunctionType | type) or callable(found):
                module, name = _home(found)
                if reach_of(module, "") is not Reach.NOTHING or _registers(name):
                    yield ast.Expr(each)
                    yield ast.Expr(ast.Name(statement.name, ast.Load()))

    def _calls(self, statement: ast.stmt, names: dict[str, Any]) -> bool:
        """Whether a statement calls what may leave a trace outside of the module's own names."""
        return any(
            self._leaves_trace(each, names, bare=isinstance(statement, ast.Expr) and statement.value is each)
            for each in _evaluated(statement)
            if isinstance(each, ast.Call)
        )

    def _leaves_trace(self, call: ast.Call, names: dict[str, Any], *, bare: bool) -> bool:
        found = _resolved(call.func, names)
        if self._is_own_code(found):
            return not isinstance(found, type) or bare
        if found is None:
            # A method of what another call gave: `decimal.getcontext().traps.clear()`.
            root, name = _root(call.func), call.func.attr if isinstance(call.func, ast.Attribute) else ""
            owned = isinstance(root, ast.Name) and not self._is_shared(names.get(root.id))
            return not owned and (bare or not is_quiet("builtins", name))
        module, name = _home(found)
        if module.partition(".")[0] == "logging" or isinstance(found, type):
            return False
        written = call.func.attr if isinstance(call.func, ast.Attribute) else name
        return not (is_quiet(module, name) and is_quiet(module, written))

    def _is_outside(self, target: ast.expr, names: dict[str, Any]) -> bool:
        """Whether assigning to a target changes anything but the module's own names."""
        if not isinstance(target, ast.Attribute | ast.Subscript):
            return False
        root = _root(target)
        return not isinstance(root, ast.Name) or self._is_shared(names.get(root.id))

    def _is_shared(self, found: object) -> bool:
        """Whether others than the job's own code may hold the same object."""
        if isinstance(found, ModuleType | FunctionType | type):
            return not self._is_own_code(found)
        return type(found).__module__.partition(".")[0] not in _HELD_ALONE and not self._is_own_code(found)

    def _is_own_code(self, found: object) -> bool:
        if isinstance(found, ModuleType):
            return self.is_own(found)
        inner = getattr(found, "__func__", found)
        if not isinstance(inner, FunctionType | type):
            inner = type(found)
            if inner.__module__ == "builtins":
                return False
        return self.is_own(sys.modules.get(str(inner.__module__)))

    def imports(self, name: str) -> list[Path] | None:
        """The files that importing one of the job's modules runs, found without running any; None: a library's.

        Parents' ``__init__`` and what those files import themselves, wherever the import stands.
        """
        found: dict[Path, None] = {}
        waiting = [name]
        seen: set[str] = set()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            for path, package in self._files_of(current):
                if path not in found:
                    found[path] = None
                    waiting += _imported_names(self.tree(path), package)
        return sorted(found) or None

    def _files_of(self, name: str) -> Iterator[tuple[Path, str]]:
        """The job's files that a dotted name stands for, each with the package that relative imports start at."""
        places: Iterable[str] = [*self._places, *sys.path]
        parts = name.split(".")
        for number in range(len(parts)):
            here = ".".join(parts[: number + 1])
            try:
                spec = PathFinder.find_spec(here, list(places))
            except (ImportError, ValueError):
                return
            if spec is None:
                return
            if spec.origin and self.is_own_file(spec.origin):
                package = here if spec.submodule_search_locations is not None else here.rpartition(".")[0]
                yield Path(spec.origin).resolve(), package
            if spec.submodule_search_locations is None:
                return
            places = spec.submodule_search_locations

    def reach_of_source(self, path: Path) -> Reach:
        """What a file's code may reach of the bundle when it runs."""
        tree = self.tree(path)
        if tree is None:
            return Reach.DATA
        aliases = {name: module for name, module in _aliases(tree).items() if not self._is_own_name(module)}
        return max((self._reach_of_node(each, aliases) for each in ast.walk(tree)), default=Reach.NOTHING)

    def _is_own_name(self, module: str) -> bool:
        return any(True for _ in self._files_of(module.partition(".")[0]))

    def _reach_of_node(self, node: ast.AST, aliases: dict[str, str]) -> Reach:
        match node:
            case ast.Attribute(value=ast.Name(id=root), attr=name) if root in aliases:
                return max(reach_of(aliases[root], name), reach_of_attribute(name))
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=root), attr=middle), attr=name) if root in aliases:
                return max(reach_of(f"{aliases[root]}.{middle}", name), reach_of_attribute(name))
            case ast.Name(id=name):
                return reach_of_global(name)
            case ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                return reach_of_attribute(name)
            case ast.Import(names=names):
                modules = [alias.name for alias in names if alias.name.partition(".")[0] not in _BY_NAME]
                reached = (reach_of(each, "") for each in modules if not self._is_own_name(each))
                return max(reached, default=Reach.NOTHING)
            case ast.ImportFrom(module=str(module), names=names, level=0) if not self._is_own_name(module):
                return max(reach_of(module, alias.name) for alias in names)
            case _:
                return Reach.NOTHING


def _parsed(path: Path) -> ast.Module | None:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return tree


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        yield getattr(statement, field, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when a module is imported; a compound one as a whole."""
    for each in body:
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not (
            isinstance(each, ast.If) and _is_guard(each.test)
        ):
            yield each


def _is_guard(test: ast.expr) -> bool:
    """``if __name__ == "__main__"`` and ``if TYPE_CHECKING``: never true where a job is imported."""
    text = ast.unparse(test)
    return text in ("__name__ == '__main__'", "TYPE_CHECKING", "typing.TYPE_CHECKING")


def _bindings(tree: ast.Module | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for statement in _top_level(tree.body) if tree else ():
        names = set(_bound(statement))
        text = ast.dump(statement) if names else ""
        for name in names:
            found.setdefault(name, []).append(text)
    return found


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement stores to, or to a part of, or calls a method of."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
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
    """All nodes of a statement but the bodies of functions that it defines."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _resolved(node: ast.expr, names: dict[str, Any]) -> Any:
    """What a dotted name stands for in a module; None where that takes running code."""
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
    """Module and name of a library's object."""
    if isinstance(found, ModuleType):
        return found.__name__, ""
    inner = getattr(found, "__func__", found)
    module = getattr(inner, "__module__", None) or getattr(type(found), "__module__", "")
    return str(module), str(getattr(inner, "__name__", type(found).__name__))


def _registers(name: str) -> bool:
    return "register" in name


def _imported_names(tree: ast.Module | None, package: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                base = absolute(module or "", level, package)
                found += [base, *(f"{base}.{alias.name}".lstrip(".") for alias in names)]
            case _:
                pass
    return [each for each in found if each]


def absolute(name: str, level: int, package: str) -> str:
    """The full name of what ``level`` leading dots and ``name`` stand for in a package."""
    if not level:
        return name
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{name}".strip(".")


def _aliases(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
    return found
