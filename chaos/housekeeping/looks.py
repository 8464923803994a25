"""Reads the final state of an installation, which is the same however often a command was killed, and finds what is
missing in it.

Times, random names and the order in which records were written are left out.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.layout import is_version_name, last_committed
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.watch.incident import IncidentRecord, NoticeSent
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.registry.jobs import list_job_folders, list_jobs
from streamkeeper.registry.journal import Journal
from streamkeeper.snapshots.catalogue import Catalogue, list_series
from streamkeeper.snapshots.verify import verify
from streamkeeper.stores.local import LocalStore

State = Mapping[str, str]
"""Maps a file or a record of an installation to its content or to the hash of it."""
OUTBOX = "outbox"
"""The file beside the home that has one line for each message sent."""
_FOLDED = re.compile(r"home/store/(registry/[^/]+/(journal|folds)/|incidents/|fleet/index\.json|snapshots/.*/garbage/)")
_TIMES = {"at"}
_DRAWN = re.compile(r"cli-\d{8}t\d{6}-[0-9a-f]{6}")


def read_final_state(site: Path) -> State:
    """Return everything below an installation, with journals and incidents folded and the table as its rows."""
    found = {}
    for path in sorted(path for path in site.rglob("*") if path.is_file()):
        name = str(path.relative_to(site))
        if not _FOLDED.match(name) and not name.startswith(("warehouse.db", OUTBOX)):
            found[name] = _content(path)
    if (site / "home/store").is_dir():
        found |= _records(LocalStore(site / "home/store"))
    found |= {"table": _rows(site / "warehouse.db")} if (site / "warehouse.db").exists() else {}
    # A message that may come twice is the same message.
    outbox = site / OUTBOX
    return found | ({OUTBOX: "\n".join(sorted({*outbox.read_text().splitlines()}))} if outbox.exists() else {})


def find_differences(expected: State, found: State) -> list[str]:
    """Return the differences from the final state after a command that was not killed."""
    names = sorted(expected.keys() | found.keys())
    told = [_difference(name, expected.get(name), found.get(name)) for name in names]
    return [each for each in told if each]


def find_missing(site: Path) -> list[str]:
    """Return what a restart, a rollback or a restore needs but does not find, whatever the command was meant to do."""
    return [*_incomplete_checkpoints(site), *_unusable_records(site)]


def _difference(name: str, expected: str | None, found: str | None) -> str:
    if expected == found:
        return ""
    if expected is None or found is None:
        return f"{name} is {'left' if expected is None else 'gone'}"
    at = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), 0)
    start = max(0, at - 60)
    return f"{name} differs: {found[start : at + 100]!r} instead of {expected[start : at + 100]!r}"


def _content(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".json":
        try:
            return _text(json.loads(data))
        except ValueError:
            pass
    return sha256(data).hexdigest()


def _records(store: LocalStore) -> dict[str, str]:
    found = {}
    for job in list_jobs(store):
        found[f"journal of {job}"] = _text(msgspec.to_builtins(Journal(store, job, writer="look").state()))
    for job in list_job_folders(store, "incidents/"):
        log = IncidentLog(store, job)
        found[f"incidents of {job}"] = _text([_incident(entry.record) for entry in log.entries()])
        found[f"unsent notices of {job}"] = str(len(log.state().unsent))
    for series in list_series(store):
        catalogue = Catalogue(store, series)
        marks = [catalogue.read_mark(key) for key in catalogue.marks()]
        found[f"marked packs of {series}"] = _text(sorted({pack for mark in marks if mark for pack in mark.packs}))
    return found


def _incident(record: IncidentRecord) -> list[str]:
    tag = str(type(record).__struct_config__.tag)
    if isinstance(record, NoticeSent):
        return [tag, str(record.of), *record.to]
    symptom = getattr(record, "symptom", None)
    return [tag, symptom.key if symptom is not None else getattr(record, "key", "")]


def _rows(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump())


def _text(value: Any) -> str:
    return json.dumps(_steady(value), sort_keys=True)


def _steady(value: Any) -> Any:
    """Return the value without times and random names; a mapping becomes sorted pairs, because its names may become
    equal.
    """
    if isinstance(value, dict):
        pairs = [[_steady(key), _steady(each)] for key, each in value.items() if key not in _TIMES]
        return sorted(pairs, key=json.dumps)
    if isinstance(value, list | tuple):
        return [_steady(each) for each in value]
    return _DRAWN.sub("an operation", value) if isinstance(value, str) else value


def _incomplete_checkpoints(site: Path) -> Iterator[str]:
    """Yield what is missing in each published version, from which a query must be able to start."""
    for directory in sorted((site / "home/checkpoints").glob("*/*/*")):
        tree, name = LocalTree(directory), directory.relative_to(site)
        if not is_version_name(directory.name) or not is_published(tree):
            continue
        if last_committed(tree) is None:
            yield f"{name} has metadata and no committed batch"
        yield from (f"{name}: {each.shape}: {each.evidence}" for each in examine(tree) if not each.safe)


def _unusable_records(site: Path) -> Iterator[str]:
    if not (site / "home/store").is_dir():
        return
    store = LocalStore(site / "home/store")
    for series in list_series(store):
        damaged = verify(Catalogue(store, series)).damaged
        yield from (f"{', '.join(each.snapshots)} of {series}: {each.why}" for each in damaged if each.snapshots)
    for job in list_jobs(store):
        state = Journal(store, job, writer="look").state()
        for query in state.versions:
            current = state.current_version(query)
            if current is None:
                continue
            location = state.checkpoint(query, current.version, str(site / "home/checkpoints"))
            if not is_published(LocalTree(Path(location))):
                yield f"the current checkpoint {current.version} of {job}/{query} is gone"
