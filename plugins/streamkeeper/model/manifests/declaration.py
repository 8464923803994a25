"""The declarations in a job's file, as the process that ran the file reports them to another process."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.model.manifests.params import Param
from streamkeeper.model.manifests.release import ParamValue

_TYPES: dict[str, type[str] | type[int] | type[float] | type[bool]] = {
    kind.__name__: kind for kind in (str, int, float, bool)
}


class DeclaredParam(msgspec.Struct, frozen=True, kw_only=True):
    """One declared param."""

    type: str
    """str, int, float or bool."""
    required: bool
    """Whether it must be given."""
    default: ParamValue = None
    """Its default, unless it is required."""
    help: str = ""
    """Its description."""


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """A job's declared params, None if unknown. ``error``: why no driver could load the job, in one line."""

    params: dict[str, DeclaredParam] | None = None
    error: str = ""

    @property
    def declared(self) -> dict[str, Param]:
        """The params as the job declares them, each a ``Param``."""
        found = self.params or {}
        return {name: _param(param) for name, param in found.items()}


def declaration_of(params: Mapping[str, Param]) -> Declaration:
    """Return the declaration of a loaded job, from its params."""
    return Declaration(
        params={
            name: DeclaredParam(
                type=param.type.__name__, required=param.required, default=param.given_default, help=str(param.help)
            )
            for name, param in params.items()
        }
    )


def _param(found: DeclaredParam) -> Param:
    if found.required:
        return Param(_TYPES[found.type], help=found.help)
    return Param(_TYPES[found.type], default=found.default, help=found.help)
