"""Detect a copied store or home: its records contain its location, and it is at another one.

A copy would treat the original's drivers as its own, stop them, and continue in their checkpoints. It is therefore
refused until a person states whether it is a new installation, or the existing one at a new location.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pendulum

from streamkeeper.errors import KeyExists, KeyMissing, OperationRefused, StreamkeeperError, TemporaryError
from streamkeeper.locations import local_path, same_place, scheme_of
from streamkeeper.model import installation_record as model
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.installation_record import PREFIX, Home, InstallationRecord, Owner, installation_key
from streamkeeper.model.job_state import JobState
from streamkeeper.model.journal import OperationFinished, Outcome, Record
from streamkeeper.model.names import key_number
from streamkeeper.private_files import make_folders, write_file
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.contract import Store
from streamkeeper.stores.opening import open_store
from streamkeeper.stores.read_only import ReadOnlyStore

HOME_FILE = "home.json"
OWNER_FILE = "owner.json"


def read_installation(store: Store) -> InstallationRecord | None:
    """The newest record; None for a store that was never used, or not by this version."""
    keys = _record_keys(store)
    if not keys:
        return None
    return from_json(store.read(keys[-1]), InstallationRecord, where=keys[-1], newest_format=model.FORMAT)


def _record_keys(store: Store) -> list[str]:
    """Oldest first; foreign files among the records are skipped."""
    return [key for key in store.list(PREFIX) if key_number(key, installation_key) is not None]


def newest_record(store: Store) -> int:
    """The number of the newest record, in one request; 0 for a store without one."""
    keys = _record_keys(store)
    return (key_number(keys[-1], installation_key) or 0) if keys else 0


def open_installation(store: Store, home: str) -> InstallationRecord:
    """The installation of a store and a home that are at their recorded locations; unrecorded locations are recorded.

    Raises OperationRefused for a copy, or if the store or the home was moved.
    """
    found = read_installation(store) or _record(store, 1, uuid.uuid4().hex, "", "its first use")
    if misplaced := find_misplaced(store, found, home):
        raise OperationRefused(
            misplaced,
            hint="if it was moved, leave a link to it at the old place, or: streamkeeper home moved --reason …;"
            " if it is a copy: streamkeeper home new --reason …",
        )
    if not (Path(home) / HOME_FILE).exists():
        _write_home(home)
    return found


def find_misplaced(store: Store, installation: InstallationRecord | None, home: str) -> str:
    """Which of the two is not at its recorded location, as a sentence; empty if both are."""
    if installation is not None and not same_place(installation.place, store.url):
        return f"the store at {store.url} is a copy: by its own record it lives at {installation.place}"
    file = Path(home) / HOME_FILE
    if not file.exists():
        return ""
    path = from_json(file.read_bytes(), Home, where=str(file), newest_format=model.FORMAT).path
    return "" if same_place(path, home) else f"the home {home} is a copy: by its own record it lives at {path}"


def begin_anew(store: Store, home: str, *, by: str, reason: str) -> InstallationRecord:
    """Make this store and home a separate installation: it may not continue anything that was recorded before."""
    before = read_installation(store)
    if before is not None and same_place(before.place, store.url):
        if not find_misplaced(store, before, home):
            raise OperationRefused(f"{store.url} is where it belongs, and no copy", hint="streamkeeper home show")
        # Another home of one and the same installation.
        _write_home(home)
        return before
    first = before.first if before is not None else ""
    _end_what_was_under_way(store, by, reason)
    made = _record(store, (before.number if before is not None else 0) + 1, uuid.uuid4().hex, first, reason, by)
    _write_home(home)
    return made


def note_moved(
    store: Store, home: str, *, by: str, reason: str, id: str = "", former_gone: bool = False
) -> InstallationRecord:
    """Record that the installation is at this location from now on.

    ``store``: the store.
    ``home``: the home.
    ``by``: the person.
    ``reason``: the person's reason.
    ``id``: which installation, by default that of the newest record.
    ``former_gone``: a person states that the former location no longer exists.

    Raises OperationRefused as long as the former location still contains it, or does not answer, unless
    ``former_gone``.
    """
    before = read_installation(store)
    if before is None:
        raise OperationRefused(f"{store.url} holds no installation", hint="streamkeeper home show")
    known = [from_json(store.read(key), InstallationRecord, where=key) for key in _record_keys(store)]
    if id and id not in {record.id for record in known}:
        raise OperationRefused(f"{store.url} was never the installation {id}", hint="streamkeeper home show")
    wanted = id or before.id
    last = next(record for record in reversed(known) if record.id == wanted)
    if not same_place(last.place, store.url) and not former_gone and _still_there(last):
        raise OperationRefused(
            f"{last.place} still holds the installation {wanted[:8]}: this is a copy of it",
            hint="streamkeeper home new --reason …; or take the other one away first",
        )
    if wanted != before.id or not same_place(before.place, store.url):
        before = _record(store, before.number + 1, wanted, before.first, reason, by)
    _write_home(home)
    return before


def take_back(store: Store, home: str, id: str, *, by: str, reason: str) -> InstallationRecord:
    """Give a store whose records were lost the id that its outputs contain; an empty id: any. Idempotent.

    ``store``: the store.
    ``home``: the home.
    ``id``: the id in the outputs.
    ``by``: the person.
    ``reason``: the person's reason.

    Records without an id belong to it again, as before.
    """
    before = read_installation(store)
    if before is None or (id and before.id != id):
        wanted = id or uuid.uuid4().hex
        before = _record(store, before.number + 1 if before is not None else 1, wanted, wanted, reason, by)
    _write_home(home)
    return before


def claim_snapshots(store: Store, installation: InstallationRecord) -> Store:
    """A separate store of snapshots: read-only if another installation owns it.

    The first user owns it: any other one would remove snapshots, and holds, that the owner relies on.
    """
    key, mine = OWNER_FILE, Owner(id=installation.id, place=installation.place)
    try:
        owner = from_json(store.read(key), Owner, where=key, newest_format=model.FORMAT)
    except KeyMissing:
        try:
            store.create(key, to_json(mine))
            return store
        except KeyExists:
            owner = from_json(store.read(key), Owner, where=key, newest_format=model.FORMAT)
    if owner.id == installation.id:
        return store
    return ReadOnlyStore(
        store,
        reason=f"the snapshots at {store.url} belong to the installation at {owner.place}",
        hint="set STREAMKEEPER_SNAPSHOTS to a place of this installation's own",
    )


def _record(store: Store, number: int, id: str, first: str, reason: str, by: str = "") -> InstallationRecord:
    made = InstallationRecord(
        number=number,
        id=id,
        place=store.url,
        first=first or id,
        at=pendulum.now("UTC").to_iso8601_string(),
        by=by,
        reason=reason,
    )
    try:
        store.create(installation_key(number), to_json(made))
    except KeyExists:
        # Another writer was faster: its record counts.
        found = read_installation(store)
        assert found is not None
        return found
    return made


def _end_what_was_under_way(store: Store, by: str, reason: str) -> None:
    """The former installation's operation must not be continued here: it would continue in the former's checkpoints."""

    def end(state: JobState) -> Record | None:
        left = state.open_operation
        sentence = f"it is the operation of the installation that this one was copied from ({reason})"
        if left is None:
            return None
        return OperationFinished(operation=left.operation, outcome=Outcome.ABORTED, sentence=sentence)

    for job in list_jobs(store):
        Journal(store, job, writer=f"home:{by}").append(end)


def _still_there(last: InstallationRecord) -> bool:
    """Whether a place still contains the same installation; raises OperationRefused if it does not answer."""
    try:
        if scheme_of(last.place) in ("", "file") and not local_path("store", last.place).is_dir():
            return False
        there = read_installation(open_store(last.place))
    except TemporaryError as error:
        raise OperationRefused(
            f"nobody can tell whether {last.place} still holds the installation {last.id[:8]}: {error.message}",
            hint="make it reachable; only if it is gone for good: --former-gone",
        ) from error
    except StreamkeeperError:
        return False
    return there is not None and there.id == last.id and same_place(there.place, last.place)


def _write_home(home: str) -> None:
    folder = Path(home)
    make_folders(folder)
    draft = folder / f".{HOME_FILE}-{uuid.uuid4().hex}"
    write_file(draft, to_json(Home(path=str(folder))))
    draft.replace(folder / HOME_FILE)
