"""The sink contract: what each kind of sink promises to a driver. Loads neither pyspark nor a database client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

import msgspec

from streamkeeper.errors import OperationRefused
from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.serving import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WriterRole(Enum):
    """In which role a batch is written."""

    SERVING = "serving"
    """Readers of the output see it."""
    SHADOW = "shadow"
    """In a dual run, beside the serving writer: readers of the output see nothing of it until the cutover."""


class Numbering(Enum):
    """How the batches of a checkpoint version are numbered that was handed over from another one."""

    KEEP = "keep"
    """They go on from the old version's numbers: the output knows one row of numbers."""
    REBASE = "rebase"
    """The handed-over batch gets one of the first numbers: the output begins anew with each version."""


class Reconciliation(Enum):
    """What becomes of the batches that an output holds beyond a checkpoint that was restored to an older one."""

    REPLAY = "replay"
    """They come again and change nothing but what they wrote: each row replaces the one with its key."""
    CUT_BACK = "cut-back"
    """Readers do not see them any more; what comes again stands in their place."""
    REFUSE = "refuse"
    """They would be there twice: a person has to say that the output takes that."""


class SinkContext(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a writer writes. ``epoch`` was claimed in the journal; ``version`` is the checkpoint version.

    ``serving``: what the output consists of from this epoch on, in order, the newest version last; empty: ``version``
    alone. Without a meaning in the role SHADOW. ``installation``: the id of the one that writes, empty where nobody
    knows one.
    """

    job: str
    query: str
    version: str
    epoch: int
    output_mode: str = "append"
    role: WriterRole = WriterRole.SERVING
    serving: tuple[Span, ...] = ()
    installation: str = ""


def check_installation(what: str, recorded: str | None, mine: str) -> None:
    """Raise OperationRefused when an output was written by another installation: a copied one has the same names."""
    if recorded and mine and recorded != mine:
        raise OperationRefused(
            f"{what} is written by the installation {recorded[:8]}, not by this one ({mine[:8]})",
            hint="a copy needs outputs of its own: deploy with other params",
        )


class Sink(ABC):
    """A sink as the job's author declares it: an immutable value, without a connection.

    ``output_modes``: those it can take. ``replays``: whether writing a batch again changes nothing. ``numbering``: how
    a handed-over version's batches are numbered. ``shadows``: whether it can be written unseen, in a dual run.
    ``reconciles``: what becomes of what it holds beyond a restored checkpoint; nothing is ever skipped in silence.
    """

    kind: ClassVar[str]
    output_modes: ClassVar[frozenset[str]]
    replays: ClassVar[bool]
    numbering: ClassVar[Numbering]
    shadows: ClassVar[bool]
    reconciles: ClassVar[Reconciliation]

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
    """Writes one query's batches under one epoch, to the output that serves or to a shadow of it."""

    @abstractmethod
    def raise_fence(self) -> None:
        """Make this epoch the newest the output accepts, for ever; raises Fenced when a newer one is there already.

        In the role SERVING this is the cutover as well: from here on the output is what ``context.serving`` says. In
        the role SHADOW only older epochs of the same shadow are fenced, and the serving output is left as it is.
        """

    @abstractmethod
    def last_batch(self) -> int | None:
        """The newest batch of this checkpoint version that the output holds; None when it holds none."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch whole, or not at all; one that it holds already is computed and left. Raises Fenced."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""

    def seed(self, batch_id: int) -> None:  # noqa: B027
        """Make the output ready for a version whose first batch is ``batch_id + 1``; idempotent. Here: nothing."""

    def discard(self) -> None:  # noqa: B027
        """Remove what this version has written in shadow, never what serves; idempotent. Here: nothing."""


def compute(batch: DataFrame) -> None:
    """Run a batch through its plan and keep nothing.

    Also a batch that the sink holds already must run: its tasks write the state, and with checkpoint format v2 the
    commit names the state files of this run; a skipped one would leave the next batch without its state.
    """
    batch.write.format("noop").mode("overwrite").save()
