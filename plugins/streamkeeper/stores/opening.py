"""From a URL to the store it names."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.stores.contract import Store
from streamkeeper.stores.local import LocalStore


def open_store(url: str) -> Store:
    """The store at ``file:///path``, a plain path, or ``s3://bucket/prefix``.

    Raises Unsupported for another scheme, InvalidInput for a URL that names nothing, StoreUnavailable.
    """
    if not url:
        raise InvalidInput("the store's URL is empty", hint="use a directory, file:///path or s3://bucket/prefix")
    if "://" not in url:
        return LocalStore(url)
    parts = urlsplit(url)
    match parts.scheme:
        case "file":
            return _open_file(url, parts.netloc, parts.path)
        case "s3":
            from streamkeeper.stores.s3 import S3Store  # boto3 is slow to load and often not needed

            return S3Store(url)
        case "s3a" | "s3n":
            raise Unsupported(f"store {url}: scheme {parts.scheme}:// is Hadoop's", hint="write s3://bucket/prefix")
        case scheme:
            raise Unsupported(
                f"store {url}: scheme {scheme}:// is not supported",
                hint="use a directory, file:///path or s3://bucket/prefix",
            )


def _open_file(url: str, host: str, path: str) -> LocalStore:
    if host not in ("", "localhost") or not path:
        raise InvalidInput(f"store {url}: not a local path", hint="write file:///absolute/path")
    return LocalStore(unquote(path))
