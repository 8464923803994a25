"""A job's own code: run its file, locate errors in it, and find checkpoints that it names."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from streamkeeper.errors import JobUnusable

TOO_DEEP = (
    "an expression is nested too deeply for the stack of Spark's JVM: build it in fewer steps, such as one select, a "
    "join, or a sum over an array, or set spark.driver.extraJavaOptions=-Xss16m"
)
_WHY = "remove it: Streamkeeper sets each query's checkpoint, and a second checkpoint would lose or duplicate output"


_loaded_from: set[Path] = set()

_MOST_FILES, _MOST_BYTES = 5_000, 64 * 1024 * 1024
_NOT_OURS = frozenset({"__pycache__", "dist-packages", "node_modules", "site-packages", "spark-warehouse"})
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")


def run_job_file(root: Path, entry: str) -> ModuleType:
    """Run the file ``entry`` below ``root`` as a module, and return the module.

    Before the run, the modules below ``root`` and those of any job that this process loaded earlier are removed, so
    that modules that the file imports from ``root`` run again, too. The root stays first on ``sys.path``, because
    functions may import from the root after this call. Raises JobUnusable with file and line.
    """
    root = root.resolve()
    path = (root / entry).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        raise JobUnusable(f"there is no job file {entry} under {root}")
    find_own_checkpoints(path, entry)
    for earlier in {*_loaded_from, root}:
        for name, _ in _modules_under(earlier):
            del sys.modules[name]
        sys.path[:] = [each for each in sys.path if each != str(earlier)]
    _loaded_from.clear()
    _loaded_from.add(root)
    sys.path.insert(0, str(root))
    module = _execute(path, ".".join(Path(entry).with_suffix("").parts), root)
    for file in {file for _, file in _modules_under(root) if file.suffix == ".py"}:
        find_own_checkpoints(file, str(file.relative_to(root)))
    return module


def own_files(root: Path) -> list[Path] | None:
    """Return the sorted files below ``root`` that a job's code may consist of or read; None if there are too many.

    Hidden folders, caches and folders of package managers (virtual environments) are left out. Links are followed.
    """
    found: list[Path] = []
    size = 0
    entered: set[str] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [each for each in folders if _may_be_own(folder, each)]
        if (place := os.path.realpath(folder)) in entered:
            folders.clear()
            continue
        entered.add(place)
        for path in (Path(folder, name) for name in files):
            if path.is_file():
                found.append(path)
                size += path.stat().st_size
        if len(found) > _MOST_FILES or size > _MOST_BYTES:
            return None
    return sorted(found)


def content_of(root: Path) -> str:
    """Return a digest of the path and the bytes of every file of a job's code; empty if there are too many files."""
    files = own_files(root)
    if files is None:
        return ""
    digest = hashlib.sha256()
    for path in files:
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _may_be_own(parent: str, name: str) -> bool:
    folder = os.path.join(parent, name)
    return not (
        name.startswith(".")
        or name in _NOT_OURS
        or any(os.path.exists(os.path.join(folder, mark)) for mark in _ENVIRONMENTS)
    )


@contextmanager
def modules_put_back() -> Iterator[None]:
    """When the context ends, restore ``sys.path`` and the loaded modules that a job file replaced in the context."""
    modules, path, loaded = dict(sys.modules), list(sys.path), set(_loaded_from)
    try:
        yield
    finally:
        sys.modules.update(modules)
        sys.path[:] = path
        _loaded_from.clear()
        _loaded_from.update(loaded)


def locate(error: BaseException, root: Path | None) -> str:
    """Return ``file:line: Error: first line of its message``, for the innermost frame in the job's own code.

    The text is ``Error: first line`` if no frame is in the job's own code.
    """
    text = f"{type(error).__name__}: {_first_line(error)}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_relative(error.filename, root)}:{error.lineno}: {text}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(file, line) for file, line in frames if root is not None and Path(file).is_relative_to(root)]
    for file, line in reversed(own):
        return f"{_relative(file, root)}:{line}: {text}"
    return text


def is_too_deep(error: BaseException) -> bool:
    """Whether an error means that a thread of Spark's JVM has exhausted its stack."""
    return "java.lang.StackOverflowError" in str(error)


def find_own_checkpoints(path: Path, shown: str) -> None:
    """Raise JobUnusable if a file of the job's code names a checkpoint location, starts a query, or cannot be parsed.

    ``shown``: the name by which the error calls the file.
    """
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise JobUnusable(f"{shown}:{line}: {type(error).__name__}: {_first_line(error)}") from error
    for line, what in _violations(tree):
        raise JobUnusable(f"{shown}:{line}: the job's own code {what}", hint=_WHY)


def _violations(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text.strip().lower().split(".")[-1] == "checkpointlocation":
                yield node.lineno, "names a checkpoint location"
            case ast.keyword(arg=str(name)) if name.lower() == "checkpointlocation":
                yield node.value.lineno, "names a checkpoint location"
            case ast.Attribute(attr="writeStream"):
                yield node.lineno, "uses writeStream"
            case _:
                pass


def _execute(path: Path, name: str, root: Path) -> ModuleType:
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise JobUnusable(f"job file {path.name} is not Python code", hint="give the file a name that ends in .py")
    module = module_from_spec(spec)
    shadowed = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        _put_back(name, shadowed)
        raise JobUnusable(f"job file {path.relative_to(root)} does not import: {locate(error, root)}") from error
    return module


def _put_back(name: str, module: ModuleType | None) -> None:
    if module is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = module


def _modules_under(root: Path) -> list[tuple[str, Path]]:
    """Return the name and the file of each loaded module below ``root``. For a package without a file of its own,
    return its folder.
    """
    found = []
    for name, module in list(sys.modules.items()):
        place = _place_of(root, name, module)
        if place is None or name.split(".")[0] == __package__:
            continue
        if place.startswith(f"{root}/") and "/site-packages/" not in place:
            found.append((name, Path(place)))
    return found


def _place_of(root: Path, name: str, module: object) -> str | None:
    if not isinstance(module, ModuleType):
        # An object in place of a module does not show its origin.
        file = root.joinpath(*name.split(".")).with_suffix(".py")
        return str(file) if file.is_file() else None
    place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    return place if isinstance(place, str) else None


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")


def _relative(file: str, root: Path | None) -> str:
    path = Path(file)
    return str(path.relative_to(root)) if root is not None and path.is_relative_to(root) else path.name
