"""The fleet index and the last prune in a store: replaced as a whole, and read in one request."""

from __future__ import annotations

from streamkeeper.errors import FormatTooNew, KeyMissing, RegistryDamaged
from streamkeeper.model import fleet
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.fleet import INDEX_KEY, PRUNE_KEY, FleetIndex, PruneRecord
from streamkeeper.stores.contract import Store


def read_index(store: Store, installation: str) -> FleetIndex | None:
    """What the last pass of this installation left; None before the first.

    None as well for one that cannot be read, and for another installation's: it is only a copy.
    """
    try:
        found = from_json(store.read(INDEX_KEY), FleetIndex, where=INDEX_KEY, newest_format=fleet.FORMAT)
    except (KeyMissing, RegistryDamaged, FormatTooNew):
        return None
    return found if found.installation == installation else None


def write_index(store: Store, index: FleetIndex) -> None:
    """Replace the index; raises StoreUnavailable."""
    # In order: the newest incident of a job stands last.
    store.replace(INDEX_KEY, to_json(index, in_order=True))


def read_prune(store: Store) -> PruneRecord | None:
    """When everything was pruned last; None before that was recorded."""
    try:
        return from_json(store.read(PRUNE_KEY), PruneRecord, where=PRUNE_KEY, newest_format=fleet.FORMAT)
    except (KeyMissing, RegistryDamaged, FormatTooNew):
        return None


def write_prune(store: Store, record: PruneRecord) -> None:
    """Remember a prune of everything; raises StoreUnavailable."""
    store.replace(PRUNE_KEY, to_json(record))
