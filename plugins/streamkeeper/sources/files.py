"""Files in a directory, in one of Spark's formats of files. A place is a path or a pattern of paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamkeeper.model.manifest import Source
from streamkeeper.model.row_risks import CORRUPT_FILES, MISSING_FILES
from streamkeeper.sources.contract import OptionEffect, SourceKind, SourcePromise
from streamkeeper.sources.file_options import DEFAULTS, FILES_DEFAULTS, SECOND_NAMES, STREAM

_OWN_WAY_OF_LISTING = frozenset({"maxfileage", "latestfirst", "filenameonly"})
"""Options that change which files a source counts as read, or as too old."""
_ROWS = frozenset(
    {"filenameonly", "format", "header", "maxfileage", "modifiedafter", "modifiedbefore"}
    | {"charset", "delimiter", "encoding", "escape", "linesep", "multiline", "quote", "sep"}
)
"""Options that select files or rows, and delimiters of rows and fields: with other values existing files are read as
other rows or as nulls.
"""

CLONE_OPTIONS = {"cleanSource": "off"}
"""Without them a cleaner could remove or move files that the clone has committed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Files(SourceKind):
    """Files that appear in a directory."""

    def defaults(self, form: str) -> Mapping[str, str]:
        """Those of every stream of files, and those of the format."""
        return STREAM | FILES_DEFAULTS | DEFAULTS.get(form, {})

    def main_names(self, form: str) -> Mapping[str, str]:
        """The second names of a format's options."""
        return SECOND_NAMES.get(form, {})

    def asks_the_checkpoint(self, before: Source, after: Source) -> bool:
        """Whether another path could be read without a miss: each unread file there must be new enough to be read."""
        return before.location != after.location and not _OWN_WAY_OF_LISTING & after.options.keys()

    def shares_items(self, one: Source, other: Source) -> bool:
        """Whether one directory equals or contains the other; patterns are compared as text."""
        first, second = f"{one.location.rstrip('/')}/", f"{other.location.rstrip('/')}/"
        return first.startswith(second) or second.startswith(first)

    def cleaner(self, source: Source) -> str:
        """The value of ``cleanSource``."""
        chosen = source.options.get("cleansource", "").lower()
        return "" if chosen == "off" else chosen


FILES = Files(
    name="file",
    formats=frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"}),
    promise=SourcePromise(kind="file", replays=True, holds_until="the input files are deleted or changed"),
    of_spark=True,
    place_options=frozenset({"path", "paths"}),
    limits=frozenset({"discardcachedinputratio", "maxbytespertrigger", "maxcachedfiles", "maxfilespertrigger"}),
    option_effects={
        **dict.fromkeys(_ROWS, OptionEffect.ROWS),
        "cleansource": OptionEffect.UPKEEP,
        "sourcearchivedir": OptionEffect.UPKEEP,
        "latestfirst": OptionEffect.ORDER,
        "pathglobfilter": OptionEffect.FINDING,
        "recursivefilelookup": OptionEffect.FINDING,
    },
    option_risks={
        "ignoremissingfiles": ("false", MISSING_FILES),
        "ignorecorruptfiles": ("false", CORRUPT_FILES),
        "filenameonly": (
            "false",
            "a file whose name was already read in another folder is skipped, and its rows are lost without an error",
        ),
    },
    clone_options=CLONE_OPTIONS,
    lists_input=True,
)
