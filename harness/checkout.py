"""Which code a result was measured of: the commit, and the content of the folders that take part in every run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.places import ROOT

FOLDERS = ("plugins", "dags", "jobs")
"""What is measured; all else in the repository measures, or says what was found."""
DIRTY = "dirty"
_DIGITS = 12


def read_origin(root: Path = ROOT) -> dict[str, str]:
    """The ``commit`` and the ``code`` that a result line or a report begins with."""
    return {"commit": read_commit(root), "code": read_code(root)}


def read_commit(root: Path = ROOT) -> str:
    """The commit that is checked out, short."""
    return _git(root, "rev-parse", "--short", "HEAD")


def read_code(root: Path = ROOT, folders: Sequence[str] = FOLDERS) -> str:
    """The ids of git's trees of these folders in the commit, as in ``plugins:0123456789ab dags:… jobs:…``.

    The same text stands for the same files, whatever else a commit has changed; ``git rev-parse COMMIT:plugins`` tells
    the id of any other commit. It ends with ``dirty`` if a file of these folders is not as committed, or is new.
    """
    trees = _git(root, "rev-parse", *(f"HEAD:{folder}" for folder in folders)).split()
    named = [f"{folder}:{tree[:_DIGITS]}" for folder, tree in zip(folders, trees, strict=True)]
    return " ".join([*named, DIRTY] if is_changed(root, *folders) else named)


def is_changed(root: Path, *paths: str) -> bool:
    """Whether a file below these paths, or anywhere without any, is not as committed, or is new and not ignored."""
    return bool(_git(root, "status", "--porcelain", "--", *paths))


def _git(root: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return run.stdout.strip()
