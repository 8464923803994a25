"""A release: an immutable, numbered version of a job, and what it was made in."""

from __future__ import annotations

import msgspec

from streamkeeper.model.names import release_name

ParamValue = str | int | float | bool | None

STATE_FORMAT = "rocksdb+changelog/v2"
"""RocksDB with changelog checkpointing, checkpoint format v2: what every new checkpoint version is written in."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What a release was made in; ``digest`` is one hash over all of it.

    ``archive``: name, by its hash, of the environment that its executors get; empty where each has one of its own.
    """

    python: str
    spark: str
    packages_sha256: str
    jars_sha256: str
    digest: str
    archive: str = ""


class ReleaseContent(msgspec.Struct, frozen=True, kw_only=True):
    """All that makes a release what it is; two equal contents are one release.

    ``bundle``: sha256 of the code zip; ``entry``: the job's file inside it; ``params``: with ``secret://`` references,
    never their values; ``state_format``: what a new checkpoint version of it is written in. ``health``: rule -> the
    job's own threshold, None where it switches the rule off; empty in releases of before there were any. ``approvers``:
    who may answer what operations ask while this release serves; empty for everybody whom the installation lets.
    """

    bundle: str
    bundle_bytes: int
    entry: str
    params: dict[str, ParamValue]
    conf: dict[str, str]
    environment: Environment
    state_format: str
    health: dict[str, float | None] = {}
    approvers: tuple[str, ...] = ()


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A numbered release of a job."""

    job: str
    number: int
    content: ReleaseContent

    @property
    def name(self) -> str:
        """``r0007``."""
        return release_name(self.number)
