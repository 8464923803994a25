"""Other jobs that read a job's output, according to the manifests of their drivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from streamkeeper.errors import StreamkeeperError
from streamkeeper.locations import lies_within
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription
from streamkeeper.model.secret_references import MASK
from streamkeeper.model.watch.fleet_index import FleetIndex, JobRow
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.driver_control import Control
from streamkeeper.sinks.kinds.known_kinds import capabilities_of

MOST_JOBS = 200
"""Largest number of inspected jobs, because each costs one request."""
_READERS = 8


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """A query of another job that reads an output."""

    job: str
    """The other job."""
    query: str
    """The query of that job."""
    location: str
    """The location that the query reads: the output, or a part of the output."""
    reads: str
    """The query that writes the output that is read."""


class Readers(msgspec.Struct, frozen=True, kw_only=True):
    """The readers of a job's outputs. ``unknown``: why there may be more readers than ``found``, one sentence each."""

    found: tuple[Reader, ...] = ()
    unknown: tuple[str, ...] = ()


def find_readers(
    installation: Installation, index: FleetIndex | None, job: str, outputs: Mapping[str, SinkDescription]
) -> Readers:
    """Return the readers of a job's outputs, at the cost of one request for each other job with a driver.

    ``index``: the watch's last index, which names these jobs; ``outputs``: query -> sink. Sources are compared
    with file outputs only, so the readers of other kinds of output are unknown.
    """
    unknown = [sentence for query, sink in sorted(outputs.items()) if (sentence := _unreadable(query, sink))]
    places = {query: sink for query, sink in outputs.items() if not _unreadable(query, sink)}
    if not places:
        return Readers(unknown=tuple(unknown))
    if index is None:
        return Readers(unknown=(*unknown, "the watch has made no pass yet, so the other jobs are unknown"))
    others = [row for row in index.rows if row.job != job and not row.forgotten and row.instance]
    if len(others) > MOST_JOBS:
        unknown.append(f"only the first {MOST_JOBS} of {len(others):,} other jobs were checked")
    with ThreadPoolExecutor(_READERS) as pool:
        looked = list(pool.map(lambda row: _described(installation, row), others[:MOST_JOBS]))
    found: list[Reader] = []
    for row, manifests in zip(others, looked, strict=False):
        if isinstance(manifests, str):
            unknown.append(f"{row.job}: {manifests}")
        else:
            found += _reading(row.job, manifests, places)
    return Readers(found=tuple(found), unknown=tuple(unknown))


def _unreadable(query: str, sink: SinkDescription) -> str:
    """Return why the readers of an output are unknown; empty if they can be found."""
    if not capabilities_of(sink.kind).read_as:
        return (
            f"the readers of {sink.output}, the output of query {query} ({sink.kind}), are unknown, because only the"
            " locations of files are compared"
        )
    if MASK in sink.output:
        return f"the readers of query {query} are unknown, because the location of its output is a secret"
    return ""


def _described(installation: Installation, row: JobRow) -> dict[str, Manifest] | str:
    """Return the manifests of a job's driver, or why they are unknown."""
    try:
        found = Control(installation.store, row.job, row.instance).read_manifests()
    except StreamkeeperError as error:
        return str(error)
    return found if found is not None else "the description by its driver no longer exists"


def _reading(job: str, manifests: Mapping[str, Manifest], places: Mapping[str, SinkDescription]) -> Iterator[Reader]:
    for query, manifest in sorted(manifests.items()):
        for source in manifest.sources:
            for written, sink in sorted(places.items()):
                reads = source.kind == capabilities_of(sink.kind).read_as
                if reads and any(lies_within(each, sink.output) for each in _paths(source.location)):
                    yield Reader(job=job, query=query, location=source.location, reads=written)


def _paths(location: str) -> tuple[str, ...]:
    """Return the path, and also its parts if it contains commas."""
    return (location, *location.split(",")) if "," in location else (location,)
