"""A job's own code: running its file, saying where in it an error arose, and finding checkpoints that it names."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from streamkeeper.errors import JobUnusable

_WHY = "Streamkeeper injects the checkpoint version; a second owner would lose or double the output"


_loaded_from: set[Path] = set()


def run_job_file(root: Path, entry: str) -> ModuleType:
    """Run the file ``entry`` below ``root`` as a module; what it imports from the root is run afresh too.

    Modules of a job that was loaded earlier in this process, from here or another root, are forgotten first.
    The root stays first on ``sys.path``: functions may import from it later. Raises JobUnusable with file and line.
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
    for _, file in _modules_under(root):
        find_own_checkpoints(file, str(file.relative_to(root)))
    return module


def locate(error: BaseException, root: Path | None) -> str:
    """``file:line: Error: first line``, with the innermost place in the job's own code; one line."""
    text = f"{type(error).__name__}: {_first_line(error)}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_relative(error.filename, root)}:{error.lineno}: {text}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if root is not None and Path(frame.filename).is_relative_to(root)]
    for frame in reversed(own):
        return f"{_relative(frame.filename, root)}:{frame.lineno}: {text}"
    return text


def find_own_checkpoints(path: Path, shown: str) -> None:
    """Raise JobUnusable where the file names a checkpoint location or starts a query by itself."""
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise JobUnusable(f"{shown}:{line}: {type(error).__name__}: {_first_line(error)}") from error
    for line, what in _violations(tree):
        raise JobUnusable(f"{shown}:{line}: the job's own code {what}", hint=f"{_WHY}: remove it")


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
        raise JobUnusable(f"job file {path.name} is not Python code", hint="a job file ends in .py")
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
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name.split(".")[0] == __package__:
            continue
        if file.startswith(f"{root}/") and "/site-packages/" not in file:
            found.append((name, Path(file)))
    return found


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")


def _relative(file: str, root: Path | None) -> str:
    path = Path(file)
    return str(path.relative_to(root)) if root is not None and path.is_relative_to(root) else path.name
