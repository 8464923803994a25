"""The watch's index of all jobs and the record of the last prune. Each write replaces the whole file."""

from __future__ import annotations

from streamkeeper.errors import FormatTooNew, KeyMissing, NotFound, RegistryDamaged
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.watch import fleet_index
from streamkeeper.model.watch.fleet_index import INDEX_KEY, PRUNE_KEY, FleetIndex, PruneRecord
from streamkeeper.stores.contract import Store

_LOOK = "switch on the DAG streaming_watch in Airflow, or run `streamkeeper watch`"


def read_index(store: Store, installation: str) -> FleetIndex | None:
    """Return the index of this installation's last pass; None before the first pass.

    None is also returned for an unreadable index and for the index of another installation. The next pass replaces such
    an index.
    """
    try:
        return open_index(store, installation)
    except (NotFound, RegistryDamaged, FormatTooNew):
        return None


def open_index(store: Store, installation: str) -> FleetIndex:
    """Return the index of this installation's last pass, for callers that cannot continue without it.

    Raises NotFound before the first pass of this installation, RegistryDamaged for an unreadable index, FormatTooNew,
    and StoreUnavailable.
    """
    try:
        data = store.read(INDEX_KEY)
    except KeyMissing:
        raise NotFound(f"the watch has made no pass over the jobs of {store.url} yet", hint=_LOOK) from None
    found = from_json(data, FleetIndex, where=INDEX_KEY, newest_format=fleet_index.FORMAT)
    if found.installation != installation:
        raise NotFound(
            f"the index of the watch at {store.url} belongs to another installation; the next pass replaces the index",
            hint=_LOOK,
        )
    return found


def write_index(store: Store, index: FleetIndex) -> None:
    """Replace the index; raises StoreUnavailable."""
    # In order, because the newest incident of a job must be the last one.
    store.replace(INDEX_KEY, to_json(index, in_order=True))


def read_prune(store: Store) -> PruneRecord | None:
    """Return the record of the last complete prune; None without a readable record."""
    try:
        return from_json(store.read(PRUNE_KEY), PruneRecord, where=PRUNE_KEY, newest_format=fleet_index.FORMAT)
    except (KeyMissing, RegistryDamaged, FormatTooNew):
        return None


def write_prune(store: Store, record: PruneRecord) -> None:
    """Record a complete prune; raises StoreUnavailable."""
    store.replace(PRUNE_KEY, to_json(record))
