"""The guarantees of each kind of source. A source without a guarantee is refused before any driver starts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streamkeeper.errors import Unsupported
from streamkeeper.model.manifest import Manifest


class SourcePromise(msgspec.Struct, frozen=True, kw_only=True):
    """The guarantee of a kind of source. ``replays``: reading the same offsets again returns the same rows.
    ``holds_until``: the event that ends this guarantee.
    """

    kind: str
    replays: bool
    holds_until: str


_FILE = SourcePromise(kind="file", replays=True, holds_until="the input files are deleted or changed")

_KAFKA = SourcePromise(
    kind="kafka", replays=True, holds_until="retention or compaction removes the offsets, or the topic is deleted"
)

_PROMISES = {**dict.fromkeys(("file", "csv", "json", "text", "parquet", "orc"), _FILE), "kafka": _KAFKA}

_REFUSED = {
    "rate": "it generates rows from the clock, so a replayed batch has other rows",
    "rate-micro-batch": "it generates its rows instead of reading them",
    "socket": "it does not keep the data it has sent, so a batch cannot be replayed",
    "memory": "its rows are lost with the process",
}


def promise_of(kind: str) -> SourcePromise:
    """Return the guarantee for a source kind as a manifest names it; raises Unsupported with the reason."""
    promise = _PROMISES.get(kind)
    if promise is None:
        why = _REFUSED.get(kind, "no guarantee about rereading a batch is implemented for it")
        raise Unsupported(f"source {kind!r} is not supported: {why}", hint="read from files or Kafka")
    return promise


def check_sources(manifests: Iterable[Manifest]) -> None:
    """Raise Unsupported, which names the query, if a query has a source without a guarantee."""
    for manifest in manifests:
        if not manifest.sources:
            raise Unsupported(
                f"no streaming source was found in query {manifest.query}", hint="read from files or Kafka"
            )
        for source in manifest.sources:
            try:
                promise_of(source.kind)
            except Unsupported as error:
                raise Unsupported(f"query {manifest.query}: {error.message}", hint=error.hint) from error


def reasons_against(manifest: Manifest) -> dict[str, str]:
    """Return the unsupported kinds of source of a query, each with the reason why it has no guarantee."""
    found = {}
    for source in manifest.sources:
        try:
            promise_of(source.kind)
        except Unsupported as error:
            found[source.kind] = error.message
    return found
