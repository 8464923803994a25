"""A digest of a Python function: its code, what it closes over, and the job's own code that it uses.

Equal in every process, whatever the hash seed and wherever the code lies; line numbers, comments, formatting and
docstrings do not count. Code of libraries counts by name only: their versions are in the release's environment.
What cannot be looked into (an open connection, a lock) counts by its type, and the digest says so.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import importlib.util
import json
import math
import sys
import sysconfig
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from streamkeeper.model.manifest import UNREADABLE

_LIBRARIES = tuple(
    {
        Path(path).resolve()
        for key, path in sysconfig.get_paths().items()
        if key in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)
_HANDLES = frozenset({"SparkSession", "SparkContext", "DataFrame", "RDD", "Broadcast", "Accumulator"})
"""Live things of one process; what is behind them cannot be compared."""
_OWN = Path(__file__).resolve().parents[1]


class CodeDigest:
    """Computes digests; ``bundle_root``: the directory of the job's own code, wherever it was unpacked."""

    def __init__(self, bundle_root: Path | None) -> None:
        self._scope = _Scope(bundle_root)

    def of(self, function: object) -> str:
        """``sha256`` in hex, or ``unreadable:<sha256>`` when it does not cover everything."""
        reading = _Reading(self._scope)
        digest = hashlib.sha256(json.dumps(reading.value(function)).encode()).hexdigest()
        return f"{UNREADABLE}{digest}" if reading.unreadable else digest


class _Scope:
    """Which code is the job's own."""

    def __init__(self, root: Path | None) -> None:
        self._root = root.resolve() if root else None

    def is_own(self, module: ModuleType | None) -> bool:
        """Whether a module is the job's code rather than a library's."""
        if module is None:
            return False
        file = getattr(module, "__file__", None)
        return self.is_own_file(file) if file else module.__name__ == "__main__"

    def is_own_file(self, file: str | None) -> bool:
        """Whether a file is the job's code; what is built into the interpreter has none."""
        if not file or file in ("built-in", "frozen"):
            return False
        path = Path(file).resolve()
        if self._root and path.is_relative_to(self._root):
            return True
        return not any(path.is_relative_to(library) for library in (*_LIBRARIES, _OWN))

    def whole_bundle(self) -> list[list[str | None]] | None:
        """Every Python file of the bundle; None when there is no bundle."""
        if self._root is None:
            return None
        return [[str(path.relative_to(self._root)), _source_of(path)] for path in sorted(self._root.rglob("*.py"))]


class _Reading:
    """One walk from a function; the result is plain JSON, cycles are cut by the number of the visit."""

    def __init__(self, scope: _Scope) -> None:
        self._scope = scope
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []
        self.unreadable = False

    def value(self, found: Any) -> Any:
        """Canonical JSON of any Python value."""
        match found:
            case None | bool() | str():
                return [type(found).__name__, found]
            case Enum():
                return ["enum", type(found).__name__, found.name, self.value(found.value)]
            case int():
                return ["int", str(int(found))]
            case float():
                return ["float", "nan" if math.isnan(found) else float(found).hex()]
            case bytes() | bytearray():
                return ["bytes", bytes(found).hex()]
        if id(found) in self._seen:
            return ["seen", self._seen[id(found)]]
        self._seen[id(found)] = len(self._seen)
        self._kept.append(found)
        return self._compound(found)

    def _compound(self, found: Any) -> Any:
        match found:
            case list() | tuple() if type(found) in (list, tuple):
                return [type(found).__name__, [self.value(each) for each in found]]
            case set() | frozenset():
                return ["set", sorted(self._alone(each) for each in found)]
            case dict() if type(found) is dict:
                return ["dict", [[self.value(key), self.value(each)] for key, each in found.items()]]
            case CodeType():
                return self._code(found, {})
            case FunctionType():
                return self._function(found)
            case MethodType():
                return ["method", self.value(found.__func__), self.value(found.__self__)]
            case ModuleType():
                return self._module(found)
            case type():
                return self._class(found)
            case staticmethod() | classmethod():
                return [type(found).__name__, self.value(found.__func__)]
            case property():
                return ["property", [self.value(each) for each in (found.fget, found.fset, found.fdel)]]
            case BuiltinFunctionType():
                return ["builtin", found.__module__, found.__qualname__]
            case _:
                return self._instance(found)

    def _alone(self, found: Any) -> str:
        """An element of a set: read on its own, because the order of the visit is not defined."""
        inner = _Reading(self._scope)
        text = json.dumps(inner.value(found))
        self.unreadable |= inner.unreadable
        return text

    def _function(self, found: FunctionType) -> Any:
        own = self._own_object(found)
        cells = {}
        for name, cell in zip(found.__code__.co_freevars, found.__closure__ or (), strict=False):
            try:
                cells[name] = self.value(cell.cell_contents)
            except ValueError:
                cells[name] = ["empty"]
        # A library's wrapper counts by name, what it wraps by its content.
        code = self._code(found.__code__, found.__globals__) if own else [found.__module__, found.__qualname__]
        return [
            "function",
            code,
            self.value(found.__defaults__),
            self.value(found.__kwdefaults__),
            sorted(cells.items()),
            self.value(getattr(found, "__wrapped__", None)),
        ]

    def _code(self, code: CodeType, names: dict[str, Any]) -> Any:
        signature = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_varnames]
        steps = [self._step(each, names) for each in dis.get_instructions(code) if each.opname not in ("RESUME", "NOP")]
        return ["code", signature, steps, code.co_exceptiontable.hex() if hasattr(code, "co_exceptiontable") else ""]

    def _step(self, step: dis.Instruction, names: dict[str, Any]) -> Any:
        argument = step.argval
        if isinstance(argument, CodeType):
            return [step.opname, self._code(argument, names)]
        if step.opname == "IMPORT_NAME":
            return [step.opname, self._imported(str(argument))]
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and argument in names:
            return [step.opname, argument, self.value(names[argument])]
        return [step.opname, self.value(argument)]

    def _imported(self, name: str) -> Any:
        """A module that a function imports when it runs; one that is not loaded yet is not executed to read it."""
        module = sys.modules.get(name)
        if module is not None:
            return self.value(module)
        spec = importlib.util.find_spec(name.partition(".")[0]) if name else None
        if spec is not None and not self._scope.is_own_file(spec.origin):
            return ["module", name]
        bundle = self._scope.whole_bundle()
        self.unreadable |= bundle is None
        return ["bundle", name, bundle]

    def _module(self, found: ModuleType) -> Any:
        if not self._scope.is_own(found):
            return ["module", found.__name__]
        source = _source_of(Path(str(found.__file__)))
        self.unreadable |= source is None
        used = [each for _, each in sorted(vars(found).items()) if self._own_object(each)]
        return ["own-module", source, [self.value(each) for each in used]]

    def _own_object(self, found: Any) -> bool:
        if isinstance(found, ModuleType):
            return self._scope.is_own(found)
        if not isinstance(found, FunctionType | type):
            return False
        name = getattr(found, "__module__", None)
        module = sys.modules.get(name) if isinstance(name, str) else None
        # Code that was pickled by value belongs to no module here: it was written in the job.
        return module is None or self._scope.is_own(module)

    def _class(self, found: type) -> Any:
        if not self._own_object(found):
            return ["class", found.__module__, found.__qualname__]
        skipped = {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__slots__"}
        skipped |= {"__firstlineno__", "__static_attributes__", "_abc_impl", "__abstractmethods__"}
        members = [[name, self.value(each)] for name, each in sorted(vars(found).items()) if name not in skipped]
        return ["own-class", members, [self.value(base) for base in found.__bases__ if base is not object]]

    def _instance(self, found: Any) -> Any:
        if type(found).__module__.startswith("py4j.") or type(found).__name__ in _HANDLES:
            self.unreadable = True
            return ["handle", type(found).__qualname__]
        wrapped = getattr(found, "__wrapped__", None)
        if wrapped is not None:
            return ["wrapper", type(found).__module__, type(found).__qualname__, self.value(wrapped)]
        try:
            reduced = found.__reduce_ex__(4)
        except Exception as reason:  # any object's own code may run here, and may raise anything
            self.unreadable = True
            return ["unreadable", type(found).__module__, type(found).__qualname__, type(reason).__name__]
        if isinstance(reduced, str):
            # It says only where it is to be found, not what it is.
            self.unreadable |= self._own_object(type(found))
            return ["global", type(found).__module__, reduced]
        parts = [*reduced, *([None] * (6 - len(reduced)))]
        parts[3] = list(parts[3]) if parts[3] is not None else None
        parts[4] = list(parts[4]) if parts[4] is not None else None
        return ["object", [self.value(each) for each in parts]]


def _source_of(path: Path) -> str | None:
    """A file's code without comments, docstrings and formatting; None when there is no source."""
    try:
        tree = ast.parse(path.read_text())
    except (OSError, SyntaxError, UnicodeDecodeError):
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
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
