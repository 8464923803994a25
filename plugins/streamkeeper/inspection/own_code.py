"""Reads the job's own code on disk: the files that belong to it, and what its modules do when they are imported."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from streamkeeper.authoring.job_code import own_files
from streamkeeper.inspection.import_effects import ImportEffects, find_bindings
from streamkeeper.inspection.inert import Reach, reach_of, reach_of_attribute, reach_of_global
from streamkeeper.inspection.own_decorators import OwnDecorators
from streamkeeper.model.manifests.manifest import BUNDLE

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
"""Modules of which each name is assessed separately, because some of their names reach more of the bundle
than others.
"""
_SHIPPED = frozenset({"py4j", "pyspark", "streamkeeper"})
"""Libraries that are never part of the job's code, although they may be installed outside of the interpreter's own
directories.
"""
_SOURCE = ".py"
_CODE = frozenset({_SOURCE, ".pyc", ".pyd", ".so", ".zip", ".egg", ".whl"})


class OwnCode:
    """The job's code below ``root``, or all code outside of libraries if ``root`` is None; each file is read once."""

    def __init__(self, root: Path | None) -> None:
        self._root = root.resolve() if root else None
        self._places = sorted({str(place) for place in (root, self._root) if place and len(place.parts) > 1}, key=len)
        self._trees: dict[str, ast.Module | None] = {}
        self._bindings: dict[str, dict[str, list[str]]] = {}
        self._files: list[Path] | None = None
        self._is_own: dict[str, bool] = {}
        self._decorators = OwnDecorators(lambda: [self.source_of(module) for module in self.loaded()])

    def is_own(self, module: object) -> bool:
        """Whether a module is part of the job's code and not of a library."""
        if not isinstance(module, ModuleType):
            return False
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if module.__name__.partition(".")[0] in _SHIPPED:
            return False
        return self.is_own_file(file) if file else module.__name__ == "__main__"

    def is_own_home(self, name: object) -> bool:
        """Whether the module of this name belongs to the job.

        True if no module of this name is loaded, as for code pickled by value.
        """
        module = sys.modules.get(name) if isinstance(name, str) else None
        return not isinstance(module, ModuleType) or self.is_own(module)

    def is_own_file(self, file: str | None) -> bool:
        """Whether a file is part of the job's code; false without a file, as for code built into the interpreter."""
        if not file or file in ("built-in", "frozen"):
            return False
        if file not in self._is_own:
            self._is_own[file] = self._lies_in_bundle(Path(file).resolve())
        return self._is_own[file]

    def _lies_in_bundle(self, path: Path) -> bool:
        if self._root and path.is_relative_to(self._root):
            return not _INSTALLED & set(path.relative_to(self._root).parts)
        return not _INSTALLED & set(path.parts) and not any(path.is_relative_to(library) for library in _LIBRARIES)

    def named(self, text: str) -> str:
        """Return ``text`` with a placeholder in place of the bundle's path."""
        for place in reversed(self._places):
            if place in text:
                text = text.replace(place, BUNDLE)
        return text

    def relative(self, path: Path) -> str:
        """Return a file's path within the bundle, or only its name if it is outside of the bundle."""
        path = path.resolve()
        return str(path.relative_to(self._root)) if self._root and path.is_relative_to(self._root) else path.name

    def loaded(self) -> list[ModuleType]:
        """Return the modules below the bundle's root that this process has imported, in the order of their names."""
        found = [module for _, module in sorted(sys.modules.items()) if isinstance(module, ModuleType)]
        return [module for module in found if self._is_below(module) and self.is_own(module)]

    def _is_below(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and any(file.startswith(f"{place}/") for place in self._places)

    def data_files(self) -> list[list[str]] | None:
        """Return name and digest of every file in the bundle except loaded modules; None if the files cannot be
        determined.
        """
        loaded = {str(getattr(module, "__file__", "")) for module in self.loaded()}
        return self._contents(lambda path: str(path) not in loaded)

    def all_files(self, *, as_written: bool = False) -> list[list[str]] | None:
        """Return name and digest of every file of the bundle; None if the files cannot be determined.

        ``as_written``: whether comments, docstrings and formatting of Python source change the digest.
        """
        return self._contents(lambda path: True, as_written=as_written)

    def _contents(self, wanted: Any, *, as_written: bool = False) -> list[list[str]] | None:
        if self._root is None:
            return None
        if self._files is None:
            self._files = own_files(self._root)
        if self._files is None:
            return None
        return [[self.relative(file), self.content(file, as_written)] for file in self._files if wanted(file)]

    def all_trees(self) -> list[ast.Module | None] | None:
        """Return the syntax trees of the bundle's code files. A file that is not Python source is listed as None.

        Returns None instead of the list if the files cannot be determined.
        """
        if self._contents(lambda path: False) is None:
            return None
        return [self.tree(file) for file in self._files or () if file.suffix in _CODE]

    def content(self, path: Path, as_written: bool = False) -> str:
        """Return a digest of a file; ``missing`` if there is no such file.

        ``as_written``: whether comments, docstrings and formatting of Python source change the digest.
        """
        tree = None if as_written else self.tree(path)
        if tree is not None:
            return _sha256(ast.dump(tree).encode())
        # A module in an archive is as old as the archive.
        held = next((place for place in (path, *path.parents) if place.is_file()), None)
        return _sha256(held.read_bytes()) if held else "missing"

    def tree(self, path: Path) -> ast.Module | None:
        """Return the syntax of a source file without docstrings; None for a file that is not Python source."""
        key = str(path)
        if key not in self._trees:
            self._trees[key] = _parsed(path) if path.suffix == _SOURCE else None
        return self._trees[key]

    def compiled(self, module: object) -> str:
        """Return a digest of a module's file if the module belongs to the job and has no source; empty otherwise."""
        file = getattr(module, "__file__", None) if self.is_own(module) else None
        return self.content(Path(file)) if file and self.tree(Path(file)) is None else ""

    def source_of(self, module: ModuleType) -> ast.Module | None:
        """Return the syntax of a loaded module."""
        file = getattr(module, "__file__", None)
        return self.tree(Path(file)) if file else None

    def bindings(self, module: ModuleType, name: str) -> list[str]:
        """Return the statements of a module that give a global its value, as canonical text.

        Another process that imports the module runs these statements. In this process, the value may have changed since
        the import.
        """
        key = str(getattr(module, "__file__", None))
        if key not in self._bindings:
            self._bindings[key] = find_bindings(self.source_of(module))
        return self._bindings[key].get(name, [])

    def effects(self, module: ModuleType, rewritten: ast.Module | None = None) -> CodeType | None:
        """Return the statements of a module that may change something outside of the module when it is imported.

        The statements are returned as compiled code that is never run; None if there are none. ``rewritten``: an
        equivalent form of the module's syntax, from which the statements are taken if it is given.
        """
        tree = self.source_of(module)
        return ImportEffects(vars(module), self.is_own, self._decorators).compiled(tree, rewritten) if tree else None

    def imports(self, name: str) -> list[Path] | None:
        """Return the files that run when one of the job's modules is imported, determined without running any of them.

        The result includes the ``__init__`` of parent packages, and all files that these files import, wherever the
        import is in the code. Returns None for a library's module.
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
        """Yield the job's files to which a dotted name refers, each with the package for its relative imports."""
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
        """Return how much of the bundle a file's code may reach when it runs."""
        tree = self.tree(path)
        if tree is None:
            return Reach.DATA
        aliases = {name: module for name, module in _aliases(tree).items() if not self._is_own_name(module)}
        return max((self._reach_of_node(node, aliases) for node in ast.walk(tree)), default=Reach.NOTHING)

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
                reached = (reach_of(imported, "") for imported in modules if not self._is_own_name(imported))
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
    return [name for name in found if name]


def absolute(name: str, level: int, package: str) -> str:
    """Return the absolute name of a relative import of ``name`` with ``level`` leading dots in a package."""
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
