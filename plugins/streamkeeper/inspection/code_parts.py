"""The parts of a code digest, each with its own digest and text, which show where code has changed.

A part is a function, a class's header, a plain value, a file, or a module's import effects. Only the digests of whole
functions (``code_digest``) decide whether code has changed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import msgspec

from streamkeeper.inspection.annotations import steps_of
from streamkeeper.inspection.bytecode import secret_constants
from streamkeeper.inspection.object_parts import (
    attributes,
    cell_value,
    class_members,
    is_held_by_its_module,
    module_members,
)
from streamkeeper.inspection.own_code import OwnCode
from streamkeeper.inspection.reading import Reading
from streamkeeper.inspection.source_texts import SourceTexts, Written
from streamkeeper.model.manifests.manifest import IMPORT, MOST_PARTS, CodePart
from streamkeeper.model.secret_names import masked_code, names_secret

_MOST_TEXT = 64 * 1024
_LONGEST, _MOST_LINES, _MOST_ELEMENTS, _DEEPEST = 8 * 1024, 150, 1_000, 4
_PLAIN = (type(None), bool, str, int, float, complex, bytes, date, datetime, time, timedelta, Decimal, range)


class NotPlain(Exception):
    """Raised if the whole content of a value cannot be written as a short text."""


class CodeParts:
    """The parts of the job's code that each function reaches, by the digest of the function."""

    def __init__(self, own: OwnCode) -> None:
        self.texts = SourceTexts(own)
        self._of: dict[str, Mapping[str, CodePart]] = {}

    def keep(self, digest: str, noted: Mapping[str, CodePart]) -> None:
        """Store the parts of the function with this digest."""
        self._of[digest] = {name: noted[name] for name in sorted(noted)[:MOST_PARTS]}

    def of(self, functions: Mapping[str, str]) -> tuple[dict[str, CodePart], dict[str, tuple[str, ...]]]:
        """Return the parts of all given functions by name, and for each function the names of its parts.

        ``functions``: the digest of each function, by the function's name. The result leaves out functions whose parts
        were not stored. The texts of the parts are included up to a total size; further parts have no text.
        """
        parts: dict[str, CodePart] = {}
        reached = {}
        for function, digest in sorted(functions.items()):
            names = [_named(name, part, parts) for name, part in self._of.get(digest, {}).items()]
            if names:
                reached[function] = tuple(names)
        room = _MOST_TEXT
        for name, part in parts.items():
            room -= len(part.text)
            parts[name] = part if room >= 0 else msgspec.structs.replace(part, text="", lines=())
        return parts, reached


def _named(name: str, part: CodePart, parts: dict[str, CodePart]) -> str:
    """Store a part, and return the name under which it is stored. Different parts of the same name get numbers."""
    key, number = name, 1
    while key in parts and parts[key] != part:
        number += 1
        key = f"{name}#{number}"
    parts[key] = part
    return key


class Recording(Reading):
    """A walk over a function's code that also records each function, class, value and file of the job that it meets."""

    def __init__(self, own: OwnCode, texts: SourceTexts) -> None:
        super().__init__(own)
        self._texts = texts
        self._hidden = 0
        self.noted: dict[str, CodePart] = {}

    def whole(self, function: object) -> Any:
        """Return the JSON of a function and of all parts of the job that may influence it, as ``Reading.whole`` does.

        If ``function`` is a pair of a function and its return type, also record the type as a part.
        """
        found = super().whole(function)
        if isinstance(function, tuple) and len(function) == 2 and hasattr(function[1], "simpleString"):
            self._note(f"{_name_of(function[0])}(returns)", str(function[1].simpleString()))
        return found

    def _note(self, name: str, text: str, written: Written | None = None, *, beside: bool = False) -> None:
        """Record a part by its text, unless its name is that of a secret."""
        if self._hidden or names_secret(name.rpartition(".")[2]):
            return
        self._add(
            name,
            CodePart(
                digest=_sha256(text),
                text=_bounded(text),
                place=written.place if written else "",
                lines=(written.line,) if written else (),
                beside=beside,
            ),
        )

    def _note_written(self, name: str, written: Written, *, beside: bool = False) -> None:
        """Record a part by its source code."""
        text = _bounded(written.text)
        lines = written.lines if text else ()
        part = CodePart(digest=_sha256(written.bare), text=text, place=written.place, lines=lines, beside=beside)
        self._add(name, part)

    def _add(self, name: str, part: CodePart) -> None:
        known = self.noted.get(name)
        if known is None or known == part:
            self.noted[name] = part
            return
        # Parts of the same name, such as two objects of a class, are distinguished by their content.
        self.noted[f"{name}#{part.digest[:8]}"] = part

    def _under(self, key: object, found: Any) -> Any:
        hidden = isinstance(key, str) and names_secret(key)
        self._hidden += hidden
        try:
            return super()._under(key, found)
        finally:
            self._hidden -= hidden

    def _function(self, found: FunctionType) -> Any:
        if self._own.is_own_home(found.__globals__.get("__name__")):
            self._note_function(found)
        return super()._function(found)

    def _note_function(self, found: FunctionType) -> None:
        name, written = _name_of(found), self._texts.function(found.__code__)
        if written is not None:
            self._note_written(name, written)
        else:
            self._add(name, CodePart(digest=_sha256(json.dumps(_steps(found.__code__)))))
        text = written.text if written else ""
        for argument, value in _defaults(found):
            self._note_value(f"{name}({argument})", argument, value, text, written)
        for variable, cell in zip(found.__code__.co_freevars, found.__closure__ or (), strict=False):
            self._note_value(f"{name}({variable})", variable, cell_value(cell), text, written)
        self._note_attributes(name, attributes(found, but="__wrapped__"), written)

    def _note_attributes(
        self, name: str, held: Iterable[tuple[str, Any]], written: Written | None = None, around: str = ""
    ) -> None:
        for key, value in held:
            if not key.startswith("__"):
                self._note_value(f"{name}.{key}", key, value, around, written)

    def _note_value(self, name: str, key: str, value: Any, around: str = "", written: Written | None = None) -> None:
        """Record a plain value, unless the text that contains it already shows it.

        ``name``: the name under which the value is recorded.
        ``key``: the last part of the name. If it is the name of a secret, the value is left out.
        ``value``: the value.
        ``around``: the text that may contain the value.
        ``written``: where the text is written, if recorded.
        """
        if self._hidden or names_secret(key):
            return
        try:
            shown = self._own.named(plain_text(value))
        except NotPlain:
            return
        if f"={shown}" not in around.replace(" = ", "="):
            self._note(name, masked_code(shown), written)

    def _global(self, name: str, names: dict[str, Any], importing: bool) -> tuple[Any, ModuleType | None]:
        rendered, held = super()._global(name, names, importing)
        if held is None and name in names:
            self._note_global(str(names.get("__name__")), name, names[name])
        return rendered, held

    def _attribute(self, module: ModuleType, name: str, importing: bool) -> tuple[Any, ModuleType | None]:
        rendered, held = super()._attribute(module, name, importing)
        if held is None and name in vars(module) and self._own.is_own(module):
            self._note_global(module.__name__, name, vars(module)[name])
        return rendered, held

    def _module(self, found: ModuleType) -> Any:
        if self._own.is_own(found):
            for name, value in module_members(found):
                self._note_global(found.__name__, name, value)
        return super()._module(found)

    def _note_global(self, home: str, name: str, value: Any) -> None:
        if self._hidden or names_secret(name) or name in ("__builtins__", "__doc__") or not self._own.is_own_home(home):
            return
        if isinstance(value, FunctionType | type | ModuleType):
            return
        bound = self._texts.binding(home, name)
        key = f"{bound.module}.{bound.name}" if bound else f"{home}.{name}".removeprefix("None.")
        assigned = bound.written.text if bound else ""
        try:
            shown = masked_code(self._own.named(plain_text(value)))
            text = shown if assigned in ("", shown) else f"{shown}\n{assigned}"
        except NotPlain:
            text = assigned
        if text and (bound or not name.startswith("__")):
            self._note(key, text, bound.written if bound else None)

    def _class(self, found: type) -> Any:
        if self._own.is_own_home(found.__module__) or not is_held_by_its_module(found):
            name, written = _name_of(found), self._texts.class_header(found)
            if written is not None:
                self._note_written(name, written)
            if not issubclass(found, Enum):
                self._note_attributes(name, class_members(found, {}), written, written.text if written else "")
        return super()._class(found)

    def _instance(self, found: Any) -> Any:
        kind = type(found)
        if isinstance(found, functools.partial):
            for number, value in [*enumerate(found.args, 1), *found.keywords.items()]:
                self._note_value(f"{_name_of(found)}(argument {number})", str(number), value)
        elif isinstance(found, Enum):
            held = [pair for pair in attributes(found) if not pair[0].startswith("_")]
            self._note_attributes(f"{_name_of(kind)}.{found._name_}", held)
        elif self._own.is_own_home(kind.__module__):
            self._note_attributes(_name_of(kind), attributes(found))
        return super()._instance(found)

    def _code(
        self,
        code: CodeType,
        names: dict[str, Any],
        cells: Mapping[str, ModuleType] = MappingProxyType({}),
        *,
        importing: bool = False,
    ) -> Any:
        if importing and code.co_name == "<module>":
            self._note_import(code, names)
        return super()._code(code, names, cells, importing=importing)

    def _note_import(self, code: CodeType, names: dict[str, Any]) -> None:
        home = str(names.get("__name__"))
        written = self._texts.statements(sys.modules.get(home), set(_lines_of(code)))
        if written is not None:
            self._note_written(f"{home}{IMPORT}", written, beside=True)

    def _imported(self, code: CodeType, name: str, wanted: Iterable[str] | None) -> Any:
        for path in {file for each in (name, *(f"{name}.{one}" for one in wanted or ())) for file in self._files(each)}:
            if (written := self._texts.whole(path)) is not None:
                self._note_written(written.file, written)
        return super()._imported(code, name, wanted)

    def _files(self, module: str) -> list[Path]:
        return self._own.imports(module) or []

    def _beyond(self) -> Any:
        found = super()._beyond()
        for file, digest in found[1] or ():
            if file not in self.noted:
                self._add(file, CodePart(digest=digest, place=file, beside=True))
        return found


def plain_text(value: Any) -> str:
    """Return a value's whole content in Python's notation. Raises NotPlain if that is impossible or the text is too
    long.

    Values under the name of a secret are left out.
    """
    left = [_MOST_ELEMENTS]
    text = _plain(value, left, _DEEPEST)
    if len(text) > _LONGEST:
        raise NotPlain
    return text


def _plain(value: Any, left: list[int], deep: int) -> str:
    left[0] -= 1
    if left[0] < 0 or deep < 0:
        raise NotPlain
    inner: Callable[[Any], str] = lambda each: _plain(each, left, deep - 1)  # noqa: E731
    kind = type(value)
    if kind in _PLAIN:
        return "nan" if kind is float and math.isnan(value) else repr(value)
    if kind is list:
        return f"[{', '.join(map(inner, value))}]"
    if kind is tuple:
        return f"({', '.join(map(inner, value))}{',' if len(value) == 1 else ''})"
    if kind in (set, frozenset):
        return f"{{{', '.join(sorted(map(inner, value)))}}}" if value else f"{kind.__name__}()"
    if kind in (dict, MappingProxyType):
        shown = {key: each for key, each in value.items() if not (isinstance(key, str) and names_secret(key))}
        return f"{{{', '.join(f'{inner(key)}: {inner(each)}' for key, each in shown.items())}}}"
    if kind is re.Pattern:
        return f"re.compile({inner(value.pattern)}, {int(value.flags)})"
    if isinstance(value, Enum):
        return f"{kind.__qualname__}.{value._name_}"
    raise NotPlain


def _name_of(found: Any) -> str:
    while isinstance(found, functools.partial):
        found = found.func
    if isinstance(found, FunctionType):
        # ``functools.wraps`` copies the wrapped function's name.
        return f"{found.__globals__.get('__name__') or ''}.{found.__code__.co_qualname}".lstrip(".")
    kind = found if isinstance(found, type) else type(found)
    return f"{kind.__module__}.{kind.__qualname__}"


def _defaults(found: FunctionType) -> Iterator[tuple[str, Any]]:
    code, defaults = found.__code__, found.__defaults__ or ()
    if defaults:
        yield from zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=False)
    yield from (found.__kwdefaults__ or {}).items()


def _steps(code: CodeType) -> list[Any]:
    """Return the instructions of a function whose source is unknown, without values that belong to a secret's name."""
    steps, _ = steps_of(code)
    hidden = secret_constants(steps)
    return [
        [step.opname, _steps(step.argval) if isinstance(step.argval, CodeType) else _constant(step.argval)]
        for number, step in enumerate(steps)
        if number not in hidden
    ]


def _constant(found: Any) -> str:
    try:
        return plain_text(found)
    except NotPlain:
        return type(found).__name__


def _lines_of(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines_of(constant)


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST and text.count("\n") < _MOST_LINES else ""


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
