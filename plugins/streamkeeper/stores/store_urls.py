"""Opens the store that a URL names."""

from __future__ import annotations

import os

from streamkeeper.errors import InvalidInput, NotFound, Unsupported
from streamkeeper.locations import local_path, scheme_of
from streamkeeper.stores.contract import Store
from streamkeeper.stores.local import LocalStore


def open_store(url: str, *, begins: bool = True) -> Store:
    """Return the store at ``file:///path``, a plain path, or ``s3://bucket/prefix``.

    ``begins``: create a missing local directory; if False, a missing directory raises NotFound.

    Raises Unsupported for another scheme, InvalidInput for an empty or incomplete URL, StoreUnavailable.
    """
    if not url:
        raise InvalidInput("the store's URL is empty", hint="use a directory, file:///path or s3://bucket/prefix")
    match scheme_of(url):
        case "" | "file":
            directory = local_path("store", url)
            if not begins and not os.path.isdir(directory):
                raise NotFound(f"store {directory} does not exist", hint="check --store")
            return LocalStore(directory)
        case "s3":
            from streamkeeper.stores.s3 import S3Store  # boto3 is slow to load and often not needed

            return S3Store(url)
        case "s3a" | "s3n":
            raise Unsupported(f"store {url}: only Hadoop uses this scheme", hint="write s3://bucket/prefix")
        case scheme:
            raise Unsupported(
                f"store {url}: scheme {scheme}:// is not supported",
                hint="use a directory, file:///path or s3://bucket/prefix",
            )
