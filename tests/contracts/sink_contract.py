"""What every kind of sink is held to: that it does what its capabilities say, and no more is said of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Protocol

import pytest

from streamkeeper.errors import Fenced, OperationRefused
from streamkeeper.model.manifests.sink_capabilities import Numbering, Reconciliation, SinkCapabilities
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.contract import ComparedVersions, OutputQuestion, Sink, SinkContext, SinkWriter, WriterRole
from streamkeeper.sinks.fences import read_fences
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.sinks.output_lookup import ask_output, reconcile

SCHEMA = "customer string, total long"
FIRST, SECOND, LATE = ("a", 1), ("b", 2), ("z", 9)


class HasSink(Protocol):
    """An output of the kind."""

    sink: Sink


class Place(Protocol):
    """An output of the kind; ``where``: its URL or directory, as a job's param has it."""

    sink: Sink
    where: str

    def batch(self, row: tuple[str, int]) -> Any:
        """A batch of one row, as the query's frame has it."""

    def rows(self) -> list[tuple[str, int]]:
        """What a reader of the serving output sees, in order."""


class SinkContract:
    """Run against a ``place`` that holds nothing."""

    @pytest.fixture
    def can(self, place: Place) -> SinkCapabilities:
        return capabilities_of(place.sink.describe().kind)

    def test_its_kind_is_known(self, place: Place, can: SinkCapabilities) -> None:
        """By its description alone; of an unknown kind nothing is promised."""
        assert place.sink.describe().kind == place.sink.kind
        assert can is not capabilities_of("nobody's")

    def test_a_batch_that_comes_again(self, place: Place, can: SinkCapabilities) -> None:
        """Changes nothing where the output takes rows again, and is there twice where it does not."""
        writer = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND, SECOND)):
            writer.write(place.batch(row), min(number, 1))
        assert place.rows() == [FIRST, SECOND, *([] if can.takes_again else [SECOND])]

    def test_its_last_batch(self, place: Place, can: SinkCapabilities) -> None:
        """Is told by another writer and by the description alike, or by neither."""
        writer = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND)):
            writer.write(place.batch(row), number)
        question = OutputQuestion(
            sink=place.sink.describe(),
            owner="sales/totals",
            version="v0001",
            places=[place.where],
            mask=lambda text: text,
        )
        told = ask_output(question)
        assert opened(place, 2).last_batch() == told.batch == (1 if can.knows_batches else None)
        assert bool(told.unknown) is not can.knows_batches

    def test_whose_it_is(self, place: Place, can: SinkCapabilities) -> None:
        """Is told by its fence alone; an output that does not fence has no such place."""
        opened(place, 1, installation="a1")
        assert bool(place.sink.fence_place) is can.fences
        if can.fences:
            (fence,) = read_fences(place.sink.fence_place)
            assert (fence.output, fence.installation) == (place.sink.describe().output, "a1")

    def test_a_writer_that_was_superseded(self, place: Place, can: SinkCapabilities) -> None:
        """Writes nothing where the output fences; elsewhere only its death keeps it out."""
        old = opened(place, 1)
        old.write(place.batch(FIRST), 0)
        opened(place, 2)
        late = place.batch(LATE)
        if can.fences:
            with pytest.raises(Fenced):
                old.write(late, 1)
        else:
            old.write(late, 1)
        assert (LATE in place.rows()) is not can.fences

    def test_a_writer_that_another_version_superseded(self, place: Place, can: SinkCapabilities) -> None:
        """Is told so where the output fences, and not that the output has lost what it had written."""
        old = opened(place, 1)
        old.write(place.batch(FIRST), 0)
        opened(place, 2, "v0002").write(place.batch(SECOND), 0)
        with pytest.raises(Fenced) if can.fences else nullcontext():
            old.write(place.batch(LATE), 1)
        assert (LATE in place.rows()) is not can.fences

    def test_another_installation(self, place: Place, can: SinkCapabilities) -> None:
        """Cannot take over an output that fences, whatever its epoch; the first one goes on."""
        writer = opened(place, 1, installation="a1")
        with pytest.raises(OperationRefused) if can.fences else nullcontext():
            opened(place, 2, installation="b2")
        writer.write(place.batch(FIRST), 0)
        assert place.rows() == [FIRST]

    def test_a_shadow(self, place: Place, can: SinkCapabilities) -> None:
        """Is not seen by readers, and leaves nothing when it is discarded; no other sink is ever written in shadow."""
        opened(place, 1).write(place.batch(FIRST), 0)
        shadow = opened(place, 2, "v0002", role=WriterRole.SHADOW)
        shadow.write(place.batch(LATE), 0)
        assert (place.rows() == [FIRST]) is can.shadows
        shadow.discard()
        assert (place.rows() == [FIRST]) is can.shadows

    def test_a_shadow_that_replaces_the_output(self, place: Place, can: SinkCapabilities) -> None:
        """Is what readers see from then on, and nothing else; the writer of the old version is fenced."""
        old = opened(place, 1)
        old.write(place.batch(FIRST), 0)
        opened(place, 2, "v0002", role=WriterRole.SHADOW).write(place.batch(SECOND), 0)
        writer = opened(place, 3, "v0002")
        assert (place.rows() == [SECOND]) is can.shadows
        assert (writer.last_batch() == 0) is can.shadows
        with pytest.raises(Fenced) if can.fences else nullcontext():
            old.write(place.batch(LATE), 1)
        assert (place.rows() == [SECOND]) is can.shadows

    def test_a_comparison(self, place: Place, can: SinkCapabilities) -> None:
        """Of a shadow with the output finds whether both hold the same rows; a sink without shadows cannot compare."""
        current = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND)):
            current.write(place.batch(row), number)
        alike = opened(place, 2, "v0002", role=WriterRole.SHADOW)
        other = opened(place, 2, "v0003", role=WriterRole.SHADOW)
        for number, rows in enumerate(((FIRST, FIRST), (SECOND, LATE))):
            alike.write(place.batch(rows[0]), number)
            other.write(place.batch(rows[1]), number)
        found = [each.compare_with_current(_versions(place, pair=(1, 1))) for each in (alike, other)]
        assert [each is not None and each.comparable for each in found] == [can.shadows] * 2
        if can.shadows:
            assert [each is not None and each.same_input and not each.exceeds(0, 0) for each in found] == [True, False]

    def test_a_comparison_of_other_input(self, place: Place, can: SinkCapabilities) -> None:
        """Is none: both outputs hold the same row, but of batches that end elsewhere."""
        opened(place, 1).write(place.batch(FIRST), 0)
        shadow = opened(place, 2, "v0002", role=WriterRole.SHADOW)
        shadow.write(place.batch(FIRST), 0)
        found = shadow.compare_with_current(_versions(place, pair=None))
        assert (found is None or not found.same_input) or not can.shadows

    def test_a_version_that_continues_another(self, place: Place, can: SinkCapabilities) -> None:
        """As after a handoff: readers see the rows of both, and the batches have the numbers that are declared."""
        old = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND)):
            old.write(place.batch(row), number)
        last = 1 if can.numbering is Numbering.KEEP else 0
        new = opened(place, 2, "v0002", serving=(OutputSegment("v0001", 1), OutputSegment("v0002")))
        new.seed(last)
        new.seed(last)
        new.write(place.batch(LATE), last + 1)
        assert place.rows() == [FIRST, SECOND, LATE]
        assert new.last_batch() == (last + 1 if can.knows_batches else None)

    def test_a_version_that_goes_back(self, place: Place, can: SinkCapabilities) -> None:
        """As after a restore: the batches after it are hidden, replaced row by row, or there twice, as declared."""
        old = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND, LATE)):
            old.write(place.batch(row), number)
        new = opened(place, 2, "v0002", serving=(OutputSegment("v0001", 1), OutputSegment("v0002")))
        new.seed(1)
        assert reconcile(place.sink.describe(), "v0001", 1).refusal == ""
        hidden = can.reconciles is Reconciliation.CUT_BACK
        assert place.rows() == [FIRST, SECOND, *([] if hidden else [LATE])]
        new.write(place.batch(LATE), 2)
        assert place.rows() == [FIRST, SECOND, LATE, *([LATE] if can.reconciles is Reconciliation.REFUSE else [])]


def _versions(place: Place, *, pair: tuple[int, int] | None) -> ComparedVersions:
    """Two versions whose batches ``pair`` end at the same input."""
    return ComparedVersions(
        current="v0001",
        may_differ=(),
        frame=place.batch(FIRST),
        newest_pair=lambda: pair,
        same_input=lambda old, new: (old, new) == pair,
    )


def opened(
    place: HasSink,
    epoch: int,
    version: str = "v0001",
    *,
    role: WriterRole = WriterRole.SERVING,
    installation: str = "",
    serving: tuple[OutputSegment, ...] = (),
    mode: str = "append",
) -> SinkWriter:
    """A writer of an epoch, its fence raised. ``serving``: what readers see from then on, by default its version."""
    serving = () if role is WriterRole.SHADOW else serving or (OutputSegment(version),)
    context = SinkContext(
        job="sales",
        query="totals",
        version=version,
        epoch=epoch,
        output_mode=mode,
        role=role,
        serving=serving,
        installation=installation,
    )
    writer = place.sink.open(context)
    writer.raise_fence()
    return writer
