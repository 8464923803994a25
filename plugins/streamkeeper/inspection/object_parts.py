"""Splits objects of Python, of libraries and of the job into parts, so that they can be compared by value."""

from __future__ import annotations

import abc
import copyreg
import hashlib
import math
import sys
import weakref
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import Field
from importlib.machinery import ModuleSpec
from types import CellType, FunctionType, GetSetDescriptorType, ModuleType
from typing import Any

_SESSIONS = frozenset({"SparkSession", "SparkContext", "RuntimeConfig"})
"""Classes of the session objects that a job receives. Their settings are recorded in the manifest's confs."""
_HANDLES = frozenset({"Accumulator", "Column", "DataFrame", "DataFrameReader", "GroupedData", "RDD"})
"""The classes of live objects of one process, which cannot be compared by value."""
_NATIVE_HEAP = 1 << 9
_LONG = 64
_PLAIN_BASES = frozenset({"abc", "collections.abc", "enum", "typing", "typing_extensions"})


_DERIVED = frozenset(
    {
        *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__abstractmethods__", "_abc_impl"),
        *("__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__"),
        # What pydantic derives from a model's fields, decorators and configuration. It contains addresses.
        *("__pydantic_core_schema__", "__pydantic_serializer__", "__pydantic_validator__", "__pydantic_complete__"),
        *("__pydantic_parent_namespace__", "__pydantic_setattr_handlers__", "__signature__"),
    }
)
"""Members of a class that follow from other members, or that only state where the class is defined."""


_OF_STRUCTS = ("__struct_fields__", "__struct_defaults__", "__struct_encode_fields__", "__struct_config__")
_OF_MODULES = frozenset(
    {
        *("__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__"),
        "__spec__",
    }
)


class Hidden(Exception):
    """Raised if the parts of an object cannot be determined."""


def known_parts(found: Any) -> tuple[str, list[Any]] | None:
    """Return the kind and the parts of an object of a type that cannot be described by its pickled form; None for an
    object of any other type.
    """
    kind = type(found)
    match (kind.__module__, kind.__name__):
        case ("_thread" | "threading", "lock" | "RLock"):
            return "lock", []
        case ("_thread", "_local"):
            return "local", sorted_items(vars(found))
        case ("functools", "_lru_cache_wrapper"):
            return "cache", [found.cache_parameters(), found.__wrapped__, members(found, but="__wrapped__")]
        case ("functools", "partial") if "__wrapped__" in (found.__reduce__()[2][3] or {}):
            return "partial", [found.func, found.args, found.keywords, members(found)]
        case ("functools", "cached_property"):
            return "cached", [found.func, found.attrname]
        case ("_json", "Scanner" | "Encoder"):
            # It is built from the other attributes of its coder.
            return "coder", []
        case ("pydantic._internal._decorators", "Decorator"):
            # Its reference to the class is an address.
            return "decorator", [found.cls_var_name, found.func, found.info]
        case ("msgspec._core", "Factory"):
            return "factory", [found.factory]
        case ("msgspec.structs", "StructConfig"):
            return "config", [[(name, getattr(found, name)) for name in dir(found) if not name.startswith("__")]]
        case ("pydantic.type_adapter", "TypeAdapter"):
            # Its schemas refer to models by their addresses.
            return "adapter", [found._type, found._config]
        case ("_struct", "Struct"):
            return "layout", [found.format]
        case ("_frozen_importlib_external", "FileFinder"):
            # The rest is only the time at which the folder was read.
            return "finder", [found.path]
        case ("os", "_Environ"):
            return "environment", []
        case ("pyspark.core.broadcast" | "pyspark.broadcast", "Broadcast"):
            return "broadcast", [found.value]
        case ("pyspark.sql.udf", "UserDefinedFunction"):
            return "udf", [found.func, found.returnType, found.evalType, found.deterministic]
        case (home, name) if home.startswith("pyspark.") and name in _SESSIONS:
            return "session", []
        case ("pyspark.sql.types", _) if hasattr(kind, "jsonValue") and '"udt"' not in (text := found.json()):
            # Its pickled form holds "fields" and "type". They would be taken for attributes that code asks for.
            return "type", [text]
        case ("_io", "TextIOWrapper") if found in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            return "console", []
        case ("_io", _) if getattr(found, "closed", False):
            return "closed", []
        case ("builtins", "dict_keys" | "dict_values" | "dict_items"):
            return kind.__name__, list(found)
        case _:
            return _reference_parts(found)


def _reference_parts(found: Any) -> tuple[str, list[Any]] | None:
    match found:
        case ContextVar():
            return "context", [found.name, found.get(None)]
        case weakref.ReferenceType():
            return "weak", [found()]
        case weakref.WeakValueDictionary() | weakref.WeakKeyDictionary():
            return "weak", [frozenset_of(found.items())]
        case weakref.WeakSet():
            return "weak", [frozenset_of(found)]
        case ModuleSpec():
            return "spec", [found.name]
        case _:
            return None


class Unordered(list[Any]):
    """Elements whose order does not count."""


def frozenset_of(found: Iterable[Any]) -> Unordered:
    """Return the elements as a list whose order does not count; unlike in a set, they need not be hashable."""
    return Unordered(found)


def is_handle(found: object) -> bool:
    """Whether an object refers to another object that lives in a JVM or in another process."""
    home = type(found).__module__
    return home.startswith("py4j.") or (home.startswith("pyspark.") and type(found).__name__ in _HANDLES)


def pickled_parts(found: Any) -> list[Any]:
    """Return the parts of an object's pickled form. Raises Hidden if the object cannot be pickled."""
    reduce = copyreg.dispatch_table.get(type(found))
    try:
        reduced = reduce(found) if reduce else found.__reduce_ex__(4)
        if isinstance(reduced, str):
            if _is_a_librarys(found, reduced):
                return [reduced]
            if type(found).__module__ != "typing" and not _is_in(getattr(found, "__module__", None), reduced, found):
                raise Hidden(f"called {reduced}")
            # An object of the job's code may hold anything besides its name.
            return [reduced, members(found), _hints(found)]
        parts = [*reduced, *([None] * (6 - len(reduced)))]
        if isinstance(parts[2], dict) and (copied := dict(members(found).copied)):
            parts[2] = {name: value for name, value in parts[2].items() if name not in copied}
        for number in (3, 4):
            parts[number] = list(parts[number]) if parts[number] is not None else None
        return parts
    except RecursionError:
        raise
    except Exception as reason:  # any object's own code may run here, and may raise anything
        raise Hidden(type(reason).__name__) from reason


def _is_a_librarys(found: Any, name: str) -> bool:
    """Whether the object is held by the module of its type, or by that module's package. If so, its name identifies
    it.
    """
    home = type(found).__module__
    return isinstance(found, type(...) | type(NotImplemented)) or any(
        _is_in(module, name, found) for module in (home, home.partition(".")[0])
    )


def _is_in(module: object, name: str, found: Any) -> bool:
    return getattr(sys.modules.get(str(module)), name, None) is found


def _hints(found: Any) -> list[Any]:
    """Return the parts of a type that the typing module created, from the attributes that contain them."""
    return [
        getattr(found, attribute, None)
        for attribute in ("__supertype__", "__bound__", "__constraints__", "__default__")
    ]


def own_parts(found: Any) -> list[Any]:
    """Return all parts of an instance of one of the job's classes, including those that its pickling leaves out."""
    kind = type(found)
    held: list[Any] = [members(found)]
    for base in kind.__mro__:
        for name, slot in sorted(vars(base).items()):
            if type(slot).__name__ == "member_descriptor" and not name.startswith("__"):
                held.append((name, *_slot(slot, found)))
    match found:
        case str() | int() | float() | complex() | bytes():
            held.append(_plain(found))
        case dict():
            held.append(list(dict.items(found)))
        case list():
            held.append(list(list.__iter__(found)))
        case tuple():
            held.append(list(tuple.__iter__(found)))
        case set() | frozenset():
            held.append(Unordered(set(found)))
        case _ if any(_may_hide(base) for base in kind.__mro__):
            held.append(pickled_parts(found))
        case _:
            pass
    return held


def _may_hide(base: type) -> bool:
    """Whether a class may hold something that no attribute shows, because it is written in C or defines its own
    pickling.
    """
    if base is object or base.__module__ in _PLAIN_BASES:
        return False
    return not base.__flags__ & _NATIVE_HEAP or "__reduce__" in vars(base) or "__reduce_ex__" in vars(base)


def attributes(found: Any, *, but: str = "") -> list[tuple[str, Any]]:
    """Return names and values of an object's own attributes, sorted by name, without the attribute named ``but``."""
    try:
        held = object.__getattribute__(found, "__dict__")
    except AttributeError:
        return []
    return [(name, value) for name, value in sorted_items(held) if name != but]


_COPIED = ("__annotations__", "__doc__", "__module__", "__name__", "__qualname__", "__type_params__")
"""The attributes that ``functools.update_wrapper`` copies."""


class Slots(dict[str, Any]):
    """Attributes of an object, as pickled: name -> value. The names are not recorded as strings of the code."""


class Members(list[tuple[str, Any]]):
    """Names and values of an object's attributes. The names are not recorded as strings of the code.

    ``copied``: attributes that are left out, because they were only copied from a callable inside the object.
    """

    copied: tuple[tuple[str, Any], ...] = ()


def members(found: Any, *, but: str = "") -> Members:
    """Return names and values of an object's own attributes, sorted by name, without the attribute named ``but``.

    Attributes that were only copied from a callable inside the object are left out, too.
    """
    held = attributes(found)
    wrapped = [value for _, value in held if callable(value)]
    copied = [pair for pair in held if pair[0] in _COPIED and any(_has(each, *pair) for each in wrapped)]
    kept = Members(pair for pair in held if pair[0] != but and not any(pair is other for other in copied))
    kept.copied = tuple(copied)
    return kept


def _has(wrapped: Any, name: str, value: Any) -> bool:
    """Whether a callable has the same value in an attribute of this name. No code of the job runs for this check."""
    if isinstance(wrapped, FunctionType | type):
        other = getattr(wrapped, name, NotImplemented)
    else:
        other = dict(attributes(wrapped)).get(name, NotImplemented)
    return other is value or (type(other) is type(value) is str and other == value)


def sorted_items(held: Any) -> list[tuple[str, Any]]:
    """Return names and values, ordered by name."""
    return sorted(((str(name), value) for name, value in dict(held).items()), key=lambda pair: pair[0])


def _slot(slot: Any, found: Any) -> tuple[Any, ...]:
    try:
        return (slot.__get__(found),)
    except AttributeError:
        return ()


def _plain(found: Any) -> Any:
    """Return the plain number or string of an object whose class is derived from a number or string type."""
    match found:
        case str():
            return str.__str__(found)
        case bytes():
            return bytes.__add__(b"", found)
        case int():
            return int.__pos__(found)
        case float():
            return float.__pos__(found)
        case _:
            return complex.__pos__(found)


def class_members(found: type, annotations: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return names and values of the members that a class itself defines, sorted by name.

    For a msgspec struct, the members of its metaclass follow.
    """
    struct = [(name, getattr(found, name)) for name in _OF_STRUCTS if hasattr(found, name)]
    own = {name: value for name, value in vars(found).items() if name not in _DERIVED or _computes(name, value)}
    return [*sorted_items({**own, **({"__annotations__": annotations} if "__annotations__" in own else {})}), *struct]


def _computes(name: str, value: object) -> bool:
    """Whether a class itself computes a member that Python otherwise provides."""
    return (
        name in ("__dict__", "__doc__")
        and hasattr(type(value), "__get__")
        and not isinstance(value, GetSetDescriptorType)
    )


def field_parts(found: Field[Any], types: Mapping[int, Any]) -> list[Any]:
    """Return the pickled form of a dataclass's field; ``types``: the resolved annotation of each field, by the field's
    ``id``.
    """
    made, of, (held, slots), *others = pickled_parts(found)
    return [made, of, (held, Slots({**slots, "type": types.get(id(found), found.type)})), *others]


def module_members(found: ModuleType) -> list[tuple[str, Any]]:
    """Return names and values of a module's globals, sorted by name, without those that the interpreter sets."""
    return [pair for pair in sorted_items(vars(found)) if pair[0] not in _OF_MODULES]


def cell_value(cell: CellType) -> Any:
    """Return the value in a cell of a closure, or NotImplemented for an empty cell."""
    try:
        return cell.cell_contents
    except ValueError:
        return NotImplemented


_MADE_AT_RUN_TIME = 1 << 9
"""Python's flag of a class that was created outside of the interpreter and of compiled modules
(``Py_TPFLAGS_HEAPTYPE``).
"""


def is_held_by_its_module(kind: type) -> bool:
    """Whether code can find a class by its module and name. A class defined inside a function also counts as one that
    can be found.

    A class that a library's function creates at run time may have a name under which code cannot find it.
    """
    if not kind.__flags__ & _MADE_AT_RUN_TIME:
        return True
    held: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        held = getattr(held, name, None)
    return held is kind or "<locals>" in kind.__qualname__


def registered_with(kind: type) -> list[type]:
    """Return the classes that were registered as subclasses of an abstract class; empty for any other class."""
    if not isinstance(kind, abc.ABCMeta):
        return []
    found = [subclass for ref in abc._get_dump(kind)[0] if (subclass := ref()) is not None]  # type: ignore[attr-defined]
    return sorted(found, key=lambda registered: (registered.__module__, registered.__qualname__))


def atom(found: Any) -> list[object]:
    """Return the JSON of a value that contains no other value and is not a string."""
    match found:
        case bool() | None:
            return [type(found).__name__, found]
        case int():
            return ["int", str(found)]
        case float():
            return ["float", "nan" if math.isnan(found) else found.hex()]
        case complex():
            return ["complex", atom(found.real), atom(found.imag)]
        case bytes():
            return binary(found)
        case _:
            return [type(found).__name__]


def binary(found: bytes) -> list[object]:
    """Return bytes as JSON: the length, and the bytes in hex. Long bytes are given by their digest."""
    short = found.hex() if len(found) <= _LONG else hashlib.sha256(found).hexdigest()
    return ["bytes", len(found), short]
