"""Reads everything that a function reaches, by value. ``code_digest`` documents what the result guarantees."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import Field
from enum import Enum
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from streamkeeper.inspection.annotations import as_written, flags_of, names_in_texts, resolved, steps_of
from streamkeeper.inspection.bytecode import names_in, package_of, secret_constants
from streamkeeper.inspection.inert import AT_IMPORT, SEES_LOCALS, Reach, reach_of, reach_of_attribute, reach_of_global
from streamkeeper.inspection.local_names import LocalNames
from streamkeeper.inspection.met import Met
from streamkeeper.inspection.object_parts import (
    Hidden,
    Members,
    Slots,
    Unordered,
    atom,
    attributes,
    binary,
    cell_value,
    class_members,
    field_parts,
    is_handle,
    is_held_by_its_module,
    known_parts,
    module_members,
    own_parts,
    pickled_parts,
    registered_with,
)
from streamkeeper.inspection.own_code import OwnCode, absolute
from streamkeeper.inspection.routing import Routing, is_told_where
from streamkeeper.model.secret_names import is_secret

_ATOMS = (type(None), bool, str, int, float, complex, bytes, type(...), type(NotImplemented))


class Reading:
    """One pass over everything that a function reaches. The result is plain JSON, in which a number stands for an
    object that was already read.
    """

    def __init__(self, own: OwnCode, look: Routing | LocalNames | None = None) -> None:
        self._own = own
        self._look = look
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []
        self.met = Met()
        self._modules: dict[str, ModuleType] = {}
        self._types: dict[int, Any] = {}
        self._silent = 0
        self.texts: set[str] = set()

    def whole(self, function: object) -> Any:
        """Return the JSON of a function and of all other parts of the job that may influence the function."""
        found = [self.value(function)]
        self._silent += 1
        found.append(self._effects())
        if (met := self.met).foreign or (
            met.types and met.annotated
        ):  # a library that was given a function may have read these
            found.append([self._members(hints.items()) for hints in list(met.annotated)])
        found.append(self._beyond())
        if met.names or met.foreign:
            found.append(met.called)
        if met.attributes or met.reach >= Reach.CODE:
            found += [self._members(copied) for copied in list(met.copied)]
        return found

    def _effects(self) -> Any:
        """Return what the job's modules changed in libraries when they were imported."""
        modules = sorted(({module.__name__: module for module in self._own.loaded()} | self._modules).items())
        effects = ((module, self._own.effects(module)) for _, module in modules)
        return [self._code(code, vars(module), importing=True) for module, code in effects if code is not None]

    def _beyond(self) -> Any:
        """Return the part of the bundle that the code may reach by names that cannot be determined here.

        This rule makes the digest complete: code that is not known to be harmless adds everything that it might reach.
        """
        if self.met.reach >= Reach.CODE:
            modules = [self.value(module) for module in self._own.loaded()]
            files = self._own.all_files(as_written=self.met.reach >= Reach.TEXT)
        else:
            modules, files = [], self._own.data_files() if self.met.reach >= Reach.DATA else []
        self.met.unreadable |= files is None
        return [modules, files]

    def _meet_library(self, module: str, name: str) -> None:
        routed = isinstance(self._look, Routing) and is_told_where(module)
        self.met.meet_library(Reach.NOTHING if routed else reach_of(module, name))

    def value(self, found: Any) -> Any:
        """Return the canonical JSON of any Python value."""
        kind = type(found)
        if kind in _ATOMS:
            return self._atom(found)
        if kind in (tuple, frozenset):
            # It is up to the interpreter whether two equal values are one object.
            return self._compound(found)
        if id(found) in self._seen:
            return ["seen", self._seen[id(found)]]
        self._seen[id(found)] = len(self._seen)
        self._kept.append(found)
        return self._compound(found)

    def _atom(self, found: Any) -> Any:
        if not isinstance(found, str):
            return atom(found)
        self.met.name(found)
        text = self._own.named(found)
        if text != found:
            self.met.meet(Reach.DATA)
        if not self._silent:
            self.texts.add(text)
        return ["str", text]

    def _compound(self, found: Any) -> Any:
        kind = type(found)
        if isinstance(found, Members):
            self.met.copied += [found.copied] * bool(found.copied)
            return ["list", [["tuple", [["str", name], self._under(name, value)]] for name, value in found]]
        if isinstance(found, Slots):
            return ["dict", [[["str", name], self._under(name, value)] for name, value in found.items()]]
        if kind in (list, tuple):
            return [kind.__name__, [self.value(element) for element in found]]
        if kind in (set, frozenset, Unordered):
            return ["set", sorted(self._alone(element) for element in list(found))]
        if kind in (dict, MappingProxyType):
            return ["dict", [[self.value(key), self._under(key, value)] for key, value in list(found.items())]]
        if kind in (bytearray, memoryview):
            return [kind.__name__, binary(bytes(found))]
        match found:
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
            case BuiltinFunctionType():
                return self._builtin(found)
            case CellType():
                return self.value(cell_value(found))
            case staticmethod() | classmethod():
                return [self._kind(found), self.value(found.__func__)]
            case property():
                return [self._kind(found), [self.value(accessor) for accessor in (found.fget, found.fset, found.fdel)]]
            case _:
                return self._instance(found)

    def _kind(self, found: object) -> Any:
        """Return the name of an object's builtin type, or the job's class derived from it with its attributes."""
        kind = type(found)
        if kind.__module__ == "builtins":
            return kind.__name__
        return [self.value(kind), self._members(attributes(found, but="__wrapped__"))]

    def _members(self, pairs: Iterable[tuple[str, Any]]) -> Any:
        """Return attributes or variables with their values. Their names do not count as strings."""
        return [[name, self._under(name, value)] for name, value in pairs]

    def _under(self, key: object, found: Any) -> Any:
        """Return the value that belongs to a name. If the name is the name of a secret, the value is never shown."""
        hidden = isinstance(key, str) and is_secret(key)
        self._silent += hidden
        try:
            return self.value(found)
        finally:
            self._silent -= hidden

    def _alone(self, found: Any) -> str:
        """Return the JSON of one element of a set, read separately because the order of a set is not defined."""
        inner = copy(self)  # what does not depend on an order is shared
        inner._seen, inner.met = dict(self._seen), type(self.met)()
        text = json.dumps(inner.value(found))
        self.met.merge(inner.met)
        return text

    def _function(self, found: FunctionType) -> Any:
        names, home = found.__globals__, found.__globals__.get("__name__")
        registry = getattr(found, "registry", None)
        if home == "functools" and isinstance(registry, MappingProxyType):
            return ["dispatch", self.value(Unordered(registry.items()))]
        cells = dict(sorted(zip(found.__code__.co_freevars, found.__closure__ or (), strict=False)))
        modules = {name: module for name, cell in cells.items() if isinstance(module := cell_value(cell), ModuleType)}
        if self._own.is_own_home(home):
            self.met.annotated.append(dict(getattr(found, "__annotations__", None) or {}))
            self.met.called.append([found.__module__, found.__qualname__, found.__name__])
            code = self._code(found.__code__, names, modules)
        else:
            # A library's wrapper counts by its name, and what it holds by its content.
            self._meet_library(str(home), found.__name__)
            code = [home, found.__code__.co_qualname]
        return [
            "function",
            code,
            self.value(found.__defaults__),
            self.value(found.__kwdefaults__),
            [[name, self._under(name, cell_value(cell))] for name, cell in cells.items() if name not in modules],
            self._members(attributes(found, but="__wrapped__")),
            self.value(vars(found).get("__wrapped__")),
        ]

    def _builtin(self, found: BuiltinFunctionType) -> Any:
        holder = found.__self__
        module = str(found.__module__ or type(holder).__module__)
        if holder is not None and not isinstance(holder, ModuleType):
            return ["builtin-method", found.__qualname__, self.value(holder)]
        if self._own.is_own_home(module):
            return ["builtin", self.value(sys.modules.get(module)), found.__qualname__]
        self.met.meet(reach_of_global(found.__name__) if module == "builtins" else Reach.NOTHING)
        self._meet_library(module, found.__name__)
        return ["builtin", module, found.__qualname__]

    def _code(
        self,
        code: CodeType,
        names: dict[str, Any],
        cells: Mapping[str, ModuleType] = MappingProxyType({}),
        *,
        importing: bool = False,
    ) -> Any:
        """Return the instructions of a code object, and the values that they use. ``names``: its globals.

        ``cells``: the modules in its closure. ``importing``: it has already run, while its module was imported.
        """
        signature = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, flags_of(code)]
        found: list[Any] = []
        held: ModuleType | None = None
        steps, handlers = steps_of(code)
        hidden = secret_constants(steps)
        kept, numbers = self._look.counting(code, steps, names) if self._look else (range(len(steps)), {})
        for number in kept:
            step = steps[number]
            name, argument = step.opname, numbers.get(number, step.argval)
            if held is not None:
                # A module of which an attribute is read counts by that attribute. A module that is passed on counts as
                # a whole.
                if name in ("LOAD_ATTR", "LOAD_METHOD"):
                    rendered, held = self._attribute(held, str(argument), importing)
                    found.append([name, argument, rendered])
                    continue
                found.append(["whole", self._escaped(held, importing)])
                held = None
            if name in ("LOAD_GLOBAL", "LOAD_NAME"):
                rendered, held = self._global(str(argument), names, importing)
                found.append([name, argument, rendered])
            elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF") and argument in cells:
                held = cells[argument]
                found.append([name, argument, held.__name__])
            elif name == "IMPORT_NAME":
                level, wanted = steps[number - 2].argval, steps[number - 1].argval
                found.append([name, self._imported(code, absolute(str(argument), level, package_of(names)), wanted)])
            elif isinstance(argument, CodeType):
                found.append([name, self._code(argument, names, cells, importing=importing)])
            elif name in ("LOAD_CONST", "RETURN_CONST"):
                self._silent += number in hidden
                found.append([name, self.value(argument)])
                self._silent -= number in hidden
            else:
                if not importing and name in ("LOAD_ATTR", "LOAD_METHOD"):
                    self.met.name(argument)
                found.append([name, argument if isinstance(argument, str | int | None) else repr(argument)])
        beside = self._look.beside(code, handlers) if self._look else [code.co_varnames, handlers]
        return ["code", signature, found, beside]

    def _global(self, name: str, names: dict[str, Any], importing: bool) -> tuple[Any, ModuleType | None]:
        """Return the value of a global. A module is returned as it is, to see what is read from it."""
        module = sys.modules.get(str(names.get("__name__")))
        owner = module if module is not None and vars(module) is names else None
        if not importing or name in AT_IMPORT:
            self.met.meet(reach_of_global(name))
        self.met.names |= name == "dir"
        self.met.locals |= name in SEES_LOCALS
        if name in ("__builtins__", "__spec__", "__loader__", "__cached__", "__doc__"):
            return name, None
        if isinstance(value := names.get(name), ModuleType):
            return value.__name__, value
        if name in names:
            return self._bound(owner, name, value), None
        if not hasattr(builtins, name) and owner is not None:
            # Nothing has set it yet. Any code of the module may set it later.
            return ["later", self.value(owner)], None
        return ["builtin"], None

    def _bound(self, owner: ModuleType | None, name: str, found: Any) -> Any:
        """Return a global by its value here, and by the statements that assign it when its module is imported."""
        if owner is None or name.startswith("__"):
            return [self._under(name, found)]
        self._modules[owner.__name__] = owner
        return [self._under(name, found), self._own.bindings(owner, name)]

    def _attribute(self, module: ModuleType, name: str, importing: bool) -> tuple[Any, ModuleType | None]:
        """Return the value of ``module.name``: the module if it computes the name, the name alone for a library."""
        found = vars(module).get(name)
        if isinstance(found, ModuleType):
            return found.__name__, found
        if not importing:
            self.met.meet(reach_of_attribute(name))
        if not self._own.is_own(module):
            if not importing:
                self.met.meet(reach_of_global(name) if module is builtins else Reach.NOTHING)
                self._meet_library(module.__name__, name)
            return module.__name__, None
        if name in vars(module):
            return self._bound(module, name, found), None
        return self.value(module), None

    def _escaped(self, module: ModuleType, importing: bool) -> Any:
        """Return the whole of a module that is passed on as a value, because the receiver may use anything in it."""
        if self._own.is_own(module):
            return self.value(module)
        if not importing:
            self.met.meet(max(reach_of(module.__name__, ""), Reach.DATA))
        return ["module", module.__name__]

    def _imported(self, code: CodeType, name: str, wanted: Iterable[str] | None) -> Any:
        """Return a module that a function imports when it runs, by its files, so that it does not run here."""
        asked = [name, *(f"{name}.{attribute}" for attribute in wanted or ())]
        files = sorted({path for dotted in asked for path in self._own.imports(dotted) or ()})
        if not files:
            if self._own.is_own(loaded := sys.modules.get(name)):
                return ["loaded", name, self.value(loaded)]
            for attribute in wanted or (used for used in names_in(code) if used not in name.split(".")):
                self._meet_library(name, attribute)
            return ["module", name]
        for path in files:
            self.met.meet(self._own.reach_of_source(path))
        return ["imported", name, [[self._own.relative(path), self._own.content(path)] for path in files]]

    def _module(self, found: ModuleType) -> Any:
        """Return one of the job's modules as a whole: its text, and every global by value."""
        if not self._own.is_own(found):
            return self._escaped(found, False)
        file = getattr(found, "__file__", None)
        self._modules[found.__name__] = found
        held = module_members(found)
        used = [(name, value) for name, value in held if not isinstance(value, ModuleType) or self._own.is_own(value)]
        return ["own-module", self._own.content(Path(file)) if file else "", self._members(used)]

    def _class(self, found: type) -> Any:
        home, name = found.__module__, found.__qualname__
        if not self._own.is_own_home(home) and is_held_by_its_module(found):
            self._meet_library(home, name)
            return ["class", home, name]
        self.met.called.append([home, name, list(map(str, vars(found)))])
        bases = [self.value(base) for base in found.__bases__ if base is not object]
        made_by, module = [] if type(found) is type else self.value(type(found)), sys.modules.get(home)
        annotations = self._annotations(found)
        texts = [text for text in names_in_texts(annotations) if module and text in vars(module)]
        held = [self._members(class_members(found, annotations)), bases, made_by, self._own.compiled(module)]
        held.append(self._members((text, vars(module)[text]) for text in texts))
        return ["own-class", *held, [self.value(registered) for registered in registered_with(found)]]

    def _annotations(self, found: type) -> dict[str, Any]:
        """Return the annotations of a class by value. Their source text is also recorded, in case any code reads it."""
        annotations = resolved(found)
        self.met.annotated.append(as_written(found))
        for name, field in vars(found).get("__dataclass_fields__", {}).items():
            if name in annotations:
                self._types.setdefault(id(field), annotations[name])
        return annotations

    def _instance(self, found: Any) -> Any:
        kind = type(found)
        try:
            if isinstance(found, Enum):
                return ["enum", self.value(kind), found._name_, self._members(attributes(found))]
            if self._own.is_own_home(kind.__module__):
                return ["own-object", self.value(kind), [self.value(part) for part in own_parts(found)]]
            if isinstance(found, PurePath):
                self._meet_library("pathlib", kind.__name__)
                return ["path", kind.__name__, self._atom(str(found))]
            if (known := known_parts(found)) is None and not is_handle(found):
                self._meet_library(kind.__module__, kind.__qualname__)
                known = f"{kind.__module__}.{kind.__qualname__}", pickled_parts(found)
            if isinstance(found, Field):
                known = "dataclasses.Field", field_parts(found, self._types)
        except Hidden as reason:
            self.met.unreadable = True
            return ["unreadable", kind.__module__, kind.__qualname__, str(reason)]
        if known is None:
            self.met.unreadable = True
            return ["handle", kind.__qualname__, str(found) if kind.__name__ == "Column" else ""]
        if known[0] == "environment":
            self.met.meet(Reach.ENVIRONMENT)
        return [known[0], [self.value(part) for part in known[1]]]
