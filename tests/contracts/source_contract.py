"""What every kind of source with a promise is held to: the check, handover, rebuild, restore and the watch rest on it.

``SourceKindContract`` is about the declaration alone, ``SourceContract`` about a source that is read, also a simulated
one, and ``ObservedSourceContract`` about a real source.
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
    """One source of a kind, in words of its reader."""

    kind: str
    """As a manifest names it."""
    format: str
    """As a job names it."""
    options: Mapping[str, str]
    """The options of its reader, with the place."""
    elsewhere: Mapping[str, str]
    """Options that name another place."""
    limit: str
    """An option that limits how fast it is read."""
    of_rows: Mapping[str, str]
    """An option that changes which rows are read, with a value that is not the default."""
    default: Mapping[str, str]
    """An option with its default."""
    upkeep: Mapping[str, str]
    """An option that changes no row."""
    risky: Mapping[str, str]
    """An option with a value that can lose rows."""
    offset: str
    """An offset as Spark writes it into a checkpoint."""

    def source(self, **options: str) -> Source:
        """As a manifest describes it, with further options."""
        return describe_source(self.format, {**self.options, **options}, "row string", None)


class SourceKindContract:
    """Run against an ``example``."""

    example: ClassVar[Example]

    def test_a_source_is_described_by_its_kind_and_place(self) -> None:
        """The manifest names the kind and the place, and no option repeats the place."""
        found = self.example.source()
        assert found.kind == self.example.kind
        assert found.location
        assert source_of(found.kind).place_options.isdisjoint(found.options)
        assert place_of(found) in found.location

    def test_a_limit_is_no_option(self) -> None:
        """Another limit is another number of rows a batch, not another query."""
        limited = self.example.source(**{self.example.limit: "7"})
        assert limited.limits == {self.example.limit.lower(): "7"}
        assert limited.options == self.example.source().options

    def test_the_same_place_is_the_same_place(self) -> None:
        """Nothing is found, and nothing is asked of the checkpoint."""
        one, other = self.example.source(), self.example.source()
        assert source_of(one.kind).place_change(one, other) is PlaceChange.NONE
        assert not asks_the_checkpoint(one, other)

    def test_another_place_is_no_resume_until_the_checkpoint_says_so(self) -> None:
        """It breaks, unless it was verified that all is read there that was not read yet."""
        old, new = self.example.source(), self.example.source(**self.example.elsewhere)
        assert asks_the_checkpoint(old, new)
        found = list(source_location_changed(*(manifest_of(each) for each in (old, new))))
        assert [each.severity for each in found] == [Severity.BREAKING]
        verified = replace(new, catches_up=True)
        found = list(source_location_changed(*(manifest_of(each) for each in (old, verified))))
        assert [each.severity for each in found] == [Severity.NOTE]

    def test_an_option_that_changes_rows_is_no_resume(self) -> None:
        """A state that was computed from other rows is of no use."""
        ((option, _),) = self.example.of_rows.items()
        assert effect_of_option(self.example.kind, option.lower()) is OptionEffect.ROWS
        assert [each.severity for each in self.found_for(self.example.of_rows)] == [Severity.BREAKING]

    def test_an_option_of_which_nothing_is_known_is_no_resume(self) -> None:
        """It may change how values are read."""
        assert [each.severity for each in self.found_for({"notanoption": "x"})] == [Severity.BREAKING]

    def test_a_default_spelled_out_is_no_change(self) -> None:
        """Spark reads it as it read nothing."""
        assert {each.rule for each in self.found_for(self.example.default)} == {"source-option-spelled-out"}

    def test_an_option_of_upkeep_is_a_note(self) -> None:
        """The same rows are read."""
        assert [each.severity for each in self.found_for(self.example.upkeep)] == [Severity.NOTE]

    def test_an_option_that_can_lose_rows_is_a_risk(self) -> None:
        """With its effect; the safe value, and another kind's option, are none."""
        ((option, value),) = self.example.risky.items()
        safe, effect = source_of(self.example.kind).option_risks[option.lower()]
        assert risk_of_option(self.example.kind, option, value) == effect != ""
        assert risk_of_option(self.example.kind, option, safe) == ""
        assert risk_of_option("another-kind", option, value) == ""

    def test_a_clone_reads_the_same_rows(self) -> None:
        """No option of a clone changes which rows are read."""
        own = source_of(self.example.kind).clone_options
        assert own
        assert own.items() <= clone_options().items()
        assert {effect_of_option(self.example.kind, key.lower()) for key in own} == {OptionEffect.UPKEEP}

    def test_an_offset_belongs_to_its_kind_alone(self) -> None:
        """By its form; a missing offset, and the one of an unknown kind, to none."""
        assert kind_of_offset(self.example.offset) is source_of(self.example.kind)
        assert [kind_of_offset(each) for each in (NO_OFFSET, "{}", "{", "7", '{"a":"b"}')] == [None] * 5

    def test_a_start_that_was_written_is_read_again(self) -> None:
        """If the source can be started at an offset; a source that cannot has no line for it."""
        line = offset_line(self.example.offset)
        content = start_content(self.example.offset)
        assert (line is None) == (content is None)
        if content is not None:
            assert start_in(content) == line
            assert start_in(b"v1\n" + content) is None
            assert position_of(self.example.offset, line).is_same(position_of(self.example.offset))

    def found_for(self, options: Mapping[str, str]) -> list[Finding]:
        """What the check says of options that are new, of a query that keeps state."""
        old, new = manifest_of(self.example.source()), manifest_of(self.example.source(**options))
        assert is_stateful(old, new)
        return list(source_options_changed(old, new))


def manifest_of(source: Source) -> Manifest:
    """A query that keeps state and reads the source."""
    return changed(STATEFUL, sources=(source,))


class Place(Protocol):
    """An input of the kind; ``kind``: as a manifest names it."""

    kind: str

    def put(self, rows: list[str]) -> None:
        """Add rows, in this order."""

    def run(self, checkpoint: Path, *, fail_after: int | None = None) -> Batches:
        """Read all that is there, from the beginning or from where the checkpoint stands, ``ROWS_A_BATCH`` a batch.

        Returns batch -> its rows. ``fail_after``: the batch that fails when its rows have been read, before its commit.
        """

    def tree(self, checkpoint: Path) -> Tree:
        """The files of a checkpoint."""

    def take_away(self, checkpoint: Path) -> None:
        """Let a checkpoint be missing from now on."""


class ObservedPlace(Place, Protocol):
    """An input whose servers or folders answer between two batches."""

    def lose(self, rows: int) -> None:
        """Let the first rows be missing from now on."""

    def look(self, checkpoint: Path) -> SourceLook:
        """Look at what the query of a checkpoint has not read, as a driver does between two batches."""

    def missing(self, checkpoint: Path) -> str:
        """What a query that begins anew would miss of what the checkpoint has read; empty for nothing."""


class SourceContract:
    """Run against a ``place`` that holds nothing."""

    def test_the_same_offsets_give_the_same_rows(self, place: Place, tmp_path: Path) -> None:
        """A batch that was read, and not committed, has the same rows again, whatever has come meanwhile."""
        assert promise_of(place.kind).replays
        place.put(["a", "b", "c", "d"])
        first = place.run(tmp_path, fail_after=1)
        assert (first, open_batch(place.tree(tmp_path))) == ({0: ["a", "b"], 1: ["c", "d"]}, 1)
        place.put(["e", "f"])
        assert place.run(tmp_path) == {1: ["c", "d"], 2: ["e", "f"]}

    def test_how_far_it_has_read_is_told(self, place: Place, tmp_path: Path) -> None:
        """Two checkpoints that have read the same are equal; of one that has read less, it is told what it lacks."""
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
        """Each holds all earlier ones and no later one, and all of them more than nothing; the offsets are its own."""
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

    def test_a_version_goes_on_where_another_has_ended(self, place: Place, tmp_path: Path) -> None:
        """Seeded at its offsets, it reads what came after, nothing twice, and no more of the old version."""
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        seed(place.tree(tmp_path / "old"), place.tree(tmp_path / "new"), 0, number=0, query_id=_NEW_ID)
        place.take_away(tmp_path / "old")
        place.put(["e", "f"])
        assert place.run(tmp_path / "new") == {1: ["c", "d"], 2: ["e", "f"]}

    def test_a_rebuilt_version_begins_where_the_other_began(self, place: Place, tmp_path: Path) -> None:
        """Where that is recorded; else it begins with all that is there, which is the same."""
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        seed_beginning(place.tree(tmp_path / "old"), place.tree(tmp_path / "new"), query_id=_NEW_ID)
        assert place.run(tmp_path / "new") == {0: ["a", "b"], 1: ["c", "d"]}


class ObservedSourceContract(SourceContract):
    """Run against a ``place`` of a real source, which records where it starts and answers between two batches."""

    def test_a_version_without_a_batch_starts_where_another_has_ended(
        self, place: ObservedPlace, tmp_path: Path
    ) -> None:
        """Its first batch is batch 0, with what came after."""
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        seed_start(place.tree(tmp_path / "old"), place.tree(tmp_path / "new"), 0, query_id=_NEW_ID)
        place.take_away(tmp_path / "old")
        place.put(["e", "f"])
        assert place.run(tmp_path / "new") == {0: ["c", "d"], 1: ["e", "f"]}

    def test_what_waits_is_counted(self, place: ObservedPlace, tmp_path: Path) -> None:
        """Nothing after a run, and then what has come since."""
        place.put(["a", "b"])
        place.run(tmp_path)
        assert _waiting(place.look(tmp_path)) == 0
        place.put(["c", "d", "e"])
        assert _waiting(place.look(tmp_path)) == 3

    def test_input_that_is_gone_is_found(self, place: ObservedPlace, tmp_path: Path) -> None:
        """A rebuild would miss it, and so is told; nothing is told while all is there."""
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path)
        assert place.missing(tmp_path) == ""
        place.lose(1)
        assert place.missing(tmp_path)


def _waiting(look: SourceLook) -> int | None:
    return look.lag_records if look.lag_files is None else look.lag_files


_NEW_ID = "6d2a5f52-3c0a-4a50-9c8e-0d3b6b5c1f12"
