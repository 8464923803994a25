"""Read from the fence of an output which query writes it, for jobs whose records are lost."""

from __future__ import annotations

from streamkeeper.errors import NotFound, Unsupported
from streamkeeper.locations import scheme_of
from streamkeeper.model.records.lost_store import Fence
from streamkeeper.sinks.kind_modules import module_of
from streamkeeper.sinks.kinds.known_kinds import kinds_at, places_of_outputs


def read_fences(place: str) -> list[Fence]:
    """Return the fences of all Streamkeeper outputs in a place, such as a database or a FileSink's directory; changes
    nothing.

    ``place``: its URL or path. Raises InvalidInput or Unsupported if no kind of sink writes there, NotFound if the
    place has no output, StoreUnavailable if it does not answer. No message contains a password.
    """
    kinds = kinds_at(place)
    if not kinds:
        raise Unsupported(f"outputs at {scheme_of(place)}:// are not supported", hint=f"name {places_of_outputs()}")
    found: list[Fence] = []
    missing: list[NotFound] = []
    for kind in kinds:
        try:
            found += module_of(kind).read_fences(place)
        except NotFound as error:
            missing.append(error)
    if not found and missing:
        raise NotFound("; ".join(dict.fromkeys(error.message for error in missing)), hint=missing[0].hint)
    return found
