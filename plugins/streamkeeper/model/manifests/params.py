"""A job's params. The job declares each param with a type, and the values are checked before a driver is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from streamkeeper.errors import InvalidInput, JobUnusable
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.names import nearest, shorten

ParamMap = Mapping[str, ParamValue]


class _Required(Enum):
    REQUIRED = "required"


_TYPES: tuple[type, ...] = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Param:
    """One declared param. ``type`` is str, int, float or bool; a param without a ``default`` must be given a value."""

    type: type[str] | type[int] | type[float] | type[bool]
    default: ParamValue | Literal[_Required.REQUIRED] = _Required.REQUIRED
    help: str = ""

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is _Required.REQUIRED

    @property
    def given_default(self) -> ParamValue:
        """The default; None if the param has none."""
        return None if isinstance(self.default, _Required) else self.default


def check_declared(job: str, declared: Mapping[str, Param]) -> None:
    """Raise JobUnusable if the job declares a param wrongly."""
    for name, param in declared.items():
        if not isinstance(param, Param):
            raise JobUnusable(f"job {job}: param {name} is declared as {param!r}", hint="declare it as Param(...)")
        if param.type not in _TYPES:
            raise JobUnusable(
                f"job {job}: param {name} has the unsupported type {getattr(param.type, '__name__', param.type)}",
                hint="declare the type str, int, float or bool",
            )
        default = param.default
        if not isinstance(default, _Required) and default is not None and not _fits(param.type, default):
            raise JobUnusable(f"job {job}: the default of param {name} is {default!r}, not a {param.type.__name__}")


def validate_params(declared: Mapping[str, Param], passed: ParamMap, *, job: str = "") -> dict[str, ParamValue]:
    """Return ``passed`` with the defaults filled in; raises InvalidInput, which names every wrong param."""
    faults = [_unknown(name, declared) for name in sorted(set(passed) - set(declared))]
    values: dict[str, ParamValue] = {}
    for name, param in declared.items():
        if name in passed:
            value = passed[name]
        elif isinstance(param.default, _Required):
            faults.append(f"param {name} is missing ({param.type.__name__})")
            continue
        else:
            value = param.default
        if value is None and param.default is None:
            values[name] = None
        elif _fits(param.type, value):
            values[name] = float(value) if param.type is float and value is not None else value
        else:
            faults.append(f"param {name} is {shorten(repr(value))}, not a {param.type.__name__}")
    if faults:
        prefix = f"job {job}: " if job else ""
        raise InvalidInput(
            prefix + "; ".join(faults), hint=f"give the params that the job declares: {_render(declared)}"
        )
    return values


def _unknown(name: str, declared: Mapping[str, Param]) -> str:
    meant = nearest(name, declared)
    return f"unknown param {name} (perhaps {meant})" if meant else f"unknown param {name}"


def _fits(kind: type, value: ParamValue) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _render(declared: Mapping[str, Param]) -> str:
    return ", ".join(f"{name}: {param.type.__name__}" for name, param in declared.items()) or "no params"
