"""Parses locations that users give. A URL is never read as a path, except the ``file:`` URL of a local file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streamkeeper.errors import InvalidInput, StreamkeeperError, Unsupported

_STORES = "abfss?|dbfs|file|ftp|gs|hdfs|https?|s3[an]?|viewfs|wasbs?"
_SCHEME = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]*)(?=:/)|({_STORES})(?=:)", re.IGNORECASE)
_BUCKET = re.compile(r"s3a?://([^/]+(?:/[^/]+)+)/*")
_NAMENODE = re.compile(r"(hdfs://[^/]+(?:/[^/]+)+)/*")
_AROUND = " \t\r\n\"'\ufeff"
_LOCAL = "use a local path, or file:///path"


def scheme_of(location: str) -> str:
    """Return a URL's scheme: ``s3a`` of ``s3a://bucket``, ``s3a:/bucket`` (Hadoop) or ``s3a:bucket``; empty if none."""
    found = _SCHEME.match(location)
    return found[0].lower() if found else ""


def local_path(what: str, location: str, *, hint: str = _LOCAL) -> Path:
    """Return the absolute path that a plain path, ``file:/path`` or ``file:///path`` names; the path need not exist.

    ``what`` names the location in errors. Raises Unsupported, with ``hint`` as its hint, for other schemes. Raises
    InvalidInput for a location that is not on this machine.
    """
    if not location:
        raise InvalidInput(f"{what}: no path is given", hint=_LOCAL)
    if location != location.strip(_AROUND):
        raise InvalidInput(f"{what} {location!r} has blanks or quotes around it", hint="remove the blanks and quotes")
    match scheme_of(location):
        case "":
            return Path(location).absolute()
        case "file":
            parts = urlsplit(location)
            if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
                raise InvalidInput(f"{what} {location}: not a local path", hint="write file:///absolute/path")
            return Path(unquote(parts.path))
        case scheme:
            raise Unsupported(f"{what} {location}: {scheme}:// is not supported here", hint=hint)


def storage_location(what: str, location: str) -> str:
    """Return a location in the form that Spark accepts: an absolute path, ``s3a://bucket/prefix`` or
    ``hdfs://namenode:port/path``, without ``/`` at its end.

    ``what`` names the location in errors. Raises InvalidInput for an incomplete location and for a URL with a part
    ``.`` or ``..``, and Unsupported for another scheme.
    """
    scheme = scheme_of(location)
    if scheme not in ("", "file") and not {".", ".."}.isdisjoint(location.split("/")):
        # Hadoop resolves these parts, but to S3 they are names.
        raise InvalidInput(f"{what} {location}: the parts . and .. are not supported", hint="write the resolved path")
    match scheme:
        case "s3" | "s3a":
            if found := _BUCKET.fullmatch(location):
                return f"s3a://{found[1]}"
            raise InvalidInput(f"{what} {location}: no bucket and prefix", hint="write s3a://bucket/prefix")
        case "hdfs":
            if found := _NAMENODE.fullmatch(location):
                return found[1]
            raise InvalidInput(f"{what} {location}: no NameNode and path", hint="write hdfs://namenode:port/path")
        case _:
            hint = "use a local directory, s3a://bucket/prefix or hdfs://namenode:port/path"
            return str(local_path(what, location, hint=hint))


def lies_within(place: str, folder: str) -> bool:
    """Whether ``place`` is ``folder`` or below it. Only the texts are compared: no link is followed and no file is
    read.

    ``s3://`` and ``s3a://`` count as equal, and so do a plain path and its ``file:`` URL.
    """
    inner, outer = (_plain(each) for each in (place, folder))
    return bool(outer) and (inner == outer or inner.startswith(f"{outer}/"))


def _plain(location: str) -> str:
    scheme = scheme_of(location)
    rest = location[len(scheme) + 1 :] if scheme else location
    if scheme in ("", "file"):
        return "/" + rest.strip("/") if rest.strip("/") else ""
    return f"{scheme.replace('s3a', 's3').replace('s3n', 's3')}://{rest.strip('/')}" if rest.strip("/") else ""


def same_place(one: str, other: str) -> bool:
    """Whether two locations are the same; links are followed on the local disk."""
    if one == other:
        return True
    if any(scheme_of(each) not in ("", "file") for each in (one, other)):
        return one.rstrip("/") == other.rstrip("/")
    try:
        return os.path.samefile(local_path("place", one), local_path("place", other))
    except (OSError, StreamkeeperError):
        return False
