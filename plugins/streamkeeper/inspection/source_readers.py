"""Asks the servers of sources which input they still have. Each kind of source has its own reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from streamkeeper.checkpoints.source_starts import read_by, stands_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.inspection.kafka_reader import KafkaReader
from streamkeeper.sources.contract import Gap, SourceLook, SourcePosition
from streamkeeper.sources.kafka import KAFKA

if TYPE_CHECKING:
    from streamkeeper.authoring.definition import Query


class SourceWatch(Protocol):
    """Watches all sources of one kind that a query reads, from one thread."""

    def look(self, number: int, end: str) -> SourceLook:
        """Check a source once, up to its offset ``end``. ``number``: the source's number in the query.

        Raises OtherTopic if the identity of a place has changed, and SourceOutOfReach if the servers do not answer.
        """


class SourceReader(Protocol):
    """Asks the servers of one kind of source. Its methods raise SourceOutOfReach, which names the kind, if the servers
    do not answer.
    """

    def missing(
        self, query: Query, stands: Mapping[str, SourcePosition], ids: Mapping[str, str]
    ) -> dict[str, list[Gap]]:
        """Return, by source, the input after the given positions that the source no longer has.

        A source without missing input is left out. ``stands``: position by the source's name, for sources of every
        kind; ``ids``: place -> identity of the place to which the positions belong.
        """

    def identities(self, query: Query, *, timeout_s: float) -> dict[str, str]:
        """Return place -> its identity, of all places that the query reads.

        A place is left out if its servers report no identity. ``timeout_s``: how long to wait for the servers of each
        source.
        """

    def describe_replaced(self, ids: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
        """Return a clause for each place whose identity has changed; both arguments: place -> its identity."""

    def must_be_the_same(self, query: str, ids: Mapping[str, str], present: Mapping[str, str]) -> None:
        """Raise OtherTopic, which names the query, if the identity of a place has changed."""

    def reads_all_of(self, query: Query, checkpoint: Tree) -> bool:
        """Whether the query still reads everything that it began with, as the function of this name, for this kind of
        source.
        """

    def watch(self, query: Query, ids: Mapping[str, str], note: Callable[[Mapping[str, str]], None]) -> SourceWatch:
        """Return a watch of the query's sources; ``note`` is called with the identities of the places that the watch
        finds.
        """


TIMEOUT_S = 15.0
"""How long a call waits for the servers of a source, in seconds, if its caller sets no other time."""
_READERS: dict[str, SourceReader] = {KAFKA.name: KafkaReader()}


def reader_of(kind: str) -> SourceReader | None:
    """Return the reader of a kind of source; None for a kind without servers."""
    return _READERS.get(kind)


def missing_after(
    query: Query, checkpoint: Tree, batch: int | None, *, ids: Mapping[str, str] | None = None
) -> dict[str, list[Gap]]:
    """Return the input that batches after ``batch`` would need but that the sources no longer have.

    The keys name a source and its kind. If ``batch`` is None, the check covers all batches from the first. A source
    without missing input is left out. ``ids``: place -> identity of the place to which the offsets belong; a place
    whose identity has changed has none of the input. Raises SourceOutOfReach if the servers do not answer. Raises
    CheckpointDamaged if the checkpoint is damaged.
    """
    return _missing(query, stands_at(checkpoint.fresh(), batch), ids or {})


def missing_in(query: Query, checkpoint: Tree, batch: int) -> dict[str, list[Gap]]:
    """Return the input that ``batch`` itself reads but that the sources no longer have, as in ``missing_after``."""
    return _missing(query, read_by(checkpoint.fresh(), batch), {})


def identities(query: Query, *, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """Return place -> its identity, of all places, such as topics, that the query reads and whose servers report an
    identity.

    A place that is deleted and recreated gets a new identity. Raises SourceOutOfReach if the servers do not answer.
    ``timeout_s``: how long to wait for the servers of each source.
    """
    return {
        place: identity
        for reader in _READERS.values()
        for place, identity in reader.identities(query, timeout_s=timeout_s).items()
    }


def replaced_places(
    query: Query, ids: Mapping[str, str], present: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Return the kind of source, and a clause, of each place whose identity has changed.

    ``ids``: as in ``missing_after``; ``present``: place -> its present identity, if the caller already has it. Raises
    SourceOutOfReach if the servers do not answer.
    """
    return describe_replaced(ids, present or identities(query))


def describe_replaced(ids: Mapping[str, str], present: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the kind of source, and a clause, of each place whose identity has changed.

    The arguments are those of ``must_be_the_same``.
    """
    return [(f"({kind})", text) for kind, reader in _READERS.items() for text in reader.describe_replaced(ids, present)]


def must_be_the_same(query: str, ids: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Raise OtherTopic if a place, such as a topic, was deleted and recreated since the query read it.

    ``query``: the query, for the error; ``ids``: place -> identity of the place to which the checkpoint's offsets
    belong; ``present``: place -> its present identity.
    """
    for reader in _READERS.values():
        reader.must_be_the_same(query, ids, present)


def reads_all_of(query: Query, checkpoint: Tree) -> bool:
    """Whether the query has all sources whose starts the checkpoint records, and each source still reads everything
    with which it began, such as topics.
    """
    return all(reader.reads_all_of(query, checkpoint) for reader in _READERS.values())


def _missing(query: Query, stands: Mapping[str, SourcePosition], ids: Mapping[str, str]) -> dict[str, list[Gap]]:
    found = {kind: reader.missing(query, stands, ids) for kind, reader in _READERS.items()}
    return {f"{source} ({kind})": gaps for kind, of in found.items() for source, gaps in of.items()}
