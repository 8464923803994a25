"""The sink contract: what a driver can rely on for every kind of sink. Loads neither pyspark nor a database client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from streamkeeper.errors import OperationRefused, OutputLost, OutputOutOfReach, StoreUnavailable
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.model.records.output_segments import OutputSegment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WriterRole(Enum):
    """The role in which a batch is written."""

    SERVING = "serving"
    """Readers of the output see it."""
    SHADOW = "shadow"
    """Written in a dual run, in addition to the current writer's output; readers of the output do not see it until the
    cutover.
    """


class SinkContext(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a writer, as an output needs it."""

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
    serving: tuple[OutputSegment, ...] = ()
    """The segments of the output from this epoch on, in order, the newest version last. An empty tuple means only
    ``version``. Not used in the role SHADOW.
    """
    lineage: tuple[OutputSegment, ...] = ()
    """``serving`` with the ancestors that have no committed batch, which end at -1. An output whose records name what
    they replace needs them, because it may have a part of such an ancestor's batch 0. An empty tuple means ``serving``.
    """
    installation: str = ""
    """The id of the writing installation, empty if unknown."""
    looks: bool = False
    """Whether the writer only reads the output's content and changes nothing."""
    frame: Any = None
    """The query's frame, whose session a writer may use; None for a writer that only reads."""
    begun: bool = False
    """Whether the checkpoint of ``version`` has a batch of its own. The output's content of that version then belongs
    to this query.
    """


@contextmanager
def reaching_output() -> Iterator[None]:
    """Raise OutputOutOfReach instead of StoreUnavailable. For the methods of a writer whose output may be on a server,
    because callers take StoreUnavailable for the store of the records.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise OutputOutOfReach(error.message, hint=error.hint) from error.__cause__


class OutputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An output's answer to a question about the content of a checkpoint version."""

    batch: int | None = None
    """The newest batch; None if the output has no batch of the version."""
    unknown: str = ""
    """Why the content is unknown; empty if it is known."""
    down: bool = False
    """Whether the output was queried and did not answer."""
    record: OutputRecord | None = None
    """The output's own record; None if it keeps none or it could not be read."""


class OutputQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The request for the newest batch of a checkpoint version that the described output contains."""

    sink: SinkDescription
    """The output's description."""
    owner: str
    """The expected owner of the output: ``<job>/<query>``."""
    version: str
    """The checkpoint version."""
    places: Sequence[str]
    """Texts that include the output's directory, or its URL with the password."""
    mask: Callable[[str], str]
    """Masks the secrets in a text of ``places`` as in the output's description."""

    @property
    def directory(self) -> str:
        """The output's directory with its secrets: the first of ``places`` that matches, else the one described."""
        described = self.sink.output
        masked = self.mask(described)
        return next((place for place in self.places if self.mask(place) == masked), described)


class OutputClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch that an output has accepted from its query.

    ``version``: the checkpoint version in the output's newest record, empty if unknown. In a table, this is the version
    of the last batch, which may have been written under an earlier epoch.
    """

    epoch: int
    version: str = ""


def check_installation(what: str, recorded: str | None, mine: str) -> None:
    """Raise OperationRefused if another installation writes the output, which happens when a copied installation uses
    the same names.

    ``what``: the output, for the message. ``recorded``: the installation's id in the output. ``mine``: this
    installation's id. If one of these ids is unknown, no error is raised.
    """
    if recorded and mine and recorded != mine:
        raise OperationRefused(
            f"{what} is written by the installation {recorded[:8]}, not by this one ({mine[:8]})",
            hint="deploy with params that name other outputs, because each installation needs its own outputs",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVersions:
    """A query's current checkpoint version and its shadow, whose outputs are compared."""

    current: str
    """The current version."""
    may_differ: tuple[str, ...]
    """Columns that are left out of the comparison."""
    frame: DataFrame
    """The query's frame; its rows have the columns of the shadow's output."""
    newest_pair: Callable[[], tuple[int, int] | None]
    """Returns the newest batches of both versions that end at the same input, the current version's first; None
    without such a pair.
    """
    same_input: Callable[[int, int], bool]
    """Whether these batches of both versions end at the same input."""

    def judged(self, compared: OutputComparison) -> OutputComparison:
        """Return a comparison of the outputs at one moment, completed with whether both versions had the same input at
        that moment.
        """
        old, new = compared.old_batch, compared.new_batch
        same = old is not None and new is not None and self.same_input(old, new)
        return msgspec.structs.replace(compared, same_input=same)


class Sink(ABC):
    """A sink as the job's author declares it: an immutable value, without a connection.

    ``kind``: the sink's kind, which determines its capabilities.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def output_modes(self) -> frozenset[str]:
        """The output modes that the sink supports."""

    @abstractmethod
    def describe(self) -> SinkDescription:
        """Return the sink's part of the manifest, without any secret."""

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """Return a writer for one epoch. The writer may connect, but changes nothing yet."""

    @property
    def fence_place(self) -> str:
        """The URL (possibly with a password) or the directory where ``fences.read_fences`` finds the fence of this
        output.

        Empty if the output has no fence.
        """
        return ""

    def overlaps(self, other: Sink) -> bool:
        """Whether this sink and ``other`` write to the same place; False for a sink whose place only the job's author
        knows.
        """
        return self.describe().same_place(other.describe())

    def find_conflict(self, *, serves: bool) -> str | None:
        """Return why this output must not be written at its place; None if it may. Changes nothing.

        ``serves``: whether the current release already writes this output. If so, a name or directory that is reserved
        for Streamkeeper is no conflict.
        """
        return None

    def newest_version(self) -> str:
        """Return the newest checkpoint version in the output; empty if the output does not keep versions apart."""
        return ""

    def lost_log(self, version: str) -> str:
        """Return the directory of a version that contains rows but has lost its log of batches; empty if there is no
        such directory. Changes nothing.
        """
        del version
        return ""

    @abstractmethod
    def rehearse(self, batch: DataFrame) -> None:
        """Do the work of writing a batch without keeping its rows, to warm up a standby."""


class SinkWriter(ABC):
    """Writes one query's batches under one epoch, to the current output or to the shadow of a rebuild."""

    @abstractmethod
    def raise_fence(self) -> None:
        """Record this epoch as the newest that the output accepts, so that it permanently refuses all older epochs.

        Raises Fenced if the output has accepted a newer epoch.

        In the role SERVING this call is also the cutover: from then on the output consists of ``context.serving``. In
        the role SHADOW only older epochs of the same shadow are fenced, and the current output is unchanged.
        """

    def newest_claim(self) -> OutputClaim | None:
        """Return the newest claim on the output that this query of this installation made; None if none is recorded.

        Changes nothing. If the journal's newest epoch is older than this claim's, the journal was restored from a copy.
        """
        return None

    @abstractmethod
    def last_batch(self) -> int | None:
        """Return the newest batch of this checkpoint version in the output; None if the output has no such batch."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch completely or not at all; raises Fenced.

        A batch that the output already contains is computed, but not written a second time.
        """

    @abstractmethod
    def close(self) -> None:
        """Close connections."""

    def read_record(self) -> OutputRecord | None:
        """Return the record that the output keeps of its writers and batches; None if this kind of output keeps none.

        Creates nothing.
        """
        return None

    def begin_after(self, batch: DataFrame, batch_id: int) -> None:  # noqa: B027
        """Record that the output continues after ``batch_id``, although it lacks earlier batches. Only for a loss that
        a person has accepted.

        ``batch``: any frame with the output's columns; the frame is not computed.

        Call ``raise_fence`` first. Idempotent. The default does nothing.
        """

    def seed(self, batch_id: int) -> None:  # noqa: B027
        """Prepare the output for a version whose first batch is ``batch_id + 1``; idempotent. The default does
        nothing.
        """

    def compare_with_current(self, versions: ComparedVersions) -> OutputComparison | None:
        """Compare this shadow with the current output. If they cannot be compared at the moment, return None or a
        comparison with ``same_input=False``.
        """
        del versions
        return OutputComparison(comparable=False, why="the output of this kind of sink cannot be read")

    def discard(self) -> None:  # noqa: B027
        """Remove this version's shadow output, never the current one; idempotent. The default does nothing."""


def refuse_older_copy(output: str, version: str, known: int | None, held: int | None) -> None:
    """Raise OutputLost if an output lacks batches that this process has already seen in it. The output was then
    replaced, for example by an older copy.

    ``known``: the newest batch that this process has seen in the output; None if it has seen no batch.
    ``held``: the newest batch that the output contains now; None if it contains no batch.
    """
    if known is not None and (held is None or held < known):
        found = "no batch" if held is None else f"only batches up to {held}"
        raise OutputLost(
            f"output {output} lacks committed batches: this process has seen batch {known} of {version} in the output,"
            f" but now finds {found}",
            hint="restore the output, then run `streamkeeper recover JOB`",
        )


def compute(batch: DataFrame) -> None:
    """Run a batch through its plan and keep no rows.

    A batch that the sink already has must run too. Its tasks write the state, and with checkpoint format v2 the commit
    names the state files of this run. Without the run, the next batch would have no state.
    """
    batch.write.format("noop").mode("overwrite").save()
