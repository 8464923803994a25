"""The sink contract: what each kind of sink promises to a driver. Loads neither pyspark nor a database client."""

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
    """In which role a batch is written."""

    SERVING = "serving"
    """Readers of the output see it."""
    SHADOW = "shadow"
    """In a dual run, beside the serving writer: readers of the output see nothing of it until the cutover."""


class SinkContext(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a writer writes. ``epoch`` was claimed in the journal; ``version`` is the checkpoint version.

    ``serving``: what the output consists of from this epoch on, in order, the newest version last; empty: ``version``
    alone. Without a meaning in the role SHADOW. ``installation``: the id of the one that writes, empty where nobody
    knows one. ``looks``: the writer is asked what the output holds and nothing else; it changes nothing. ``begun``: the
    checkpoint of ``version`` has a batch of its own, so that what the output holds of it is this query's.
    """

    job: str
    query: str
    version: str
    epoch: int
    output_mode: str = "append"
    role: WriterRole = WriterRole.SERVING
    serving: tuple[Span, ...] = ()
    installation: str = ""
    looks: bool = False
    begun: bool = False


class OutputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an output holds of a checkpoint version.

    ``unknown``: why nobody can tell, empty when it was told; ``batch``: the newest one, None when it holds none of it.
    ``down``: whether it should have answered and did not. ``record``: the output's own record, None where it keeps none
    or could not be read.
    """

    batch: int | None = None
    unknown: str = ""
    down: bool = False
    record: OutputRecord | None = None


class OutputQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which batch of checkpoint ``version`` does the described output hold, written for ``owner``: ``<job>/<query>``?

    ``places``: where its own directory, or its URL with the password, may be among; ``mask``: what hides their secrets
    in its description.
    """

    sink: SinkDescription
    owner: str
    version: str
    places: Sequence[str]
    mask: Callable[[str], str]


class OutputClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch that an output has accepted from its query; ``version``: what it holds, empty where unknown."""

    epoch: int
    version: str = ""


def check_installation(what: str, recorded: str | None, mine: str) -> None:
    """Raise OperationRefused when an output was written by another installation: a copied one has the same names."""
    if recorded and mine and recorded != mine:
        raise OperationRefused(
            f"{what} is written by the installation {recorded[:8]}, not by this one ({mine[:8]})",
            hint="a copy needs its own outputs: deploy with other params",
        )


class Sink(ABC):
    """A sink as the job's author declares it: an immutable value, without a connection.

    ``kind``: by which its capabilities are known; ``output_modes``: those it can take.
    """

    kind: ClassVar[str]
    output_modes: ClassVar[frozenset[str]]

    @abstractmethod
    def describe(self) -> SinkDescription:
        """Its part of the manifest; never a secret."""

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """A writer for one epoch; connects, but changes nothing yet."""

    @property
    def fence_place(self) -> str:
        """Where ``fences.read_fences`` finds its fence: a URL, maybe with a password, or a directory; empty without."""
        return ""

    def overlaps(self, other: Sink) -> bool:
        """Whether both write to one place; False for sinks whose place only their author knows."""
        return self.describe().same_place(other.describe())

    def find_conflict(self, *, serves: bool) -> str | None:
        """Why this output cannot be written under its name; None when nothing is in its way. Changes nothing.

        ``serves``: the deployed release writes it already, so that its name itself is no reason any more.
        """
        return None

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

    def newest_claim(self) -> OutputClaim | None:
        """Who this query's output was written for last, by this installation; None where the output does not tell.

        Changes nothing. A journal that ends at an older epoch was put back.
        """
        return None

    @abstractmethod
    def last_batch(self) -> int | None:
        """The newest batch of this checkpoint version that the output holds; None when it holds none."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch whole, or not at all; one that it holds already is computed and left. Raises Fenced."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""

    def read_record(self) -> OutputRecord | None:
        """What the output's own record says; creates nothing. None: this kind of output keeps no record of ours."""
        return None

    def begin_after(self, batch: DataFrame, batch_id: int) -> None:  # noqa: B027
        """Record that the output goes on after ``batch_id`` although it lacks batches up to it: a person accepted that.

        ``batch``: any frame with the output's columns; it is not run. The fence must be raised. Idempotent. Here:
        nothing.
        """

    def seed(self, batch_id: int) -> None:  # noqa: B027
        """Make the output ready for a version whose first batch is ``batch_id + 1``; idempotent. Here: nothing."""

    def discard(self) -> None:  # noqa: B027
        """Remove what this version has written in shadow, never what serves; idempotent. Here: nothing."""


def refuse_older_copy(output: str, version: str, known: int | None, held: int | None) -> None:
    """Raise OutputLost when an output holds less than this process has seen in it: somebody replaced it meanwhile."""
    if known is not None and (held is None or held < known):
        found = "no batch" if held is None else f"batch {held}"
        raise OutputLost(
            f"output {output} lacks committed batches: it has {found} of {version}, but batch {known} was there",
            hint="restore the output, then run streamkeeper recover",
        )


def compute(batch: DataFrame) -> None:
    """Run a batch through its plan and keep nothing.

    Also a batch that the sink holds already must run: its tasks write the state, and with checkpoint format v2 the
    commit names the state files of this run; a skipped one would leave the next batch without its state.
    """
    batch.write.format("noop").mode("overwrite").save()
