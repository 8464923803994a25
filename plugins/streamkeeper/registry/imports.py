"""Finds the files under the jobs root that a job's file needs, from its import statements; no code is executed.

The following are recognised anywhere in a file: ``import``, ``from … import`` (also relative), and
``import_module("literal")``. Importing a package adds its ``__init__`` and its data files. Module names that are
computed at run time are not found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from streamkeeper.errors import InvalidInput, JobUnusable


def find_files(root: Path, entry: Path) -> list[Path]:
    """Return ``entry`` and all its transitive dependencies under ``root`` (a resolved path), sorted.

    Raises JobUnusable for a file that cannot be parsed, and InvalidInput for a file that leads out of the root.
    """
    found: set[Path] = set()
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(_inside(root, path))
        if path.suffix == ".py":
            for module in _imported(root, path):
                waiting.extend(_files_of(root, module))
    return sorted(found)


def _inside(root: Path, path: Path) -> Path:
    if not path.resolve().is_relative_to(root):
        raise InvalidInput(
            f"{path.relative_to(root)} leads out of the jobs root {root}", hint="put a copy under the jobs root"
        )
    return path


def _imported(root: Path, path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the dotted names that a file may import, as tuples; ``("a", "*")`` means all modules of package ``a``."""
    for node in ast.walk(_parse(root, path)):
        match node:
            case ast.Import(names=names):
                yield from (tuple(alias.name.split(".")) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = (*_anchor(root, path, level), *(module.split(".") if module else ()))
                yield base
                yield from ((*base, alias.name) for alias in names)
            case ast.Call(func=func, args=[ast.Constant(value=str() as name), *_]) if _is_import_call(func):
                if not name.startswith("."):
                    yield tuple(name.split("."))
            case _:
                pass


def _parse(root: Path, path: Path) -> ast.Module:
    name = path.relative_to(root).as_posix()
    try:
        return ast.parse(path.read_bytes(), filename=name)
    except SyntaxError as error:
        raise JobUnusable(f"{name}:{error.lineno or 1}: {error.msg}", hint="correct the file and push again") from error
    except (ValueError, RecursionError) as error:
        raise JobUnusable(f"{name}:1: {error}", hint="correct the file and push again") from error


def _anchor(root: Path, path: Path, level: int) -> tuple[str, ...]:
    """Return the package that ``level`` leading dots mean in ``path``."""
    if level == 0:
        return ()
    parts = path.relative_to(root).parts[:-1]
    if level > len(parts):
        name = path.relative_to(root).as_posix()
        raise JobUnusable(
            f"{name}: a relative import leads out of its package", hint="import the module by its full name"
        )
    return parts[: len(parts) - level + 1]


def _is_import_call(func: ast.expr) -> bool:
    match func:
        case ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"):
            return True
        case _:
            return False


def _files_of(root: Path, module: tuple[str, ...]) -> list[Path]:
    """Return the files under ``root`` that the import of a dotted name loads; empty if no module under ``root`` has
    that name.
    """
    files: list[Path] = []
    folder = root
    for part in module:
        if part == "*":
            return files + ([] if folder == root else sorted(folder.glob("*.py")))
        if not part.isidentifier():
            break
        package, single = folder / part, folder / f"{part}.py"
        if package.is_dir() and ((package / "__init__.py").is_file() or not single.is_file()):
            files += _package_files(package)
            folder = package
        elif single.is_file():
            return [*files, single]
        else:
            break
    return files


def _package_files(package: Path) -> list[Path]:
    """Return a package's own ``__init__`` and its data files, including those in plain folders within the package."""
    files = [file for file in (package / "__init__.py",) if file.is_file()]
    waiting = [package]
    while waiting:
        for path in waiting.pop().iterdir():
            if path.name.startswith(".") or path.name == "__pycache__":
                continue
            if path.is_symlink() and path.is_dir():
                raise InvalidInput(f"{path} is a link to a folder", hint="replace the link by a copy of the folder")
            if path.is_dir() and not (path / "__init__.py").is_file():
                waiting.append(path)
            elif path.is_file() and path.suffix not in {".py", ".pyc", ".pyo"}:
                files.append(path)
    return files
