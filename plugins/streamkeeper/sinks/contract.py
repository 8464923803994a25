"""The sink contract: what each kind of sink promises to a driver. Loads neither pyspark nor a database client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import msgspec

from streamkeeper.model.manifest import SinkDescription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SinkContext(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a writer writes. ``epoch`` was claimed in the journal; ``version`` is the checkpoint version."""

    job: str
    query: str
    version: str
    epoch: int
    output_mode: str = "append"


class Sink(ABC):
    """A sink as the job's author declares it: an immutable value, without a connection.

    ``output_modes``: those it can take. ``replays``: whether writing a batch again changes nothing.
    """

    kind: ClassVar[str]
    output_modes: ClassVar[frozenset[str]]
    replays: ClassVar[bool]

    @abstractmethod
    def describe(self) -> SinkDescription:
        """Its part of the manifest; never a secret."""

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """A writer for one epoch; connects, but changes nothing yet."""

    @abstractmethod
    def rehearse(self, batch: DataFrame) -> None:
        """Run a batch through the same kind of work and keep nothing: the warm-up of a standby."""


class SinkWriter(ABC):
    """Writes one query's batches under one epoch."""

    @abstractmethod
    def raise_fence(self) -> None:
        """Make this epoch the newest the sink accepts, for ever; raises Fenced when a newer one is there already."""

    @abstractmethod
    def last_batch(self) -> int | None:
        """The newest batch of this checkpoint version that the sink holds; None when it holds none."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch whole, or not at all; one that it holds already is computed and left. Raises Fenced."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""


def compute(batch: DataFrame) -> None:
    """Run a batch through its plan and keep nothing.

    Also a batch that the sink holds already must run: its tasks write the state, and with checkpoint format v2 the
    commit names the state files of this run; a skipped one would leave the next batch without its state.
    """
    batch.write.format("noop").mode("overwrite").save()
