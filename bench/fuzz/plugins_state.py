"""The state of ``plugins/`` that an answer was given at."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from harness.places import ROOT


def digest_of(folder: Path) -> str:
    """Twelve hexadecimal digits of every file below a folder, by name and content; compiled files do not count."""
    found = hashlib.sha256()
    files = [each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    for file in sorted(files, key=lambda each: each.relative_to(folder).as_posix()):
        found.update(f"{file.relative_to(folder).as_posix()}\0".encode())
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:12]


@cache
def plugins_state() -> str:
    """The digest of this checkout's ``plugins/``, as it was when first asked for."""
    return digest_of(ROOT / "plugins")
