"""A store in an S3 bucket. Endpoint, region and credentials come from boto3's standard configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from streamkeeper.errors import InvalidInput, KeyExists, KeyMissing, StoreUnavailable
from streamkeeper.stores.contract import Store
from streamkeeper.stores.keys import check_key, check_prefix
from streamkeeper.system import clock

_CONFLICT_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
WRONG_CLOCK = "set this machine's clock: the server rejects requests whose time differs by more than 15 minutes"
_HINTS = {
    "NoSuchBucket": "create the bucket, or name another in STREAMKEEPER_STORE",
    "AccessDenied": "check the credentials and their permissions in this bucket",
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY",
    "RequestTimeTooSkewed": WRONG_CLOCK,
}


class S3Store(Store):
    """The store ``s3://bucket/prefix``; ``AWS_ENDPOINT_URL`` names a server other than Amazon's. Threads may share it.

    A connection may take 5 s, a response 20 s. A request is tried up to 5 times, with growing pauses.
    """

    def __init__(self, url: str, client: Any = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc:
            raise InvalidInput(f"store {url}: the URL names no bucket", hint="write s3://bucket or s3://bucket/prefix")
        self.url = url.rstrip("/")
        self._bucket = parts.netloc
        path = parts.path.strip("/")
        self._prefix = check_prefix(f"{path}/" if path else "")
        self._client = client or connect(f"store {url}")

    def read(self, key: str) -> bytes:
        return self._get(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        if length == 0:
            with self._told("read", key):
                self._client.head_object(**self._address(key))
            return b""
        try:
            return self._get(key, Range=f"bytes={start}-{start + length - 1}")
        except _PastTheEnd:
            return b""

    def create(self, key: str, value: bytes) -> None:
        """PUT the value with ``If-None-Match: *``.

        If the response to a first attempt was lost, a retry may find the key taken by that first attempt. The stored
        value decides then: equal bytes count as this write, any other value as another writer's. Therefore a writer
        that must know whether it succeeded puts a token of its own into the value, as journal entries do. Without a
        retry no values are compared, so a key that already existed raises KeyExists whatever its value is.
        """
        tried_before = False
        self.check_writable(key, value)
        with self._told("create", key):
            for pause in (*_CONFLICT_PAUSES_S, None):
                try:
                    self._client.put_object(**self._address(key), Body=value, IfNoneMatch="*")
                    return
                except ClientError as error:
                    status, retries = _status(error)
                    tried_before = tried_before or retries > 0
                    if status == 412:
                        if tried_before and self._holds(key, value):
                            return
                        raise KeyExists(key) from None
                    if status != 409 or pause is None:
                        raise
                    # Another write of this key is still undecided; that write may be an earlier attempt of this one.
                    tried_before = True
                    clock.sleep(pause)

    def replace(self, key: str, value: bytes) -> None:
        self.check_writable(key, value)
        with self._told("replace", key):
            self._client.put_object(**self._address(key), Body=value)

    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        folder = self._prefix + check_prefix(prefix)
        wanted = {"Bucket": self._bucket, "Prefix": folder}
        if after:
            wanted["StartAfter"] = self._prefix + after
        with self._told("list", prefix):
            for page in self._client.get_paginator("list_objects_v2").paginate(**wanted):
                for found in page.get("Contents", ()):
                    yield found["Key"].removeprefix(self._prefix)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders, with one request per thousand folders."""
        folder = self._prefix + check_prefix(prefix)
        wanted = {"Bucket": self._bucket, "Prefix": folder, "Delimiter": "/"}
        with self._told("list", prefix):
            for page in self._client.get_paginator("list_objects_v2").paginate(**wanted):
                for found in page.get("CommonPrefixes", ()):
                    yield found["Prefix"].removeprefix(folder).rstrip("/")

    def delete(self, key: str) -> None:
        with self._told("delete", key):
            self._client.delete_object(**self._address(key))

    def _address(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + check_key(key)}

    def _get(self, key: str, **wanted: str) -> bytes:
        with self._told("read", key):
            found = self._client.get_object(**self._address(key), **wanted)
            with closing(found["Body"]) as body:
                self.check_readable(key, found["ContentLength"])
                data: bytes = body.read()
            return data

    def _holds(self, key: str, value: bytes) -> bool:
        try:
            return self.read(key) == value
        except KeyMissing:
            return False

    @contextmanager
    def _told(self, operation: str, key: str) -> Iterator[None]:
        """Translate a client's error in the body of the ``with`` statement into an error of the store contract, in one
        line with the operation and the key.
        """
        try:
            yield
        except ClientError as error:
            status, _ = _status(error)
            code = error.response.get("Error", {}).get("Code", "")
            if status == 416:
                raise _PastTheEnd from None
            if status == 404 and code != "NoSuchBucket":
                raise KeyMissing(key) from None
            raise self._unavailable(operation, key, f"{code or status}", _HINTS.get(code, "")) from error
        except NoCredentialsError as error:
            hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or another credential source of boto3"
            raise self._unavailable(operation, key, "no credentials", hint) from error
        except BotoCoreError as error:
            hint = "check that the server is running and that AWS_ENDPOINT_URL names it"
            raise self._unavailable(operation, key, " ".join(str(error).split()), hint) from error

    def _unavailable(self, operation: str, key: str, why: str, hint: str) -> StoreUnavailable:
        return StoreUnavailable(f"store {self.url}: cannot {operation} {key or 'anything'}: {why}", hint=hint)


class _PastTheEnd(Exception):
    """Raised if a range starts at or after the end of the value."""


def _status(error: ClientError) -> tuple[int, int]:
    """Return an error's HTTP status, and the number of retries that the client made before the error."""
    metadata = error.response.get("ResponseMetadata", {})
    return int(metadata.get("HTTPStatusCode", 0)), int(metadata.get("RetryAttempts", 0))


def connect(what: str) -> Any:
    """Create a client with boto3's standard configuration; raises InvalidInput, whose message begins with ``what``."""
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=5,
        read_timeout=20,
        retries={"mode": "standard", "max_attempts": 4},
        # Some servers other than Amazon's do not support the newer default checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        client = boto3.session.Session().client("s3", config=config)
    except (BotoCoreError, ValueError) as error:
        raise InvalidInput(f"{what}: {error}", hint="check AWS_ENDPOINT_URL and the AWS profile") from error
    client.meta.events.register_last("before-call.s3", _send_at_once)
    return client


def _send_at_once(params: dict[str, Any], **_: object) -> None:
    """Remove ``Expect: 100-continue``. Values are small, so the header only adds a round trip, and waits of a second
    while several writers compete for a key.
    """
    params["headers"].pop("Expect", None)
