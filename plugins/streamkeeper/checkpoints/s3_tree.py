"""A checkpoint in an S3 bucket, as Spark writes it through s3a; read by boto3's standard configuration."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from streamkeeper.checkpoints.trees import Tree, check_inside
from streamkeeper.errors import CheckpointChanged, InvalidInput, StoreUnavailable
from streamkeeper.model.snapshot import Stamp
from streamkeeper.stores.s3 import connect

_URL = re.compile(r"s3a?://([^/]+)/?(.*?)/*")
_SECOND_NS = 1_000_000_000


class _Listing(msgspec.Struct):
    """One look at the bucket: folder -> names, as ``Tree.names`` gives them; path -> what the file was."""

    names: dict[str, set[str]]
    stamps: dict[str, Stamp]


class S3Tree(Tree):
    """``s3a://bucket/prefix`` or ``s3://bucket/prefix``; ``AWS_ENDPOINT_URL`` names a server other than Amazon's.

    What is there is told by one listing, made when it is first needed; ``fresh`` looks anew. A file's first stamp is
    the listing's, any later one what the object is now. Threads may share it. Raises StoreUnavailable where the
    server does not answer.
    """

    def __init__(self, url: str, client: Any = None) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise InvalidInput(f"checkpoint {url}: no bucket", hint="write s3a://bucket/prefix")
        self.url = url.rstrip("/")
        self._bucket = found[1]
        self._prefix = f"{found[2]}/" if found[2] else ""
        self._client = client or connect(f"checkpoint {url}")
        self._listing: _Listing | None = None
        self._stamped: set[str] = set()

    def fresh(self) -> S3Tree:
        return S3Tree(self.url, self._client)

    def names(self, folder: str) -> list[str]:
        return sorted(self._listed().names.get(folder, ()))

    def read(self, path: str) -> bytes:
        with self._told("read", path):
            content: bytes = self._client.get_object(**self._address(path))["Body"].read()
            return content

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        wanted = {**self._address(path), "IfMatch": f'"{expected.tag}"'}
        if expected.size == 0:
            with self._told("read", path):
                self._client.head_object(**wanted)
        for start in range(0, expected.size, size):
            last = min(start + size, expected.size) - 1
            with self._told("read", path):
                part: bytes = self._client.get_object(**wanted, Range=f"bytes={start}-{last}")["Body"].read()
            yield part

    def stamp(self, path: str) -> Stamp:
        known = self._listed().stamps.get(path)
        if known is not None and path not in self._stamped:
            self._stamped.add(path)
            return known
        with self._told("look at", path):
            found = self._client.head_object(**self._address(path))
        return _stamp(found["ContentLength"], found["LastModified"], found["ETag"])

    def has(self, path: str) -> bool:
        return path in self._listed().stamps

    def _listed(self) -> _Listing:
        if self._listing is None:
            self._listing = self._look()
        return self._listing

    def _look(self) -> _Listing:
        names: dict[str, set[str]] = {}
        stamps: dict[str, Stamp] = {}
        with self._told("list", ""):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
                for each in page.get("Contents", ()):
                    path = each["Key"].removeprefix(self._prefix)
                    _add(names, path)
                    # An object whose name ends with / is a marker that s3a leaves for an empty folder.
                    if path and not path.endswith("/"):
                        stamps[path] = _stamp(each["Size"], each["LastModified"], each["ETag"])
        return _Listing(names, stamps)

    def _address(self, path: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + check_inside(path)}

    @contextmanager
    def _told(self, operation: str, path: str) -> Iterator[None]:
        """Tell a client's error as a tree's, in one line with the operation and the file."""
        try:
            yield
        except ClientError as error:
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            code = str(error.response.get("Error", {}).get("Code", "") or status)
            if status == 412:
                raise CheckpointChanged(f"{self.where(path)} changed while it was being read") from None
            if status == 404 and code != "NoSuchBucket":
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.where(path)) from None
            raise StoreUnavailable(f"cannot {operation} {self.where(path)}: {code}", hint=_hint(code)) from error
        except BotoCoreError as error:
            why = " ".join(str(error).split())
            hint = "check that the server runs, that AWS_ENDPOINT_URL names it, and the credentials"
            raise StoreUnavailable(f"cannot {operation} {self.where(path)}: {why}", hint=hint) from error


def _add(names: dict[str, set[str]], path: str) -> None:
    """Note a path in its folder, and every folder in the one above it."""
    while path:
        folder, _, name = path.rstrip("/").rpartition("/")
        known = names.setdefault(folder, set())
        name = f"{name}/" if path.endswith("/") else name
        if name in known:
            return
        known.add(name)
        path = f"{folder}/" if folder else ""


def _stamp(size: int, modified: datetime, tag: str) -> Stamp:
    """Whole seconds: a HEAD tells no more, and a listing of some servers does."""
    return Stamp(size=size, modified=int(modified.timestamp()) * _SECOND_NS, changed=0, tag=tag.strip('"'))


def _hint(code: str) -> str:
    if code == "NoSuchBucket":
        return "check the bucket's name, and that AWS_ENDPOINT_URL names the server it is on"
    return "check the credentials and what they may do in this bucket"
