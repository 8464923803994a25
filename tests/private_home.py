"""What others could read of a home: for tests that have filled one for real."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def open_to_others(home: Path, *, except_below: tuple[str, ...] = ()) -> list[str]:
    """Paths with a mode that lets anybody but their owner in, with it.

    ``except_below``: patterns of folders, private themselves, whose inside is made by another program.
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
    """This process's, and that of what it starts."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
