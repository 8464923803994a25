"""The fleet index and the last prune in a store: replaced as a whole, and read in one request."""

from __future__ import annotations

from streamkeeper.errors import FormatTooNew, KeyMissing, NotFound, RegistryDamaged
from streamkeeper.model import fleet
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.fleet import INDEX_KEY, PRUNE_KEY, FleetIndex, PruneRecord
from streamkeeper.stores.contract import Store

_LOOK = "switch streaming_watch on in Airflow, or run: streamkeeper watch"


def read_index(store: Store, installation: str) -> FleetIndex | None:
    """The index of this installation's last pass; None before the first.

    None also for an unreadable index, and for another installation's: it is only a copy.
    """
    try:
        return open_index(store, installation)
    except (NotFound, RegistryDamaged, FormatTooNew):
        return None


def open_index(store: Store, installation: str) -> FleetIndex:
    """The index of this installation's last pass, for callers that cannot continue without it.

    Raises NotFound before the first pass of this installation, RegistryDamaged, FormatTooNew, StoreUnavailable.
    """
    try:
        data = store.read(INDEX_KEY)
    except KeyMissing:
        raise NotFound(f"the watch has not looked at any job of {store.url} yet", hint=_LOOK) from None
    found = from_json(data, FleetIndex, where=INDEX_KEY, newest_format=fleet.FORMAT)
    if found.installation != installation:
        raise NotFound(f"what the watch left at {store.url} is of another installation", hint=_LOOK)
    return found


def write_index(store: Store, index: FleetIndex) -> None:
    """Replace the index; raises StoreUnavailable."""
    # In order: the newest incident of a job is last.
    store.replace(INDEX_KEY, to_json(index, in_order=True))


def read_prune(store: Store) -> PruneRecord | None:
    """The last complete prune; None before one was recorded."""
    try:
        return from_json(store.read(PRUNE_KEY), PruneRecord, where=PRUNE_KEY, newest_format=fleet.FORMAT)
    except (KeyMissing, RegistryDamaged, FormatTooNew):
        return None


def write_prune(store: Store, record: PruneRecord) -> None:
    """Record a complete prune; raises StoreUnavailable."""
    store.replace(PRUNE_KEY, to_json(record))
