"""An in-memory S3 bucket with the interface of boto3's client: the real S3 tree of a checkpoint runs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import md5
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError

from harness.simulation.trees import Files

_ROOT = "s3a://"


class SimulatedBucket:
    """One process's S3 client. ``seam``: called before each request, so that other actors may run.

    ``strikes``: returns whether this request, or its response, is lost. boto3 retries a request whose response is lost,
    and then finds what the first attempt has written.
    """

    def __init__(
        self, files: Files, *, seam: Callable[[], None] = lambda: None, strikes: Callable[[], bool] = lambda: False
    ) -> None:
        self._files, self._seam, self._strikes = files, seam, strikes

    def get_paginator(self, _name: str) -> SimulatedBucket:
        """Return the paginator, which is this client itself; only ``list_objects_v2`` is ever requested."""
        return self

    def paginate(self, **wanted: Any) -> Iterator[dict[str, Any]]:
        """Yield the only page."""
        yield self.list_objects_v2(**wanted)

    def list_objects_v2(
        self,
        *,
        Bucket: str,
        Prefix: str,
        Delimiter: str = "",
        MaxKeys: int = 0,
    ) -> dict[str, Any]:
        """List objects as boto3 does."""
        self._send()
        contents, folders = [], dict[str, None]()
        for key, (content, stamp) in self._below(Bucket, Prefix):
            name, slash, _ = key.removeprefix(Prefix).partition("/")
            if Delimiter and slash:
                folders[f"{Prefix}{name}/"] = None
                continue
            contents.append(
                {"Key": key, "Size": stamp.size, "LastModified": _moment(stamp.modified), "ETag": _tag(content)}
            )
        return {
            "Contents": contents[: MaxKeys or None],
            "CommonPrefixes": [{"Prefix": folder} for folder in folders],
        }

    def get_object(
        self,
        *,
        Bucket: str,
        Key: str,
        IfMatch: str = "",
        Range: str = "",
    ) -> dict[str, Any]:
        """Return an object as boto3 does."""
        self._send()
        content = self._found("GetObject", Bucket, Key, IfMatch)
        if Range:
            first, _, last = Range.removeprefix("bytes=").partition("-")
            content = content[int(first) : int(last) + 1]
        return {"Body": _Body(content)}

    def head_object(self, *, Bucket: str, Key: str, IfMatch: str = "") -> dict[str, Any]:
        """Return an object's metadata as boto3 does."""
        self._send()
        content = self._found("HeadObject", Bucket, Key, IfMatch)
        found = self._files.get(f"{_ROOT}{Bucket}/{Key}")
        assert found is not None
        return {"ContentLength": len(content), "LastModified": _moment(found[1].modified), "ETag": _tag(content)}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str) -> dict[str, Any]:
        """Create an object as boto3 does with ``If-None-Match: *``."""
        del IfNoneMatch
        self._send()
        self._create("PutObject", Bucket, Key, Body)
        if self._strikes():
            raise _error("PutObject", 412, "PreconditionFailed")
        return {}

    def copy_object(
        self,
        *,
        Bucket: str,
        Key: str,
        CopySource: Mapping[str, str],
        CopySourceIfMatch: str,
    ) -> dict[str, Any]:
        """Copy an object as boto3 does; an existing object at the target is replaced."""
        self._send()
        content = self._found("CopyObject", CopySource["Bucket"], CopySource["Key"], CopySourceIfMatch)
        place = f"{_ROOT}{Bucket}/{Key}"
        if self._files.get(place) is not None:
            self._files.remove(place)
        self._files.create(place, content)
        return {}

    def delete_objects(self, *, Bucket: str, Delete: Mapping[str, Sequence[Mapping[str, str]]]) -> dict[str, Any]:
        """Delete objects as boto3 does."""
        self._send()
        for each in Delete["Objects"]:
            place = f"{_ROOT}{Bucket}/{each['Key']}"
            if self._files.get(place) is not None:
                self._files.remove(place)
                self._files.drop_empty_folders(place.rpartition("/")[0])
        return {}

    def _below(self, bucket: str, prefix: str) -> Iterator[tuple[str, Any]]:
        """Yield the key and the file of every object with a prefix, in order."""
        folder = prefix.rpartition("/")[0]
        root = f"{_ROOT}{bucket}/{folder}".rstrip("/")
        found = sorted(self._files.below(root).items())
        above = f"{folder}/" if folder else ""
        return ((f"{above}{path}", file) for path, file in found if f"{above}{path}".startswith(prefix))

    def _send(self) -> None:
        self._seam()
        if self._strikes():
            raise EndpointConnectionError(endpoint_url="https://simulated")

    def _found(self, operation: str, bucket: str, key: str, tag: str) -> bytes:
        found = self._files.get(f"{_ROOT}{bucket}/{key}")
        if found is None:
            raise _error(operation, 404, "NoSuchKey")
        if tag and tag != _tag(found[0]):
            raise _error(operation, 412, "PreconditionFailed")
        return found[0]

    def _create(self, operation: str, bucket: str, key: str, content: bytes) -> None:
        try:
            self._files.create(f"{_ROOT}{bucket}/{key}", bytes(content))
        except FileExistsError:
            raise _error(operation, 412, "PreconditionFailed") from None


class _Body:
    """The body of a response."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> bytes:
        """Return the content of the body."""
        return self._content


def _error(operation: str, status: int, code: str) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


def _moment(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns / 1e9, UTC)


@lru_cache(16384)
def _tag(content: bytes) -> str:
    return f'"{md5(content, usedforsecurity=False).hexdigest()}"'
