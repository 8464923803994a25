"""Finds why only one of two queries calls a function at a place: it was added, was removed or has moved. Pure."""

from __future__ import annotations

from streamkeeper.model.manifests.manifest import ABOVE_STATE, BELOW_STATE, Manifest

_SAME = "the function itself is the same; it ran"
_BELOW, _ABOVE = "in or below a stateful operator", "outside of all stateful operators"
MOVED = {
    BELOW_STATE: f"{_SAME} {_BELOW} and now runs {_ABOVE}",
    ABOVE_STATE: f"{_SAME} {_ABOVE} and now runs {_BELOW}",
}
"""The place of an unchanged function in the deployed query -> the evidence that it has the other place now."""
ADDED_CALL = "added: the deployed query does not call it"
REMOVED_CALL = "removed: the candidate does not call it"


def one_sided(had: str, has: str, old: Manifest, new: Manifest) -> str:
    """Return the evidence about a function that only one of the two queries calls at this place."""
    key, here, there = (has, new, old) if has else (had, old, new)
    places = [place for place in MOVED if key.startswith(place)]
    elsewhere = [
        place
        for name, digest in there.functions.items()
        if places and digest == here.functions[key] and not name.startswith(places[0])
        for place in MOVED
        if name.startswith(place)
    ]
    if elsewhere:
        return MOVED[elsewhere[0] if has else places[0]]
    return ADDED_CALL if has else REMOVED_CALL
