"""Which changed reader options affect which columns, and so the state."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamkeeper.compatibility.rule import source_column, state_uses
from streamkeeper.model.manifests.manifest import Manifest, Source, columns_of
from streamkeeper.sources.file_options import FOR_TYPES, FOR_VALUES
from streamkeeper.sources.known_sources import source_of

_CORRUPT = "_corrupt_record"
JSON_CONFS = ("spark.sql.json.enablePartialResults", "spark.sql.columnNameOfCorruptRecord")
"""Settings, recorded if not default, that change how malformed JSON is read."""


def said_by(source: Source) -> dict[str, str]:
    """Return a source's options under their main names, without options that only repeat a default."""
    return source_of(source.kind).given_options(source)


def says_of_values(
    before: Source, after: Source, canonical: str, number: int
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the name, the old value and the new value of each changed option that affects a column in the expression
    ``canonical``. A value is None if the option is not set or only repeats a default.

    ``number``: the source's position.
    """
    had, has = said_by(before), said_by(after)
    for key in sorted(had.keys() | has.keys()):
        if had.get(key) == has.get(key) or key not in FOR_TYPES.keys() | FOR_VALUES:
            continue
        every = [name for source in (before, after) for name, _ in columns_of(source.schema)]
        names = _columns(key, before, after) if key in FOR_TYPES else every
        places = (re.escape(source_column(number, after, name)) for name in names)
        if any(re.search(rf"{place}(?!\w)", canonical) for place in places):
            yield key, had.get(key), has.get(key)


def stays_out_of_state(key: str, old: Manifest, before: Source, new: Manifest, after: Source) -> bool:
    """Whether the option ``key``, which affects only columns of certain types, cannot affect the state.

    This holds if no column has such a type. It also holds if no state is computed from such a column and, in both
    manifests, an unreadable value cannot affect the row's other columns. The latter requires that the format is JSON or
    CSV, the mode is PERMISSIVE, partial results are on, and there is no column for malformed rows.

    False for any option that is not limited to certain types.
    """
    names = _columns(key, before, after)
    if key not in FOR_TYPES or not names:
        return key in FOR_TYPES
    alone = all(
        source.options.get("format") in ("csv", "json")
        and "mode" not in said_by(source)
        and "columnnameofcorruptrecord" not in source.options
        and _CORRUPT not in source.schema
        and not any(conf in manifest.confs for conf in JSON_CONFS)
        for manifest, source in ((old, before), (new, after))
    )
    places = ((old.sources.index(before), before), (new.sources.index(after), after))
    return alone and not any(state_uses(source_column(*place, name), old, new) for place in places for name in names)


def only_drops_malformed(key: str, old: Manifest, before: Source, new: Manifest, after: Source) -> bool:
    """Whether the only change is from FAILFAST to DROPMALFORMED over the same columns, in CSV or JSON.

    The same rows are malformed in both modes. All rows in the state have passed FAILFAST, so DROPMALFORMED would have
    read the same rows. The plan must be the same, because the columns that are read decide which rows are malformed.
    """
    had, has = said_by(before), said_by(after)
    modes = had.pop("mode", "").upper(), has.pop("mode", "").upper()
    return (
        key == "mode"
        and modes == ("FAILFAST", "DROPMALFORMED")
        and after.options.get("format") in ("csv", "json")
        and had == has
        and before.schema == after.schema
        and old.operators == new.operators
        and old.plan == new.plan
    )


def _columns(key: str, *sources: Source) -> set[str]:
    """Names of the columns that the option affects."""
    kinds = FOR_TYPES.get(key)
    columns = [column for source in sources for column in columns_of(source.schema)]
    return {name for name, kind in columns if kinds is not None and kinds.search(kind)}
