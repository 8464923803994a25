"""Asks the servers of sources which input they still have, with one reader for each kind of source."""

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
    """Watches the sources of one kind of a query, from one thread."""

    def look(self, number: int, end: str) -> SourceLook:
        """Check a source once, as of its offset ``end``. ``number``: its number in the query.

        Raises OtherTopic if a place has another identity, SourceOutOfReach if the servers do not answer.
        """


class SourceReader(Protocol):
    """Asks the servers of one kind of source. Raises SourceOutOfReach, with the kind, if they do not answer."""

    def missing(
        self, query: Query, stands: Mapping[str, SourcePosition], ids: Mapping[str, str]
    ) -> dict[str, list[Gap]]:
        """Return, by source, the input from these positions on that the source no longer has.

        A source without missing input is left out. ``stands``: position by the source's name, of every kind of source;
        ``ids``: place -> identity of the place to which the positions belong.
        """

    def identities(self, query: Query, *, timeout_s: float) -> dict[str, str]:
        """Return place -> its identity, of all places that the query reads.

        A place of which the servers tell none is left out. ``timeout_s``: how long to wait for the servers of each
        source.
        """

    def describe_replaced(self, ids: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
        """Return a clause for each place that has another identity now; both arguments: place -> its identity."""

    def must_be_the_same(self, query: str, ids: Mapping[str, str], present: Mapping[str, str]) -> None:
        """Raise OtherTopic, which names the query, if a place has another identity now."""

    def reads_all_of(self, query: Query, checkpoint: Tree) -> bool:
        """As the function of this name, for the sources of this kind."""

    def watch(self, query: Query, ids: Mapping[str, str], note: Callable[[Mapping[str, str]], None]) -> SourceWatch:
        """Return a watch of the query's sources; ``note``: called with the identities of places that it has found."""


TIMEOUT_S = 15.0
"""How long a call waits for the servers of a source, if its caller sets no other time."""
_READERS: dict[str, SourceReader] = {KAFKA.name: KafkaReader()}


def reader_of(kind: str) -> SourceReader | None:
    """Return the reader of a kind of source; None for a kind without servers."""
    return _READERS.get(kind)


def missing_after(
    query: Query, checkpoint: Tree, batch: int | None, *, ids: Mapping[str, str] | None = None
) -> dict[str, list[Gap]]:
    """Return the input that batches after ``batch`` would need but that the sources no longer have.

    The keys name a source and its kind. If ``batch`` is None, the check covers all batches from the first. A source
    without missing input is left out. ``ids``: place -> identity of the place to which the offsets belong; a place with
    another identity has none of the input. Raises SourceOutOfReach if the servers do not answer. Raises
    CheckpointDamaged if the checkpoint is damaged.
    """
    return _missing(query, stands_at(checkpoint.fresh(), batch), ids or {})


def missing_in(query: Query, checkpoint: Tree, batch: int) -> dict[str, list[Gap]]:
    """Return the input that ``batch`` itself reads but that the sources no longer have, as in ``missing_after``."""
    return _missing(query, read_by(checkpoint.fresh(), batch), {})


def identities(query: Query, *, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """Return place -> its identity, of all places that the query reads and whose servers tell one, such as topics.

    A deleted place that is created again has another identity. Raises SourceOutOfReach if the servers do not answer.
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
    """Return the kind of source, and a clause, of each place that has another identity now.

    ``ids`` as in ``missing_after``; ``present``: place -> its identity now, if that is known already. Raises
    SourceOutOfReach.
    """
    return describe_replaced(ids, present or identities(query))


def describe_replaced(ids: Mapping[str, str], present: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the kind of source, and a clause, of each place that has another identity; the arguments as in
    ``must_be_the_same``.
    """
    return [(f"({kind})", text) for kind, reader in _READERS.items() for text in reader.describe_replaced(ids, present)]


def must_be_the_same(query: str, ids: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Raise OtherTopic if a place, such as a topic, was deleted and created again since the query read it.

    ``query``: the query, for the error; ``ids``: place -> identity of the place to which the checkpoint's offsets
    belong; ``present``: place -> its identity now.
    """
    for reader in _READERS.values():
        reader.must_be_the_same(query, ids, present)


def reads_all_of(query: Query, checkpoint: Tree) -> bool:
    """Whether the query has all sources whose starts the checkpoint records, and each still reads all that it began
    with, such as topics.
    """
    return all(reader.reads_all_of(query, checkpoint) for reader in _READERS.values())


def _missing(query: Query, stands: Mapping[str, SourcePosition], ids: Mapping[str, str]) -> dict[str, list[Gap]]:
    found = {kind: reader.missing(query, stands, ids) for kind, reader in _READERS.items()}
    return {f"{source} ({kind})": gaps for kind, of in found.items() for source, gaps in of.items()}
