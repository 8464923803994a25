"""Files and folders that only their owner may read, whatever the umask: stores, logs, bundles, scratch, checkpoints.

Each file gets its mode at creation. No process's umask is changed, because it would also affect other files: in a
driver the job's outputs, which others may read, and in Airflow's processes the files of other threads.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE = 0o600
FOLDER = 0o700


def make_folders(folder: str | Path, *, lasting: bool = False, mode: int = FOLDER) -> None:
    """Make ``folder`` and its missing parents. ``lasting``: also sync each new folder's entry to the disk.
    ``mode``: the mode of new folders, which the umask limits.

    Raises OSError as ``os.mkdir`` does, but an existing folder is no error.
    """
    wanted = os.path.abspath(folder)
    missing = [wanted]
    while not os.path.isdir(above := os.path.dirname(missing[-1])):
        missing.append(above)
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each, mode)
            if lasting:
                sync_folder(os.path.dirname(each))
    if not os.path.isdir(wanted):
        raise FileExistsError(f"{wanted} is a file")


def sync_folder(folder: str | Path) -> None:
    """Sync a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def opener(path: str, flags: int) -> int:
    """Open a file for ``open(..., opener=opener)``; if the call creates the file, only the file's owner has access."""
    return os.open(path, flags, FILE)


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file as ``Path.write_bytes`` does; a file that could not be written completely is removed."""
    file = open(path, "wb", opener=opener)  # noqa: SIM115 - an unopenable file stays unchanged
    try:
        with file:
            file.write(content)
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise


def make_private(folder: Path) -> None:
    """Remove all access of other users from a tree that another program has made."""
    for parent, folders, files in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(parent, name), FOLDER)
        for name in files:
            os.chmod(os.path.join(parent, name), FILE)
    os.chmod(folder, FOLDER)
