"""A release: an immutable, numbered version of a job, and its environment."""

from __future__ import annotations

import msgspec

from streamkeeper.model.names import release_name

ParamValue = str | int | float | bool | None

STATE_FORMAT = "rocksdb+changelog/v2"
"""The state format of every new checkpoint version: RocksDB with changelog checkpointing, checkpoint format v2."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of a release."""

    python: str
    """The Python version."""
    spark: str
    """The Spark version."""
    packages_sha256: str
    """Hash of the packages."""
    jars_sha256: str
    """Hash of the jars."""
    digest: str
    """One hash over the whole environment."""
    archive: str = ""
    """Name, by hash, of the archive with the executors' environment; empty if each executor has its own environment."""


class ReleaseContent(msgspec.Struct, frozen=True, kw_only=True):
    """The complete content of a release. Equal contents are registered as one release."""

    bundle: str
    """sha256 of the code zip."""
    bundle_bytes: int
    """Size of the zip."""
    entry: str
    """The job's file inside the zip."""
    params: dict[str, ParamValue]
    """The params, with ``secret://`` references, never their values."""
    conf: dict[str, str]
    """The Spark conf."""
    environment: Environment
    """The environment."""
    state_format: str
    """The state format of checkpoint versions that the release creates."""
    health: dict[str, float | None] = {}
    """Health rule -> the job's own threshold, or None if the job switches the rule off; empty in older releases."""
    approvers: tuple[str, ...] = ()
    """The people who may answer questions while this release is current; empty if everyone may whom the installation
    allows.
    """


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A numbered release of a job."""

    job: str
    number: int
    content: ReleaseContent

    @property
    def name(self) -> str:
        """The name of the release, such as ``r0007``."""
        return release_name(self.number)
