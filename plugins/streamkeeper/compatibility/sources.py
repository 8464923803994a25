"""Rules about sources. A checkpoint's offsets belong to sources by position: their number and order must not move."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.rule import NEW_CHECKPOINT, SPARK_GUIDE, Rule, change, is_stateful
from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import Manifest, Source


def source_count_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Spark refuses another number of sources than the offset log has, unless every source is named."""
    if len(old.sources) != len(new.sources):
        yield Finding(
            rule="source-count-changed",
            severity=Severity.BREAKING,
            where="sources",
            evidence=change([_label(each) for each in old.sources], [_label(each) for each in new.sources]),
            hint=NEW_CHECKPOINT,
            reference=f"{SPARK_GUIDE}; measured: src_add",
        )


def source_order_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The same sources in another order would each go on at another's offset."""
    if _reordered(old, new):
        yield Finding(
            rule="source-order-changed",
            severity=Severity.BREAKING,
            where="sources",
            evidence=change([_label(each) for each in old.sources], [_label(each) for each in new.sources]),
            hint="put the sources back into the deployed order, or switch to a new checkpoint version",
            reference="measured: src_swap_same_rows, src_swap_uneven, kafka_swap",
        )


def source_kind_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Offsets of one kind of source mean nothing to another."""
    for where, before, after in _pairs(old, new):
        if before.kind != after.kind:
            yield Finding(
                rule="source-kind-changed",
                severity=Severity.BREAKING,
                where=where,
                evidence=change(before.kind, after.kind),
                hint=NEW_CHECKPOINT,
                reference="measured: src_file_to_rate, kafka_file_to_kafka",
            )


def source_location_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The offsets were reached in another place: another path is refused or read from its beginning."""
    for where, before, after in _pairs(old, new):
        if before.kind == after.kind and _place(before) != _place(after):
            yield Finding(
                rule="source-location-changed",
                severity=Severity.BREAKING,
                where=where,
                evidence=change(_place(before), _place(after)),
                hint=NEW_CHECKPOINT,
                reference="measured: src_path_changed, src_glob_path_changed_old_files, kafka_topic_replaced",
            )


def brokers_moved(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The same topics at another address of the same cluster keep their offsets."""
    for where, before, after in _pairs(old, new):
        if before.kind == after.kind and _place(before) == _place(after) and before.location != after.location:
            yield Finding(
                rule="brokers-moved",
                severity=Severity.NOTE,
                where=where,
                evidence=change(before.location, after.location),
                hint="offsets are kept: the addresses must belong to the same cluster",
            )


def source_options_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """An option other than a rate limit can change which rows are read, or how."""
    for where, before, after in _pairs(old, new):
        if before.kind != after.kind:
            continue
        for key in sorted(before.options.keys() | after.options.keys()):
            if before.options.get(key) != after.options.get(key):
                yield Finding(
                    rule="source-option-changed",
                    severity=Severity.BREAKING,
                    where=f"{where}, option {key}",
                    evidence=change(before.options.get(key), after.options.get(key)),
                    hint=NEW_CHECKPOINT,
                    reference="measured: src_maxfileage_reduced, src_json_to_parquet_samedir",
                )


def source_schema_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """A column read as another type becomes null in silence; one more column is safe where no state is kept."""
    for where, before, after in _pairs(old, new):
        if before.schema == after.schema:
            continue
        had, has = before.schema.splitlines(), after.schema.splitlines()
        added = [each for each in has if each not in had]
        only_added = [each for each in has if each in had] == had
        if only_added and not is_stateful(old, new):
            yield Finding(
                rule="source-columns-added",
                severity=Severity.NOTE,
                where=where,
                evidence=change("", added),
                hint="rows that were read before are not read again",
                reference="measured: src_schema_extended",
            )
            continue
        yield Finding(
            rule="source-schema-changed",
            severity=Severity.BREAKING,
            where=where,
            evidence=change([each for each in had if each not in has], added),
            hint=NEW_CHECKPOINT,
            reference="measured: src_schema_wrong_type",
        )


def source_name_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """A renamed source is a new one: it is read again from its beginning."""
    for where, before, after in _pairs(old, new):
        if before.name != after.name:
            yield Finding(
                rule="source-name-changed",
                severity=Severity.BREAKING,
                where=where,
                evidence=change(before.name, after.name),
                hint="give the source its deployed name back, or switch to a new checkpoint version",
                reference="measured: source naming",
            )


def rate_limit_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """How much is read at once changes the batches to come, never which rows are read."""
    for where, before, after in _pairs(old, new):
        for key in sorted(before.limits.keys() | after.limits.keys()):
            if before.limits.get(key) != after.limits.get(key):
                yield Finding(
                    rule="rate-limit-changed",
                    severity=Severity.NOTE,
                    where=f"{where}, option {key}",
                    evidence=change(before.limits.get(key), after.limits.get(key)),
                    hint="holds from the next planned batch on",
                    reference="measured: src_maxfiles",
                )


RULES: tuple[Rule, ...] = (
    source_count_changed,
    source_order_changed,
    source_kind_changed,
    source_location_changed,
    brokers_moved,
    source_options_changed,
    source_schema_changed,
    source_name_changed,
    rate_limit_changed,
)


def _pairs(old: Manifest, new: Manifest) -> Iterator[tuple[str, Source, Source]]:
    """Sources by position, as Spark pairs them; none where a rule about all of them already says why they differ."""
    if len(old.sources) != len(new.sources) or _reordered(old, new):
        return
    for number, (before, after) in enumerate(zip(old.sources, new.sources, strict=True)):
        yield f"source {number} ({before.kind} {_place(before)})", before, after


def _reordered(old: Manifest, new: Manifest) -> bool:
    before, after = [_label(each) for each in old.sources], [_label(each) for each in new.sources]
    return before != after and sorted(before) == sorted(after)


def _label(source: Source) -> str:
    return f"{source.kind} {_place(source)}" + (f" named {source.name}" if source.name else "")


def _place(source: Source) -> str:
    """The location without what may move: for topics, the brokers' addresses."""
    topics, separator, _ = source.location.rpartition("@")
    return topics if source.kind == "kafka" and separator else source.location
