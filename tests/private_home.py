"""Checks what other users could read in a home directory that a test has filled."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def open_to_others(home: Path, *, except_below: tuple[str, ...] = ()) -> list[str]:
    """Return the paths whose mode grants access to users other than the owner, with the mode.

    ``except_below``: patterns of private folders whose content is created by a different program.
    """
    made_by_others = [each for pattern in except_below for each in home.glob(pattern)]
    found = {path: path.lstat().st_mode for path in (home, *home.rglob("*")) if not path.is_symlink()}
    return sorted(
        f"{path} {stat.S_IMODE(mode):o}"
        for path, mode in found.items()
        if mode & _OTHERS and not any(each in path.parents for each in made_by_others)
    )


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask of this process and of its children for the duration of the context."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
