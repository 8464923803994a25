"""Detects a copied or moved store or home: its record names a location other than its present one.

A copy would treat the original's drivers as its own, stop them, and continue in their checkpoints. A store or home at
another location is therefore refused until a person states whether it is a new installation or was moved.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from streamkeeper.errors import KeyExists, KeyMissing, OperationRefused, StreamkeeperError, TemporaryError
from streamkeeper.locations import local_path, same_place, scheme_of
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.names import key_number
from streamkeeper.model.records import installation_record as model
from streamkeeper.model.records.installation_record import PREFIX, Home, InstallationRecord, Owner, installation_key
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import OperationFinished, Outcome, Record
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.contract import Store
from streamkeeper.stores.read_only import ReadOnlyStore
from streamkeeper.stores.store_urls import open_store
from streamkeeper.system import clock
from streamkeeper.system.private_files import make_folders, write_file

HOME_FILE = "home.json"
OWNER_FILE = "owner.json"


def read_installation(store: Store) -> InstallationRecord | None:
    """Return the newest record of the store's installation. Return None for a store that was never used, or that only
    Streamkeeper versions without such records have used.
    """
    keys = _record_keys(store)
    if not keys:
        return None
    return from_json(store.read(keys[-1]), InstallationRecord, where=keys[-1], newest_format=model.FORMAT)


def _record_keys(store: Store) -> list[str]:
    """Return the keys of the records, oldest first. Other files among them are skipped."""
    return [key for key in store.list(PREFIX) if key_number(key, installation_key) is not None]


def newest_record(store: Store) -> int:
    """Return the number of the store's newest installation record, in one request; 0 if the store has no record."""
    keys = _record_keys(store)
    return (key_number(keys[-1], installation_key) or 0) if keys else 0


def open_installation(store: Store, home: str) -> InstallationRecord:
    """Return the installation of a store and a home, and record the location of each of the two whose location is not
    recorded yet.

    Raises OperationRefused if the store or the home is not at its recorded location, because it was copied or moved.
    """
    found = read_installation(store) or _record(store, 1, uuid.uuid4().hex, "", "its first use")
    if misplaced := find_misplaced(store, found, home):
        raise OperationRefused(
            misplaced,
            hint="after a move, run `streamkeeper home moved --reason …`, or create a symbolic link at the old"
            " location that points to the new one. For a copy, run `streamkeeper home new --reason …`",
        )
    if not (Path(home) / HOME_FILE).exists():
        _write_home(home)
    return found


def find_misplaced(store: Store, installation: InstallationRecord | None, home: str) -> str:
    """Return a sentence that names the actual and the recorded location of a store or home that was copied or moved.

    Return an empty text if both are at their recorded locations. A location that is not recorded counts as correct.
    """
    if installation is not None and not same_place(installation.place, store.url):
        return f"the store at {store.url} was copied or moved: its record names the location {installation.place}"
    file = Path(home) / HOME_FILE
    if not file.exists():
        return ""
    path = from_json(file.read_bytes(), Home, where=str(file), newest_format=model.FORMAT).path
    return (
        "" if same_place(path, home) else f"the home {home} was copied or moved: its record names the location {path}"
    )


def begin_anew(store: Store, home: str, *, by: str, reason: str) -> InstallationRecord:
    """Make a copied store and its home a separate installation, in which operations and drivers of the former
    installation cannot continue.

    If the store is at its recorded location and only the home is not, record the home's location and keep the
    installation. Raises OperationRefused if the recorded locations show that neither was copied or moved. A store
    without a record becomes a new installation, too.
    """
    before = read_installation(store)
    if before is not None and same_place(before.place, store.url):
        if not find_misplaced(store, before, home):
            raise OperationRefused(
                f"{store.url} is at its recorded location, so it is not a copy", hint="run `streamkeeper home show`"
            )
        # The home is new, and the installation stays the same.
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
    """Record the present locations of the store and the home as the installation's locations.

    ``store``: the store.
    ``home``: the home.
    ``by``: the person.
    ``reason``: the person's reason.
    ``id``: the installation's id, by default the id in the newest record.
    ``former_gone``: whether the person states that the former location no longer exists.

    Raises OperationRefused if the store has no record of an installation, or none with this ``id``. Unless
    ``former_gone``, also raises OperationRefused if the store's former location still contains the installation or does
    not answer.
    """
    before = read_installation(store)
    if before is None:
        raise OperationRefused(f"{store.url} contains no installation", hint="run `streamkeeper home show`")
    known = [from_json(store.read(key), InstallationRecord, where=key) for key in _record_keys(store)]
    if id and id not in {record.id for record in known}:
        raise OperationRefused(f"{store.url} has no record of installation {id}", hint="run `streamkeeper home show`")
    wanted = id or before.id
    last = next(record for record in reversed(known) if record.id == wanted)
    if not same_place(last.place, store.url) and not former_gone and _still_there(last):
        raise OperationRefused(
            f"{last.place} still contains the installation {wanted[:8]}, so {store.url} is a copy",
            hint="to keep both, run `streamkeeper home new --reason …` for the copy. To complete a move, remove the"
            " original, then run `streamkeeper home moved --reason …` again",
        )
    if wanted != before.id or not same_place(before.place, store.url):
        before = _record(store, before.number + 1, wanted, before.first, reason, by)
    _write_home(home)
    return before


def take_back(store: Store, home: str, id: str, *, by: str, reason: str) -> InstallationRecord:
    """In a store whose records were lost, record the installation id that the outputs contain. Idempotent.

    ``store``: the store.
    ``home``: the home.
    ``id``: the id in the outputs. If it is empty, the store keeps its own id, or gets a new id if it has no record.
    ``by``: the person.
    ``reason``: the person's reason.

    Records without an installation id, which older versions wrote, then belong to this installation, as they did before
    the loss.
    """
    before = read_installation(store)
    if before is None or (id and before.id != id):
        wanted = id or uuid.uuid4().hex
        before = _record(store, before.number + 1 if before is not None else 1, wanted, wanted, reason, by)
    _write_home(home)
    return before


def claim_snapshots(store: Store, installation: InstallationRecord) -> Store:
    """Return the snapshot store ``store`` for this installation; read-only if another installation owns the store.

    The first installation that uses the store owns it. If another installation could write, it would remove snapshots
    and holds that the owner relies on.
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
        hint="set STREAMKEEPER_SNAPSHOTS to a place that only this installation uses",
    )


def _record(store: Store, number: int, id: str, first: str, reason: str, by: str = "") -> InstallationRecord:
    import pendulum  # slow to load, and commands that only read do not need it

    made = InstallationRecord(
        number=number,
        id=id,
        place=store.url,
        first=first or id,
        at=pendulum.instance(clock.now()).to_iso8601_string(),
        by=by,
        reason=reason,
    )
    try:
        store.create(installation_key(number), to_json(made))
    except KeyExists:
        # Another writer has created this record first, so that record is valid.
        found = read_installation(store)
        assert found is not None
        return found
    return made


def _end_what_was_under_way(store: Store, by: str, reason: str) -> None:
    """Abort every open operation of the former installation, because here it would continue in the former
    installation's checkpoints.
    """

    def end(state: JobState) -> Record | None:
        left = state.open_operation
        sentence = f"the operation belongs to the installation that this one was copied from ({reason})"
        if left is None:
            return None
        return OperationFinished(operation=left.operation, outcome=Outcome.ABORTED, sentence=sentence)

    for job in list_jobs(store):
        Journal(store, job, writer=f"home:{by}").append(end)


def _still_there(last: InstallationRecord) -> bool:
    """Whether the recorded location still contains this installation. Raises OperationRefused if that location does not
    answer.
    """
    try:
        if scheme_of(last.place) in ("", "file") and not local_path("store", last.place).is_dir():
            return False
        there = read_installation(open_store(last.place))
    except TemporaryError as error:
        raise OperationRefused(
            f"it is unknown whether {last.place} still contains the installation {last.id[:8]}: {error.message}",
            hint="make that place reachable. Only if it is permanently lost, add `--former-gone`",
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
