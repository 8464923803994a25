"""Rules about sources. A checkpoint's offsets belong to sources by position: their number and order must not change,
unless every source is named."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from streamkeeper.compatibility.effects import NO_ACTION
from streamkeeper.compatibility.nested_fields import changed_fields, come_or_go_alone, fields_apart, uses_a_field
from streamkeeper.compatibility.rule import (
    AS_NEW_QUERY,
    NEW_CHECKPOINT,
    NEW_QUERY,
    NO_SWITCH,
    SPARK_GUIDE,
    Rule,
    all_resolved,
    breaking,
    note,
    source_column,
    state_texts,
    state_uses,
    with_risk,
)
from streamkeeper.compatibility.shown import change, given_change
from streamkeeper.compatibility.source_options import JSON_CONFS, only_drops_malformed, said_by, stays_out_of_state
from streamkeeper.compatibility.source_types import effect_of_type, is_wider_integer
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, Source, columns_of, is_stateful
from streamkeeper.sources.contract import OptionEffect, PlaceChange
from streamkeeper.sources.known_sources import effect_of_option, place_of, risk_of_option, source_of

_UNNAMED, _AS_BEFORE = "unnamed", "name all sources as before"


def source_count_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed number of sources. Spark rejects a number that differs from the offset log, unless all sources
    are named.
    """
    if len(old.sources) != len(new.sources) and not _all_named(old, new):
        evidence = change(_labels(old), _labels(new))
        yield breaking("source-count-changed", "sources", evidence, f"src_add; {SPARK_GUIDE}", NEW_QUERY)


def source_order_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report the same sources in another order. Each source would continue at the offset of another source."""
    if _reordered(old, new):
        evidence = change(_labels(old), _labels(new))
        hint = f"{NO_SWITCH}: put the sources back into the deployed order, or {AS_NEW_QUERY}"
        measured = "src_swap_same_rows, src_swap_uneven, kafka_swap"
        yield breaking("source-order-changed", "sources", evidence, measured, hint)


def named_sources_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report named sources that were added, removed or renamed. Named sources find their offsets by name, so their
    order does not matter.

    A source with a new name is read from its beginning.
    """
    if not _all_named(old, new):
        return
    before, after = [source.name or "" for source in old.sources], [source.name or "" for source in new.sources]
    removed, added = [name for name in before if name not in after], [name for name in after if name not in before]
    places = {place_of(source) for source in old.sources if source.name in removed}
    if any(place_of(source) in places for source in new.sources if source.name in added):
        hint = f"{NO_SWITCH}: restore the source's deployed name; under a new name it is read again from its beginning"
        yield breaking("source-renamed", "sources", change(removed, added, "name"), "source naming", hint)
        return
    if added:
        yield note("named-source-added", "sources", change(before, after), "name_add")
    if removed:
        yield note("named-source-removed", "sources", change(before, after), "name_add")
    if not removed and not added and before != after:
        yield note("named-sources-reordered", "sources", change(before, after), "name_add")


def source_name_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed names of sources, unless all sources are named in both manifests. Naming cannot be switched on or
    off for an existing offset log.
    """
    if _all_named(old, new) or len(old.sources) != len(new.sources):
        return
    before, after = ([source.name or _UNNAMED for source in manifest.sources] for manifest in (old, new))
    if before != after:
        named = sum(name != _UNNAMED for name in after)
        again = f"remove the name{'s' if named > 1 else ''} again" if set(before) == {_UNNAMED} else _AS_BEFORE
        hint = f"{NO_SWITCH}: {again}, or {AS_NEW_QUERY}"
        yield breaking("source-naming-changed", "sources", change(before, after, "names"), "source naming", hint)


def source_kind_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report another kind of source, which cannot use the stored offsets."""
    for where, before, after in _pairs(old, new):
        if before.kind != after.kind:
            evidence = change(before.kind, after.kind)
            yield breaking("source-kind-changed", where, evidence, "src_file_to_rate, kafka_file_to_kafka", NEW_QUERY)


def source_location_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report another location of a source. The offsets belong to the old location, so a new path is rejected or read
    from its beginning.
    """
    for where, before, after in _pairs(old, new):
        if before.kind == after.kind:
            yield from _place_changed(where, before, after)


def source_options_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed options that select files, order them, or determine how rows are parsed."""
    for where, before, after in _pairs(old, new):
        if before.kind != after.kind:
            continue
        had, has = said_by(before), said_by(after)
        for key in sorted(had.keys() | has.keys()):
            if had.get(key) != has.get(key):
                evidence, place = given_change(had.get(key), has.get(key)), f"{where}, option {key}"
                if stays_out_of_state(key, old, before, new, after):
                    yield note("source-reading-changed", place, evidence)
                elif only_drops_malformed(key, old, before, new, after):
                    hint = "to count malformed rows, read with PERMISSIVE and filter in the job (this needs a rebuild)"
                    yield note("malformed-rows-dropped", place, evidence, "src_failfast_to_drop", hint)
                else:
                    found = _option_changed(place, key, evidence, old, new, source=after, value=has.get(key))
                    yield with_risk(found, risk_of_option(after.kind, key, has[key]) if key in has else "")
        if had == has and before.options != after.options:
            yield note("source-option-spelled-out", where, change(_options(before), _options(after)))


def source_schema_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed columns of a source. If a column is read as another type, a value may become null without an
    error. Columns that do not reach the state may change freely.
    """
    for number, (where, before, after) in enumerate(_pairs(old, new)):
        if before.kind != after.kind or before.schema == after.schema:
            continue
        had, has = _columns(before), _columns(after)
        removed, added = [name for name in had if name not in has], [name for name in has if name not in had]
        kept = [name for name in has if name in had]
        if _by_position(after) and list(has)[: len(had)] != list(had):
            evidence = change(list(had), list(has), "order of columns")
            yield breaking(
                "source-columns-moved",
                where,
                evidence,
                hint=f"columns of this format are read by position: restore their order, or {NEW_CHECKPOINT}",
            )
        elif kept != [name for name in had if name in has]:
            yield note("source-columns-reordered", where, change(list(had), list(has), "order of columns"))
        if added:
            yield note("source-columns-added", where, change("", added, "column"), "src_schema_extended")
        if removed and not _by_position(after) and _kinds(had, removed) & _kinds(has, added):
            hint = f"columns are read by name: restore the column's deployed name, or {NEW_CHECKPOINT}"
            yield breaking("source-column-renamed", where, change(removed, added, "column"), hint=hint)
        elif removed:
            yield note("source-columns-removed", where, change(removed, "", "column"))
        for name in had:
            if name in has and had[name] != has[name]:
                column = source_column(number, before, name)
                fields = changed_fields(had[name], has[name])
                alone = come_or_go_alone(had[name], has[name])
                apart = all(_reads_fields_apart(*side, alone=alone) for side in ((old, before), (new, after)))
                if fields is not None and apart:
                    change_text = _fields_apart(name, had[name], has[name])
                    yield _fields_changed(where, change_text, fields, column, old, new)
                else:
                    used = state_uses(column, old, new)
                    sums = all_resolved(old, new) and all(_sums(text, column) for text in state_texts(old, new))
                    found = _retyped(where, name, had[name], has[name], used=used, told_by_sums=sums)
                    effect = effect_of_type(after, had[name], has[name])
                    if found.severity is not Severity.NOTE:
                        found = msgspec.structs.replace(found, effect=effect, unconditional=True)
                    yield found


def rate_limit_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed rate limit. It affects the size of later batches, and not which rows are read."""
    for where, before, after in _pairs(old, new):
        for key in sorted(before.limits.keys() | after.limits.keys()):
            if before.limits.get(key) != after.limits.get(key):
                evidence = given_change(before.limits.get(key), after.limits.get(key))
                effect = _OF_PARTITIONS if key in _PARTITIONS else ""
                yield note("rate-limit-changed", f"{where}, option {key}", evidence, "src_maxfiles", effect=effect)


RULES: tuple[Rule, ...] = (
    source_count_changed,
    source_order_changed,
    named_sources_changed,
    source_name_changed,
    source_kind_changed,
    source_location_changed,
    source_options_changed,
    source_schema_changed,
    rate_limit_changed,
)

_MOST_FIELDS = 3
_PARTITIONS = frozenset({"maxrecordsperpartition", "minpartitions", "numpartitions"})
_OF_PARTITIONS = "each batch would be read by another number of tasks; the same rows would be read"
_FIXED = (
    "every partition read so far would continue at its offset; a partition or topic that is added later would not be "
    "read, because the source now has a fixed list"
)
_BY_OTHER_MARKS = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.parquet.fieldId.read.enabled")
"""Settings with which Parquet fields are found by ids instead of names, or with which files with errors are skipped."""


def _place_changed(where: str, before: Source, after: Source) -> Iterator[Finding]:
    evidence = change(place_of(before), place_of(after), "location")
    match source_of(before.kind).place_change(before, after):
        case PlaceChange.NONE:
            return
        case PlaceChange.ADDRESS:
            hint = (
                "check that both addresses belong to the same cluster: in another one these offsets mean other records"
            )
            yield note("brokers-moved", where, change(before.location, after.location, "location"), hint=hint)
        case PlaceChange.RENAMED:
            yield note("topics-named-otherwise", where, evidence, "kafka_pattern")
        case PlaceChange.FIXED:
            hint = f"{NO_ACTION} if this list is complete, and stays so"
            yield note("topics-named-otherwise", where, evidence, "kafka_pattern", hint, _FIXED)
        case PlaceChange.CAUGHT_UP:
            hint = f"{NO_ACTION}: every file there that was not read yet is new enough to be read"
            yield note("source-location-changed", where, evidence, "src_glob_path_changed, src_path_to_parent", hint)
        case PlaceChange.WIDENED:
            yield note("topics-added", where, evidence, "kafka_topic_added, kafka_pattern")
        case PlaceChange.OTHER:
            measured = "src_path_changed, src_glob_path_changed_old_files, kafka_topic_replaced"
            yield breaking("source-location-changed", where, evidence, measured, NEW_QUERY)


def _option_changed(
    where: str, key: str, evidence: str, old: Manifest, new: Manifest, *, source: Source, value: str | None
) -> Finding:
    effect = source_of(source.kind).sentence_of(key, value, source.options.get("format", ""))
    match effect_of_option(source.kind, key):
        case OptionEffect.ORDER:
            if value == "true" and not is_stateful(old, new):
                return note("source-order-of-files-changed", where, evidence, "src_latestfirst_backlog")
            return breaking("source-order-of-files-changed", where, evidence)
        case OptionEffect.START:
            return note("source-start-changed", where, evidence, "kafka_starting_changed")
        case OptionEffect.UPKEEP:
            return note(
                "source-upkeep-changed", where, evidence, "kafka_groupid, kafka_topic_replaced_fdl", effect=effect
            )
        case OptionEffect.FINDING if source.catches_up:
            hint = f"{NO_ACTION}: all of these files are new enough to be read"
            return note("source-selection-changed", where, evidence, "src_path_to_parent", hint)
        case OptionEffect.FINDING | OptionEffect.ROWS:
            measured = "src_maxfileage_reduced, src_json_to_parquet_samedir"
            return breaking("source-selection-changed", where, evidence, measured, NEW_QUERY, effect)
    if is_stateful(old, new):
        return breaking("source-reading-changed", where, evidence)
    return note("source-reading-changed", where, evidence, hint=f"{NO_ACTION}: the query keeps no state")


def _retyped(where: str, name: str, before: str, after: str, *, used: bool, told_by_sums: bool) -> Finding:
    evidence = change(before, after, f"type of column {name}")
    widened = is_wider_integer(before, after)
    if widened or after == "string" or before == f"{after} not null":
        if not used:
            return note("source-column-widened", where, evidence, "src_schema_widened")
        if widened and told_by_sums:
            hint = f"{NO_ACTION}: the numbers are the same, and other rules compare what the state keeps of them"
            return note("source-column-widened", where, evidence, "src_schema_widened", hint)
    return breaking("source-column-type-changed", where, evidence, "src_schema_wrong_type")


def _sums(text: str, column: str) -> bool:
    """Whether an expression uses only a column's value, in a sum, an average, a count or a check for null, and not its
    type. A hash, in contrast, depends on the type.
    """
    rest = re.sub(rf"(?:sum|average|count|isnotnull)\({re.escape(column)}\)", "", text)
    return column not in rest


def _reads_fields_apart(manifest: Manifest, source: Source, *, alone: bool) -> bool:
    """Whether a field inside a column has the same value whatever other fields are requested.

    In JSON, fields are found by name, and a value that does not fit becomes null without affecting other fields. In
    Parquet, fields are also found by name, but a value that does not fit is an error. There the answer is True only if
    fields are just added or removed (``alone``), files with errors are not skipped, and fields are not found by ids. In
    Parquet, the requested fields of an array may decide whether a file has such an array at all.
    """
    if source.options.get("format") == "parquet":
        plain = all(manifest.confs.get(key, "false") == "false" for key in _BY_OTHER_MARKS)
        return alone and plain and "ignorecorruptfiles" not in source.options
    if any(conf in manifest.confs for conf in JSON_CONFS):
        return False
    options = {key.lower(): value for key, value in source.options.items()}
    permissive = options.get("mode", "PERMISSIVE").upper() == "PERMISSIVE"
    corrupt = options.get("columnnameofcorruptrecord", "_corrupt_record")
    return options.get("format") == "json" and permissive and corrupt not in _columns(source)


def _fields_changed(
    where: str, listed: str, fields: set[tuple[str, ...]], column: str, old: Manifest, new: Manifest
) -> Finding:
    """Return the finding about changed fields of a column. Fields from which no state is computed may be added, removed
    and changed.
    """
    if not all_resolved(old, new) or uses_a_field(state_texts(old, new), column, fields):
        return breaking("source-column-type-changed", where, listed, "src_schema_wrong_type")
    return note("source-fields-changed", where, listed)


def _fields_apart(name: str, before: str, after: str) -> str:
    """Evidence of the fields of a column that differ."""
    shown = []
    for path, had, has in fields_apart(before, after):
        field = f"field {'.'.join(path)} of column {name}"
        shown.append(change(had, has, field) if had != has else f"{field}: another type of {had}")
    rest = len(shown) - _MOST_FIELDS
    return "; ".join(shown[:_MOST_FIELDS]) + (f"; {rest} more field{'s' if rest > 1 else ''}" if rest > 0 else "")


def _pairs(old: Manifest, new: Manifest) -> Iterator[tuple[str, Source, Source]]:
    """Pairs of sources by name if all have one, else by position; none if their number or order differs."""
    if _all_named(old, new):
        after = {source.name: source for source in new.sources}
        for source in old.sources:
            if source.name in after:
                yield f"source {source.name} ({source.kind} {place_of(source)})", source, after[source.name]
        return
    if len(old.sources) != len(new.sources) or _reordered(old, new):
        return
    for number, (before, now) in enumerate(zip(old.sources, new.sources, strict=True)):
        yield f"source {number} ({before.kind} {place_of(before)})", before, now


def _all_named(*manifests: Manifest) -> bool:
    """Whether each source in both manifests has its own name."""
    names = [[source.name for source in manifest.sources] for manifest in manifests]
    return all(all(listed) and len(set(listed)) == len(listed) for listed in names)


def _reordered(old: Manifest, new: Manifest) -> bool:
    before, after = _labels(old), _labels(new)
    return not _all_named(old, new) and before != after and sorted(before) == sorted(after)


def _labels(manifest: Manifest) -> list[str]:
    return [
        f"{source.kind} {place_of(source)}" + (f" named {source.name}" if source.name else "")
        for source in manifest.sources
    ]


def _options(source: Source) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(source.options.items())]


def _kinds(columns: dict[str, str], names: list[str]) -> set[str]:
    return {columns[name] for name in names}


def _by_position(source: Source) -> bool:
    return source.options.get("format") == "csv"


def _columns(source: Source) -> dict[str, str]:
    """Name -> type of each column of its schema."""
    return dict(columns_of(source.schema))
