"""Files in a directory, in one of Spark's formats of files. A place is a path or a pattern of paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from streamkeeper.model.coding import json_object
from streamkeeper.model.manifests.manifest import Source
from streamkeeper.model.settings.row_risks import CORRUPT_FILES, MISSING_FILES
from streamkeeper.sources.contract import (
    OptionEffect,
    SourceKind,
    SourcePosition,
    SourcePromise,
    SourceReach,
    count,
)
from streamkeeper.sources.file_options import DEFAULTS, FILES_DEFAULTS, SECOND_NAMES, STREAM
from streamkeeper.sources.option_sentences import FILE_OPTIONS

_OWN_WAY_OF_LISTING = frozenset({"maxfileage", "latestfirst", "filenameonly"})
"""Options that change which files a source counts as read or as too old."""
_ROWS = frozenset(
    {"filenameonly", "format", "header", "maxfileage", "modifiedafter", "modifiedbefore"}
    | {"charset", "delimiter", "encoding", "escape", "linesep", "multiline", "quote", "sep"}
)
"""Options that select files or rows, and delimiters of rows and fields: with other values existing files are read as
other rows or as nulls.
"""

CHOOSING = frozenset({"pathglobfilter", "modifiedafter", "modifiedbefore", "filenameonly"})
"""Options that select files of the directory, or decide which files are the same."""
_BATCH_LIMITS = frozenset({"maxfilespertrigger", "maxbytespertrigger"})
_SPAN = re.compile(r"(-?\d+)([a-z]+)?")
_SPAN_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

CLONE_OPTIONS = {"cleanSource": "off"}
"""The options that keep a clone from cleaning up. Otherwise its cleaner could delete or move the files that the clone
has committed.
"""


class ReadFiles(SourcePosition, frozen=True, tag="files"):
    """The files that a file source has read: paths without escapes, with their scheme unless it is ``file``."""

    files: frozenset[str]

    @property
    def form(self) -> str:
        """The same text for all file formats."""
        return "files"

    @property
    def is_nothing(self) -> bool:
        """Whether no file was read."""
        return not self.files

    @property
    def listed(self) -> frozenset[str]:
        """The files that were read."""
        return self.files

    def beginning(self) -> SourcePosition | None:
        """Return a position without a file."""
        return ReadFiles(frozenset())

    def compare(self, source: str, new: SourcePosition) -> SourceReach | None:
        """Return how many of the files that the old checkpoint has read the new one has read too."""
        missing, total = len(self.files - new.listed), len(self.files)
        text = f"source {source}: {total - missing:,} of {count(total, 'files')}"
        ahead = len(new.listed - self.files)
        return SourceReach(source=source, unit="files", missing=missing, ahead=ahead, total=total, text=text)


@dataclass(frozen=True, kw_only=True, eq=False)
class Files(SourceKind):
    """Files that appear in a directory."""

    def defaults(self, form: str) -> Mapping[str, str]:
        """Return the defaults of every file stream, of every reader of files, and of the format."""
        return STREAM | FILES_DEFAULTS | DEFAULTS.get(form, {})

    def main_names(self, form: str) -> Mapping[str, str]:
        """Return the second names of the format's options, each with its main name."""
        return SECOND_NAMES.get(form, {})

    def asks_the_checkpoint(self, before: Source, after: Source) -> bool:
        """Whether the path has changed and no option changes which files count as read or as too old. The checkpoint
        then shows whether every unread file at the new path is new enough to be read.
        """
        return before.location != after.location and not _OWN_WAY_OF_LISTING & after.options.keys()

    def shares_items(self, one: Source, other: Source) -> bool:
        """Whether one directory equals or contains the other; patterns are compared as text."""
        first, second = f"{one.location.rstrip('/')}/", f"{other.location.rstrip('/')}/"
        return first.startswith(second) or second.startswith(first)

    def cleaner(self, source: Source) -> str:
        """Return the value of ``cleanSource``; empty for ``off``."""
        chosen = source.options.get("cleansource", "").lower()
        return "" if chosen == "off" else chosen

    def has_offset(self, offset: str) -> bool:
        """Whether the offset is a number in the log of the files that were read."""
        return log_offset(offset) is not None


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
    option_sentences=FILE_OPTIONS,
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


def log_offset(end: str) -> int | None:
    """Decode a file source's offset, a number in its log; None for another kind of source, or for a missing offset."""
    found = json_object(end)
    recorded = found.get("logOffset") if found else None
    return recorded if isinstance(recorded, int) else None


def max_file_age_ms(options: Mapping[str, str]) -> int | None:
    """Return the greatest age of a file that Spark still reads, in ms before the modification time of the newest read
    file.

    Return None if Spark does not check the age, or if the limit is unknown. ``options``: also the limits.
    """
    if options.get("latestfirst", "").lower() == "true" and _BATCH_LIMITS & options.keys():
        return None
    found = _SPAN.fullmatch(options.get("maxfileage", STREAM["maxfileage"]).strip().lower())
    return int(found[1]) * _SPAN_MS[found[2] or "ms"] if found and (found[2] or "ms") in _SPAN_MS else None
