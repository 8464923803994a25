"""The effect of a changed reader option on new rows: a sentence per option or, if values differ, per new value."""

from __future__ import annotations

from collections.abc import Mapping

_SAME_ROWS = "the same rows would be read;"
_OTHER_FILES = (
    "other files would be selected from now on: some would be missed, or read although they were left out before"
)
_OTHER_ROWS = "the lines of new files would be split into other rows or values: some would be misread without an error"
_CLEANED = f"{_SAME_ROWS} only the cleanup of files that were read differs"
_RETRIES = f"{_SAME_ROWS} only the retries of a failed look-up of offsets differ"

KAFKA_OPTIONS: Mapping[str, str | Mapping[str, str]] = {
    "kafka.isolation.level": {
        "read_committed": "records of aborted transactions would be left out from now on; those already read "
        "stay in the results",
        "read_uncommitted": "records of aborted and of open transactions would be read from now on; those that "
        "were left out before are never read",
    },
    "includeheaders": {
        "true": f"{_SAME_ROWS} new rows also have a column `headers`",
        "false": f"{_SAME_ROWS} new rows no longer have the column `headers`",
    },
    "failondataloss": {
        "true": f"{_SAME_ROWS} if records are missing, the query would stop",
        "false": f"{_SAME_ROWS} if records are missing, the query would skip them without an error",
    },
    "fetchoffset.numretries": _RETRIES,
    "fetchoffset.retryintervalms": _RETRIES,
    "groupidprefix": f"{_SAME_ROWS} only the group ids of the consumers differ",
    "kafkaconsumer.polltimeoutms": f"{_SAME_ROWS} only the time differs after which a fetch fails",
}

FILE_OPTIONS: Mapping[str, str | Mapping[str, str]] = {
    "cleansource": _CLEANED,
    "sourcearchivedir": _CLEANED,
    **dict.fromkeys(("modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup"), _OTHER_FILES),
    "filenameonly": "files would be compared with those already read by another name: some would be skipped, or "
    "read a second time",
    "maxfileage": "files would count as too old at another age: some would be skipped, or read although they were "
    "left out before",
    "format": "new files would be read in another format: their rows would be misread, or stop the query",
    "header": {
        "true": "the first line of each new file would be taken as column names: files without them would lose a row",
        "false": "the first line of each new file would be read as a row, even if it holds column names",
    },
    **dict.fromkeys(("charset", "encoding"), "the bytes of new files would be read as other characters"),
    **dict.fromkeys(("delimiter", "escape", "linesep", "multiline", "quote", "sep"), _OTHER_ROWS),
}
