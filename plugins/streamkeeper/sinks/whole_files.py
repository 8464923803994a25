"""Create small files that appear completely or not at all, and are never overwritten."""

from __future__ import annotations

import os
from pathlib import Path


def create_whole(file: Path, data: bytes) -> bool:
    """Create a file and its folders, durably. Return False if the file already exists, whatever its content."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.parent / f".{file.name}.{os.getpid()}"
    with draft.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(draft, file)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True
