"""The contract tests for every kind of sink: it does exactly what its declared capabilities state."""

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
    """A test output that has a sink."""

    sink: Sink

    def batch(self, row: tuple[str, int]) -> Any:
        """Return a batch of one row, as a frame of the query."""


class Place(Protocol):
    """A test output of the kind; ``where`` is its URL or directory, as a job's param contains it."""

    sink: Sink
    where: str

    def batch(self, row: tuple[str, int]) -> Any:
        """Return a batch of one row, as a frame of the query."""

    def rows(self) -> list[tuple[str, int]]:
        """Return the rows that a reader of the serving output sees, in order."""


class SinkContract:
    """The contract of every kind of sink, run against an empty ``place``."""

    @pytest.fixture
    def can(self, place: Place) -> SinkCapabilities:
        return capabilities_of(place.sink.describe().kind)

    def test_capabilities_of_a_sink_are_found_by_its_kind(self, place: Place, can: SinkCapabilities) -> None:
        """The capabilities of a sink are found by the kind in its description alone, and differ from those of an
        unknown kind, which promises nothing.
        """
        assert place.sink.describe().kind == place.sink.kind
        assert can is not capabilities_of("nobody's")

    def test_options_that_name_servers_or_need_an_approval_are_in_the_description(
        self, place: Place, can: SinkCapabilities
    ) -> None:
        """The options of which the declaration says that they name servers, or that their change needs an approval, are
        in the sink's description, which is what two releases are compared by.
        """
        assert {*can.server_options, *can.approved_options} <= set(place.sink.describe().options)

    def test_a_replayed_batch_has_the_declared_effect(self, place: Place, can: SinkCapabilities) -> None:
        """A replayed batch changes nothing in an output that accepts replays, and is duplicated in an output that does
        not.
        """
        writer = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND, SECOND)):
            writer.write(place.batch(row), min(number, 1))
        assert place.rows() == [FIRST, SECOND, *([] if can.takes_again else [SECOND])]

    def test_an_output_that_delivers_rows_passes_each_written_row_on(self, place: Place, can: SinkCapabilities) -> None:
        """An output that delivers rows passes on every row that is written, also a replayed one; it has no earlier row
        that the new one could replace. Other outputs are not tested, because they may do the same.
        """
        if not can.delivers:
            return
        writer = opened(place, 1, mode="complete")
        for number, row in enumerate((FIRST, FIRST, SECOND)):
            writer.write(place.batch(row), number)
        assert place.rows() == [FIRST, FIRST, SECOND]

    def test_the_newest_batch_is_reported_by_another_writer_and_a_lookup(
        self, place: Place, can: SinkCapabilities
    ) -> None:
        """The newest batch is reported by a second writer and by a lookup through the sink's description; a sink that
        does not record batches reports none.
        """
        writer = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND)):
            writer.write(place.batch(row), number)
        told = ask_output(question_about(place.sink, where=place.where))
        assert opened(place, 2).last_batch() == told.batch == (1 if can.knows_batches else None)
        assert bool(told.unknown) is not can.knows_batches

    def test_the_fence_of_an_output_names_its_installation(self, place: Place, can: SinkCapabilities) -> None:
        """The fence of an output names the installation that owns it; a sink that does not fence has no place for a
        fence.
        """
        opened(place, 1, installation="a1")
        assert bool(place.sink.fence_place) is can.fences
        if can.fences:
            (fence,) = read_fences(place.sink.fence_place)
            assert (fence.output, fence.installation) == (place.sink.describe().output, "a1")

    def test_a_writer_with_a_superseded_epoch_cannot_write_to_a_fenced_output(
        self, place: Place, can: SinkCapabilities
    ) -> None:
        """A writer that was superseded by a newer epoch cannot write to an output that fences; without a fence only the
        death of the writer prevents it.
        """
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

    def test_a_writer_superseded_by_another_version_is_fenced(self, place: Place, can: SinkCapabilities) -> None:
        """A writer that was superseded by another checkpoint version gets ``Fenced`` from an output that fences,
        instead of an error about lost output.
        """
        old = opened(place, 1)
        old.write(place.batch(FIRST), 0)
        opened(place, 2, "v0002").write(place.batch(SECOND), 0)
        with pytest.raises(Fenced) if can.fences else nullcontext():
            old.write(place.batch(LATE), 1)
        assert (LATE in place.rows()) is not can.fences

    def test_another_installation_cannot_take_over_a_fenced_output(self, place: Place, can: SinkCapabilities) -> None:
        """Another installation cannot take over an output that fences, even with a higher epoch, and the first
        installation can continue to write.
        """
        writer = opened(place, 1, installation="a1")
        with pytest.raises(OperationRefused) if can.fences else nullcontext():
            opened(place, 2, installation="b2")
        writer.write(place.batch(FIRST), 0)
        assert place.rows() == [FIRST]

    def test_shadow_rows_are_invisible_to_readers_and_removed_on_discard(
        self, place: Place, can: SinkCapabilities
    ) -> None:
        """Rows written to a shadow are invisible to readers and leave nothing behind when the shadow is discarded, if
        the sink supports shadows or delivers rows, which no reader could give back.
        """
        opened(place, 1).write(place.batch(FIRST), 0)
        shadow = opened(place, 2, "v0002", role=WriterRole.SHADOW)
        shadow.write(place.batch(LATE), 0)
        assert (place.rows() == [FIRST]) is (can.shadows or can.delivers)
        shadow.discard()
        assert (place.rows() == [FIRST]) is (can.shadows or can.delivers)

    def test_readers_see_only_the_rows_of_the_shadow_after_a_cutover(self, place: Place, can: SinkCapabilities) -> None:
        """After a cutover, readers see only the rows of the shadow and the writer of the old version is fenced, if the
        sink supports shadows.
        """
        old = opened(place, 1)
        old.write(place.batch(FIRST), 0)
        opened(place, 2, "v0002", role=WriterRole.SHADOW).write(place.batch(SECOND), 0)
        writer = opened(place, 3, "v0002")
        assert (place.rows() == [SECOND]) is can.shadows
        assert (writer.last_batch() == 0) is can.shadows
        with pytest.raises(Fenced) if can.fences else nullcontext():
            old.write(place.batch(LATE), 1)
        assert (place.rows() == [SECOND]) is can.shadows

    def test_comparing_a_shadow_with_the_output_reports_equal_or_different_rows(
        self, place: Place, can: SinkCapabilities
    ) -> None:
        """Comparing a shadow with the output reports whether both hold the same rows; a sink without shadows cannot
        compare.
        """
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

    def test_outputs_at_different_input_positions_are_not_reported_as_compared(
        self, place: Place, can: SinkCapabilities
    ) -> None:
        """A shadow and an output that hold the same row are not reported as compared on the same input if their batches
        end at different positions of the input.
        """
        opened(place, 1).write(place.batch(FIRST), 0)
        shadow = opened(place, 2, "v0002", role=WriterRole.SHADOW)
        shadow.write(place.batch(FIRST), 0)
        found = shadow.compare_with_current(_versions(place, pair=None))
        assert (found is None or not found.same_input) or not can.shadows

    def test_readers_see_the_rows_of_both_versions_after_a_handoff(self, place: Place, can: SinkCapabilities) -> None:
        """After a handoff, readers see the rows of both versions, and the new version's batches are numbered as the
        sink declares.
        """
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

    def test_a_restore_treats_later_batches_of_the_old_version_as_declared(
        self, place: Place, can: SinkCapabilities
    ) -> None:
        """After a restore, later batches of the old version are hidden, replaced row by row or duplicated, as the sink
        declares.
        """
        old = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND, LATE)):
            old.write(place.batch(row), number)
        new = opened(place, 2, "v0002", serving=(OutputSegment("v0001", 1), OutputSegment("v0002")))
        new.seed(1)
        assert reconcile(question_about(place.sink, where=place.where), 1).refusal == ""
        hidden = can.reconciles is Reconciliation.CUT_BACK
        assert place.rows() == [FIRST, SECOND, *([] if hidden else [LATE])]
        new.write(place.batch(LATE), 2)
        assert place.rows() == [FIRST, SECOND, LATE, *([LATE] if can.reconciles is Reconciliation.REFUSE else [])]


def _versions(place: Place, *, pair: tuple[int, int] | None) -> ComparedVersions:
    """Return two versions to compare whose batches ``pair`` end at the same input."""
    return ComparedVersions(
        current="v0001",
        may_differ=(),
        frame=place.batch(FIRST),
        newest_pair=lambda: pair,
        same_input=lambda old, new: (old, new) == pair,
    )


def question_about(sink: Sink, version: str = "v0001", *, where: str = "") -> OutputQuestion:
    """Return the question about a version's batches in a sink's output. ``where``: the output's URL or directory."""
    return OutputQuestion(
        sink=sink.describe(), owner="sales/totals", version=version, places=[where], mask=lambda text: text
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
    """Open a writer of an epoch and raise its fence. ``serving`` is what readers see afterwards, by default the
    writer's version.
    """
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
        frame=place.batch(FIRST),
    )
    writer = place.sink.open(context)
    writer.raise_fence()
    return writer
