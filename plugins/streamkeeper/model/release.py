"""A release: an immutable, numbered version of a job, and its environment."""

from __future__ import annotations

import msgspec

from streamkeeper.model.names import release_name

ParamValue = str | int | float | bool | None

STATE_FORMAT = "rocksdb+changelog/v2"
"""RocksDB with changelog checkpointing, checkpoint format v2: the format of every new checkpoint version."""


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
    """One hash over all of it."""
    archive: str = ""
    """Name, by its hash, of the executors' environment; empty if each executor has its own."""


class ReleaseContent(msgspec.Struct, frozen=True, kw_only=True):
    """The complete content of a release; two equal contents are one release."""

    bundle: str
    """sha256 of the code zip."""
    bundle_bytes: int
    """Size of the zip."""
    entry: str
    """The job's file inside it."""
    params: dict[str, ParamValue]
    """The params, with ``secret://`` references, never their values."""
    conf: dict[str, str]
    """The Spark conf."""
    environment: Environment
    """The environment."""
    state_format: str
    """The format of its new checkpoint versions."""
    health: dict[str, float | None] = {}
    """Rule -> the job's own threshold, None if it switches the rule off; empty in older releases."""
    approvers: tuple[str, ...] = ()
    """Who may answer questions while this release is current.

    Empty: everyone whom the installation allows.
    """


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A numbered release of a job."""

    job: str
    number: int
    content: ReleaseContent

    @property
    def name(self) -> str:
        """``r0007``."""
        return release_name(self.number)
