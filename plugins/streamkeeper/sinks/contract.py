"""The sink contract: the guarantees of each kind of sink to a driver. Loads neither pyspark nor a database client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

import msgspec

from streamkeeper.errors import OperationRefused, OutputLost
from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.output_history import OutputRecord
from streamkeeper.model.serving import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WriterRole(Enum):
    """The role in which a batch is written."""

    SERVING = "serving"
    """Readers of the output see it."""
    SHADOW = "shadow"
    """In a dual run, alongside the current writer: readers of the output do not see it until the cutover."""


class SinkContext(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies the writer to an output."""

    job: str
    """The job."""
    query: str
    """The query."""
    version: str
    """The checkpoint version."""
    epoch: int
    """The epoch that was claimed in the journal."""
    output_mode: str = "append"
    """Spark's output mode."""
    role: WriterRole = WriterRole.SERVING
    """Whether readers see the batches."""
    serving: tuple[Span, ...] = ()
    """The spans of the output from this epoch on, in order, the newest version last; empty: only ``version``. Not used
    in the role SHADOW.
    """
    installation: str = ""
    """The id of the writing installation, empty if unknown."""
    looks: bool = False
    """Whether the writer is only asked for the output's content; it then changes nothing."""
    begun: bool = False
    """Whether the checkpoint of ``version`` has its own batch, so that the output's content of it belongs to this
    query.
    """


class OutputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An output's content of a checkpoint version."""

    batch: int | None = None
    """The newest batch; None without any."""
    unknown: str = ""
    """Why the content is unknown; empty if it is known."""
    down: bool = False
    """Whether the output should have answered and did not."""
    record: OutputRecord | None = None
    """The output's own record; None if it keeps none or it could not be read."""


class OutputQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the newest batch of a checkpoint version in the described output."""

    sink: SinkDescription
    """The output's description."""
    owner: str
    """The expected owner of the output: ``<job>/<query>``."""
    version: str
    """The checkpoint version."""
    places: Sequence[str]
    """Candidates for the output's own directory, or for its URL with the password."""
    mask: Callable[[str], str]
    """Masks their secrets as in the output's description."""


class OutputClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch that an output has accepted from its query; ``version``: its version, empty if unknown."""

    epoch: int
    version: str = ""


def check_installation(what: str, recorded: str | None, mine: str) -> None:
    """Raise OperationRefused when another installation wrote an output: a copied installation has the same names."""
    if recorded and mine and recorded != mine:
        raise OperationRefused(
            f"{what} is written by the installation {recorded[:8]}, not by this one ({mine[:8]})",
            hint="a copy needs its own outputs: deploy with other params",
        )


class Sink(ABC):
    """A sink as the job's author declares it: an immutable value, without a connection.

    ``kind``: selects its capabilities; ``output_modes``: the modes that it supports.
    """

    kind: ClassVar[str]
    output_modes: ClassVar[frozenset[str]]

    @abstractmethod
    def describe(self) -> SinkDescription:
        """Return its part of the manifest; never a secret."""

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """Return a writer for one epoch; it may connect, but does not change anything yet."""

    @property
    def fence_place(self) -> str:
        """Where ``fences.read_fences`` finds its fence: a URL, possibly with a password, or a directory; empty if it
        has no fence.
        """
        return ""

    def overlaps(self, other: Sink) -> bool:
        """Whether both write to the same place; False for sinks whose place only their author knows."""
        return self.describe().same_place(other.describe())

    def find_conflict(self, *, serves: bool) -> str | None:
        """Return why this output cannot be written under its name; None if it can. Changes nothing.

        ``serves``: the current release already writes it, so its name is no longer a reason.
        """
        return None

    @abstractmethod
    def rehearse(self, batch: DataFrame) -> None:
        """Run a batch through the same kind of work without keeping it: the warm-up of a standby."""


class SinkWriter(ABC):
    """Writes one query's batches under one epoch, to the current output or to a shadow of it."""

    @abstractmethod
    def raise_fence(self) -> None:
        """Make this epoch permanently the newest that the output accepts; raises Fenced when it already has a newer
        one.

        In the role SERVING this is also the cutover: from here on the output consists of ``context.serving``. In the
        role SHADOW only older epochs of the same shadow are fenced, and the current output is unchanged.
        """

    def newest_claim(self) -> OutputClaim | None:
        """Return the last claim of this query's output by this installation; None if the output does not record one.

        Changes nothing. A journal that ends at an older epoch was restored from a copy.
        """
        return None

    @abstractmethod
    def last_batch(self) -> int | None:
        """Return the newest batch of this checkpoint version in the output; None without any."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch whole, or not at all; compute a batch that it already has without writing it. Raises Fenced."""

    @abstractmethod
    def close(self) -> None:
        """Close connections."""

    def read_record(self) -> OutputRecord | None:
        """Return the output's own record; creates nothing. None: this kind of output keeps no record."""
        return None

    def begin_after(self, batch: DataFrame, batch_id: int) -> None:  # noqa: B027
        """Record that the output continues after ``batch_id`` although it lacks batches up to it, because a person
        accepted that.

        ``batch``: any frame with the output's columns; it is not run.

        The fence must be raised. Idempotent. The default does nothing.
        """

    def seed(self, batch_id: int) -> None:  # noqa: B027
        """Prepare the output for a version whose first batch is ``batch_id + 1``; idempotent. The default does
        nothing.
        """

    def discard(self) -> None:  # noqa: B027
        """Remove this version's shadow output, never the current one; idempotent. The default does nothing."""


def refuse_older_copy(output: str, version: str, known: int | None, held: int | None) -> None:
    """Raise OutputLost when an output has fewer batches than this process has seen in it: it was replaced."""
    if known is not None and (held is None or held < known):
        found = "no batch" if held is None else f"batch {held}"
        raise OutputLost(
            f"output {output} lacks committed batches: it has {found} of {version}, but batch {known} was there",
            hint="restore the output, then run streamkeeper recover",
        )


def compute(batch: DataFrame) -> None:
    """Run a batch through its plan and keep no rows.

    A batch that the sink already has must run too: its tasks write the state, and with checkpoint format v2 the commit
    names the state files of this run. Skipping it would leave the next batch without its state.
    """
    batch.write.format("noop").mode("overwrite").save()
