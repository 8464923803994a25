"""The Python environment that executors on other machines unpack: an archive, stored under its hash.

Each executor fetches the archive when it starts, and executors start at any time while a release is current. If the
archive were replaced in place, the next executor would get a different environment. Therefore executors get an
immutable copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from streamkeeper.errors import InvalidInput
from streamkeeper.model.settings.setting_parsers import ARCHIVES
from streamkeeper.model.settings.settings import Settings
from streamkeeper.system import clock
from streamkeeper.system.private_files import FILE, make_folders

_COPYING = ".copying-"
_DAY_S = 24 * 3600.0
_VARIABLE = "STREAMKEEPER_EXECUTOR_ENVIRONMENT"


def keep_archive(settings: Settings) -> str:
    """Copy the installation's archive of the executors' Python environment, and return the name of the copy.

    The name contains the hash of the content; an existing copy is kept. The name is empty if the installation has no
    archive. Raises InvalidInput if the archive cannot be read or copied.
    """
    if not settings.executor_environment:
        return ""
    source = Path(settings.executor_environment)
    try:
        with source.open("rb") as stream:
            name = hashlib.file_digest(stream, "sha256").hexdigest() + _suffix(source.name)
        kept = settings.environments / name
        if not kept.exists():
            _copy(source, kept)
    except OSError as error:
        raise InvalidInput(
            f"{_VARIABLE}={source} cannot be used: {error.strerror or error}",
            hint=f"repair the archive, or unset {_VARIABLE} if every worker has the drivers' environment",
        ) from error
    return name


def find_archive(settings: Settings, name: str) -> str:
    """Return the path of a stored archive of the executors' Python environment; empty for an empty ``name``.

    If the stored copy is missing, it is recreated from the installation's archive. Raises InvalidInput if the
    installation no longer has that archive.
    """
    if not name:
        return ""
    kept = settings.environments / name
    if not kept.exists() and (not settings.executor_environment or keep_archive(settings) != name):
        raise InvalidInput(
            f"the environment of the release's executors, {name}, is no longer in {settings.environments}",
            hint=f"set {_VARIABLE} to the archive with which the release was pushed, or push the release's code again",
        )
    return str(kept)


def _suffix(name: str) -> str:
    return next(ending for ending in ARCHIVES if name.endswith(ending))


def _copy(source: Path, kept: Path) -> None:
    """Copy the archive so that the complete file appears at once. Raises OSError if the archive's content has changed
    since its hash was computed.
    """
    make_folders(kept.parent)
    for left in kept.parent.glob(f"{_COPYING}*"):
        if clock.unix() - left.stat().st_mtime > _DAY_S:
            left.unlink(missing_ok=True)
    handle, draft = tempfile.mkstemp(prefix=_COPYING, dir=kept.parent)
    try:
        with os.fdopen(handle, "w+b") as target, source.open("rb") as stream:
            shutil.copyfileobj(stream, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
            target.seek(0)
            found = hashlib.file_digest(target, "sha256").hexdigest()
        if not kept.name.startswith(found):
            raise OSError("the archive was changed while it was read")
        os.chmod(draft, FILE)
        os.rename(draft, kept)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
