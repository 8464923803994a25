"""The contract of a kind of source: the facts that the check, checkpoints, operations and drivers use. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from streamkeeper.model.manifests.manifest import Source
from streamkeeper.sources.source_errors import SourceErrors

NO_OFFSET = "-"
"""The offset of a source without an offset yet."""

_WITHOUT_CASE = frozenset({"true", "false", "PERMISSIVE", "STOP_AT_DELIMITER", "off"})
"""Defaults that Spark recognises in upper and lower case."""


class SourcePromise(msgspec.Struct, frozen=True, kw_only=True):
    """The guarantee of a kind of source. ``replays``: rereading the same offsets returns the same rows.
    ``holds_until``: the event after which this guarantee no longer holds.
    """

    kind: str
    replays: bool
    holds_until: str


class OptionEffect(Enum):
    """What a changed option of a source affects."""

    ORDER = "order"
    """The order in which waiting input is read."""
    START = "start"
    """Where a query without a checkpoint starts."""
    UPKEEP = "upkeep"
    """How input is fetched and kept."""
    FINDING = "finding"
    """Which items at the source's place are found."""
    ROWS = "rows"
    """Which rows are read, or how input is divided into rows and fields."""
    VALUES = "values"
    """How values are parsed. An option that no kind of source declares counts as such an option."""


class PlaceChange(Enum):
    """What the change of a source's place means for the offsets of a checkpoint."""

    NONE = "none"
    """The place is the same."""
    ADDRESS = "address"
    """The same place, at another address of its servers."""
    RENAMED = "renamed"
    """Everything read so far is verified to be still read, though it is selected by other names."""
    FIXED = "fixed"
    """As RENAMED, but selected by a list of parts: a part that is added later is not read."""
    CAUGHT_UP = "caught-up"
    """Everything at the new place that was not read yet is verified to be read."""
    WIDENED = "widened"
    """Everything read so far is certainly still read, and further input is read in addition."""
    OTHER = "other"
    """No evidence shows that offsets of the old place are valid at the new place."""


class Gap(msgspec.Struct, frozen=True):
    """A range of input that a query needs and that a source no longer has, such as records of one partition."""

    sentence: str
    """The missing input, as a phrase for a sentence."""
    dropped: bool = False
    """Whether the oldest input was dropped, as retention does."""
    passed_over: bool = False
    """Whether Spark skips this input without any message."""
    again: bool = False
    """Whether the place was deleted and created anew, so that Spark would continue at the old offset of the
    new place.
    """


class SourceLook(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a source, requested between two batches. A field that is None has an unknown value."""

    lag_records: int | None = None
    """Unread records."""
    lag_files: int | None = None
    """Unread files."""
    waited_s: float | None = None
    """Seconds that the oldest unread item has waited."""
    too_old_files: int | None = None
    """Files that Spark never reads because of their age."""
    too_old_example: str = ""
    """The name of one of those files."""
    runway_s: float | None = None
    """Seconds until the source drops unread data."""


class SourceReach(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of one source between an old and a new checkpoint."""

    source: str
    """The source's name or position in the old checkpoint."""
    unit: str
    """The unit of the counts, such as files, or records, counted by offsets from the start of the new checkpoint."""
    missing: int
    """How much of the old checkpoint's input the new checkpoint has not read."""
    ahead: int
    """How much the new checkpoint has read beyond the old one."""
    total: int
    """How much the old checkpoint has read."""
    text: str
    """The comparison in one line."""


class SourcePosition(msgspec.Struct, frozen=True):
    """How far a source has been read. Each kind of source has its own class of positions; ``NothingRead`` is common to
    all kinds.
    """

    @property
    def form(self) -> str:
        """The form of the position, for a person."""
        raise NotImplementedError

    @property
    def is_nothing(self) -> bool:
        """Whether nothing has been read."""
        return False

    @property
    def places(self) -> frozenset[str]:
        """The names of the places, such as topics, in which this position has a part."""
        return frozenset()

    @property
    def listed(self) -> frozenset[str]:
        """The items that were read, if the checkpoint lists them."""
        return frozenset()

    def beginning(self) -> SourcePosition | None:
        """Return the position of a source of this kind that has read nothing; None if there is no such position."""
        return None

    def is_same(self, other: SourcePosition) -> bool:
        """Whether a source at this position has read the same as one at the other position."""
        return self == other

    def compare(self, source: str, new: SourcePosition) -> SourceReach | None:
        """Compare this position of an old checkpoint with the position of a new one; None if that is not possible.

        ``source``: the source's name; ``new``: a position of the same class.
        """
        return None

    def before(self, end: SourcePosition) -> SourcePosition:
        """Return the part of this position from which a batch that reads up to ``end`` reads input."""
        return NothingRead()


class NothingRead(SourcePosition, frozen=True, tag="nothing"):
    """The position of a source that has no offset yet."""

    @property
    def form(self) -> str:
        """The same text for every kind of source."""
        return "not read yet"

    @property
    def is_nothing(self) -> bool:
        """Always True."""
        return True

    def beginning(self) -> SourcePosition | None:
        """Return the same position."""
        return self

    def compare(self, source: str, new: SourcePosition) -> SourceReach | None:
        """Return a comparison in which nothing is missing."""
        return SourceReach(
            source=source, unit="files", missing=0, ahead=0, total=0, text=f"source {source}: 0 of 0 files"
        )


class ReadOther(SourcePosition, frozen=True, tag="other"):
    """The offset of another kind of source, as Spark wrote it."""

    offset: str

    @property
    def form(self) -> str:
        """The offset."""
        return f"at {self.offset}"

    def compare(self, source: str, new: SourcePosition) -> SourceReach | None:
        """Compare the offsets; None unless they are equal."""
        if self != new:
            return None
        return SourceReach(source=source, unit="offsets", missing=0, ahead=0, total=1, text=f"source {source}: equal")


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceKind:
    """One kind of source. The defaults are those of a kind that is not declared.

    The names of options are in lower case in every argument and in every field.
    """

    name: str
    """The kind, as a manifest names it."""
    formats: frozenset[str] = frozenset()
    """Spark's names of formats that are this kind, if they differ from its name."""
    promise: SourcePromise | None = None
    """Its guarantee; None for a source that is refused."""
    refusal: str = "no guarantee about rereading a batch is implemented for it"
    """Why it has no guarantee; without effect if it has one."""
    of_spark: bool = False
    """Whether its reader belongs to Spark, so that the settings that affect the reader are known."""
    connectors: str = ""
    """The folder of the jars that its reader needs, below the folder of all connectors; empty if it needs none."""
    connectors_hint: str = ""
    """The remedy if these jars are missing."""
    place_options: frozenset[str] = frozenset()
    """The options that name its place. They are not among the options of a manifest."""
    limits: frozenset[str] = frozenset()
    """The options that limit how fast it is read, and do not affect what is read."""
    option_effects: Mapping[str, OptionEffect] = field(default_factory=dict)
    """Option -> what it affects."""
    option_sentences: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    """Option -> a sentence about the effect of its change on new rows, or a mapping from its new value (in lower case)
    to such a sentence.
    """
    option_risks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Option -> its only safe value, in lower case, and how every other value affects rows."""
    clone_options: Mapping[str, str] = field(default_factory=dict)
    """The options with which a clone of a query reads it without side effects, as a reader takes them."""
    clone_confs: Mapping[str, str] = field(default_factory=dict)
    """The confs with which a clone of a query reads it without side effects."""
    lists_input: bool = False
    """Whether a checkpoint lists each item that was read, such as a file, instead of positions in a sequence."""
    has_identities: bool = False
    """Whether its servers report an identity for each place. A place that was deleted and created anew under the same
    name has a different one.
    """

    errors: SourceErrors = field(default_factory=SourceErrors)
    """How errors of its client and of its reader are recognised."""
    lag_metric: str = ""
    """Spark's metric of the items that a source had beyond a batch; empty without such a metric."""

    def effect_of(self, option: str) -> OptionEffect | None:
        """Return what a change of this option affects; None for an option that this kind does not have."""
        return self.option_effects.get(option)

    def sentence_of(self, option: str, value: str | None, form: str) -> str:
        """Return the effect of a changed option on new rows; empty if only the general effect of the option is known.

        ``value``: the new value; None if the option is not set any more. ``form``: the format of its content.
        """
        found = self.option_sentences.get(option, "")
        new = self.defaults(form).get(option, "") if value is None else value
        return found if isinstance(found, str) else found.get(new.lower(), "")

    def defaults(self, form: str) -> Mapping[str, str]:
        """Return option -> its default in Spark, if the default is constant. ``form``: the format of its content."""
        return {}

    def main_names(self, form: str) -> Mapping[str, str]:
        """Return a mapping from the second name of an option to the name that takes precedence if both are given."""
        return {}

    def given_options(self, source: Source) -> dict[str, str]:
        """Return a source's options under their main names, without options that only repeat a default."""
        form = source.options.get("format", "")
        main, defaults = self.main_names(form), self.defaults(form)
        options = {main[key]: value for key, value in source.options.items() if key in main}
        options |= {key: value for key, value in source.options.items() if key not in main}
        return {key: value for key, value in options.items() if not _is(value, defaults.get(key))}

    def location(self, options: Mapping[str, str]) -> str:
        """Return the location of a source from all options of its reader: the path, without a scheme if it is local."""
        path = options.get("path", "")
        scheme, separator, rest = path.partition(":")
        if separator and scheme == "file":
            path = "/" + rest.lstrip("/")
        return path.rstrip("/") or path

    def place(self, source: Source) -> str:
        """Return the location of a source without the part that may change, such as the addresses of servers."""
        return source.location

    def place_change(self, before: Source, after: Source) -> PlaceChange:
        """Compare the places of two sources of this kind."""
        if self.place(before) == self.place(after):
            return PlaceChange.NONE if before.location == after.location else PlaceChange.ADDRESS
        return PlaceChange.CAUGHT_UP if after.catches_up else PlaceChange.OTHER

    def asks_the_checkpoint(self, before: Source, after: Source) -> bool:
        """Whether the checkpoint is needed to decide if a source of this kind misses input after a change of its place.

        The answer of the checkpoint is recorded in ``Source.catches_up``.
        """
        return False

    def shares_items(self, one: Source, other: Source) -> bool:
        """Whether two sources of this kind may read the same items, which one of them could delete."""
        return False

    def cleaner(self, source: Source) -> str:
        """Return what a source does with items that it has read: ``delete`` or ``archive``; empty if it keeps them."""
        return ""

    def fails_on_loss(self, source: Source) -> bool:
        """Whether the reader itself fails if the next input is missing, so that missing input cannot go unnoticed."""
        return False

    def has_offset(self, offset: str) -> bool:
        """Whether an offset in a checkpoint, as Spark writes it, has the form of this kind."""
        return False

    def offset_line(self, offset: str) -> str | None:
        """Return an offset of this kind as one line, with which a source can be started; None if that is impossible."""
        return None

    def position(self, offset: str, start: str | None) -> SourcePosition:
        """Return the position of an offset of this kind. ``start``: where the source started, if that is recorded."""
        return ReadOther(offset)

    def position_key(self, offset: str) -> str:
        """Return a text that equal positions share, for an offset of this kind."""
        return offset

    def start_in(self, content: bytes) -> str | None:
        """Decode where a source started, as one line; None for another kind of source.

        ``content``: the content of ``sources/<position or name>/0``. Spark prefers these offsets to the options of the
        reader, and reads them only while no batch is planned.
        """
        return None

    def start_content(self, offset: str) -> bytes:
        """Encode the start of a source at ``offset``, an ``offset_line``."""
        raise NotImplementedError

    def reads_on(self, position: SourcePosition, place: str) -> bool:
        """Whether a source at ``place`` certainly still reads everything that ``position`` covers in part."""
        return False

    def lag(self, end: bytes, newest: bytes) -> int | None:
        """Return how many items a source had beyond a batch, from two offsets in Spark's progress; None if unknown.

        ``end``: the end of the batch; ``newest``: the end of the source when the batch was planned.
        """
        return None

    def describe_input(self, start: str | None, end: str) -> str:
        """Describe the input of a batch, such as ``events/0 from offset 5 to 9``; empty if that is not possible.

        ``start`` and ``end``: the offsets before and after the batch.
        """
        return ""


def count(number: int, unit: str) -> str:
    """Return a number with its unit in the singular or plural."""
    return f"{number:,} {unit.removesuffix('s') if number == 1 else unit}"


def recreated(offsets_of: Mapping[str, str], ids: Mapping[str, str]) -> list[str]:
    """Return the names of places, such as Kafka topics, that were deleted and then created anew.

    ``offsets_of``: name -> id of the place to which a checkpoint's offsets belong; ``ids``: name -> its id now. A name
    without an id is left out.
    """
    return [name for name, identity in sorted(offsets_of.items()) if ids.get(name, identity) != identity]


def _is(value: str, default: str | None) -> bool:
    if default in _WITHOUT_CASE:
        return value.lower() == default.lower()
    return value == default
