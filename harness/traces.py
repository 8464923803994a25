"""Event traces of real and of simulated runs in one form: which actor created which record or file after which other
one.

A trace is read from what a run has left: every record of a store and every file of a checkpoint is created once, so its
modification time is the time of its creation. The events of a run are compared by *actor*, because the order of the
events of two actors has no meaning: the entries of an operation, the records and entries of an instance, the files and
entries of a checkpoint version. A record that is replaced, such as ``status.json``, has no event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

Follows = frozenset[tuple[str, str]]
"""Pairs of events of one actor, each of which came directly after the other."""
BEGIN = "begin"
_REPLACED = ("status.json", "history.json", "evidence.json")
_JOURNAL, _CONTROL = "registry/{job}/journal/", "control/{job}/"
_LOGS = ("offsets", "commits")
_OF_A_QUERY = ("checkpoint-version-created", "epoch-claimed", "handed-off", "start-offsets-known")


class Event(NamedTuple):
    """One creation of a record or a file. ``actor`` starts with its kind, such as ``instance deploy-1-candidate``."""

    actor: str
    what: str


class Created(NamedTuple):
    """A record of the store, or a file of a checkpoint: its key or path, and its content."""

    path: str
    content: bytes


def events_of(created: Iterable[Created], job: str, checkpoints: str) -> Iterator[Event]:
    """Yield the events of a job, in the order in which its records and files were created.

    ``checkpoints``: the path of the job's checkpoints, with a slash at the end. Files of other jobs
    and other records are skipped.
    """
    journal, control = _JOURNAL.format(job=job), _CONTROL.format(job=job)
    for path, content in created:
        if path.startswith(journal):
            yield from _entry(msgspec.json.decode(content)["record"])
        elif path.startswith(control):
            yield from _record(path.removeprefix(control), content)
        elif path.startswith(checkpoints):
            yield from _file(path.removeprefix(checkpoints))


def follows(events: Iterable[Event]) -> Follows:
    """Return which event came directly after which other event of the same actor; each event is prefixed with the
    actor's kind.
    """
    return frozenset(pair for _, pair in _pairs(events))


def runs_of(events: Iterable[Event]) -> dict[str, Follows]:
    """Return operation -> the pairs of successive events in a real run: those of the operation, those of the instances
    that it started, and those of the checkpoint versions while it was the newest operation.
    """
    runs: dict[str, set[tuple[str, str]]] = defaultdict(set)
    owner: dict[str, str] = {}
    newest = ""
    for event, pair in _pairs(events):
        kind, _, name = event.actor.partition(" ")
        if kind == "operation":
            newest = name
        run = owner.setdefault(name, newest) if kind == "instance" else newest
        if run:
            runs[run].add(pair)
    return {run: frozenset(pairs) for run, pairs in runs.items()}


def _pairs(events: Iterable[Event]) -> Iterator[tuple[Event, tuple[str, str]]]:
    last: dict[str, str] = {}
    for event in events:
        kind = event.actor.partition(" ")[0]
        now = f"{kind}: {event.what}"
        before = last.get(event.actor, f"{kind}: {BEGIN}")
        last[event.actor] = now
        # A job with several queries has such an entry for each of them.
        if before != now or event.what not in _OF_A_QUERY:
            yield event, (before, now)


def read_created(store: Path, checkpoints: Path, job: str) -> list[Created]:
    """Return what a finished run has created below a local store and a directory of checkpoints, oldest first.

    The paths of checkpoints begin with ``checkpoints/``.
    """
    found: list[tuple[int, Created]] = []
    for root, prefix, below in ((store, "", ("registry", "control")), (checkpoints, "checkpoints/", (job,))):
        for folder in below:
            for file in (root / folder).rglob("*"):
                if file.is_file() and not file.name.startswith("."):
                    path = f"{prefix}{file.relative_to(root).as_posix()}"
                    content = file.read_bytes() if not prefix else b""
                    found.append((file.stat().st_mtime_ns, Created(path, content)))
    return [created for _, created in sorted(found, key=lambda each: each[0])]


def _entry(record: dict[str, Any]) -> Iterator[Event]:
    what = record["type"]
    if what in ("step-begun", "step-done"):
        what = f"{what} {record['step']}"
    elif what == "operation-finished":
        what = f"{what} {record['outcome']}"
    elif what == "instance-planned":
        what = f"{what} {record['role']}"
    if operation := record.get("operation"):
        yield Event(f"operation {operation}", what)
    if instance := record.get("instance"):
        yield Event(f"instance {instance}", what)
    if what in ("checkpoint-version-created", "epoch-claimed", "handed-off"):
        yield Event(f"version {record['query']}/{record['version']}", what)


def _record(path: str, content: bytes) -> Iterator[Event]:
    instance, _, name = path.partition("/")
    if name.startswith("commands/"):
        yield Event(f"instance {instance}", f"command {msgspec.json.decode(content)['kind']}")
    elif name.startswith("process-"):
        yield Event(f"instance {instance}", "process")
    elif "/" not in name and name not in _REPLACED:
        yield Event(f"instance {instance}", name)


def _file(path: str) -> Iterator[Event]:
    parts = path.split("/")
    if len(parts) == 3 and parts[2] == "metadata":
        yield Event(f"version {parts[0]}/{parts[1]}", "metadata")
    elif len(parts) == 4 and parts[2] in _LOGS and parts[3].isdecimal():
        yield Event(f"version {parts[0]}/{parts[1]}", parts[2])
