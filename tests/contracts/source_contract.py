"""The contract tests for every kind of source with a replay promise; the check, handover, rebuild, restore and the
watch rely on it.

``SourceKindContract`` tests the declaration alone, ``SourceContract`` a source that is read, which may be simulated,
and ``ObservedSourceContract`` a real source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from msgspec.structs import replace

from streamkeeper.checkpoints.layout import open_batch, read_offsets
from streamkeeper.checkpoints.reach import compare, position
from streamkeeper.checkpoints.seeding import seed, seed_beginning, seed_start
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.compatibility.sources import source_location_changed, source_options_changed
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, Source, is_stateful
from streamkeeper.sources.contract import NO_OFFSET, NothingRead, OptionEffect, PlaceChange, SourceLook
from streamkeeper.sources.known_sources import (
    asks_the_checkpoint,
    clone_options,
    compare_positions,
    describe_source,
    effect_of_option,
    kind_of_offset,
    offset_line,
    place_of,
    position_key,
    position_of,
    promise_of,
    risk_of_option,
    source_of,
    start_content,
    start_in,
)
from tests.compatibility.manifests import STATEFUL, changed

ROWS_A_BATCH = 2
Batches = dict[int, list[str]]


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example of a source of one kind, described by the options of its reader."""

    kind: str
    """The kind's name in a manifest."""
    format: str
    """The format's name in a job."""
    options: Mapping[str, str]
    """The options of the reader, with the place."""
    elsewhere: Mapping[str, str]
    """Options that name a different place."""
    limit: str
    """An option that limits how fast the source is read."""
    of_rows: Mapping[str, str]
    """An option that changes which rows are read, with a value that is not the default."""
    default: Mapping[str, str]
    """An option with its default value."""
    upkeep: Mapping[str, str]
    """An option that does not change any row."""
    risky: Mapping[str, str]
    """An option with a value that can lose rows."""
    offset: str
    """An offset as Spark writes it into a checkpoint."""

    def source(self, **options: str) -> Source:
        """Return the source as a manifest describes it, with further options."""
        return describe_source(self.format, {**self.options, **options}, "row string", None)


class SourceKindContract:
    """The contract of a kind's declaration, run against an ``example``."""

    example: ClassVar[Example]

    def test_a_source_is_described_by_its_kind_and_place(self) -> None:
        """A source in a manifest has its kind and its place, and its options do not repeat the place."""
        found = self.example.source()
        assert found.kind == self.example.kind
        assert found.location
        assert source_of(found.kind).place_options.isdisjoint(found.options)
        assert place_of(found) in found.location

    def test_a_rate_limit_is_not_recorded_as_an_option(self) -> None:
        """A rate limit is recorded as a limit and not as an option, because it changes the size of a batch and not the
        query.
        """
        limited = self.example.source(**{self.example.limit: "7"})
        assert limited.limits == {self.example.limit.lower(): "7"}
        assert limited.options == self.example.source().options

    def test_two_sources_with_one_place_show_no_change_of_place(self) -> None:
        """Two sources with the same place show no change of place and need no look at the checkpoint."""
        one, other = self.example.source(), self.example.source()
        assert source_of(one.kind).place_change(one, other) is PlaceChange.NONE
        assert not asks_the_checkpoint(one, other)

    def test_a_changed_place_is_breaking_unless_the_checkpoint_proves_it_complete(self) -> None:
        """A changed place is a breaking finding, and only a note if the checkpoint proves that the new place holds
        everything that is still unread.
        """
        old, new = self.example.source(), self.example.source(**self.example.elsewhere)
        assert asks_the_checkpoint(old, new)
        found = list(source_location_changed(*(manifest_of(each) for each in (old, new))))
        assert [each.severity for each in found] == [Severity.BREAKING]
        verified = replace(new, catches_up=True)
        found = list(source_location_changed(*(manifest_of(each) for each in (old, verified))))
        assert [each.severity for each in found] == [Severity.NOTE]

    def test_an_option_that_changes_rows_is_no_resume(self) -> None:
        """A changed option that affects which rows are read is a breaking finding for a stateful query."""
        ((option, _),) = self.example.of_rows.items()
        assert effect_of_option(self.example.kind, option.lower()) is OptionEffect.ROWS
        assert [each.severity for each in self.found_for(self.example.of_rows)] == [Severity.BREAKING]

    def test_an_unknown_source_option_is_breaking(self) -> None:
        """An unknown option is a breaking finding, because it may change how values are read."""
        assert [each.severity for each in self.found_for({"notanoption": "x"})] == [Severity.BREAKING]

    def test_a_default_spelled_out_is_no_change(self) -> None:
        """Adding an option with its default value is reported as ``source-option-spelled-out`` only."""
        assert {each.rule for each in self.found_for(self.example.default)} == {"source-option-spelled-out"}

    def test_a_changed_option_that_leaves_rows_unchanged_is_a_note(self) -> None:
        """A changed option that leaves the rows unchanged is a note."""
        assert [each.severity for each in self.found_for(self.example.upkeep)] == [Severity.NOTE]

    def test_an_option_that_can_lose_rows_is_a_risk(self) -> None:
        """An option value that can lose rows is reported with its effect; the safe value and the same option of an
        unknown kind are not.
        """
        ((option, value),) = self.example.risky.items()
        safe, effect = source_of(self.example.kind).option_risks[option.lower()]
        assert risk_of_option(self.example.kind, option, value) == effect != ""
        assert risk_of_option(self.example.kind, option, safe) == ""
        assert risk_of_option("another-kind", option, value) == ""

    def test_a_clone_reads_the_same_rows(self) -> None:
        """The options that a clone adds to a source do not change which rows are read."""
        own = source_of(self.example.kind).clone_options
        assert own
        assert own.items() <= clone_options().items()
        assert {effect_of_option(self.example.kind, key.lower()) for key in own} == {OptionEffect.UPKEEP}

    def test_an_offset_belongs_to_its_kind_alone(self) -> None:
        """An offset is assigned to its kind by its form; a missing or unrecognized offset belongs to no kind."""
        assert kind_of_offset(self.example.offset) is source_of(self.example.kind)
        assert [kind_of_offset(each) for each in (NO_OFFSET, "{}", "{", "7", '{"a":"b"}')] == [None] * 5

    def test_a_start_that_was_written_is_read_again(self) -> None:
        """A written start offset can be read back at the same position; a source that cannot start at an offset has no
        offset line.
        """
        line = offset_line(self.example.offset)
        content = start_content(self.example.offset)
        assert (line is None) == (content is None)
        if content is not None:
            assert start_in(content) == line
            assert start_in(b"v1\n" + content) is None
            assert position_of(self.example.offset, line).is_same(position_of(self.example.offset))

    def found_for(self, options: Mapping[str, str]) -> list[Finding]:
        """Return the check's findings about options that are added to a stateful query."""
        old, new = manifest_of(self.example.source()), manifest_of(self.example.source(**options))
        assert is_stateful(old, new)
        return list(source_options_changed(old, new))


def manifest_of(source: Source) -> Manifest:
    """Return the manifest of a stateful query that reads the source."""
    return changed(STATEFUL, sources=(source,))


class Place(Protocol):
    """A test input of the kind; ``kind`` is its name in a manifest."""

    kind: str

    def put(self, rows: list[str]) -> None:
        """Add rows in this order."""

    def run(self, checkpoint: Path, *, fail_after: int | None = None) -> Batches:
        """Read all available rows from the beginning or from the checkpoint's position, ``ROWS_A_BATCH`` rows per
        batch.

        Returns batch -> its rows. ``fail_after``: the batch that fails after its rows were read and before its commit.
        """

    def tree(self, checkpoint: Path) -> Tree:
        """Return the files of a checkpoint."""

    def take_away(self, checkpoint: Path) -> None:
        """Make a checkpoint unavailable from now on."""


class ObservedPlace(Place, Protocol):
    """A test input whose servers or folders can be queried between two batches."""

    def lose(self, rows: int) -> None:
        """Remove the first rows from the input."""

    def look(self, checkpoint: Path) -> SourceLook:
        """Return what the query of a checkpoint has not read yet, as a driver observes it between two batches."""

    def missing(self, checkpoint: Path) -> str:
        """Return what a query that starts from the beginning would miss of the rows that the checkpoint has read, or an
        empty text.
        """


class SourceContract:
    """The contract of a source that is read, run against an empty ``place``."""

    def test_the_same_offsets_give_the_same_rows(self, place: Place, tmp_path: Path) -> None:
        """A batch that was read but not committed is replayed with the same rows, even if new rows have arrived
        since.
        """
        assert promise_of(place.kind).replays
        place.put(["a", "b", "c", "d"])
        first = place.run(tmp_path, fail_after=1)
        assert (first, open_batch(place.tree(tmp_path))) == ({0: ["a", "b"], 1: ["c", "d"]}, 1)
        place.put(["e", "f"])
        assert place.run(tmp_path) == {1: ["c", "d"], 2: ["e", "f"]}

    def test_comparing_two_checkpoints_reports_the_number_of_missing_rows(self, place: Place, tmp_path: Path) -> None:
        """Two checkpoints that have read the same rows compare as equal; for one that has read less, the comparison
        reports the number of missing rows.
        """
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        place.run(tmp_path / "new")
        place.put(["e", "f"])
        place.run(tmp_path / "old")
        old, new = position(place.tree(tmp_path / "old")), position(place.tree(tmp_path / "new"))
        assert compare(position(place.tree(tmp_path / "old"), 1), new).equal
        assert (compare(old, new).holds, compare(new, old).holds) == (False, True)
        (lacking,) = compare(old, new).sources
        assert (lacking.missing, lacking.total) == (2, 6)

    def test_positions_are_in_the_order_of_the_batches(self, place: Place, tmp_path: Path) -> None:
        """The positions of successive batches are distinct and ordered: each contains all earlier ones and no later
        one, and every offset has the source's kind.
        """
        place.put(["a", "b", "c", "d", "e", "f"])
        place.run(tmp_path)
        tree = place.tree(tmp_path)
        ends = [end for batch in range(3) for end in read_offsets(tree, batch).ends.values()]
        assert {kind.name if (kind := kind_of_offset(end)) else None for end in ends} == {place.kind}
        assert len(set(map(position_key, ends))) == 3
        reached = [source for batch in range(3) for source in position(tree, batch).sources.values()]
        for number, old in enumerate(reached):
            for other, new in enumerate(reached):
                found = compare_positions("s", old, new)
                assert found is not None
                assert (found.missing == 0, found.ahead == 0) == (number <= other, other <= number)
                assert old.is_same(new) == (number == other)
            nothing = compare_positions("s", old, NothingRead())
            assert nothing is not None
            assert nothing.missing == nothing.total == ROWS_A_BATCH * (number + 1)

    def test_a_version_seeded_at_old_offsets_reads_every_later_row_once(self, place: Place, tmp_path: Path) -> None:
        """A version that is seeded at the offsets of an old one reads every later row once, without needing the old
        checkpoint.
        """
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        seed(place.tree(tmp_path / "old"), place.tree(tmp_path / "new"), 0, number=0, query_id=_NEW_ID)
        place.take_away(tmp_path / "old")
        place.put(["e", "f"])
        assert place.run(tmp_path / "new") == {1: ["c", "d"], 2: ["e", "f"]}

    def test_a_rebuilt_version_begins_where_the_other_began(self, place: Place, tmp_path: Path) -> None:
        """A rebuilt version reads the same batches from the beginning as the old version did."""
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        seed_beginning(place.tree(tmp_path / "old"), place.tree(tmp_path / "new"), query_id=_NEW_ID)
        assert place.run(tmp_path / "new") == {0: ["a", "b"], 1: ["c", "d"]}


class ObservedSourceContract(SourceContract):
    """The contract of a real source that records where it starts and can be queried between two batches, run against an
    empty ``place``.
    """

    def test_a_version_without_a_batch_starts_where_another_has_ended(
        self, place: ObservedPlace, tmp_path: Path
    ) -> None:
        """A version without batches that is seeded with a start position reads later rows only, beginning with batch
        0.
        """
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        seed_start(place.tree(tmp_path / "old"), place.tree(tmp_path / "new"), 0, query_id=_NEW_ID)
        place.take_away(tmp_path / "old")
        place.put(["e", "f"])
        assert place.run(tmp_path / "new") == {0: ["c", "d"], 1: ["e", "f"]}

    def test_waiting_records_or_files_are_counted(self, place: ObservedPlace, tmp_path: Path) -> None:
        """The number of waiting records or files is 0 after a run, and counts new input afterwards."""
        place.put(["a", "b"])
        place.run(tmp_path)
        assert _waiting(place.look(tmp_path)) == 0
        place.put(["c", "d", "e"])
        assert _waiting(place.look(tmp_path)) == 3

    def test_deleted_input_that_a_rebuild_would_miss_is_reported(self, place: ObservedPlace, tmp_path: Path) -> None:
        """Input that a rebuild would miss is reported once it was deleted, and nothing is reported while all input
        exists.
        """
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path)
        assert place.missing(tmp_path) == ""
        place.lose(1)
        assert place.missing(tmp_path)


def _waiting(look: SourceLook) -> int | None:
    return look.lag_records if look.lag_files is None else look.lag_files


_NEW_ID = "6d2a5f52-3c0a-4a50-9c8e-0d3b6b5c1f12"
