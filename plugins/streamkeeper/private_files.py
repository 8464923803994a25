"""Files and folders that only their owner may read, whatever the umask: stores, logs, bundles, scratch, checkpoints.

A mode is given where a file is made, and no process's umask is touched: a driver's is that of the job, whose outputs
others may read, and Airflow's processes have threads and files of their own.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE = 0o600
FOLDER = 0o700


def make_folders(folder: str | Path, *, lasting: bool = False) -> None:
    """Make ``folder``, and those above it that are missing; idempotent. ``lasting``: on the disk itself.

    Raises OSError as ``os.mkdir`` does.
    """
    wanted = os.path.abspath(folder)
    missing = [wanted]
    while not os.path.isdir(above := os.path.dirname(missing[-1])):
        missing.append(above)
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each, FOLDER)
            if lasting:
                sync_folder(os.path.dirname(each))
    if not os.path.isdir(wanted):
        raise FileExistsError(f"{wanted} is a file")


def sync_folder(folder: str | Path) -> None:
    """Write a folder's names onto the disk itself."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def opener(path: str, flags: int) -> int:
    """For ``open``: a file that it makes is its owner's."""
    return os.open(path, flags, FILE)


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file as ``Path.write_bytes`` does; one that does not fit on the disk is taken away again."""
    file = open(path, "wb", opener=opener)  # noqa: SIM115 - what cannot be opened is left as it is
    try:
        with file:
            file.write(content)
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise


def make_private(folder: Path) -> None:
    """Take a tree that another program has made from everybody else."""
    for parent, folders, files in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(parent, name), FOLDER)
        for name in files:
            os.chmod(os.path.join(parent, name), FILE)
    os.chmod(folder, FOLDER)
