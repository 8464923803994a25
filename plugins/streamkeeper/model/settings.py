"""Where an installation keeps its things, read once from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from streamkeeper.errors import InvalidInput, Unsupported


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``store``: URL of the store; ``checkpoints``, ``jobs``, ``home``: absolute local directories.

    ``home`` holds logs and scratch space; nothing in it is needed after a restart.
    """

    store: str
    checkpoints: str
    jobs: str
    home: str


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Settings from ``STREAMKEEPER_HOME``, ``_STORE``, ``_CHECKPOINTS`` and ``_JOBS``.

    Only the home is required; store and checkpoints default to folders in it, jobs to ``jobs`` in the working
    directory. Raises InvalidInput or Unsupported, naming the variable.
    """
    home = environ.get("STREAMKEEPER_HOME", "")
    if not home:
        raise InvalidInput("STREAMKEEPER_HOME is not set", hint="point it at a directory that Streamkeeper may fill")
    base = Path(home).absolute()
    return Settings(
        store=environ.get("STREAMKEEPER_STORE") or (base / "store").as_uri(),
        checkpoints=local_directory(
            "STREAMKEEPER_CHECKPOINTS", environ.get("STREAMKEEPER_CHECKPOINTS"), base / "checkpoints"
        ),
        jobs=local_directory("STREAMKEEPER_JOBS", environ.get("STREAMKEEPER_JOBS"), Path("jobs")),
        home=str(base),
    )


def local_directory(variable: str, value: str | None, default: Path) -> str:
    """An absolute local path from a path or ``file://`` URL; raises Unsupported for another scheme."""
    if not value:
        return str(default.absolute())
    scheme, separator, rest = value.partition("://")
    if not separator:
        return str(Path(value).absolute())
    if scheme != "file":
        raise Unsupported(
            f"{variable}={value}: checkpoints on {scheme}:// are not supported",
            hint="use a local directory that every driver of the job can reach",
        )
    return str(Path(rest).absolute())
