"""A checkpoint in an S3 bucket, as Spark writes it through s3a; boto3's standard configuration selects the server."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import IO, Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from streamkeeper.checkpoints.trees import Seen, Tree, check_inside
from streamkeeper.errors import CheckpointChanged, InvalidInput, StoreUnavailable
from streamkeeper.model.records.snapshot import Stamp
from streamkeeper.stores.s3 import WRONG_CLOCK, connect
from streamkeeper.system import clock

_URL = re.compile(r"s3a?://([^/]+)/?(.*?)/*")
_SECOND_NS = 1_000_000_000
_PART_BYTES = 16 * 1024 * 1024
_LARGEST_COPY = 5 * 1024**3
_MOST_DELETED = 1000
_RANGE_BYTES = 1024 * 1024
_CONFLICT_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
_clients: dict[tuple[object, ...], Any] = {}


class _Listing(msgspec.Struct):
    """One listing of a part of the bucket: folder -> names, in the form of ``Tree.names``; path -> the file's stamp.

    ``markers``: objects that s3a leaves for empty folders; their names end with ``/``.
    """

    names: dict[str, set[str]] = {}
    stamps: dict[str, Stamp] = {}
    markers: set[str] = set()


class S3Tree(Tree):
    """The tree ``s3a://bucket/prefix`` or ``s3://bucket/prefix``; ``AWS_ENDPOINT_URL`` names a server other than
    Amazon's.

    Listings determine which files exist. One listing covers either the whole tree, the tree's top level, or one
    top-level folder with everything below it. A listing is made when it is first needed, and is kept until this object
    changes a file. The tree that ``fresh`` returns starts without listings. The first call of ``stamp`` for a file uses
    a listing, if there is one; later calls read the stamp from the server. Threads may share the tree. Raises
    StoreUnavailable if the server does not answer.
    """

    def __init__(self, url: str, client: Any = None) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise InvalidInput(f"{url}: the URL names no bucket", hint="write s3a://bucket/prefix")
        self.url = url.rstrip("/")
        self.location = self.spark_path = f"s3a://{found[1]}/{found[2]}".rstrip("/")
        self._bucket = found[1]
        self._prefix = f"{found[2]}/" if found[2] else ""
        self._client = client or _shared_client(url)
        self._listings: dict[str | None, _Listing] = {}
        self._stamped: set[str] = set()

    def fresh(self) -> S3Tree:
        return S3Tree(self.url, self._client)

    def names(self, folder: str) -> list[str]:
        part = folder.partition("/")[0] if None not in self._listings else None
        if part not in self._listings:
            self._listings[part] = self._look(part)
        return sorted(self._listings[part].names.get(folder, ()))

    def names_after(self, folder: str, name: str) -> list[str]:
        prefix = f"{self._prefix}{folder}/"
        wanted = {"Bucket": self._bucket, "Prefix": prefix, "Delimiter": "/", "StartAfter": f"{prefix}{name}"}
        found: list[str] = []
        with self._told("list", folder):
            for page in self._client.get_paginator("list_objects_v2").paginate(**wanted):
                keys = (
                    *(entry["Key"] for entry in page.get("Contents", ())),
                    *(below["Prefix"] for below in page.get("CommonPrefixes", ())),
                )
                found += [key.removeprefix(prefix) for key in keys if key != prefix]
        return sorted(each for each in found if each > name)

    def look(self) -> Seen:
        if None not in self._listings:
            self._listings[None] = self._look(None)
        return Seen(dict(self._listings[None].stamps))

    def stamps(self) -> Iterator[tuple[str, Stamp]]:
        with self._told("list", ""):
            for page in self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix
            ):
                for entry in page.get("Contents", ()):
                    path = entry["Key"].removeprefix(self._prefix)
                    if path and not path.endswith("/"):
                        yield path, _stamp(entry["Size"], entry["LastModified"], entry["ETag"])

    def read(self, path: str) -> bytes:
        with self._told("read", path):
            content: bytes = self._client.get_object(**self._address(path))["Body"].read()
            return content

    def open(self, path: str) -> IO[bytes]:
        """Open an object. One request fetches at least 1 MiB."""
        return io.BufferedReader(_RangedObject(self, path), _RANGE_BYTES)

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        if expected.size == 0:
            with self._told("read", path):
                self._client.head_object(**self._address(path), IfMatch=f'"{expected.tag}"')
        for start in range(0, expected.size, size):
            yield self.range(path, start, min(size, expected.size - start), expected)

    def range(self, path: str, start: int, size: int, expected: Stamp) -> bytes:
        """Return ``size`` bytes of a file; raises CheckpointChanged unless its stamp is ``expected``."""
        wanted = {"IfMatch": f'"{expected.tag}"', "Range": f"bytes={start}-{start + size - 1}"}
        with self._told("read", path):
            found: bytes = self._client.get_object(**self._address(path), **wanted)["Body"].read()
        return found

    def stamp(self, path: str) -> Stamp:
        listing = self._listing_of(path)
        known = listing.stamps.get(path) if listing is not None else None
        if known is not None and path not in self._stamped:
            self._stamped.add(path)
            return known
        with self._told("inspect", path):
            found = self._client.head_object(**self._address(path))
        return _stamp(found["ContentLength"], found["LastModified"], found["ETag"])

    def has(self, path: str) -> bool:
        listing = self._listing_of(path)
        return path in listing.stamps if listing is not None else super().has(path)

    def create(self, path: str, content: Iterable[bytes]) -> None:
        """Send a PUT with ``If-None-Match: *``. If the content is larger than a part, use a multipart upload, whose
        last request has this header.
        """
        self._forget()
        parts = iter(content)
        begin = _gathered(parts)
        if len(begin) < _PART_BYTES:
            self._create_only(path, lambda: self._client.put_object(**self._address(path), Body=begin, IfNoneMatch="*"))
            return
        with self._told("create", path):
            begun = self._client.create_multipart_upload(**self._address(path))
        upload = {**self._address(path), "UploadId": begun["UploadId"]}
        try:
            done = list(self._upload_parts(path, upload, begin, parts))
            finish = {**upload, "MultipartUpload": {"Parts": done}, "IfNoneMatch": "*"}
            self._create_only(path, lambda: self._client.complete_multipart_upload(**finish))
        except BaseException:
            with suppress(ClientError, BotoCoreError):
                self._client.abort_multipart_upload(**upload)
            raise

    def copy_within(self, source: Tree, path: str, expected: Stamp) -> None:
        """Copy the object after checking that the target does not exist, because not every server supports
        ``If-None-Match`` for copies.
        """
        if not isinstance(source, S3Tree) or expected.size > _LARGEST_COPY:
            super().copy_within(source, path, expected)
            return
        self._forget()
        with suppress(FileNotFoundError), self._told("inspect", path):
            self._client.head_object(**self._address(path))
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.where(path))
        with source._told("read", path):
            self._client.copy_object(
                **self._address(path), CopySource=source._address(path), CopySourceIfMatch=f'"{expected.tag}"'
            )

    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        return self._delete_keys(self._address(path)["Key"] for path in paths)

    def drop_empty_folders(self) -> None:
        """Remove the markers that s3a treats as empty folders; a bucket itself has no folders."""
        found = self._look(None)
        used = {path[: index + 1] for path in found.stamps for index, letter in enumerate(path) if letter == "/"}
        used |= {"" for _ in found.stamps}
        self._delete_keys(f"{self._prefix}{marker}" for marker in found.markers - used)

    def _delete_keys(self, keys: Iterable[str]) -> dict[str, str]:
        self._forget()
        kept: dict[str, str] = {}
        left = iter(keys)
        while group := [{"Key": key} for key in islice(left, _MOST_DELETED)]:
            with self._told("delete", group[0]["Key"].removeprefix(self._prefix)):
                done = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": group, "Quiet": True})
            for error in done.get("Errors", ()):
                kept[error["Key"].removeprefix(self._prefix)] = str(error.get("Message") or error.get("Code"))
        # Requests made while paths were still arriving may have listed objects that were deleted later.
        self._forget()
        return kept

    def _forget(self) -> None:
        self._listings = {}

    def _create_only(self, path: str, request: Callable[[], Any]) -> None:
        """Send the request that creates an object, and retry it.

        If the response to an attempt was lost, the next attempt finds an object whose writer is unknown. It counts as
        another writer's, although this writer may have created it.
        """
        for pause in (*_CONFLICT_PAUSES_S, None):
            try:
                with self._told("create", path):
                    request()
                return
            except _Conflict:
                # Another write of this object is still undecided; it may be an earlier attempt of this one.
                if pause is None:
                    raise StoreUnavailable(f"cannot create {self.where(path)}: another write is in progress") from None
                clock.sleep(pause)
            except CheckpointChanged:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.where(path)) from None

    def _upload_parts(
        self, path: str, upload: dict[str, str], begin: bytes, rest: Iterator[bytes]
    ) -> Iterator[dict[str, Any]]:
        part, number = begin, 1
        while part:
            with self._told("create", path):
                sent = self._client.upload_part(**upload, PartNumber=number, Body=part)
            yield {"PartNumber": number, "ETag": sent["ETag"]}
            part, number = _gathered(rest), number + 1

    def _listing_of(self, path: str) -> _Listing | None:
        """Return the listing that would contain a file; None if that listing has not been made yet."""
        part, below, _ = path.partition("/")
        return self._listings.get(None) or self._listings.get(part if below else "")

    def _look(self, part: str | None) -> _Listing:
        """List a folder of the tree with everything below it. If the folder is ``""``, list only the tree's top level;
        if it is None, list the whole tree.
        """
        found = _Listing()
        wanted = {"Prefix": f"{self._prefix}{part}/" if part else self._prefix}
        if part == "":
            wanted["Delimiter"] = "/"
        with self._told("list", part or ""):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, **wanted):
                for folder in page.get("CommonPrefixes", ()):
                    if self._holds_something(folder["Prefix"]):
                        _add(found.names, folder["Prefix"].removeprefix(self._prefix))
                for entry in page.get("Contents", ()):
                    path = entry["Key"].removeprefix(self._prefix)
                    _add(found.names, path)
                    if path and not path.endswith("/"):
                        found.stamps[path] = _stamp(entry["Size"], entry["LastModified"], entry["ETag"])
                    else:
                        found.markers.add(path)
        return found

    def _holds_something(self, prefix: str) -> bool:
        """Whether a folder has an object; some servers also list a folder whose objects are all deleted."""
        found = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=1)
        return bool(found.get("Contents"))

    def _address(self, path: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + check_inside(path)}

    @contextmanager
    def _told(self, operation: str, path: str) -> Iterator[None]:
        """Translate an error of the S3 client into an error of the tree, whose message names the operation and the file
        in one line.
        """
        try:
            yield
        except ClientError as error:
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            code = str(error.response.get("Error", {}).get("Code", "") or status)
            if status == 409 and operation == "create":
                raise _Conflict from error
            if status == 412:
                raise CheckpointChanged(f"{self.where(path)} changed while it was being read") from None
            if status == 404 and code not in ("NoSuchBucket", "NoSuchUpload"):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.where(path)) from None
            raise StoreUnavailable(f"cannot {operation} {self.where(path)}: {code}", hint=_hint(code)) from error
        except BotoCoreError as error:
            why = " ".join(str(error).split())
            hint = (
                "check that the server is running, that AWS_ENDPOINT_URL names it, and that the credentials are valid"
            )
            raise StoreUnavailable(f"cannot {operation} {self.where(path)}: {why}", hint=hint) from error


def _shared_client(what: str) -> Any:
    """Return one client for all trees of this process and these settings: creating a client takes 40 ms, and it keeps
    connections open.

    A forked child creates its own client, because two processes would read each other's responses from one connection.
    """
    settings = (os.getpid(), *sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    if settings not in _clients:
        _clients[settings] = connect(what)
    return _clients[settings]


class _RangedObject(io.RawIOBase):
    """An object whose bytes are read with one request for each range."""

    def __init__(self, tree: S3Tree, path: str) -> None:
        super().__init__()
        self._tree, self._path, self._stamp, self._at = tree, path, tree.stamp(path), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._stamp.size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._stamp.size - self._at)
        if wanted <= 0:
            return 0
        found = self._tree.range(self._path, self._at, wanted, self._stamp)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


class _Conflict(Exception):
    """Raised if the server rejected a write of an object because another write of that object is in progress."""


def _gathered(parts: Iterator[bytes]) -> bytes:
    """Return the next part of a content: at least ``_PART_BYTES``, fewer for the last part, and nothing after it."""
    found, size = [], 0
    for part in parts:
        found.append(part)
        size += len(part)
        if size >= _PART_BYTES:
            break
    return b"".join(found)


def _add(names: dict[str, set[str]], path: str) -> None:
    """Add a path to the names of its folder, and each of its folders to the names of the parent folder."""
    while path:
        folder, _, name = path.rstrip("/").rpartition("/")
        known = names.setdefault(folder, set())
        name = f"{name}/" if path.endswith("/") else name
        if name in known:
            return
        known.add(name)
        path = f"{folder}/" if folder else ""


def _stamp(size: int, modified: datetime, tag: str) -> Stamp:
    """Return an object's stamp with its time rounded to whole seconds. The response to a HEAD request has no finer
    times, but the listings of some servers do.
    """
    return Stamp(size=size, modified=int(modified.timestamp()) * _SECOND_NS, changed=0, tag=tag.strip('"'))


def _hint(code: str) -> str:
    if code == "NoSuchBucket":
        return "check the bucket's name, and that AWS_ENDPOINT_URL names the bucket's server"
    if code == "RequestTimeTooSkewed":
        return WRONG_CLOCK
    return "check the credentials and their permissions in this bucket"
