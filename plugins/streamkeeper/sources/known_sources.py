"""All kinds of sources. A source without a guarantee is refused before any driver starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamkeeper.errors import Unsupported
from streamkeeper.model.manifests.manifest import Manifest, Source
from streamkeeper.model.secret_names import is_secret
from streamkeeper.sources.contract import (
    NO_OFFSET,
    NothingRead,
    OptionEffect,
    ReadOther,
    SourceKind,
    SourcePosition,
    SourcePromise,
    SourceReach,
)
from streamkeeper.sources.files import FILES
from streamkeeper.sources.kafka import KAFKA
from streamkeeper.sources.source_errors import SourceErrors

REPLAYED: tuple[SourceKind, ...] = (FILES, KAFKA)
"""The kinds with a guarantee."""

SOURCE_ERRORS: tuple[SourceErrors, ...] = tuple(kind.errors for kind in REPLAYED)
"""How errors of these kinds are recognised."""

LOST_CONDITIONS = tuple(condition for errors in SOURCE_ERRORS for condition in errors.lost_conditions)
"""Beginnings of Spark's error conditions for input that a source no longer has."""

READ_FROM = "read from files or Kafka"
"""The remedy for a source without a guarantee."""

_GENERATES = frozenset({"numpartitions", "rampuptime", "rowsperbatch", "rowspersecond"})

_REFUSED = (
    SourceKind(
        name="rate",
        refusal="it generates rows from the clock, so a replayed batch has other rows",
        of_spark=True,
        limits=_GENERATES,
    ),
    SourceKind(
        name="rate-micro-batch",
        refusal="it generates its rows instead of reading them",
        of_spark=True,
        limits=_GENERATES,
    ),
    SourceKind(
        name="socket",
        refusal="it does not keep the data it has sent, so a batch cannot be replayed",
        of_spark=True,
    ),
    SourceKind(name="memory", refusal="its rows are lost with the process"),
)

_KINDS = {name: kind for kind in (*REPLAYED, *_REFUSED) for name in (kind.name, *kind.formats)}
_ANY_LIMITS = frozenset({"maxrowspertrigger"}).union(*(kind.limits for kind in _KINDS.values()))
_ANY_PLACES = frozenset[str]().union(*(kind.place_options for kind in REPLAYED))


def source_of(kind: str) -> SourceKind:
    """Return a kind of source by its name in a manifest, or by the name of a format.

    For a kind that is not declared, the result contains nothing but the name.
    """
    return _KINDS.get(kind) or SourceKind(name=kind)


def promise_of(kind: str) -> SourcePromise:
    """Return the guarantee for a source kind as a manifest names it; raises Unsupported with the reason."""
    found = source_of(kind)
    if found.promise is None:
        raise Unsupported(f"source {kind!r} is not supported: {found.refusal}", hint=READ_FROM)
    return found.promise


def check_sources(manifests: Iterable[Manifest]) -> None:
    """Raise Unsupported if a query has no source, or a source without a guarantee. The error names the query."""
    for manifest in manifests:
        if not manifest.sources:
            raise Unsupported(f"no streaming source was found in query {manifest.query}", hint=READ_FROM)
        for source in manifest.sources:
            try:
                promise_of(source.kind)
            except Unsupported as error:
                raise Unsupported(f"query {manifest.query}: {error.message}", hint=error.hint) from error


def reasons_against(manifest: Manifest) -> dict[str, str]:
    """Return the unsupported kinds of source of a query, each with the reason why it has no guarantee."""
    found = {}
    for source in manifest.sources:
        try:
            promise_of(source.kind)
        except Unsupported as error:
            found[source.kind] = error.message
    return found


def describe_source(name: str, options: Mapping[str, str], schema: str, declared: str | None) -> Source:
    """Return a source from its format and options. Its ``options`` contain no locations, limits or secrets.

    ``name``: the name or class of the format.
    ``schema``: the columns, one per line.
    ``declared``: the name of a named source; None otherwise.
    """
    lowered = {key.lower(): value for key, value in options.items() if value or key.lower() not in _ANY_PLACES}
    form = name.rpartition(".")[2].lower() if name.startswith("org.apache.spark.") else name.lower()
    kind = source_of(form)
    if form in kind.formats:
        lowered["format"] = form
    limits = {key: value for key, value in lowered.items() if key in _ANY_LIMITS}
    rest = {key: value for key, value in lowered.items() if key not in _ANY_LIMITS | _ANY_PLACES and not is_secret(key)}
    return Source(
        kind=kind.name, location=kind.location(lowered), options=rest, limits=limits, schema=schema, name=declared
    )


def cleaner_of(source: Source) -> str:
    """Return what a source does with items that it has read: ``delete`` or ``archive``; empty if it keeps them."""
    return source_of(source.kind).cleaner(source)


def place_of(source: Source) -> str:
    """Return the location of a source without the part that may change, such as the addresses of servers."""
    return source_of(source.kind).place(source)


def share_items(one: Source, other: Source) -> bool:
    """Whether two sources may read the same items, which one of them could delete."""
    return one.kind == other.kind and source_of(one.kind).shares_items(one, other)


def asks_the_checkpoint(before: Source, after: Source) -> bool:
    """Whether the checkpoint is needed to decide if the query misses input after a change of the source's place."""
    return before.kind == after.kind and source_of(after.kind).asks_the_checkpoint(before, after)


def effect_of_option(kind: str, option: str) -> OptionEffect:
    """Return what a changed option of a source affects.

    A reader ignores the options of other kinds. Such an option counts as it does for the kind that has the option.
    """
    for each in (source_of(kind), *REPLAYED):
        if effect := each.effect_of(option):
            return effect
    return OptionEffect.VALUES


def risk_of_option(kind: str, option: str, value: str) -> str:
    """Return how an unsafe value of a source's option affects rows; empty for a safe value."""
    safe, effect = source_of(kind).option_risks.get(option.lower(), ("", ""))
    return "" if value.strip().lower() == safe else effect


def clone_options() -> dict[str, str]:
    """Return the options for every source of a clone, of whatever kind: a reader ignores options of other kinds."""
    return {key: value for kind in REPLAYED for key, value in kind.clone_options.items()}


def clone_confs() -> dict[str, str]:
    """Return the confs for a clone, whatever its sources are."""
    return {key: value for kind in REPLAYED for key, value in kind.clone_confs.items()}


def connectors_hint(error: str) -> str:
    """Return the remedy if Spark's error means that the reader of a source is missing; empty for other errors."""
    missing = (kind for kind in REPLAYED if f"Failed to find data source: {kind.name}" in error)
    return next((kind.connectors_hint for kind in missing), "")


def connector_folders() -> tuple[str, ...]:
    """Return the folders of the jars that the readers of sources need, below the folder of all connectors."""
    return tuple(kind.connectors for kind in REPLAYED if kind.connectors)


def kind_of_offset(offset: str) -> SourceKind | None:
    """Return the kind of source that writes offsets of this form into a checkpoint. Return None for a missing offset,
    or for an offset of a kind that is not declared.
    """
    return next((kind for kind in REPLAYED if kind.has_offset(offset)), None)


def offset_line(offset: str) -> str | None:
    """Return an offset as one line, with which a source can be started; None if that is not possible."""
    kind = kind_of_offset(offset)
    return kind.offset_line(offset) if kind is not None else None


def position_of(offset: str, start: str | None = None) -> SourcePosition:
    """Return the position that an offset determines without the checkpoint.

    ``start``: where the source started, as one line; None if that is not recorded.
    """
    kind = kind_of_offset(offset)
    if kind is None:
        return NothingRead() if offset == NO_OFFSET else ReadOther(offset)
    return kind.position(offset, start)


def position_key(offset: str) -> str:
    """Return a text that is the same for offsets that determine equal positions without the checkpoint."""
    kind = kind_of_offset(offset)
    return kind.position_key(offset) if kind is not None else offset


def start_in(content: bytes) -> str | None:
    """Return where a source started, as one line; None if its folder in the checkpoint does not record it.

    ``content``: the content of ``sources/<position or name>/0``.
    """
    return next((start for kind in REPLAYED if (start := kind.start_in(content)) is not None), None)


def start_content(offset: str) -> bytes | None:
    """Encode the start of a source at ``offset``, for its folder in a checkpoint; None if that is not possible."""
    kind = kind_of_offset(offset)
    line = kind.offset_line(offset) if kind is not None else None
    return kind.start_content(line) if kind is not None and line is not None else None


def describe_input(start: str | None, end: str | None) -> str:
    """Describe the input of a batch between two offsets, such as ``events/0 from offset 5 to 9``; empty if unknown."""
    kind = kind_of_offset(end) if end is not None else None
    return kind.describe_input(start, end) if kind is not None and end is not None else ""


def compare_positions(source: str, old: SourcePosition, new: SourcePosition) -> SourceReach | None:
    """Compare two positions of one source; None if they cannot be compared."""
    was = new.beginning() if isinstance(old, NothingRead) else old
    now = old.beginning() if isinstance(new, NothingRead) else new
    if was is None or now is None or type(was) is not type(now):
        return None
    return was.compare(source, now)


def lag_of(end: bytes, newest: bytes) -> int | None:
    """Return how many items a source had beyond a batch, from two offsets in Spark's progress; None if unknown.

    ``end``: the end of the batch; ``newest``: the end of the source when the batch was planned.
    """
    return next((lag for kind in REPLAYED if (lag := kind.lag(end, newest)) is not None), None)


def reported_lag(metrics: Mapping[str, str]) -> float | None:
    """Return how many items a source had beyond a batch, from the source's own metrics; None if they do not
    report it.
    """
    lags = (float(metrics[kind.lag_metric]) for kind in REPLAYED if kind.lag_metric in metrics)
    return next(lags, None)
